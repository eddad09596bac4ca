"""What must hold for every join, whatever its spec: the contracts of DESIGN section 3.

The law: a contract is a sentence about what the engine gives, checked without knowing how. Each
`check_*` replays a case and asserts one sentence; `tests/test_contracts.py` says for which specs.

A case is a spec and the pushes that feed it. Its rows carry their number in `row_<stream>`, so
that a result is known by the numbers of its rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import naive
import pyarrow as pa
from naive import Result

import tidegate as tg

CAUSES = ("alive", "expired", "evicted", "refused", "too_late", "rejected")


@dataclass(frozen=True)
class Push:
    tables: dict[str, pa.Table]
    watermark: Any = None


@dataclass(frozen=True)
class Case:
    spec: tg.JoinSpec
    pushes: tuple[Push, ...]

    def with_spec(self, **changes: Any) -> Case:
        return replace(self, spec=self.spec.replace(**changes))

    def in_one_push(self) -> Case:
        return replace(self, pushes=(Push(self.whole()),))

    def whole(self) -> dict[str, pa.Table]:
        """All pushes as one, rows in the order sent."""
        parts: dict[str, list[pa.Table]] = {}
        for push in self.pushes:
            for name, table in push.tables.items():
                parts.setdefault(name, []).append(table)
        return {name: pa.concat_tables(tables) for name, tables in parts.items()}


@dataclass(frozen=True)
class Outcome:
    """What a replay gave: the results of each push in output order, and the last stats."""

    pushes: tuple[tuple[Result, ...], ...]
    stats: dict[str, float]

    @property
    def results(self) -> list[Result]:
        return [result for push in self.pushes for result in push]

    @property
    def account(self) -> dict[str, float]:
        """The stats that say what became of every row and what came out."""
        names = ("rows_in", "rows_out", "importance_out", *CAUSES)
        return {k: v for k, v in self.stats.items() if k.startswith(names)}


def results_of(table: pa.Table, spec: tg.JoinSpec) -> tuple[Result, ...]:
    """An output table as (row numbers, importance), in output order."""
    if table.num_rows == 0:
        return ()
    numbers = [table.column(f"row_{name}").to_pylist() for name in spec.streams]
    importances = table.column("_importance").to_pylist()
    return tuple(zip(zip(*numbers, strict=True), importances, strict=True))


def replay(case: Case, engine: tg.JoinEngine | None = None) -> Outcome:
    engine = tg.JoinEngine(case.spec) if engine is None else engine
    pushes = []
    for push in case.pushes:
        table = engine.push(push.tables, watermark=push.watermark)
        pushes.append(results_of(table, case.spec))
    return Outcome(tuple(pushes), dict(engine.stats()))


def replay_naive(case: Case) -> Outcome:
    twin = naive.NaiveJoin(case.spec)
    pushes = []
    for push in case.pushes:
        rows = {name: table.to_pylist() for name, table in push.tables.items()}
        pushes.append(tuple(twin.push(rows, watermark=push.watermark)))
    return Outcome(tuple(pushes), twin.stats())


def tuple_by_tuple(case: Case) -> Case:
    """The same rows in the same order, each in a push of its own."""
    pushes = [
        Push({name: table.slice(i, 1)}, push.watermark)
        for push in case.pushes
        for name, table in push.tables.items()
        for i in range(table.num_rows)
    ]
    return replace(case, pushes=tuple(pushes))


# --- the contracts -----------------------------------------------------------------------


def check_equal_to_naive(case: Case) -> Outcome:
    """Engine and twin give the same results push by push, and the same account of rows."""
    ours, theirs = replay(case), replay_naive(case)
    for ours_push, theirs_push in zip(ours.pushes, theirs.pushes, strict=True):
        assert Counter(ours_push) == Counter(theirs_push)
    for name, value in theirs.stats.items():
        assert ours.stats.get(name, 0) == value, name
    return ours


def check_conservation(stats: Mapping[str, float], streams: Sequence[str]) -> None:
    """rows in = alive + expired + evicted + refused + too late + rejected, total and each."""
    for suffix in ("", *[f"_{name}" for name in streams]):
        assert stats[f"rows_in{suffix}"] == sum(stats[f"{cause}{suffix}"] for cause in CAUSES)
    for name in ("rows_in", *CAUSES):
        assert stats[name] == sum(stats[f"{name}_{stream}"] for stream in streams)
    assert stats["memory_rows"] == stats["alive"] <= stats["memory_rows_peak"]


def check_subset(case: Case) -> Outcome:
    """Every output of a shedding join is a row of the exact join, at most once."""
    shed = replay(case)
    exact = replay(case.with_spec(memory=None, split="auto", policy="auto"))
    assert max(Counter(rows for rows, _ in shed.results).values(), default=1) == 1
    assert set(shed.results) <= set(exact.results)
    assert shed.stats["importance_out"] == sum(importance for _, importance in shed.results)
    return shed


def check_budget(case: Case) -> None:
    """After each tuple, what is retained never exceeds the budget, not by one tuple."""
    budget = case.spec.memory_rows
    assert budget is not None
    capacities = case.spec.split_rows
    engine = tg.JoinEngine(case.spec)
    for push in tuple_by_tuple(case).pushes:
        engine.push(push.tables, watermark=push.watermark)
        stats = engine.stats()
        assert stats["memory_rows"] <= stats["memory_rows_peak"] <= budget
        for name, capacity in zip(case.spec.streams, capacities or (), strict=False):
            assert stats[f"alive_{name}"] <= capacity
    assert replay(case).stats["memory_rows_peak"] <= budget


def check_snapshot(case: Case, after: int, through: Outcome | None = None) -> None:
    """Snapshot and restore after some push change nothing, the order of output included.

    `through` is what a replay of the case gave, if that is known.
    """
    through = through or replay(case)
    engine = tg.JoinEngine(case.spec)
    head = replay(replace(case, pushes=case.pushes[:after]), engine)
    restored = tg.JoinEngine.restore(engine.snapshot())
    # Bytes may be fewer: payload that no retained tuple needs is not restored. They may be more by
    # the rounding of blocks: a column whose NULLs have left is stored among those without.
    before, after_restore = dict(engine.stats()), dict(restored.stats())
    rounding = 64 * sum(len(t.schema) for push in case.pushes[:1] for t in push.tables.values())
    for name in ("memory_bytes", "memory_bytes_peak"):
        assert after_restore.pop(name) <= before.pop(name) + max(rounding, 1024)
    assert after_restore == before
    tail = replay(replace(case, pushes=case.pushes[after:]), restored)
    assert head.pushes + tail.pushes == through.pushes
    assert tail.account == through.account


def check_cuts(case: Case) -> None:
    """A time-ordered input gives the same output in the same order, however it is cut."""
    cut, whole = replay(case), replay(case.in_one_push())
    assert cut.results == whole.results
    assert cut.account == whole.account


def check_ample_budget(case: Case) -> None:
    """With a budget of at least the windows, the shedding join is the exact join."""
    exact = replay(case.with_spec(memory=None, split="auto", policy="auto"))
    ample = replay(case)
    # As sets: inside an instant a budget asks for its own order of output.
    assert [Counter(push) for push in ample.pushes] == [Counter(push) for push in exact.pushes]
    assert ample.stats["evicted"] == ample.stats["refused"] == 0


def check_failing_push_changes_nothing(case: Case) -> None:
    """With bad_rows="fail" a push with a rejected row raises before anything has changed."""
    counting = replay(case)
    engine = tg.JoinEngine(case.spec.replace(bad_rows="fail"))
    for push in case.pushes:
        before, blob = dict(engine.stats()), engine.snapshot()
        try:
            engine.push(push.tables, watermark=push.watermark)
        except tg.TidegateError:
            assert counting.stats["rejected"] > 0
            assert dict(engine.stats()) == before
            assert engine.snapshot() == blob
            return
    assert counting.stats["rejected"] == 0
    assert dict(engine.stats()) == counting.stats
