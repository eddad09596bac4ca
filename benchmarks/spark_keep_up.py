"""A stream at three times the rate that can be joined: `cpu=Cpu(keep_up=True)` against no budget.

Law: a file of each stream, 50 seconds of event time, is put in place every interval, whatever the
query does. Under the budget a micro-batch takes all that is there; without one it takes one file,
or none would end while the contest lasts. Both queries join the same rows by the same
nested loop (points on a map that come near each other: no index serves that), and the full join of
one file takes three times the interval. Printed and drawn are how long micro-batches take and how
late their results are: when a micro-batch ends, against when its first file was put in place. The
query without a budget has the same time, and longer until it has ended as many micro-batches as
show whether its delay grows.

`ours` are the seconds of the median micro-batch with the budget, `theirs` the interval.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.side_by_side import Row, compared
from benchmarks.spark_workload import STREAMS, need_spark

INTERVAL = 6.0  # seconds between two files, by the wall clock
FILE_SECONDS = 50  # of event time in a file
WINDOW_FILES = 1
OVERLOAD = 3.0
FILES, QUICK_FILES = 24, 6
GROWTH, QUICK_GROWTH = 7, 2  # micro-batches that the query without a budget has at least
CORES = 2
NEAR = 0.004  # of a map of 1 x 1
SCHEMA = "x double, y double, ts timestamp, id long"
KEEPING, PLAIN = "keep_up", "no budget"
CHART = "spark_keep_up"


@dataclass
class Seen:
    """What a query did; the lists have one number per micro-batch."""

    rows: int
    exact: int = 0
    results: int = 0
    files: int = 0
    began: list[float] = field(default_factory=list)  # seconds after the first file was due
    lasted: list[float] = field(default_factory=list)
    delay: list[float] = field(default_factory=list)
    found: list[int] = field(default_factory=list)
    fraction: float = 1.0


def near(ax: float, ay: float, bx: float, by: float) -> bool:
    """Are two points near each other?"""
    return (ax - bx) ** 2 + (ay - by) ** 2 <= NEAR**2


def spec_of(name: str) -> Any:
    """The join; both contestants compare in the same way."""
    import tidegate as tg

    cpu = tg.Cpu(keep_up=True, interval=f"{INTERVAL} s", basic_window="5 s", adapt_every="5 s")
    return tg.JoinSpec(
        on=tg.theta(near, ["x", "y"]), time="ts", within=f"{WINDOW_FILES * FILE_SECONDS} s",
        index="nested-loop", cpu=cpu if name == KEEPING else None,
    )  # fmt: skip


def table(stream: int, file: int, rows: int) -> pa.Table:
    """A file of a stream: points that move slowly over the map, the second stream 20 s behind."""
    random = np.random.default_rng([stream, file, rows])
    when = np.sort(random.integers(0, FILE_SECONDS * 10**6, rows)) + file * FILE_SECONDS * 10**6
    place = (when / 1e6 - 20 * stream) / 300
    x, y = (
        np.mod(turn(2 * np.pi * place) / 3 + 0.5 + random.normal(0, 0.05, rows), 1.0)
        for turn in (np.cos, np.sin)
    )
    moments = pa.array(when + 1_700_000_000 * 10**6, pa.timestamp("us", "UTC"))
    return pa.table({"x": x, "y": y, "ts": moments, "id": np.arange(rows) + file * rows})


def rows_for_overload() -> int:
    """Rows of a file of which the full join takes OVERLOAD intervals, on all cores together."""
    import tidegate as tg

    rows, per_comparison = 2_000, []
    for _ in range(3):
        engine = tg.JoinEngine(spec_of(PLAIN))
        began = time.perf_counter()
        for file in range(3):
            engine.push({name: table(s, file, rows) for s, name in enumerate(STREAMS)})
        took = time.perf_counter() - began
        per_comparison.append(took / engine.stats()["comparisons"])
    of_a_file = 2 * (WINDOW_FILES + 0.5) / CORES  # comparisons of a bucket, per row squared
    return int((OVERLOAD * INTERVAL / min(per_comparison[1:]) / of_a_file) ** 0.5)


def exact_results(rows: int, files: int) -> int:
    """How many results the full join has; an index on one coordinate finds them quickly."""
    import tidegate as tg

    spec = spec_of(PLAIN)
    indexed = spec.replace(on=[tg.band("x", -NEAR, NEAR), spec.on], index="btree")
    engine = tg.JoinEngine(indexed)
    for file in range(files):
        push = {name: table(stream, file, rows) for stream, name in enumerate(STREAMS)}
        for _ in engine.results(push):
            pass
    return int(engine.stats()["rows_out"])


def run(quick: bool) -> list[Row]:
    need_spark(CHART)
    rows, files = rows_for_overload(), QUICK_FILES if quick else FILES
    print(f"  {rows:,} rows a file and stream, {files} files", file=sys.stderr, flush=True)
    least = {KEEPING: 0, PLAIN: QUICK_GROWTH if quick else GROWTH}
    found = {name: watched(name, rows, files, least[name]) for name in (KEEPING, PLAIN)}
    for name, seen in found.items():
        delays = ", ".join(f"{delay:.1f}" for delay in seen.delay)
        print(f"  {name}, delay by micro-batch: {delays} s", file=sys.stderr, flush=True)
    found[KEEPING].exact = exact_results(rows, found[KEEPING].files)
    draw(found)
    return rows_of(found)


def watched(name: str, rows: int, files: int, least: int) -> Seen:
    """A contestant in a process of its own."""
    numbers = map(str, (rows, files, least))
    command = [sys.executable, "-m", "benchmarks.spark_keep_up", name, *numbers]
    with tempfile.TemporaryFile("w+") as log:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=log, text=True, check=False)
        if done.returncode != 0:
            log.seek(0)
            raise RuntimeError(f"{name} ended with {done.returncode}: {log.read()[-2000:]}")
    return Seen(**json.loads(done.stdout.splitlines()[-1]))


def rows_of(found: dict[str, Seen]) -> list[Row]:
    """The numbers that are printed; the first quarter of the run is the start."""
    keeping, plain = found[KEEPING], found[PLAIN]
    later = keeping.lasted[len(keeping.lasted) // 4 :]
    return [
        compared("micro-batch under keep_up / interval", statistics.median(later), INTERVAL, "s"),
        compared("longest such micro-batch / interval", max(later), INTERVAL, "s"),
        compared("delay at the end, keep_up / no budget", keeping.delay[-1], plain.delay[-1], "s"),
        compared(
            f"delay without a budget, micro-batch {len(plain.delay)} / 1",
            plain.delay[-1], plain.delay[0], "s",
        ),
        compared(
            "least growth of that delay in a micro-batch / interval",
            min(np.diff(plain.delay), default=0.0), INTERVAL, "s",
        ),
        compared("files joined, keep_up / no budget", keeping.files, plain.files, "files"),
        compared("results, keep_up / full join", keeping.results, keeping.exact, "results"),
    ]  # fmt: skip


def draw(found: dict[str, Seen], folder: Path = Path("outputs")) -> None:
    """One chart of both, as a page and as a picture."""
    from tidegate.lab import charts

    records = [
        {"policy": name, "what": what, "second": began + lasted, "value": value}
        for name, seen in found.items()
        for what, values in (("micro-batch", seen.lasted), ("delay of results", seen.delay))
        for began, lasted, value in zip(seen.began, seen.lasted, values, strict=True)
    ]
    chart = charts.lines(
        records, x="second", y="value", x_title="seconds since the first file", y_title="seconds",
        facet="what",
    )  # fmt: skip
    folder.mkdir(exist_ok=True)
    (folder / f"{CHART}.html").write_text(f"<!doctype html>{charts.svg(chart)}", encoding="utf-8")
    (folder / f"{CHART}.png").write_bytes(charts.png(chart))
    print(f"  drawn: {folder / CHART}.html and .png", file=sys.stderr, flush=True)


# --- one contestant ------------------------------------------------------------------------


class Source:
    """Puts a file of each stream in place every interval, and remembers when."""

    def __init__(self, folder: Path, rows: int, files: int) -> None:
        self.folder, self.files = folder, files
        self.due: list[float] = []
        for stream, name in enumerate(STREAMS):
            (folder / name).mkdir()
            (folder / f"{name}-made").mkdir()
            for file in range(files):
                pq.write_table(table(stream, file, rows), folder / f"{name}-made" / self.name(file))
        self._thread = threading.Thread(target=self._run, daemon=True)

    @staticmethod
    def name(file: int) -> str:
        return f"{file:05d}.parquet"

    def put(self, file: int) -> None:
        """Put one file of each stream in place."""
        for name in STREAMS:
            made = self.folder / f"{name}-made" / self.name(file)
            os.utime(made)
            made.rename(self.folder / name / self.name(file))
        self.due.append(time.time())

    def start(self) -> None:
        """Go on with the second file."""
        self._thread.start()

    def _run(self) -> None:
        began = time.time()
        for file in range(1, self.files):
            time.sleep(max(0.0, began + file * INTERVAL - time.time()))
            self.put(file)


def session() -> Any:
    from pyspark.sql import SparkSession

    from tidegate.spark import configure

    builder = (
        SparkSession.builder.master(f"local[{CORES}]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.streaming.numRecentProgressUpdates", "10000")
    )
    spark = configure(builder, partitions=CORES).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def contest(name: str, rows: int, files: int, least: int) -> None:
    """Run a query until all files are there and one interval more; print what it did.

    It goes on until it has ended `least` micro-batches besides the first, or as long again.
    """
    import tidegate as tg

    spec = spec_of(name)
    few = {stream: table(s, 0, 4) for s, stream in enumerate(STREAMS)}
    for fuel in (None, 1.0) if name == KEEPING else (None,):  # compiles
        tg.JoinEngine(spec).push(few, watermark=0, fuel=fuel)
    with tempfile.TemporaryDirectory(prefix="tidegate-keep-up-") as temporary:
        folder = Path(temporary)
        source = Source(folder, rows, files)
        spark = session()
        source_of = spark.readStream.schema(SCHEMA)
        if name == PLAIN:
            source_of = source_of.option("maxFilesPerTrigger", 1)
        frames = [
            source_of.parquet(str(folder / stream)).withWatermark("ts", "0 seconds")
            for stream in STREAMS
        ]
        from pyspark.sql import functions as F  # noqa: N812

        from tidegate.spark import metrics

        counted = tg.window_join(*frames, spec).observe("results", F.count(F.lit(1)).alias("n"))
        writer = counted.writeStream.format("noop").trigger(processingTime=f"{INTERVAL} seconds")
        query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
        source.put(0)
        while not [p for p in query.recentProgress if p["numInputRows"]]:
            time.sleep(0.1)  # the first micro-batch loads code
        print("the first micro-batch has ended", file=sys.stderr, flush=True)
        source.start()
        deadline = time.time() + files * INTERVAL
        seen = read(query, source, rows)
        while time.time() < deadline or (
            len(seen.delay) < least and time.time() < deadline + files * INTERVAL
        ):
            time.sleep(INTERVAL)
            seen = read(query, source, rows)
            seen.fraction = float(metrics(query).total.get("cpu_fraction", 1.0))
            print(json.dumps(asdict(seen)), flush=True)  # the last line counts
        query.stop()
        spark.stop()


def read(query: Any, source: Source, rows: int) -> Seen:
    """What each micro-batch with rows took, and how late its results were."""
    seen = Seen(rows)
    for progress in query.recentProgress:
        if not progress["numInputRows"]:
            continue
        files = round(progress["numInputRows"] / (rows * len(STREAMS)))
        began = (
            np.datetime64(progress["timestamp"].rstrip("Z")).astype("datetime64[ms]").astype(int)
        )
        lasted = progress["durationMs"]["triggerExecution"] / 1000
        if seen.files:  # the first is not counted
            seen.began.append(int(began) / 1000 - source.due[1])
            seen.lasted.append(lasted)
            seen.delay.append(int(began) / 1000 + lasted - source.due[seen.files])
            seen.found.append(progress["observedMetrics"]["results"]["n"])
        seen.results += progress["observedMetrics"]["results"]["n"]
        seen.files += files
    return seen


if __name__ == "__main__":
    contest(sys.argv[1], *map(int, sys.argv[2:5]))
