"""The time of a micro-batch as the budget grows, and where it goes.

Law: the same rows come at every budget, and the window is longer than the stream, so that each
budget fills. A micro-batch should cost what its rows cost, not what is retained: at most 1.5 x from
10,000 to 1,000,000 tuples. `ours` is the median micro-batch at a budget, after the largest one has
filled; `theirs` is that of the smallest budget.

The table on standard error says where the time of a mean micro-batch goes. `engine` is the join
itself; `state` are the calls to Spark's state store and the search for the engine; `transfer` is
packing and reading the packed rows; each is the mean of the buckets, which run side by side. `JVM`
is the rest: reading files, the shuffle, the commit of the state store, planning, bookkeeping.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.side_by_side import Row, compared
from benchmarks.spark_run import CORES, Contestant, Measured, run_contestant
from benchmarks.spark_workload import FileWorkload, need_spark

BUDGETS = (10_000, 100_000, 1_000_000)
QUICK_BUDGETS = (1_000, 10_000, 100_000)
ROWS_PER_BATCH = 20_000
BATCHES_AFTER = 15
STEPS = {
    "engine": ("seconds_engine",),
    "state": ("seconds_state",),
    "transfer": ("seconds_pack", "seconds_decode", "seconds_deliver"),
}


def run(quick: bool) -> list[Row]:
    need_spark("spark_budget")
    budgets = QUICK_BUDGETS if quick else BUDGETS
    batches = budgets[-1] // ROWS_PER_BATCH + BATCHES_AFTER
    workload = FileWorkload(batches, ROWS_PER_BATCH, keys=200_000, window_seconds=3_600)
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        workload.write(Path(folder))
        found = {memory: _run(folder, workload, memory) for memory in budgets}
    _show(found)
    base = _median(found[budgets[0]])
    return [
        compared(
            f"micro-batch of {ROWS_PER_BATCH:,} rows, budget {memory:,} / {budgets[0]:,} tuples",
            _median(measured) * 1000,
            base * 1000,
            "ms",
        )
        for memory, measured in found.items()
    ]


def _run(folder: str, workload: FileWorkload, memory: int) -> Measured:
    print(f"  budget {memory:,} ...", file=sys.stderr, flush=True)
    measured = run_contestant(Contestant("tidegate", folder, workload.window_seconds, memory))
    if measured.ended != "finished":
        raise RuntimeError(f"budget {memory:,} {measured.ended}")
    assert measured.totals["memory_rows_peak"] == memory, "the budget did not fill"
    return measured


def _median(measured: Measured) -> float:
    return statistics.median(measured.batch_seconds[-BATCHES_AFTER:])


def _show(found: dict[int, Measured]) -> None:
    """Print where the time goes, in milliseconds of a mean micro-batch."""
    from rich.console import Console
    from rich.table import Table

    table = Table("budget", "micro-batch", *STEPS, "JVM", title="where the time goes, ms")
    for memory, measured in found.items():
        batches = len(measured.batch_seconds)
        whole = 1000 * sum(measured.batch_seconds) / batches
        parts = [
            1000 * sum(measured.totals.get(name, 0.0) for name in names) / batches / CORES
            for names in STEPS.values()
        ]
        cells = [whole, *parts, whole - sum(parts)]
        table.add_row(f"{memory:,}", *[f"{cell:,.0f}" for cell in cells])
    Console(stderr=True).print(table)
