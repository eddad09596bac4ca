"""A grid of configurations is spread over the cores, and each result is stored as it comes.

Law: where a run is made does not change its result. Spark runs the grid on `local[*]`; where it is
missing, or where the grid is so small that starting it costs more than it brings, the same function
runs in this process, and a note says so.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from tidegate.lab.configuration import Configuration
from tidegate.lab.measure import MEASURED, Measurement, measure
from tidegate.lab.store import Store
from tidegate.spec import TidegateError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Where = Literal["auto", "spark", "process"]
Progress = Callable[[int, int], None]

# Measured on two busy cores: 100 short runs took 23.5 s on Spark and 3.5 s in one process, 1,000
# took 47 s and 18 s. The start costs about 20 s, and each run somewhat more than in one process; so
# Spark is for grids that take minutes, or for a machine with more cores.
WORTH_SPARK_SECONDS = 120.0
# So many runs, spread over the grid, are timed before that is decided.
PILOT_RUNS = 24
# Results are stored and progress is shown after each chunk.
RUNS_PER_CHUNK = 512
RUNS_PER_TASK = 16
RUNS_PER_STEP = 8

_ROW = pa.schema([("configuration", pa.string()), *[(name, pa.float64()) for name in MEASURED]])


@dataclass
class Runner:
    """Runs what the store does not hold yet.

    Parameters
    ----------
    store
        Where results are kept.
    where
        "spark", "process", or "auto": Spark where it is installed and the grid is large.
    folder
        The folder with recorded data, for configurations that need it.
    """

    store: Store
    where: Where = "auto"
    folder: str = ""
    notes: list[str] = field(default_factory=list)

    def run(
        self, configurations: Iterable[Configuration], progress: Progress | None = None
    ) -> dict[Configuration, Measurement]:
        """The measurement of each configuration, computed where it is not stored."""
        wanted = list(dict.fromkeys(configurations))
        missing = self.store.missing(wanted)
        if len(missing) < len(wanted):
            self.notes.append(
                f"{len(wanted) - len(missing):,} of {len(wanted):,} results were stored already"
            )
        if missing:
            self._compute(missing, progress or _quiet)
        return {each: _found(self.store, each) for each in wanted}

    def _compute(self, missing: Sequence[Configuration], progress: Progress) -> None:
        done = 0
        progress(done, len(missing))
        for measured in self._parts(missing):
            self.store.add(measured)
            done += len(measured)
            progress(done, len(missing))

    def _parts(
        self, missing: Sequence[Configuration]
    ) -> Iterator[dict[Configuration, Measurement]]:
        """The results in pieces; in `auto` mode a few runs are timed before the place is chosen."""
        rest = list(missing)
        expected = None
        if self.where == "auto" and len(missing) > 2 * PILOT_RUNS:
            pilot = rest[:: len(rest) // PILOT_RUNS]
            began = time.perf_counter()
            yield {each: measure(each, self.folder) for each in pilot}
            rest = [each for each in rest if each not in set(pilot)]
            expected = (time.perf_counter() - began) / len(pilot) * len(rest)
        yield from (self._on_spark if self._takes_spark(len(rest), expected) else self._here)(rest)

    def _takes_spark(self, runs: int, expected: float | None) -> bool:
        """Whether the runs are many enough for Spark; the choice is noted with its reason."""
        here = find_spec("pyspark") is not None
        if self.where == "spark" and not here:
            raise TidegateError("Spark is not installed; install tidegate[spark]")
        large = expected is not None and expected > WORTH_SPARK_SECONDS
        if self.where == "spark" or (large and here):
            self.notes.append(f"{runs:,} runs on Spark, {os.cpu_count()} cores")
            return True
        reason = ""
        if large:
            reason = ", since Spark is not installed"
        elif expected is not None:
            reason = f": about {expected:.0f} s of work, less than Spark's start is worth"
        self.notes.append(f"{runs:,} runs in this process{reason}")
        return False

    def _here(self, missing: Sequence[Configuration]) -> Iterator[dict[Configuration, Measurement]]:
        for chunk in _chunks(missing, RUNS_PER_STEP):
            yield {each: measure(each, self.folder) for each in chunk}

    def _on_spark(
        self, missing: Sequence[Configuration]
    ) -> Iterator[dict[Configuration, Measurement]]:
        spark, ours = _session()
        folder = self.folder

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return measure_batches(batches, folder)

        try:
            for chunk in _chunks(missing, RUNS_PER_CHUNK):
                # A row is a task: neighbours, which share their streams, stay together.
                tasks = [[each.text for each in part] for part in _chunks(chunk, RUNS_PER_TASK)]
                frame = spark.createDataFrame(pa.table({"configurations": tasks}))
                spread = frame.repartition(len(tasks)).mapInArrow(task, _ddl())
                rows = spread.toArrow().to_pylist()
                yield {Configuration.from_text(row.pop("configuration")): row for row in rows}
        finally:
            if ours:
                spark.stop()


def measure_batches(batches: Iterable[pa.RecordBatch], folder: str) -> Iterator[pa.RecordBatch]:
    """What a Spark task does: measure each configuration of its batches."""
    for batch in batches:
        for texts in batch.column("configurations").to_pylist():
            runs = [Configuration.from_text(text) for text in texts]
            rows = [{"configuration": each.text, **_floats(measure(each, folder))} for each in runs]
            yield pa.RecordBatch.from_pylist(rows, schema=_ROW)


def _floats(measured: Measurement) -> dict[str, float]:
    return {name: float(value) for name, value in measured.items()}


def _ddl() -> str:
    return ", ".join(["configuration string", *[f"{name} double" for name in MEASURED]])


def _session() -> tuple[SparkSession, bool]:
    """The session that is there, or one of our own, which is stopped at the end."""
    from pyspark.sql import SparkSession

    from tidegate.spark.session import check_java

    active = SparkSession.getActiveSession()
    if active is not None:
        return active, False
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder.appName("tidegate reproduce").master("local[*]")
    settings = {
        # Nobody looks at the pages of a session that lives for minutes.
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # A kept worker keeps its compiled code and its streams.
        "spark.python.worker.reuse": "true",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session, True


def _chunks(runs: Sequence[Configuration], size: int) -> Iterator[Sequence[Configuration]]:
    for start in range(0, len(runs), size):
        yield runs[start : start + size]


def _found(store: Store, configuration: Configuration) -> Measurement:
    measured = store.get(configuration)
    if measured is None:
        raise TidegateError(f"no result came back for {configuration.text}; run it again")
    return measured


def _quiet(done: int, total: int) -> None:
    """Show no progress."""
