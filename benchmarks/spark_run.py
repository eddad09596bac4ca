"""One contestant on Spark, in a process of its own: a query over files, and what it took.

Law: a contestant prints one JSON object and nothing else to standard output. Its rows are counted,
not only timed, so that contestants which should agree can be compared. A run that dies says so in
its answer: how an operator ends when memory runs out is a result too.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

CORES = 2
GRACE_SECONDS = 60.0  # to start, and to stop
STORES = {
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "hdfs": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
}


@dataclass(frozen=True)
class Contestant:
    """What to run over the files in `folder`.

    `operator` is "tidegate", or Spark's own join on one of its two state stores; with more than two
    `streams` a chain of them.
    """

    operator: str
    folder: str
    window_seconds: int
    memory: int | None = None
    policy: str = "random"
    heap: str = "2g"
    settings: dict[str, str] = field(default_factory=dict)
    time_limit: float = 1800.0
    checkpoint: str = ""
    streams: int = 2


@dataclass
class Measured:
    """What a run took; the lists have one number per micro-batch with rows."""

    rows: int = 0
    results: int = 0
    wall_seconds: float = 0.0
    batch_rows: list[int] = field(default_factory=list)
    batch_seconds: list[float] = field(default_factory=list)
    durations: list[dict[str, int]] = field(default_factory=list)
    state_bytes: list[int] = field(default_factory=list)
    state_rows: list[int] = field(default_factory=list)
    checkpoint_bytes: int = 0
    process_bytes: list[int] = field(default_factory=list)
    cpu_by_program: dict[str, float] = field(default_factory=dict)
    totals: dict[str, float] = field(default_factory=dict)
    ended: str = ""

    @property
    def rows_per_second(self) -> float:
        """Over the whole query, from its start to its end."""
        return self.rows / self.wall_seconds

    def steady_rows_per_second(self, skip: int = 3) -> float:
        """Over its micro-batches without the first few, in which code is loaded and compiled."""
        return sum(self.batch_rows[skip:]) / sum(self.batch_seconds[skip:])

    @property
    def steady_state_bytes(self) -> float:
        """The mean over the second half of the run."""
        later = self.state_bytes[len(self.state_bytes) // 2 :]
        return sum(later) / len(later)

    @property
    def cpu_seconds(self) -> float:
        """CPU time of the JVM and all Python workers."""
        return sum(self.cpu_by_program.values())

    @property
    def process_bytes_peak(self) -> int:
        """The most that the JVM and all Python workers held together."""
        return max(self.process_bytes)

    @property
    def checkpoint_bytes_per_batch(self) -> float:
        return self.checkpoint_bytes / len(self.batch_rows)


def run_contestant(contestant: Contestant) -> Measured:
    """Run it in a fresh process; Spark's messages go to a file beside the streams."""
    command = [sys.executable, "-m", "benchmarks.spark_run", json.dumps(asdict(contestant))]
    with Path(contestant.folder, "spark.log").open("a") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        )
        try:
            printed, _ = process.communicate(timeout=contestant.time_limit + GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            # A JVM without memory may collect garbage for ever and answer nobody.
            os.killpg(process.pid, signal.SIGKILL)
            printed, _ = process.communicate()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if not printed.strip():
        return Measured(ended="stopped answering, and was killed")
    return Measured(**json.loads(printed.splitlines()[-1]))


def session_of(contestant: Contestant) -> Any:
    """A session on this machine; only the state store differs between contestants."""
    from pyspark.sql import SparkSession

    from tidegate.spark import configure

    builder = (
        SparkSession.builder.master(f"local[{CORES}]")
        .config("spark.driver.memory", contestant.heap)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.streaming.numRecentProgressUpdates", "10000")
    )
    if contestant.operator == "tidegate":
        builder = configure(builder)
    else:
        # Spark's own join gets the settings that make its checkpoints small, too.
        changelog = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
        provider = "spark.sql.streaming.stateStore.providerClass"
        builder = builder.config(changelog, "true").config(provider, STORES[contestant.operator])
    builder = builder.config("spark.sql.shuffle.partitions", str(CORES))
    for key, value in contestant.settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def joined_frame(spark: Any, contestant: Contestant) -> Any:
    """The join of the streams of files."""
    from benchmarks.spark_workload import NAMES, SCHEMA

    frames = {
        name: spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(Path(contestant.folder, name)))
        .withWatermark("ts", "0 seconds")
        for name in NAMES[: contestant.streams]
    }
    if contestant.operator == "tidegate":
        from tidegate.spark import window_join

        microseconds = contestant.window_seconds * 1_000_000
        return window_join(
            frames, on="key", time="ts", within=f"{microseconds} us",
            memory=contestant.memory, policy=contestant.policy, seed=1,
        )  # fmt: skip
    return sparks_own(frames, f"interval {contestant.window_seconds} seconds")


def sparks_own(frames: dict[str, Any], within: str) -> Any:
    """Spark's own joins: each stream with all that were joined before, every pair in its window.

    Spark takes one column of event time into a stateful operator: of the results of a join that is
    the time of the first stream, and the others become plain timestamps.
    """
    from pyspark.sql import functions as F  # noqa: N812

    (first, joined), *others = frames.items()
    joined = joined.select(*[F.col(name).alias(f"{name}_{first}") for name in joined.columns])
    before = [first]
    for name, frame in others:
        joined = joined.withColumns(
            {f"ts_{other}": F.expr(f"ts_{other} + interval 0 seconds") for other in before[1:]}
        )
        renamed = frame.select(
            *[F.col(column).alias(f"{column}_{name}") for column in frame.columns]
        )
        conditions = [f"key_{first} = key_{name}"]
        for other in before:
            conditions.append(f"ts_{name} <= ts_{other} + {within}")
            conditions.append(f"ts_{other} <= ts_{name} + {within}")
        joined = joined.join(renamed, F.expr(" and ".join(conditions)))
        before.append(name)
    return joined


def measure(contestant: Contestant) -> Measured:
    """Run the query to its end, or to what ends it."""
    if contestant.operator == "tidegate":
        _compile(contestant)
    spark = session_of(contestant)
    checkpoint = contestant.checkpoint or tempfile.mkdtemp(prefix="checkpoint-")
    frame = joined_frame(spark, contestant).observe("results", *_count())
    began = time.perf_counter()
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    measured = Measured(ended="finished")
    with _Watch() as watch:
        try:
            if not query.awaitTermination(contestant.time_limit):
                measured.ended = f"stopped after {contestant.time_limit:.0f} s"
                query.stop()
        except Exception as error:  # How a contestant dies is an answer.
            measured.ended = _sentence(error)
    measured.wall_seconds = time.perf_counter() - began
    measured.process_bytes, measured.cpu_by_program = watch.held, watch.cpu_by_program
    _read_progress(measured, query)
    measured.checkpoint_bytes = _size(Path(checkpoint))
    if not contestant.checkpoint:
        shutil.rmtree(checkpoint, ignore_errors=True)
    return measured


def _compile(contestant: Contestant) -> None:
    """Compile what the workers will load, which is done once on a machine, not once per query."""
    from benchmarks.spark_workload import NAMES, FileWorkload
    from tidegate import JoinEngine, JoinSpec

    few, names = FileWorkload(1, 100, 10, 1), NAMES[: contestant.streams]
    spec = JoinSpec(
        on="key", time="ts", within="1 s", memory=contestant.memory, policy=contestant.policy,
        streams=names,
    )  # fmt: skip
    engine = JoinEngine(spec)
    engine.push({name: few.table(stream, 0) for stream, name in enumerate(names)}, watermark=0)
    JoinEngine.restore(engine.snapshot()).push({}, watermark=1)


def _count() -> list[Any]:
    from pyspark.sql import functions as F  # noqa: N812

    return [F.count(F.lit(1)).alias("n")]


def _read_progress(measured: Measured, query: Any) -> None:
    for progress in query.recentProgress:
        observed = progress["observedMetrics"].get("results")
        measured.results += observed["n"] if observed else 0
        if progress["numInputRows"]:
            measured.batch_rows.append(progress["numInputRows"])
            measured.batch_seconds.append(progress["durationMs"]["triggerExecution"] / 1000)
            measured.durations.append(dict(progress["durationMs"]))
            operators = progress["stateOperators"]
            measured.state_bytes.append(sum(o["memoryUsedBytes"] for o in operators))
            measured.state_rows.append(sum(o["numRowsTotal"] for o in operators))
    measured.rows = sum(measured.batch_rows)
    from tidegate.spark import metrics

    measured.totals = metrics(query).total


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _sentence(error: Exception) -> str:
    text = str(error)
    for word in ("OutOfMemoryError", "GC overhead", "Connection refused"):
        if word in text:
            return f"died: {word}"
    return "died: " + (text.splitlines() or [type(error).__name__])[0][:200]


class _Watch:
    """The memory and CPU of this process and all it started, looked at four times a second."""

    def __init__(self) -> None:
        import psutil  # type: ignore[import-untyped]

        self.held: list[int] = []
        self._own = psutil.Process(os.getpid())
        self._gone = psutil.Error
        self._before = self._cpu()
        self._after: dict[tuple[str, int], float] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    @property
    def cpu_by_program(self) -> dict[str, float]:
        """CPU time used since the beginning, processes that have ended included."""
        used: dict[str, float] = {}
        for (program, number), seconds in self._after.items():
            spent = seconds - self._before.get((program, number), 0.0)
            used[program] = used.get(program, 0.0) + spent
        return used

    def __enter__(self) -> _Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _processes(self) -> list[Any]:
        return [self._own, *self._own.children(recursive=True)]

    def _cpu(self) -> dict[tuple[str, int], float]:
        found = {}
        for process in self._processes():
            with contextlib.suppress(self._gone):
                program = "java" if "java" in process.name() else "python"
                times = process.cpu_times()
                found[program, process.pid] = times.user + times.system
        return found

    def _look(self) -> None:
        waiting = True
        while waiting:
            waiting = not self._done.wait(0.25)
            self._after |= self._cpu()
            held = 0
            for process in self._processes():
                with contextlib.suppress(self._gone):
                    held += process.memory_info().rss
            self.held.append(held)


if __name__ == "__main__":
    print(json.dumps(asdict(measure(Contestant(**json.loads(sys.argv[1]))))))
