"""`tidegate.whatif`: how much of the result each memory and each policy would keep.

Law: every number is a replay through the engine itself (`planner.replays`). Of streams that are too
long a part of the tuples stands for all (`planner.stand_ins`), and every recall has an interval.
What is needed for a target is measured too: the least memory tried that reached it, found by
halving.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegate.offline.optimum import optimum as best_of
from tidegate.planner import whatif_view
from tidegate.planner.replays import Study, narrow
from tidegate.shed.recipes import check_for_many
from tidegate.shed.recipes import policies as known_policies
from tidegate.spec import JoinSpec, TidegateError
from tidegate.spec.given import by_name, check_spec
from tidegate.spec.policy import is_sampling
from tidegate.spec.units import require_name

TARGETS = (0.90, 0.95, 0.99)
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)  # of what the exact join holds
MOST_ROWS_FOR_OPTIMUM, MOST_RESULTS_FOR_OPTIMUM = 60_000, 500_000
MOST_TUPLES = 2**40
OBJECTIVES = ("importance", "size")
OPTIMUM = "optimum"
_WEIGHED = ("simp", "simpprob", "dimpprob")  # nothing new without importance

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class WhatIf:
    """Retention curves: memory -> recall, for each policy and for the optimum.

    `curve` has a row for each policy and memory: `recall` (of the number of results),
    `importance_recall`, and `low` and `high`, the 95 % interval of the one that was asked for.
    `needed` has for each target the least memory that reached it, in tuples and in bytes, its
    policy, and the interval of what it keeps; None where no policy reached it.
    """

    curve: list[dict[str, Any]]
    needed: dict[str, dict[str, Any] | None]
    exact: dict[str, float]
    objective: str
    sampled: float = 1.0
    notes: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    weighed: bool = False

    @property
    def recommended(self) -> str:
        """The policy with the largest recall, over all memories that were tried."""
        name = self.measure
        means = {
            policy: float(np.mean([row[name] for row in self.curve if row["policy"] == policy]))
            for policy in self.policies
        }
        return max(means, key=lambda policy: means[policy])

    @property
    def is_weighed(self) -> bool:
        """Is it about importance, where results differ in it?"""
        return self.objective == "importance" and self.weighed

    @property
    def measure(self) -> str:
        """The column of `curve` that the objective is about."""
        return "recall" if self.objective == "size" else "importance_recall"

    def __str__(self) -> str:
        return whatif_view.text(self)

    def _repr_html_(self) -> str:
        return whatif_view.html(self)


def whatif(
    streams: Mapping[str, Any],
    spec: JoinSpec,
    memory: Iterable[int] | None = None,
    policies: Iterable[Any] | None = None,
    *,
    objective: str = "importance",
    sample: float | None = None,
    optimum: bool = True,
    progress: Progress | None = None,
) -> WhatIf:
    """How much of the result each memory and policy would keep, measured on recorded streams.

    Parameters
    ----------
    streams
        The whole of each stream, by name; pyarrow, pandas, polars or batch DataFrames of Spark,
        of which only what stands for all comes to this machine.
    spec
        What to join. Its own memory, target and policy play no role; its split does.
    memory
        Budgets in tuples; by default nine shares of what the exact join holds.
    policies
        Names or Policy objects; by default all that differ on this join.
    objective
        "importance" or "size": what targets, intervals and the recommendation are about. The same
        without importances.
    sample
        Replay tuples that stand for all: so many of each key's results, such as 0.01; by default
        as many as need about 400,000 rows.
    optimum
        Add the best that any policy could do, where the streams allow it.
    progress
        Called as `progress(done, total)` after each replay.

    Example
    -------
    >>> import pyarrow as pa, tidegate as tg
    >>> left = pa.table({"t": range(100), "k": [n % 7 for n in range(100)]})
    >>> right = pa.table({"t": range(100), "k": [n % 5 for n in range(100)]})
    >>> spec = tg.JoinSpec(on="k", time="t", within=30)
    >>> found = tg.whatif({"left": left, "right": right}, spec, [10, 62], ["random", "prob"])
    >>> [(row["policy"], row["memory"]) for row in found.curve if row["recall"] == 1.0]
    [('random', 62), ('prob', 62), ('optimum', 62)]
    """
    check_spec(spec)
    by_name(streams, "whatif")
    spec = spec.unwatched()
    require_name(objective, OBJECTIVES, "objective")
    chosen = _chosen_policies(policies, spec)
    budgets = None if memory is None else _budgets(memory)
    _check_streams(streams, spec)
    spec = spec.unwatched().replace(cpu=None)
    study = Study.of(streams, spec, sample, objective)
    study.check()
    budgets = budgets or study.default_budgets(SHARES)
    count = _Counter(progress, len(chosen) * len(budgets))
    rows = []
    for name, policy in chosen.items():
        own = []
        for budget in budgets:
            own.append(study.row(name, policy, budget))
            count.step()
        rows += study.bounded(own)
    if optimum:
        rows += _optimum_rows(study, budgets)
    needed = {f"{target:.2f}": study.needed(rows, chosen, target, count.step) for target in TARGETS}
    return WhatIf(
        curve=rows,
        needed=needed,
        exact=study.exact_totals(),
        objective=objective,
        sampled=study.share,
        notes=(*study.notes, *filter(None, [study.exact.rejected])),
        policies=tuple(chosen),
        weighed=spec.importance_columns is not None,
    )


@dataclass
class _Counter:
    progress: Progress | None
    total: int
    done: int = 0

    def step(self) -> None:
        self.done += 1
        self.total = max(self.total, self.done)
        if self.progress is not None:
            self.progress(self.done, self.total)


# --- what is asked for ---------------------------------------------------------------------


def _chosen_policies(policies: Iterable[Any] | None, spec: JoinSpec) -> dict[str, Any]:
    if policies is None:
        names = [name for name in known_policies() if _can_be_tried(name, spec)]
        if spec.importance_columns is None:
            names = [name for name in names if name not in _WEIGHED]
        return {name: name for name in names}
    if isinstance(policies, str):
        raise TidegateError(f"policies {policies!r} is one name; give a list of them")
    found = {}
    for policy in policies:
        name = spec.replace(policy=policy).policy_choice.name
        label, number = name, 2
        while label in found:
            label, number = f"{name} {number}", number + 1
        found[label] = policy
    if not found:
        raise TidegateError("policies is empty; give at least one, or none for all")
    return found


def _can_be_tried(name: str, spec: JoinSpec) -> bool:
    """Samples are for aggregates, `auto` is one of the others, and some are for two streams."""
    policy = spec.replace(policy=name).policy_choice
    if name == "auto" or is_sampling(policy):
        return False
    try:
        if len(spec.streams) > 2:
            check_for_many(policy)
    except TidegateError:
        return False
    return True


def _budgets(memory: Any) -> list[int]:
    given = [memory] if isinstance(memory, int | str) else list(memory)
    for budget in given:
        if isinstance(budget, bool) or not isinstance(budget, int | np.integer) or budget < 1:
            raise TidegateError(
                f"memory has {budget!r}; give numbers of tuples, each at least 1 (what they "
                "take in bytes is part of the answer)"
            )
        if budget > MOST_TUPLES:
            raise TidegateError(f"memory has {budget}, more than any join holds; give less")
    if not given:
        raise TidegateError("memory is empty; give at least one number of tuples")
    return sorted({int(budget) for budget in given})


def _check_streams(streams: Mapping[str, Any], spec: JoinSpec) -> None:
    for name in spec.streams:
        if name not in streams:
            raise TidegateError(
                f"stream {name!r} is missing; give all of {', '.join(spec.streams)}"
            )
    for name in streams:
        if name not in spec.streams:
            raise TidegateError(f"stream {name!r} is unknown; give {', '.join(spec.streams)}")


# --- the best that any policy could do ------------------------------------------------------


def _optimum_rows(study: Study, budgets: Sequence[int]) -> list[dict[str, Any]]:
    """The optimum at each memory, on what the policies were replayed on."""
    spec, objective = study.spec, study.objective
    rows = sum(table.num_rows for table in study.full.values())
    results = float(study.exact.size.sum())
    if len(spec.streams) > 2:
        study.notes.append("no optimum: it is known for two streams only")
        return []
    if study.sample is not None:
        study.notes.append("no optimum: it is known for streams that are replayed as a whole")
        return []
    if rows > MOST_ROWS_FOR_OPTIMUM or results > MOST_RESULTS_FOR_OPTIMUM:
        study.notes.append(
            f"no optimum: it would take long for {rows:,} rows and {results:,.0f} results"
        )
        return []
    tables = {name: narrow(study.full[name], spec, at) for at, name in enumerate(spec.streams)}
    found = []
    for budget in budgets:
        best = best_of(tables, study.limited("auto", budget), objective)  # type: ignore[arg-type]
        recall = best.size / best.exact_size if best.exact_size else 1.0
        worth = best.importance / best.exact_importance if best.exact_importance else 1.0
        measured = recall if objective == "size" else worth
        found.append(
            {
                "policy": OPTIMUM,
                "memory": budget,
                "recall": recall,
                "importance_recall": worth,
                "low": measured,
                "high": measured,
            }
        )
    return found
