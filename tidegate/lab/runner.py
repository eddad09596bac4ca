"""A grid of configurations is spread over the cores, and each result is stored as it comes.

Law: where a run is made does not change its result. Spark runs the grid on `local[*]`; where it is
missing, or where the grid is so small that starting it costs more than it brings, the same function
runs in this process, and a note says so.
"""

from __future__ import annotations

import os
import sys
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

# Starting a JVM and one Python worker per core, each of which loads the compiled code, cost as much
# as this many runs of one core here (see ARCHITECTURE.md); a second core pays off beyond it.
WORTH_SPARK = 600
# Results are stored and progress is shown after each chunk.
RUNS_PER_CHUNK = 64
RUNS_PER_TASK = 8

_ROW = pa.schema([("configuration", pa.string()), *[(name, pa.float64()) for name in MEASURED]])


@dataclass
class Runner:
    """Runs what the store does not hold yet.

    Parameters
    ----------
    store
        Where results are kept.
    where
        "spark", "process", or "auto": Spark for large grids where it is installed.
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
        chunks = self._on_spark if self._takes_spark(len(missing)) else self._here
        done = 0
        progress(done, len(missing))
        for measured in chunks(missing):
            self.store.add(measured)
            done += len(measured)
            progress(done, len(missing))

    def _takes_spark(self, runs: int) -> bool:
        if self.where == "process" or (self.where == "auto" and runs < WORTH_SPARK):
            self.notes.append(f"{runs:,} runs in this process")
            return False
        if find_spec("pyspark") is None:
            if self.where == "spark":
                raise TidegateError("Spark is not installed; install tidegate[spark]")
            self.notes.append(f"{runs:,} runs in this process, since Spark is not installed")
            return False
        self.notes.append(f"{runs:,} runs on Spark, {os.cpu_count()} cores")
        return True

    def _here(self, missing: Sequence[Configuration]) -> Iterator[dict[Configuration, Measurement]]:
        for chunk in _chunks(missing, RUNS_PER_TASK):
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
