"""A band join through each ordered index against the nested loop.

Law: same data, same band, same window; only the index differs. The band is so narrow that a tuple
finds about one partner, so what is measured is the search and not the output.
"""

from __future__ import annotations

from benchmarks.equi_join import engine_over
from benchmarks.side_by_side import Row, best_of, neighbours, take_turns
from benchmarks.workload import Workload, cut
from tidegate import JoinSpec, band

FULL = Workload(rows_per_stream=40_000, keys=1_000_000, window=20_000)
QUICK = Workload(rows_per_stream=15_000, keys=500_000, window=10_000)
TREES = {"btree": "B+tree", "ttree": "T-tree"}
PUSHES = 10


def run(quick: bool) -> list[Row]:
    workload = QUICK if quick else FULL
    pushes = cut(workload.tables(), workload.rows_per_stream // PUSHES)
    half_width = workload.keys // workload.window // 2
    contestants = {
        index: engine_over(
            JoinSpec(
                on=band("key", -half_width, half_width),
                time="time",
                within=workload.window,
                index=index,
            ),
            pushes,
        )
        for index in (*TREES, "nested-loop")
    }
    took = take_turns(contestants, 1 if quick else 3)
    rows = []
    for index, label in TREES.items():
        against = (took[index], took["nested-loop"], workload.tuples)
        rows.append(best_of(f"{label} / nested loop, best", *against))
        rows += neighbours(f"{label} / nested loop", *against)
    rows.append(best_of("B+tree / T-tree, best", took["btree"], took["ttree"], workload.tuples))
    return rows
