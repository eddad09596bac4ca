"""`window_join` beside Spark's own stream-stream join, exact, and then with a tenth of the memory.

Law: all contestants read the same files in the same micro-batches, each in a process of its own, in
turn. To reach, against the faster of Spark's two state stores: 2 x its rows/s (aim 5 x) and 1/8 of
its state bytes, which are Spark's own `memoryUsedBytes` on both sides. Exact contestants must agree
on the number of results, or there is no row.

`rows/s` leaves out the first three micro-batches, in which both sides load and compile code;
`whole query` counts from start to end. `rows/CPU s` is the CPU time of the JVM and all Python
workers together, which other programs on the machine disturb less.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.side_by_side import DisagreementError, Row, compared
from benchmarks.spark_run import Contestant, Measured, run_contestant
from benchmarks.spark_workload import FileWorkload, need_spark

FULL = FileWorkload(batches=20, rows_per_batch=200_000, keys=200_000, window_seconds=200)
QUICK = FileWorkload(batches=8, rows_per_batch=40_000, keys=40_000, window_seconds=40)
BUDGET_SHARE = 10
MEGABYTE = 1e6


def run(quick: bool) -> list[Row]:
    need_spark("spark_join")
    workload = QUICK if quick else FULL
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        workload.write(Path(folder))
        found = {name: _run(name, folder, workload) for name in ("tidegate", "hdfs", "rocksdb")}
        results = {name: measured.results for name, measured in found.items()}
        if len(set(results.values())) > 1:
            raise DisagreementError(f"the numbers of results differ: {results}")
        memory = workload.window_rows // BUDGET_SHARE
        small = _run("tidegate", folder, workload, memory)
    ours = found.pop("tidegate")
    faster = max(found.values(), key=lambda measured: measured.steady_rows_per_second())
    rows = [row for name, theirs in found.items() for row in rows_of("exact", ours, name, theirs)]
    kept = small.results / ours.results
    label = f"1/{BUDGET_SHARE} of the memory, random, {kept:.0%} of the results kept,"
    return rows + rows_of(label, small, "faster store", faster)


def _run(operator: str, folder: str, workload: FileWorkload, memory: int | None = None) -> Measured:
    limit = "" if memory is None else f", {memory:,} rows of memory"
    print(f"  {operator}{limit} ...", file=sys.stderr, flush=True)
    contestant = Contestant(operator, folder, workload.window_seconds, memory)
    measured = run_contestant(contestant)
    if measured.ended != "finished":
        raise RuntimeError(f"{operator} {measured.ended}")
    return measured


def rows_of(label: str, ours: Measured, name: str, theirs: Measured) -> list[Row]:
    figures = (
        ("rows/s", ours.steady_rows_per_second(), theirs.steady_rows_per_second(), "rows/s"),
        ("whole query", ours.rows_per_second, theirs.rows_per_second, "rows/s"),
        (
            "whole query",
            ours.rows / ours.cpu_seconds,
            theirs.rows / theirs.cpu_seconds,
            "rows/CPU s",
        ),
        (
            "state",
            ours.steady_state_bytes / MEGABYTE,
            theirs.steady_state_bytes / MEGABYTE,
            "MB in Spark's state store",
        ),
        (
            "checkpoint",
            ours.checkpoint_bytes_per_batch / MEGABYTE,
            theirs.checkpoint_bytes_per_batch / MEGABYTE,
            "MB written per micro-batch",
        ),
    )
    return [
        compared(f"{label} {what} / Spark's own, {name}", our, their, unit)
        for what, our, their, unit in figures
    ]
