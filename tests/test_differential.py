"""The engine equals its naive twin, on thousands of small random cases.

The law: for every predicate, window, index, order of ties, lateness, cut and static policy, the
engine's results are the twin's results push by push (as a multiset), and its account of rows is
the twin's account. `TIDEGATE_EXAMPLES` sets how many cases each test tries.

Above each window test stands its timeline: one column per unit of time, a letter where a tuple
arrives, a line for as long as it waits. A line that ends in `]` includes its end.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import naive
import pyarrow as pa
import pytest
from contracts import Case, Push, check_conservation, check_equal_to_naive, replay, replay_naive
from hypothesis import given, settings
from hypothesis import strategies as st
from pools import EQUALITY, FLOATS, INNER_PRODUCT, INTEGERS, OVERLAP, TEMPORAL, Pools, column_of
from strategies import LARGER, RULES, cases
from tries import examples

import tidegate as tg

MANY, SOME, FEW = examples(1), examples(1 / 3), examples(1 / 15)


@pytest.mark.nojit
@pytest.mark.parametrize("rule", sorted(RULES))
@settings(max_examples=MANY)
@given(data=st.data())
def test_exact_join(rule: str, data: st.DataObject) -> None:
    case = data.draw(cases(rule))
    outcome = check_equal_to_naive(case)
    check_conservation(outcome.stats, case.spec.streams)


@pytest.mark.nojit
@pytest.mark.parametrize("rule", sorted(RULES))
@settings(max_examples=SOME)
@given(data=st.data())
def test_join_under_a_budget(rule: str, data: st.DataObject) -> None:
    case = data.draw(cases(rule, budget=True))
    outcome = check_equal_to_naive(case)
    check_conservation(outcome.stats, case.spec.streams)


@pytest.mark.parametrize("budget", [False, True])
@pytest.mark.parametrize("rule", sorted(RULES))
@settings(max_examples=FEW)
@given(data=st.data())
def test_larger_joins_whose_arrays_grow(rule: str, budget: bool, data: st.DataObject) -> None:
    case = data.draw(cases(rule, budget=budget, shape=LARGER))
    outcome = check_equal_to_naive(case)
    check_conservation(outcome.stats, case.spec.streams)


@pytest.mark.nojit
@pytest.mark.parametrize("rule", sorted(RULES))
@settings(max_examples=FEW)
@given(data=st.data())
def test_twin_equals_the_definition(rule: str, data: st.DataObject) -> None:
    """The twin keeps state; with time windows and ordered input the definition needs none."""
    case = data.draw(cases(rule, ordered=True))
    if all(window.kind != "rows" for window in case.spec.windows):
        rows = {name: table.to_pylist() for name, table in case.whole().items()}
        assert sorted(replay_naive(case).results) == sorted(naive.definition(rows, case.spec))


@pytest.mark.nojit
@settings(max_examples=FEW)
@given(
    times=st.tuples(*[st.lists(st.integers(0, 6), max_size=5)] * 3),
    within=st.tuples(*[st.integers(0, 3)] * 3),
    ties=st.sampled_from(("arrival", "instant")),
)
def test_twin_equals_the_definition_for_three_streams(
    times: tuple[list[int], ...], within: tuple[int, ...], ties: Any
) -> None:
    names = ("a", "b", "c")
    spec = tg.JoinSpec(
        on="k", time="ts", within=dict(zip(names, within, strict=True)), streams=names, ties=ties
    )
    rows = {
        name: [{"ts": ts, "k": ts % 2} for ts in column]
        for name, column in zip(names, times, strict=True)
    }
    assert sorted(naive.join(rows, spec).results) == sorted(naive.definition(rows, spec))


# --- values, one and all -----------------------------------------------------------------

# (predicate, pools of values, indexes): what random cases would meet too rarely.
VALUES: dict[str, list[tuple[Any, list[Pools], list[str]]]] = {
    "equality": [("k", EQUALITY, ["hash", "btree", "ttree"])],
    "integer bands": [
        (tg.band("k", low, high), [INTEGERS], ["btree", "ttree"])
        for low, high in ((0, 0), (-1, 1), (2, 2**63 - 1), (-math.inf, 0), (-(2**63), -2))
    ],
    "float bands": [
        (tg.band("k", low, high), [FLOATS], ["btree", "ttree"])
        for low, high in ((0.0, 0.0), (0.1, 0.2), (-0.2, 0.1), (0.2, math.inf), (-1e300, 1e300))
    ],
    "temporal bands": [
        (tg.band("k", low, high), TEMPORAL, ["btree", "ttree"])
        for low, high in (("0 s", "0 s"), ("-2 s", "1 s"), ("1500 ms", "10000 weeks"))
    ],
    "overlap": [(tg.overlap("k", at_least), OVERLAP, ["inverted"]) for at_least in (1, 2, 3)],
    "inner product": [
        (tg.inner_product("k", 0.5), INNER_PRODUCT, ["inverted"]),
        (tg.inner_product("k", 0), INNER_PRODUCT, []),
    ],
}


def need_more_than_64_bits(*kinds: pa.DataType) -> bool:
    return pa.uint64() in kinds and any(pa.types.is_signed_integer(kind) for kind in kinds)


@pytest.mark.nojit
@pytest.mark.parametrize("family", sorted(VALUES))
def test_every_value_against_every_value_of_every_type(family: str) -> None:
    for on, families, indexes in VALUES[family]:
        for kinds in families:
            columns = [
                column_of(kind, pool, [*range(len(pool)), 15]) for kind, pool in kinds.items()
            ]
            for number, (left, right) in enumerate(itertools.product(columns, repeat=2)):
                tables = {"left": column_table("left", left), "right": column_table("right", right)}
                index = ["nested-loop", "auto", *indexes][number % (2 + len(indexes))]
                spec = tg.JoinSpec(on=on, time="ts", within=0, index=index)
                if family == "integer bands" and need_more_than_64_bits(left.type, right.type):
                    with pytest.raises(tg.TidegateError, match="above 2"):
                        tg.JoinEngine(spec).push(tables)
                    continue
                check_equal_to_naive(Case(spec, (Push(tables),)))


def column_table(stream: str, column: pa.Array) -> pa.Table:
    return pa.table({f"row_{stream}": range(len(column)), "ts": [0] * len(column), "k": column})


# --- windows, by hand --------------------------------------------------------------------


def pairs(left: list[int], right: list[int], within: Any, **options: Any) -> list[tuple[int, int]]:
    """Times of the pairs that meet, all keys equal; the twin must agree."""
    times = {"left": left, "right": right}
    tables = {
        name: pa.table({f"row_{name}": range(len(ts)), "ts": ts, "k": [7] * len(ts)})
        for name, ts in times.items()
    }
    spec = tg.JoinSpec(on="k", time="ts", within=within, **options)
    case = Case(spec, (Push(tables),))
    check_equal_to_naive(case)
    return sorted((left[a], right[b]) for (a, b), _ in replay(case).results)


@pytest.mark.nojit
def test_both_ends_of_a_window_are_inclusive() -> None:
    # time   0  1  2  3  4  5
    # left   a--------]            a waits up to 3
    # right           x  y         x is the last it meets
    assert pairs([0], [3, 4], within=3) == [(0, 3)]
    # left            x  y
    # right  b--------]
    assert pairs([3, 4], [0], within=3) == [(3, 0)]
    # left      a--------]         its start is inclusive too: b comes at the same time
    # right     b--------]
    assert pairs([1], [1], within=3) == [(1, 1)]


@pytest.mark.nojit
def test_a_zero_window_meets_its_own_instant_only() -> None:
    # time   0  1  2
    # left   a] c]
    # right  b]    d]
    assert pairs([0, 1], [0, 2], within=0) == [(0, 0)]
    assert pairs([0, 1], [0, 2], within=0, ties="instant") == [(0, 0)]


@pytest.mark.nojit
def test_each_stream_has_its_own_window() -> None:
    # time   0  1  2  3  4
    # left   a--------]            left waits 3, right does not wait at all
    # left               c]
    # right        b]              b meets a, who waited; c comes too late for b
    assert pairs([0, 4], [2], within={"left": 3, "right": 0}) == [(0, 2)]
    # left   a]          c]        the other way round: a is gone, b waited for c
    # right        b--------]
    assert pairs([0, 4], [2], within={"left": 0, "right": 3}) == [(4, 2)]


@pytest.mark.nojit
def test_a_count_window_ends_with_its_last_tuple() -> None:
    # time   0  1  2  3  4
    # left   a--b--|c------------  rows(2): c is the second newer one, so a dies at c
    # right        x     y         x comes after c (ties by stream), so it meets b and c
    assert pairs([0, 1, 2], [2, 4], within={"left": tg.rows(2), "right": 0}) == [
        (1, 2), (1, 4), (2, 2), (2, 4)
    ]  # fmt: skip


@pytest.mark.nojit
def test_a_count_window_beside_a_time_window() -> None:
    # time   0  1  2  3  4  5
    # left   a-------------------  rows(1): nothing newer on the left, so a waits for ever
    # right     x--]        y--]   right waits 1: nothing on the left comes for it
    assert pairs([0], [1, 5], within={"left": tg.rows(1), "right": 1}) == [(0, 1), (0, 5)]
    # left   a-----------|c------  rows(1): c ends a's wait, and x is over
    # right     x--]        y--]   y meets c only
    assert pairs([0, 4], [1, 5], within={"left": tg.rows(1), "right": 1}) == [(0, 1), (4, 5)]


@pytest.mark.nojit
@pytest.mark.parametrize("ties", ["arrival", "instant"])
def test_a_late_tuple_meets_what_it_would_have_met(ties: Any) -> None:
    # time   0  1  2  3  4  5      lateness 2, windows 2
    # left   a-----]     c-----]
    # right        x               x comes after c: the clock is 4, so 2 is just in time
    # right     y                  y at 1 is more than 2 behind the clock: dropped
    spec = tg.JoinSpec(on="k", time="ts", within=2, lateness=2, ties=ties)
    left = pa.table({"row_left": [0, 1], "ts": [0, 4], "k": [7, 7]})
    right = pa.table({"row_right": [0, 1], "ts": [2, 1], "k": [7, 7]})
    case = Case(spec, (Push({"left": left}), Push({"right": right})))
    outcome = check_equal_to_naive(case)
    assert sorted(rows for rows, _ in outcome.results) == [(0, 0), (1, 0)]
    assert outcome.stats["too_late_right"] == 1
