"""`tidegate.whatif`: how much of the result each memory and each policy would keep.

Law: every number is a replay through the engine itself. Streams that are too long are replayed for
some of their keys (`offline.key_sample`): all tuples of these, with the same share of the memory.
Then every recall has an interval, from the spread between groups of keys; it covers the chance of
which keys were taken, not that a policy does slightly better or worse in a small memory than in a
large one. What is needed for a target is measured too: the least memory tried that reached it,
found by halving.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.engine import JoinEngine, to_arrow
from tidegate.engine.replay import replay
from tidegate.offline import key_sample
from tidegate.offline.optimum import optimum as best_of
from tidegate.planner import whatif_view
from tidegate.planner.curves import observed_curve
from tidegate.shed.recipes import check_for_many
from tidegate.shed.recipes import policies as known_policies
from tidegate.spec import JoinSpec, Theta, TidegateError
from tidegate.spec.policy import is_sampling
from tidegate.spec.units import require_name

TARGETS = (0.90, 0.95, 0.99)
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)  # of what the exact join holds
# Of all streams together, and of the exact result; of more, some keys are replayed.
MOST_ROWS, MOST_RESULTS = 400_000, 20_000_000
MOST_ROWS_FOR_OPTIMUM, MOST_RESULTS_FOR_OPTIMUM = 60_000, 500_000
OBJECTIVES = ("importance", "size")
OPTIMUM = "optimum"
_HALVINGS = 6
_WEIGHED = ("simp", "simpprob", "dimpprob")  # nothing new without importance
_GROUP = "group_of_key"

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class WhatIf:
    """Retention curves: memory -> recall, for each policy and for the optimum.

    `curve` has a row for each policy and memory: `recall` (of the number of results),
    `importance_recall`, and `low` and `high`, the 95 % interval of the one that was asked for.
    `needed` has for each target the least memory that reached it, in tuples and in bytes, and its
    policy; None where no policy reached it.
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
        The whole of each stream, by name; pyarrow, pandas or polars.
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
        A share of the keys to replay; by default as many as make 400,000 rows.
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
    require_name(objective, OBJECTIVES, "objective")
    chosen = _chosen_policies(policies, spec)
    budgets = None if memory is None else _budgets(memory)
    tables = {name: to_arrow(streams[name], name) for name in streams}
    _check_streams(tables, spec)
    spec = spec.unwatched().replace(cpu=None)
    study = _Study.of(tables, spec, sample, objective)
    budgets = budgets or study.default_budgets()
    count = _Counter(progress, len(chosen) * len(budgets))
    rows = []
    for name, policy in chosen.items():
        for budget in budgets:
            rows.append(study.row(name, policy, budget))
            count.step()
    if optimum:
        rows += _optimum_rows(study, budgets)
    needed = {f"{target:.2f}": study.needed(rows, chosen, target, count.step) for target in TARGETS}
    return WhatIf(
        curve=rows,
        needed=needed,
        exact=study.exact_totals(),
        objective=objective,
        sampled=study.share,
        notes=tuple(study.notes),
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
    if not given:
        raise TidegateError("memory is empty; give at least one number of tuples")
    return sorted({int(budget) for budget in given})


def _check_streams(tables: Mapping[str, pa.Table], spec: JoinSpec) -> None:
    for name in spec.streams:
        if name not in tables:
            raise TidegateError(
                f"stream {name!r} is missing; give all of {', '.join(spec.streams)}"
            )
    for name in tables:
        if name not in spec.streams:
            raise TidegateError(f"stream {name!r} is unknown; give {', '.join(spec.streams)}")


def _narrow(table: pa.Table, spec: JoinSpec, stream: int) -> pa.Table:
    """The columns of a stream that decide about results; which are missing, the engine says."""
    names = [spec.time_columns[stream]]
    if spec.importance_columns is not None:
        names.append(spec.importance_columns[stream])
    for predicate in spec.predicates:
        own: Any = predicate.columns[stream]
        names += own if isinstance(predicate, Theta) else [own]
    return table.select([name for name in dict.fromkeys(names) if name in table.column_names])


# --- replays -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Kept:
    """What a replay gave: results and their importance, by group of keys."""

    size: NDArray[np.float64]
    importance: NDArray[np.float64]
    rows: int  # most tuples held
    bytes: int

    def of(self, objective: str) -> NDArray[np.float64]:
        return self.size if objective == "size" else self.importance


@dataclass(frozen=True)
class _Study:
    """The streams that are replayed: all of them, or the tuples of some keys."""

    spec: JoinSpec
    full: dict[str, pa.Table]  # with all columns, for bytes
    tables: dict[str, pa.Table]  # the columns that decide about results
    groups: int
    column: str | None  # which group a result belongs to
    share: float  # of the groups of keys
    portion: float  # of the rows, and so of the memory
    objective: str
    notes: list[str]
    exact: _Kept

    @classmethod
    def of(
        cls, tables: dict[str, pa.Table], spec: JoinSpec, sample: float | None, objective: str
    ) -> _Study:
        total = sum(tables[name].num_rows for name in spec.streams)
        reason = key_sample.why_not(spec)
        if sample is not None:
            key_sample.check_share(sample)
            if reason is not None:
                raise TidegateError(reason)
            return cls._sampled(tables, spec, sample, objective)
        if reason is not None:
            study = cls._sampled(tables, spec, 1.0, objective)
            if total > MOST_ROWS:
                study.notes.append(f"all {total:,} rows are replayed: {reason}")
            return study
        share = min(1.0, MOST_ROWS / max(1, total))
        study = cls._sampled(tables, spec, share, objective)
        results = float(study.exact.size.sum())
        if results > MOST_RESULTS and share * MOST_RESULTS / results > 2 / key_sample.GROUPS:
            study = cls._sampled(tables, spec, share * MOST_RESULTS / results, objective)
        return study

    @classmethod
    def _sampled(
        cls, tables: dict[str, pa.Table], spec: JoinSpec, sample: float, objective: str
    ) -> _Study:
        notes: list[str] = []
        groups, share, full = 1, 1.0, {name: tables[name] for name in spec.streams}
        group: dict[str, NDArray[np.int64]] | None = None
        if sample < 1.0:
            some = key_sample.sampled(tables, spec, sample)
            groups, share, full, group = some.chosen, some.share, some.tables, some.group
            notes.append(f"from {share:.1%} of the keys; intervals are of 95 % confidence")
        small = {
            name: _narrow(full[name], spec, stream) for stream, name in enumerate(spec.streams)
        }
        column = None
        if group is not None:
            first = spec.streams[0]
            column = _unused_name([name for table in small.values() for name in table.column_names])
            small[first] = small[first].append_column(column, pa.array(group[first], pa.int16()))
        exact = _replayed(small, _as_exact(spec), groups, column)
        rows = sum(table.num_rows for table in full.values())
        portion = rows / max(1, sum(tables[name].num_rows for name in spec.streams)) or share
        return cls(spec, full, small, groups, column, share, portion, objective, notes, exact)

    def default_budgets(self) -> list[int]:
        held = self.exact.rows / self.portion
        return sorted({max(len(self.spec.streams), round(share * held)) for share in SHARES})

    def exact_totals(self) -> dict[str, float]:
        return {
            "size": round(float(self.exact.size.sum()) / self.share),
            "importance": float(self.exact.importance.sum()) / self.share,
            "memory": round(self.exact.rows / self.portion),
            "bytes": round(self._bytes(_as_exact(self.spec))),
        }

    def row(self, name: str, policy: Any, budget: int) -> dict[str, Any]:
        """One point of a curve."""
        kept = self._kept(policy, budget)
        return self._described(name, budget, kept)

    def _described(self, name: str, budget: int, kept: _Kept) -> dict[str, Any]:
        recall = _share(kept.of(self.objective), self.exact.of(self.objective))
        wide = key_sample.half_width(
            kept.of(self.objective), self.exact.of(self.objective), self.share
        )
        return {
            "policy": name,
            "memory": budget,
            "recall": _share(kept.size, self.exact.size),
            "importance_recall": _share(kept.importance, self.exact.importance),
            "low": max(0.0, recall - wide),
            "high": min(1.0, recall + wide),
        }

    def _kept(self, policy: Any, budget: int) -> _Kept:
        if budget * self.portion >= self.exact.rows:
            return self.exact  # nothing is ever shed
        return _replayed(self.tables, self.limited(policy, budget), self.groups, self.column)

    def limited(self, policy: Any, budget: int) -> JoinSpec:
        """The join under a budget for the full streams."""
        memory = max(1, round(budget * self.portion))
        split: Any = self.spec.split
        if self.spec.split_rows is not None:
            whole = sum(self.spec.split_rows)
            split = [rows / whole for rows in self.spec.split_rows]
        return self.spec.replace(memory=memory, policy=policy, split=split)

    def needed(
        self,
        rows: Sequence[Mapping[str, Any]],
        policies: Mapping[str, Any],
        target: float,
        step: Callable[[], None],
    ) -> dict[str, Any] | None:
        """The least memory that reaches a target, and its policy."""
        measure = "recall" if self.objective == "size" else "importance_recall"
        guesses = {}
        for name in policies:
            points = [(r["memory"], r[measure]) for r in rows if r["policy"] == name]
            guesses[name] = observed_curve(points).memory_for(target)
        name = min(guesses, key=lambda each: guesses[each])
        reached = [r["memory"] for r in rows if r["policy"] == name and r[measure] >= target]
        if not reached:
            return None
        high = min(reached)
        low = max(
            (r["memory"] for r in rows if r["policy"] == name and r["memory"] < high), default=0
        )
        for _ in range(_HALVINGS):
            middle = (low + high) // 2
            if high - low <= max(1, high // 50):
                break
            kept = self._described(name, middle, self._kept(policies[name], middle))
            low, high = (low, middle) if kept[measure] >= target else (middle, high)
            step()
        spec = self.limited(policies[name], high)
        if high * self.portion >= self.exact.rows:
            spec = _as_exact(self.spec)
        return {"memory": high, "bytes": round(self._bytes(spec)), "policy": name}

    def _bytes(self, spec: JoinSpec) -> float:
        """What the join holds, of rows with all their columns. What a policy holds in any case,
        however few its tuples, is the same for a sample as for all."""
        held = _replayed(self.full, spec, 1, None).bytes
        fixed = 0
        if self.portion < 1.0 and spec.memory is not None:
            fixed = _replayed(self.full, spec.replace(memory=2), 1, None).bytes
        return fixed + max(0, held - fixed) / self.portion


def _as_exact(spec: JoinSpec) -> JoinSpec:
    return spec.replace(memory=None, split="auto", policy="auto")


def _share(part: NDArray[np.float64], whole: NDArray[np.float64]) -> float:
    total = float(whole.sum())
    return min(1.0, float(part.sum()) / total) if total else 1.0


def _unused_name(names: Sequence[str]) -> str:
    name = _GROUP
    while name in names:
        name += "_"
    return name


def _replayed(
    tables: Mapping[str, pa.Table], spec: JoinSpec, groups: int, column: str | None
) -> _Kept:
    """Run the engine, and count what it gives by the group that `column` names."""
    engine = JoinEngine(spec)
    size, importance = np.zeros(groups), np.zeros(groups)
    for table in replay(engine, tables):
        if column is not None and table.num_rows:
            group = table.column(column).to_numpy()
            size += np.bincount(group, minlength=groups)
            worth = table.column("_importance").to_numpy()
            importance += np.bincount(group, worth, minlength=groups)
    stats = engine.stats()
    if column is None:
        size[0], importance[0] = stats["rows_out"], stats["importance_out"]
    held = int(stats["memory_rows_peak"])
    return _Kept(size, importance, held, int(stats["memory_bytes_peak"]))


# --- the best that any policy could do ------------------------------------------------------


def _optimum_rows(study: _Study, budgets: Sequence[int]) -> list[dict[str, Any]]:
    """The optimum at each memory, on what the policies were replayed on."""
    spec, objective = study.spec, study.objective
    rows = sum(table.num_rows for table in study.full.values())
    results = float(study.exact.size.sum())
    if len(spec.streams) > 2:
        study.notes.append("no optimum: it is known for two streams only")
        return []
    if rows > MOST_ROWS_FOR_OPTIMUM or results > MOST_RESULTS_FOR_OPTIMUM:
        study.notes.append(
            f"no optimum: it would take long for {rows:,} rows and {results:,.0f} results; a "
            "smaller sample has one"
        )
        return []
    tables = {name: _narrow(study.full[name], spec, at) for at, name in enumerate(spec.streams)}
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
