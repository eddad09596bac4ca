"""What shedding costs: the engine under each policy against the exact engine.

Law: `ours` sheds, `theirs` is the exact join of the same tuples in the same run. The results differ
by design, so their numbers are not compared; that a budget saves the work of making results is part
of the ratio. To reach: >= 0.4 at 100,000 tuples, and from 1,000 to 1,000,000 at most twice the time
per tuple, which the last rows show for each policy: `ours` at the largest budget, `theirs` at the
smallest.
"""

from __future__ import annotations

from benchmarks.equi_join import engine_over
from benchmarks.side_by_side import Row, best_of, take_turns
from benchmarks.workload import Workload, cut
from tidegate import JoinSpec, policies

FULL = Workload(rows_per_stream=2_000_000, keys=1_000_000, window=1_000_000)
QUICK = Workload(rows_per_stream=300_000, keys=100_000, window=100_000)
BUDGETS = (1_000, 10_000, 100_000, 1_000_000)
PUSHES = 10


def run(quick: bool) -> list[Row]:
    workload = QUICK if quick else FULL
    budgets = [budget for budget in BUDGETS if budget <= workload.window]
    pushes = cut(workload.tables(), workload.rows_per_stream // PUSHES)
    exact = JoinSpec(on="key", time="time", within=workload.window)
    names = [name for name in policies() if name != "auto"]
    contestants = {"exact": engine_over(exact, pushes)}
    for policy in names:
        for budget in budgets:
            spec = exact.replace(memory=budget, policy=policy, split="even")
            contestants[f"{policy}, memory {budget:,}"] = engine_over(spec, pushes)
    took = take_turns(contestants, 2, same_results=False)
    rows = [
        best_of(f"{name} / exact engine", took[name], took["exact"], workload.tuples)
        for name in contestants
        if name != "exact"
    ]
    least, most = (f"memory {budget:,}" for budget in (budgets[0], budgets[-1]))
    for policy in names:
        large, small = took[f"{policy}, {most}"], took[f"{policy}, {least}"]
        rows.append(best_of(f"{policy}: {most} / {least}", large, small, workload.tuples))
    return rows
