"""What shedding costs: the engine under each policy against the exact engine.

Law: `ours` sheds, `theirs` is the exact join of the same tuples in the same run. The results differ
by design, so their numbers are not compared; that a budget saves the work of making results is part
of the ratio. To reach: >= 0.4 at 100,000 tuples.
"""

from __future__ import annotations

from benchmarks.equi_join import engine_over
from benchmarks.side_by_side import Row, best_of, take_turns
from benchmarks.workload import Workload, cut
from tidegate import JoinSpec, policies

FULL = Workload(rows_per_stream=1_000_000, keys=200_000, window=200_000)
QUICK = Workload(rows_per_stream=300_000, keys=100_000, window=100_000)
BUDGETS = (1_000, 10_000, 100_000)
PUSHES = 5


def run(quick: bool) -> list[Row]:
    workload = QUICK if quick else FULL
    pushes = cut(workload.tables(), workload.rows_per_stream // PUSHES)
    exact = JoinSpec(on="key", time="time", within=workload.window)
    contestants = {"exact": engine_over(exact, pushes)}
    for policy in policies():
        for budget in BUDGETS:
            spec = exact.replace(memory=budget, policy=policy, split="even")
            contestants[f"{policy}, memory {budget:,}"] = engine_over(spec, pushes)
    took = take_turns(contestants, 2 if quick else 3, same_results=False)
    return [
        best_of(f"{name} / exact engine", took[name], took["exact"], workload.tuples)
        for name in contestants
        if name != "exact"
    ]
