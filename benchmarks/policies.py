"""What shedding costs: the engine under each policy against the exact engine.

Law: `ours` sheds, `theirs` is the exact join of the same tuples and windows in the same run; it
holds both windows in full, whatever the budget. The results differ by design, so their numbers are
not compared but shown (results per tuple): that a budget saves the work of making results, and that
a larger one makes more of them, is part of every ratio.

To reach: >= 0.4 of the exact engine at 100,000 tuples; and from the smallest budget to the largest
at most twice the time per tuple, a ratio of 0.5 in the last rows, where `ours` is a policy at the
largest budget and `theirs` the same policy at the smallest.

The full form has windows of 1,000,000 tuples per side and streams of two windows, so that a budget
of 1,000,000 is half of what the exact engine holds; the quick form ends at 100,000. Time is CPU
time, the best of the repetitions: the engine runs on one core, and what else the machine does is
not its cost.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

from benchmarks.equi_join import engine_over
from benchmarks.side_by_side import Row, compared
from benchmarks.workload import Workload, cut
from tidegate import JoinSpec, policies

FULL = Workload(rows_per_stream=2_000_000, keys=1_000_000, window=1_000_000)
QUICK = Workload(rows_per_stream=500_000, keys=200_000, window=200_000)
WARM_UP = Workload(rows_per_stream=5_000, keys=1_000, window=1_000)
BUDGETS = (1_000, 10_000, 100_000, 1_000_000)
PUSHES = 10
REPETITIONS = 2


class Measured:
    """The best time of a contestant so far, and its results."""

    def __init__(self, contestant: Callable[[], int]) -> None:
        self.contestant = contestant
        self.seconds = float("inf")
        self.results = 0

    def again(self) -> None:
        gc.collect()
        begin = time.process_time()
        self.results = self.contestant()
        self.seconds = min(self.seconds, time.process_time() - begin)


def _specs(window: int, budgets: tuple[int, ...]) -> dict[tuple[str, int], JoinSpec]:
    """By policy and budget, policy by policy; "exact" has no budget."""
    exact = JoinSpec(on="key", time="time", within=window)
    specs = {("exact", 0): exact}
    for policy in policies():
        if policy != "auto":  # another name of one of the others
            for budget in budgets:
                specs[policy, budget] = exact.replace(memory=budget, policy=policy, split="even")
    return specs


def _measure(workload: Workload, budgets: tuple[int, ...]) -> dict[tuple[str, int], Measured]:
    """All contestants in turn; what is compiled is compiled before."""
    warm_up = cut(WARM_UP.tables(), WARM_UP.rows_per_stream)
    for spec in _specs(WARM_UP.window, (100,)).values():
        engine_over(spec, warm_up)()
    pushes = cut(workload.tables(), workload.rows_per_stream // PUSHES)
    measured = {
        name: Measured(engine_over(spec, pushes))
        for name, spec in _specs(workload.window, budgets).items()
    }
    for _ in range(REPETITIONS):
        for contestant in measured.values():
            contestant.again()
    return measured


def run(quick: bool) -> list[Row]:
    workload = QUICK if quick else FULL
    budgets = tuple(budget for budget in BUDGETS if budget <= workload.window)
    measured = _measure(workload, budgets)

    def against(name: str, ours: tuple[str, int], theirs: tuple[str, int]) -> Row:
        rates = [workload.tuples / measured[one].seconds for one in (ours, theirs)]
        made = [measured[one].results / workload.tuples for one in (ours, theirs)]
        name += f" (results/tuple {made[0]:.3f} / {made[1]:.3f})"
        return compared(name, *rates, "tuples/CPU s")

    held = f"exact engine, which holds {2 * workload.window:,}"
    rows = [
        against(f"{policy}, memory {budget:,} / {held}", (policy, budget), ("exact", 0))
        for policy, budget in measured
        if policy != "exact"
    ]
    least, most = budgets[0], budgets[-1]
    for policy in dict.fromkeys(policy for policy, _ in measured if policy != "exact"):
        name = f"{policy}, memory {most:,} / memory {least:,}"
        rows.append(against(name, (policy, most), (policy, least)))
    return rows
