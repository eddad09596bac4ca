"""Half an hour of stream time at a rate above capacity: ours under a budget, Spark's own beside it.

Law: the stream brings far more rows into the window than the budget holds, all the time; the run is
compressed, stream time is event time. Ours must neither grow nor slow down: `ours` is the last
quarter of the run, `theirs` the second. Spark's own join gets the same heap, the same rows and a
time limit, and what becomes of it is reported, whatever it is: `finished`, `died`, `stopped` at the
limit. The last row of each pair compares rows/s until then.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.side_by_side import Row, compared
from benchmarks.spark_run import Contestant, Measured, run_contestant
from benchmarks.spark_workload import FileWorkload, need_spark

STREAM_SECONDS = 1_800
BUDGET_SHARE = 10
MEGABYTE = 1e6


@dataclass(frozen=True)
class Load:
    """Rows per second of stream time (both streams), rows a micro-batch, window, heap, patience."""

    rate: int
    rows_per_batch: int
    window_seconds: int
    heap: str
    time_limit: float

    @property
    def workload(self) -> FileWorkload:
        batches = STREAM_SECONDS * self.rate // self.rows_per_batch
        return FileWorkload(
            batches, self.rows_per_batch, 200_000, self.window_seconds, step=2_000_000 // self.rate
        )


FULL = Load(10_000, 200_000, 600, "1g", time_limit=240.0)
QUICK = Load(1_000, 100_000, 600, "512m", time_limit=60.0)


def run(quick: bool) -> list[Row]:
    need_spark("spark_long")
    load = QUICK if quick else FULL
    workload = load.workload
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        workload.write(Path(folder))
        ours = _run("tidegate", folder, load, workload.window_rows // BUDGET_SHARE)
        if ours.ended != "finished":
            raise RuntimeError(f"tidegate {ours.ended}")
        rows = _steadiness(ours)
        for store in ("hdfs", "rocksdb"):
            theirs = _run(store, folder, load)
            share = theirs.rows / workload.rows
            fate = f"{theirs.ended}, {share:.0%} of the stream done"
            name = f"rows/s with {load.heap} of heap / Spark's own, {store} ({fate})"
            rate = theirs.rows / theirs.wall_seconds if theirs.rows else 1.0
            rows.append(compared(name, ours.rows_per_second, rate, "rows/s"))
    return rows


def _run(operator: str, folder: str, load: Load, memory: int | None = None) -> Measured:
    print(f"  {operator} ...", file=sys.stderr, flush=True)
    checkpoint = Path(folder, f"checkpoint-{operator}")
    limit = load.time_limit if memory is None else 10 * load.time_limit
    contestant = Contestant(
        operator, folder, load.window_seconds, memory, heap=load.heap, time_limit=limit,
        checkpoint=str(checkpoint),
    )  # fmt: skip
    began = time.perf_counter()
    measured = run_contestant(contestant)
    if not measured.rows:
        # It could not answer any more; its checkpoint says how far it came.
        measured.wall_seconds = time.perf_counter() - began
        done = len([path for path in checkpoint.glob("commits/*") if path.name.isdigit()])
        measured.rows = done * load.rows_per_batch
    return measured


def _steadiness(ours: Measured) -> list[Row]:
    """The last quarter of the run beside its second quarter."""
    seconds, held = ours.batch_seconds, ours.process_bytes
    figures = (
        ("micro-batch, mean", [1000 * second for second in seconds], "ms"),
        ("memory of JVM and workers, mean", [each / MEGABYTE for each in held], "MB"),
        ("state, mean", [each / MEGABYTE for each in ours.state_bytes], "MB in the state store"),
    )
    rows = []
    for name, values, unit in figures:
        quarter = len(values) // 4
        early, late = values[quarter : 2 * quarter], values[3 * quarter :]
        label = f"{name}, last quarter / second quarter"
        rows.append(compared(label, sum(late) / len(late), sum(early) / len(early), unit))
    return rows
