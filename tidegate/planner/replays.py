"""The replays behind `tidegate.whatif`: of whole streams, or of tuples that stand for them.

Law: every number is a replay through the engine itself. Where a part of the tuples stands for all
(`planner.stand_ins`), what is measured is divided by the share that it is of the whole, and every
recall has an interval (`planner.recall_interval`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.binding.result_schema import bind
from tidegate.engine import JoinEngine, to_arrow
from tidegate.engine.miniature import Miniature
from tidegate.engine.replay import replay
from tidegate.offline import key_sample
from tidegate.planner import spark_sample, stand_ins
from tidegate.planner.curves import observed_curve
from tidegate.planner.held_bytes import bytes_of
from tidegate.planner.recall_interval import Chance, orders_of_arrival, widened
from tidegate.planner.stand_ins import StandIns
from tidegate.spec import JoinSpec, Theta, TidegateError
from tidegate.spec.notices import rejected_rows
from tidegate.state.shed_arrays import LARGEST_LOG, MOST_WITH_LOG

# Of all streams together, and of the exact result; of more, some tuples are replayed.
MOST_ROWS = 400_000
_HALVINGS = 6
_ARRIVAL, _STAYS = "arrival", "stays"

Floats = NDArray[np.float64]


def narrow(table: pa.Table, spec: JoinSpec, stream: int) -> pa.Table:
    """The columns of a stream that decide about results; what is wrong with them the engine says,
    such as that one is missing or is there twice."""
    names = [spec.time_columns[stream]]
    if spec.importance_columns is not None:
        names.append(spec.importance_columns[stream])
    for predicate in spec.predicates:
        own: Any = predicate.columns[stream]
        names += own if isinstance(predicate, Theta) else [own]
    return table.select([at for at, name in enumerate(table.column_names) if name in names])


@dataclass(frozen=True)
class Kept:
    """What a replay gave: results and their importance, in total or by first tuple."""

    size: Floats
    importance: Floats
    rows: int  # most tuples held
    bytes: int
    rejected: str = ""  # how many rows cannot be joined, and why

    def of(self, objective: str) -> Floats:
        """What the objective counts."""
        return self.size if objective == "size" else self.importance


@dataclass(frozen=True)
class Study:
    """The streams that are replayed: all of them, or tuples that stand for them."""

    spec: JoinSpec
    full: dict[str, pa.Table]  # with all columns, for bytes
    tables: dict[str, pa.Table]  # the columns that decide about results
    sample: StandIns | None
    names: tuple[str, ...]  # of the columns with the order of arrival, by stream
    stays: str | None  # of the column that says who stays
    objective: str
    notes: list[str]
    _chance: Chance | None = None
    _errors: dict[tuple[str, int], float] = field(default_factory=dict)  # by chance, of each point

    @classmethod
    def of(
        cls, streams: Mapping[str, Any], spec: JoinSpec, sample: float | None, objective: str
    ) -> Study:
        """Choose what to replay."""
        on_spark = any(spark_sample.is_frame(streams[name]) for name in spec.streams)
        tables = {} if on_spark else {name: to_arrow(streams[name], name) for name in spec.streams}
        if on_spark:
            total = spark_sample.rows_of(streams, spec)
        else:
            total = sum(table.num_rows for table in tables.values())
        rate, reason = rate_for(total, spec, sample), key_sample.why_not(spec)
        if reason is not None and sample is not None:
            raise TidegateError(reason)
        if reason is not None and on_spark and rate < 1.0:
            raise TidegateError(
                f"{total:,} rows are too many for this machine, and a {reason}; give fewer rows"
            )
        if on_spark and rate < 1.0:
            some = spark_sample.chosen(streams, spec, rate, total)
            return cls.of_sample(some, spec, objective)
        if rate < 1.0 and reason is None:
            return cls.of_sample(stand_ins.chosen(tables, spec, rate), spec, objective)
        tables = tables or spark_sample.collected(streams, spec)
        bind(as_exact(spec), {name: tables[name].schema for name in spec.streams})  # all columns
        small = {name: narrow(tables[name], spec, at) for at, name in enumerate(spec.streams)}
        notes = [f"all {total:,} rows are replayed: {reason}"] if rate < 1.0 else []
        return cls(spec, tables, small, None, (), None, objective, notes)

    @classmethod
    def of_sample(cls, some: StandIns, spec: JoinSpec, objective: str) -> Study:
        """Replay tuples that stand for the whole streams."""
        full = dict(some.tables)
        small = {name: narrow(full[name], spec, at) for at, name in enumerate(spec.streams)}
        taken = {name for table in full.values() for name in table.column_names}
        orders = orders_of_arrival(some, spec)
        names = tuple(unused_name(f"{_ARRIVAL} {name}", taken) for name in spec.streams)
        stays = unused_name(_STAYS, taken) if stand_ins.can_pass(spec) else None
        for at, name in enumerate(spec.streams):
            small[name] = small[name].append_column(names[at], pa.array(orders[name]))
            if stays is not None:
                small[name] = small[name].append_column(stays, pa.array(some.stays[name]))
        notes = [
            f"{some.rows:,} of {some.total:,} rows stand for all, and give {some.rate:.2%} of the "
            "results; intervals are of 95 % confidence"
        ]
        chance = Chance.of(some, orders, passes=stays is not None)
        return cls(spec, full, small, some, names, stays, objective, notes, chance)

    @cached_property
    def exact(self) -> Kept:
        """The join without a budget."""
        return self.replayed(as_exact(self.spec))

    def check(self) -> None:
        """An error if the sample says nothing."""
        if self.sample is not None and not self.exact.size.any():
            raise TidegateError(
                f"the {self.sample.rows:,} rows that stand for all have no results; ask for a "
                "larger share of the results with sample=, up to 1"
            )

    @property
    def share(self) -> float:
        """Of the results that are found."""
        return 1.0 if self.sample is None else self.sample.rate

    @property
    def portion(self) -> float:
        """Of the rows that are retained, and so of the memory."""
        return 1.0 if self.sample is None else self.sample.portion

    def default_budgets(self, shares: Sequence[float]) -> list[int]:
        """Shares of what the exact join holds."""
        held = self.exact.rows / self.portion
        return sorted({max(len(self.spec.streams), round(share * held)) for share in shares})

    def exact_totals(self) -> dict[str, float]:
        """The exact join of the whole streams."""
        return {
            "size": round(float(self.exact.size.sum()) / self.share),
            "importance": float(self.exact.importance.sum()) / self.share,
            "memory": round(self.exact.rows / self.portion),
            "bytes": round(self._bytes(as_exact(self.spec), round(self.exact.rows / self.portion))),
        }

    def row(self, name: str, policy: Any, budget: int) -> dict[str, Any]:
        """One point of a curve."""
        kept = self.exact  # if nothing is ever shed
        if budget * self.portion < self.exact.rows:
            kept = self.replayed(self.limited(policy, budget), budget)
        recall = _share(kept.of(self.objective), self.exact.of(self.objective))
        if self._chance is not None and kept is not self.exact:
            parts, wholes = kept.of(self.objective), self.exact.of(self.objective)
            self._errors[name, budget] = self._chance.half_width(parts, wholes, recall)
        return {
            "policy": name,
            "memory": budget,
            "recall": _share(kept.size, self.exact.size),
            "importance_recall": _share(kept.importance, self.exact.importance),
            "low": recall,
            "high": recall,
        }

    def bounded(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The points of one policy, each with its interval."""
        found = sorted(rows, key=lambda row: int(row["memory"]))
        open_rows = [row for row in found if (row["policy"], row["memory"]) in self._errors]
        if not open_rows:
            return found
        measure = "recall" if self.objective == "size" else "importance_recall"
        memory = np.array([row["memory"] for row in found], np.float64)
        recall = np.array([row[measure] for row in found], np.float64)
        errors = [self._errors.get((row["policy"], row["memory"]), 0.0) for row in found]
        halves = widened(np.array(errors), memory, recall, memory * self.portion)
        for row, middle, half in zip(found, recall.tolist(), halves.tolist(), strict=True):
            if (row["policy"], row["memory"]) in self._errors:
                row["low"], row["high"] = max(0.0, middle - half), min(1.0, middle + half)
        return found

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
        own = [row for row in rows if row["policy"] == name]
        reached = [row for row in own if row[measure] >= target]
        if not reached:
            return None
        best = dict(min(reached, key=lambda row: row["memory"]))
        high = best["memory"]
        low = max((row["memory"] for row in own if row["memory"] < high), default=0)
        for _ in range(_HALVINGS):
            middle = (low + high) // 2
            if high - low <= max(1, high // 50):
                break
            tried = self.row(name, policies[name], middle)
            if tried[measure] >= target:
                best, high = tried, middle
            else:
                low = middle
            step()
        spec = self.limited(policies[name], high)
        if high * self.portion >= self.exact.rows:
            spec = as_exact(self.spec)
        if best not in own:
            self.bounded([dict(row) for row in own] + [best])
        need = {"memory": high, "bytes": round(self._bytes(spec, high)), "policy": name}
        return need | {"low": best["low"], "high": best["high"]}

    def _bytes(self, spec: JoinSpec, tuples: int) -> float:
        """What the join holds, of rows with all their columns, when it holds so many tuples."""
        if self.sample is None:
            return self.replayed(spec, None, counts=False).bytes
        return bytes_of(self.full, spec, tuples)

    def replayed(self, spec: JoinSpec, budget: int | None = None, counts: bool = True) -> Kept:
        """Run the engine, and count what it gives; else all columns are taken, for their bytes."""
        engine = JoinEngine(spec, miniature=self._miniature(budget))
        some, rows = self.sample, 1 if self.sample is None else self.sample.rows
        size, importance = np.zeros(rows), np.zeros(rows)
        if some is None and counts:
            engine.count_only()
        for table in replay(engine, self.tables if counts else self.full):
            if some is not None and counts and table.num_rows:
                first = np.min([table.column(name).to_numpy() for name in self.names], axis=0)
                size += np.bincount(first, minlength=rows)
                worth = table.column("_importance").to_numpy()
                importance += np.bincount(first, worth, minlength=rows)
        stats = engine.stats()
        if some is None:
            size[0], importance[0] = stats["rows_out"], stats["importance_out"]
        held = int(stats["memory_rows_peak"])
        why = rejected_rows(stats, self.spec.streams)
        return Kept(size, importance, held, int(stats["memory_bytes_peak"]), why)

    def _miniature(self, budget: int | None) -> Miniature | None:
        """The policy counts keys as it would under the budget for the whole streams."""
        if self.stays is None or self.sample is None:
            return None
        log = max(1, round(LARGEST_LOG * self.sample.rows / max(1, self.sample.total)))
        if budget is not None and budget > MOST_WITH_LOG:
            log = 1
        return Miniature(self.stays, log)


def rate_for(total: int, spec: JoinSpec, asked: float | None) -> float:
    """Which share of the results to find, of streams with so many rows."""
    if asked is not None:
        key_sample.check_share(asked)
        return asked
    rows = MOST_ROWS / (stand_ins.ROWS_PER_STAY if stand_ins.can_pass(spec) else 1)
    return 1.0 if total <= MOST_ROWS else rows / total


def as_exact(spec: JoinSpec) -> JoinSpec:
    """The join without a budget."""
    return spec.replace(memory=None, split="auto", policy="auto")


def _share(part: Floats, whole: Floats) -> float:
    total = float(whole.sum())
    return min(1.0, float(part.sum()) / total) if total else 1.0


def unused_name(name: str, taken: set[str]) -> str:
    """A name that no column has."""
    while name in taken:
        name += "_"
    return name
