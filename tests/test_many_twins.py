"""The twins of the join of n streams agree with each other, and with the twins of two streams.

Law: without a budget the join that takes tuple after tuple gives what nested loops over all
combinations give; with two streams both give what `naive.py` gives, and the policies name the
victims of `naive_policies`; under a budget every row is accounted for and every result is one of
the exact join. Small streams are checked by hand where a rule could be read in two ways.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from many_cases import ManyCase, many_case, names_of
from naive import NaiveJoin
from naive_many import ManyJoin, Push, Result, Shedding, definition
from naive_many_policies import (
    Frequency,
    Output,
    Random,
    Recent,
    Simp,
    UntilExpiry,
    WeighedAtArrival,
    WeighedFrequency,
)
from naive_policies import ShedJoin
from strategies import cases

import tidegate as tg

CAUSES = ("alive", "expired", "evicted", "refused", "too_late", "rejected")
SEEDS = st.integers(0, 2**32)

# Per policy of the spec: its twin for n streams.
POLICIES: dict[str, tuple[Any, Any]] = {
    "recent": ("recent", Recent),
    "until-expiry": ("until-expiry", UntilExpiry),
    "simp": ("simp", Simp),
    "random": ("random", Random),
    "output": ("output", Output),
    "prob": ("prob", Frequency),
    "prob-retained": (tg.prob(statistics="retained"), lambda: Frequency("retained")),
    "simpprob": ("simpprob", WeighedAtArrival),
    "simpprob-retained": (tg.simpprob(statistics="retained"), lambda: WeighedAtArrival("retained")),
    "dimpprob": ("dimpprob", WeighedFrequency),
    "dimpprob-retained": (tg.dimpprob(statistics="retained"), lambda: WeighedFrequency("retained")),
}


def replay(case: ManyCase, policy: Shedding | None = None) -> tuple[ManyJoin, list[Result]]:
    join = ManyJoin(case.spec, policy)
    return join, [result for push in case.pushes for result in join.push(*push)]


# --- n streams ---------------------------------------------------------------------------


@pytest.mark.parametrize("streams", [2, 3, 4, 5])
@settings(deadline=None)
@given(seed=SEEDS)
def test_tuple_by_tuple_equals_nested_loops(streams: int, seed: int) -> None:
    case = many_case(seed, streams, rows=9 - streams)
    _, results = replay(case)
    assert Counter(results) == Counter(definition(case.spec, case.pushes))


@pytest.mark.parametrize("streams", [6, 9, 16])
def test_many_streams(streams: int) -> None:
    found = 0
    for seed in range(40):
        case = many_case(seed, streams, rows=2, within=6, ties=("arrival", "instant")[seed % 2])
        pushes = tuple(all_keys_equal(push) for push in case.pushes)
        _, results = replay(ManyCase(case.spec, pushes))
        # Every stream sends one or two tuples, so nested loops end.
        assert Counter(results) == Counter(definition(case.spec, pushes))
        found += len(results)
    assert found > 100


def all_keys_equal(push: Push) -> Push:
    keys = {"k0": 1, "k1": 1, "weight": 1.0}
    tables = {name: [row | keys for row in rows] for name, rows in push.tables.items()}
    return Push(tables, None)


@pytest.mark.parametrize("name", sorted(POLICIES))
@settings(deadline=None)
@given(seed=SEEDS, streams=st.integers(2, 5))
def test_under_a_budget_every_row_is_accounted_for(name: str, seed: int, streams: int) -> None:
    case = many_case(seed, streams, rows=8 - streams, budget=True)
    join, results = replay(case, POLICIES[name][1]())
    stats = join.stats()
    for suffix in ("", *(f"_{label}" for label in case.spec.streams)):
        assert stats[f"rows_in{suffix}"] == sum(stats[f"{cause}{suffix}"] for cause in CAUSES)
    assert join.peak <= (case.spec.memory_rows or 0)
    assert not Counter(results) - Counter(definition(case.spec, case.pushes))
    assert len(join.victims) == stats["evicted"] + stats["refused"]


# --- two streams -------------------------------------------------------------------------


@settings(deadline=None)
@given(data=st.data())
def test_two_streams_equal_the_twin_of_two(data: st.DataObject) -> None:
    rule = data.draw(st.sampled_from(("equality", "several_keys")))
    case = data.draw(cases(rule))
    rows = [
        Push({n: t.to_pylist() for n, t in push.tables.items()}, push.watermark)
        for push in case.pushes
    ]
    join, results = replay(ManyCase(case.spec, tuple(rows)))
    twin = NaiveJoin(case.spec)
    expected = [result for push in rows for result in twin.push(*push)]
    assert Counter((r.rows, r.importance) for r in results) == Counter(expected)
    stats = twin.stats()
    assert all(stats[name] == number for name, number in join.stats().items())
    defined = definition(case.spec, rows)
    assert Counter((r.rows, r.importance) for r in defined) == Counter(expected)


@pytest.mark.parametrize("name", sorted(POLICIES))
@settings(deadline=None)
@given(seed=SEEDS)
def test_two_streams_have_the_victims_of_the_twin_of_two(name: str, seed: int) -> None:
    given_policy, twin_policy = POLICIES[name]
    case = many_case(seed, 2, rows=20, budget=True)
    # Two streams of which one has no window are counted in another way (`shed_arrays.shed_of`).
    assume(all(window.size > 0 for window in case.spec.windows))
    spec = case.spec.replace(policy=given_policy)
    twin = ShedJoin(spec)
    join, results = replay(ManyCase(spec, case.pushes), twin_policy())
    expected = [result for push in case.pushes for result in twin.push(*push)]
    assert [(stream, row) for stream, row, _ in join.victims] == twin.victims
    assert Counter((r.rows, r.importance) for r in results) == Counter(expected)


# --- by hand -----------------------------------------------------------------------------


def rows_of(*pairs: tuple[int, Any]) -> list[dict[str, Any]]:
    return [{"ts": ts, "k": key} for ts, key in pairs]


def found(tables: list[dict[str, Any]], **options: Any) -> list[tuple[int, ...]]:
    names = names_of(3)
    spec = tg.JoinSpec(**{"on": "k", "time": "ts", "within": 9, "streams": names, **options})
    pushes = [Push(table) for table in tables]
    results = definition(spec, pushes)
    _, taken = replay(ManyCase(spec, tuple(pushes)))
    assert Counter(results) == Counter(taken)
    return sorted(result.rows for result in results)


def test_windows_reach_the_latest_tuple_and_not_just_the_next() -> None:
    """s1 at 0, s2 at 3, s3 at 6: the window of s1 must reach 6, though s2 came in between."""
    tables = [{"s1": rows_of((0, 1)), "s2": rows_of((3, 1)), "s3": rows_of((6, 1))}]
    assert found(tables, within={"s1": 6, "s2": 3, "s3": 0}) == [(0, 0, 0)]
    assert found(tables, within={"s1": 5, "s2": 9, "s3": 9}) == []
    assert found(tables, within={"s1": 9, "s2": 2, "s3": 9}) == []


def test_the_latest_need_not_be_the_last_to_come() -> None:
    """A late tuple joins two that are retained; the window of s1 is judged at ts 6."""
    tables = [{"s1": rows_of((0, 1)), "s3": rows_of((6, 1))}, {"s2": rows_of((2, 1))}]
    assert found(tables, lateness=5, within={"s1": 6, "s2": 4, "s3": 0}) == [(0, 0, 0)]
    assert found(tables, lateness=5, within={"s1": 5, "s2": 4, "s3": 0}) == []
    assert found(tables, lateness=5, within={"s1": 6, "s2": 3, "s3": 0}) == []
    assert found(tables, lateness=3, within={"s1": 6, "s2": 4, "s3": 0}) == []


def test_count_windows_are_judged_when_the_last_is_taken() -> None:
    tables = [
        {"s1": rows_of((0, 1), (2, 7)), "s2": rows_of((1, 1)), "s3": rows_of((3, 1))},
    ]
    wide = {"s1": 9, "s2": 9, "s3": 9}
    assert found(tables, within=wide | {"s1": tg.rows(2)}) == [(0, 0, 0)]
    assert found(tables, within=wide | {"s1": tg.rows(1)}) == []
    assert found(tables, within=wide | {"s3": tg.rows(0)}) == [(0, 0, 0)]


def test_every_combination_of_duplicates_once() -> None:
    tables = [{"s1": rows_of((0, 1), (0, 1)), "s2": rows_of((1, 1)), "s3": rows_of((2, 1), (2, 1))}]
    assert found(tables) == [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1)]


def test_null_equals_nothing() -> None:
    tables = [{name: rows_of((0, None), (0, float("nan"))) for name in names_of(3)}]
    assert found(tables) == []


def instant_join(**options: Any) -> ManyJoin:
    names = names_of(3)
    drawn = {"on": "k", "time": "ts", "within": 9, "streams": names, "ties": "instant"}
    return ManyJoin(tg.JoinSpec(**{**drawn, **options}), Recent())


def test_an_instant_meets_itself_without_memory() -> None:
    join = instant_join(memory=0, split="shared", policy="recent")
    results = join.push({name: rows_of((5, 1), (5, 1)) for name in names_of(3)})
    assert len(results) == 8
    assert join.stats()["refused"] == 6


def test_in_an_instant_the_refused_meet_survivors_too() -> None:
    """s1 holds one tuple, s2 and s3 none: both of the instant are refused and still meet it."""
    shares = {"s1": 1, "s2": 0, "s3": 0}
    join = instant_join(memory=1, split=shares, policy="recent")
    assert join.push({"s1": rows_of((1, 1))}) == []
    results = join.push({"s2": rows_of((2, 1)), "s3": rows_of((2, 1))})
    assert [result.rows for result in results] == [(0, 0, 0)]


def test_an_instant_evicts_before_it_meets_survivors() -> None:
    """The new tuple of s1 evicts the old one, which meets nobody any more; the new one meets s2 and
    s3 inside the instant."""
    shares = {"s1": 1, "s2": 1, "s3": 1}
    join = instant_join(memory=3, split=shares, policy="recent")
    assert join.push({"s1": rows_of((1, 1))}) == []
    results = join.push({name: rows_of((2, 1)) for name in names_of(3)})
    assert [result.rows for result in results] == [(1, 0, 0)]


@pytest.mark.parametrize(
    ("kind", "worth"), [("min", 1.0), ("max", 4.0), ("sum", 7.0), ("product", 8.0), ("mean", 7 / 3)]
)
def test_importance_and_time_of_a_result(kind: Any, worth: float) -> None:
    spec = tg.JoinSpec(
        on="k", time="ts", within=9, streams=names_of(3), importance="w", output_importance=kind
    )
    tables = {
        name: [{"ts": time, "k": 1, "w": weight}]
        for name, time, weight in zip(names_of(3), (4, 8, 6), (2.0, 1.0, 4.0), strict=True)
    }
    assert definition(spec, [Push(tables)]) == [Result((0, 0, 0), worth, 8)]
