"""The plan of a CPU budget: its knapsack holds the paper's direction rule, and it follows streams.

The law: where every part of one window pays more than all of the other, the knapsack over
(direction, basic window) is Algorithm 4 of gedik2005; elsewhere it never yields less. When rate or
lag change in the middle of a stream, fraction and chosen basic windows follow within two periods.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_cpu import Budget
from standalone import Standalone

import tidegate as tg
from tidegate.throttle import shares
from tidegate.throttle.throttle_records import Throttle

WINDOW, BASIC, PERIOD = 20, 2, 10


def throttle_of(**cpu: Any) -> Throttle:
    budget = tg.Cpu(100, adapt_every=PERIOD, basic_window=BASIC, **cpu)
    spec = tg.JoinSpec(on="k", time="t", within={"left": 12, "right": WINDOW}, cpu=budget)
    schema = pa.schema({"t": pa.int64(), "k": pa.int64()})
    throttle = tg.JoinEngine(spec, {"left": schema, "right": schema})._state.throttle
    assert throttle is not None
    return throttle


def planned(evidence: list[list[tuple[int, int]]], fraction: float, **cpu: Any) -> Any:
    """Shares after an adaptation, by side; evidence is (comparisons, results) by basic window."""
    throttle = throttle_of(**cpu)
    throttle.tank.fraction = fraction
    throttle.sides.probes = 8
    for side, cells in enumerate(evidence):
        for window, (comparisons, hits) in enumerate(cells):
            throttle.cells[side, window]["tries"] = 8
            throttle.cells[side, window]["comparisons"] = comparisons
            throttle.cells[side, window]["hits"] = hits
            throttle.cells[side, window]["worth"] = hits
    Standalone(shares).plan(throttle)
    sides = [
        cells.share[:n] for cells, n in zip(throttle.cells, throttle.sides.windows, strict=True)
    ]
    return throttle, sides


def yielded(evidence: list[list[tuple[int, int]]], sides: Any) -> float:
    return sum(
        hits * share
        for cells, of_side in zip(evidence, sides, strict=True)
        for (_, hits), share in zip(cells, of_side, strict=True)
    )


def cells(least: int, most: int, count: int) -> st.SearchStrategy[list[tuple[int, int]]]:
    one = st.tuples(st.integers(200, 400), st.integers(least, most))
    return st.lists(one, min_size=count, max_size=count)


@pytest.mark.nojit
@pytest.mark.parametrize("better", [0, 1])
@settings(max_examples=30)
@given(data=st.data(), fraction=st.floats(0.01, 0.99))
def test_knapsack_is_algorithm_4_where_one_window_pays_more(
    better: int, data: st.DataObject, fraction: float
) -> None:
    """Results per comparison: at least 1/4 on the better side, at most 1/10 on the other."""
    ranges = [(0, 20), (0, 20)]
    ranges[better] = (100, 200)
    evidence = [data.draw(cells(*ranges[side], (7, 11)[side])) for side in (0, 1)]
    _, knapsack = planned(evidence, fraction, direction="adaptive")
    _, paper = planned(evidence, fraction, direction="better-first")
    for one, other in zip(knapsack, paper, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    # r_1 = min(1, r (C_1 + C_2) / C_1), with measured comparisons C for w
    costs = [sum(c for c, _ in of_side) for of_side in evidence]
    spent = sum(c * s for (c, _), s in zip(evidence[better], paper[better], strict=True))
    r = min(1, fraction * sum(costs) / costs[better])
    assert spent / costs[better] == pytest.approx(r)


@pytest.mark.nojit
@settings(max_examples=60)
@given(data=st.data(), fraction=st.floats(0.01, 0.99))
def test_knapsack_yields_no_less(data: st.DataObject, fraction: float) -> None:
    evidence = [data.draw(cells(0, 200, n)) for n in (7, 11)]
    costs = sum(c for of_side in evidence for c, _ in of_side)
    spent, got = {}, {}
    for direction in ("adaptive", "better-first", "even"):
        _, sides = planned(evidence, fraction, direction=direction)
        spent[direction] = sum(
            c * s
            for of_side, shares_ in zip(evidence, sides, strict=True)
            for (c, _), s in zip(of_side, shares_, strict=True)
        )
        got[direction] = yielded(evidence, sides)
    for direction, comparisons in spent.items():
        assert comparisons == pytest.approx(fraction * costs), direction
        # The plan doubts its evidence, so a few results less are possible.
        assert got["adaptive"] >= 0.95 * got[direction], direction


@pytest.mark.nojit
def test_two_way_traffic() -> None:
    """Both sides have one basic window that pays: the knapsack takes both, the rule only one."""
    evidence = [[(100, 1)] * 7, [(100, 1)] * 11]
    evidence[0][2] = evidence[1][5] = (100, 50)
    _, knapsack = planned(evidence, 2 / 18, direction="adaptive")
    assert (knapsack[0][2], knapsack[1][5]) == (1, 1)
    _, paper = planned(evidence, 2 / 18, direction="better-first")
    assert yielded(evidence, paper) < yielded(evidence, knapsack) == 100


# --- streams that change -----------------------------------------------------------------


def stream(rates: list[int], lag: list[int]) -> dict[str, pa.Table]:
    """One key for each unit of time; the right stream repeats the left's keys `lag` later."""
    left: list[tuple[int, int]] = []
    right: list[tuple[int, int]] = []
    for t, (rate, late) in enumerate(zip(rates, lag, strict=True)):
        left += [(t, t)] * rate
        right += [(t, t - late)] * rate
    return {
        name: pa.table({"t": [t for t, _ in rows], "k": [k for _, k in rows]})
        for name, rows in (("left", left), ("right", right))
    }


def fed(tables: dict[str, pa.Table], cpu: tg.Cpu) -> dict[int, Any]:
    """By period, at its end: the fraction, and the basic windows of the left window in turn."""
    spec = tg.JoinSpec(on="k", time="t", within=WINDOW, index="nested-loop", cpu=cpu)
    engine = tg.JoinEngine(spec)
    seen = {}
    last = tables["left"]["t"][-1].as_py()
    for period in range(last // PERIOD + 1):
        engine.push(
            {
                name: rows.filter(pa.compute.equal(pa.compute.divide(rows["t"], PERIOD), period))
                for name, rows in tables.items()
            }
        )
        throttle = engine._state.throttle
        assert throttle is not None
        seen[period] = (float(throttle.tank[0].fraction), throttle.cells.turn[0].tolist())
    return seen


@pytest.mark.nojit
def test_fraction_follows_the_rate() -> None:
    """2 tuples per unit of time need 160 comparisons, 6 need 1,440; 400 are granted."""
    rates = [2] * 60 + [6] * 100 + [2] * 60
    tables = stream(rates, [4] * len(rates))
    seen = fed(tables, tg.Cpu(400, adapt_every=PERIOD, basic_window=BASIC))
    assert seen[5][0] == 1.0
    # The windows are full one window (two periods) after the change; then two periods.
    for period in range(6 + 2 + 2, 16):
        assert seen[period][0] == pytest.approx(400 / 1440, rel=0.3)
    for period in range(16 + 2 + 2, 22):
        assert seen[period][0] == 1.0


@pytest.mark.nojit
@pytest.mark.parametrize("direction", ["adaptive", "better-first", "even"])
def test_chosen_windows_follow_the_lag(direction: Any) -> None:
    """Matches lie 5, then 13 units of time back: basic windows 2 and 3, then 6 and 7."""
    tables = stream([3] * 160, [5] * 100 + [13] * 60)
    cpu = tg.Cpu(75, adapt_every=PERIOD, basic_window=BASIC, sample=0.2, direction=direction)
    seen = fed(tables, cpu)

    assert set(seen[9][1][:2]) == {2, 3}
    assert set(seen[12][1][:2]) == {6, 7}  # two periods after the change: 10 and 11


@pytest.mark.parametrize("order", ["learned", "youngest"])
@pytest.mark.parametrize("fuel", [20, 40])
def test_what_was_lost_is_estimated(fuel: int, order: Any) -> None:
    """Results that came and results that are said to be lost add up to those of the exact join."""
    tables = stream([3] * 400, [5] * 400)
    cpu = tg.Cpu(fuel, adapt_every=PERIOD, basic_window=BASIC, sample=0.3, order=order)
    spec = tg.JoinSpec(on="k", time="t", within=WINDOW, index="nested-loop", cpu=cpu)
    stats = tg.join(tables, spec).stats
    exact = tg.join(tables, spec.replace(cpu=None)).stats
    assert stats["comparisons"] + stats["skipped_comparisons"] == exact["comparisons"]
    assert stats["rows_out"] < 0.9 * exact["rows_out"]
    said = stats["rows_out"] + stats["skipped_results_estimate"]
    assert said == pytest.approx(exact["rows_out"], rel=0.25)


def test_the_twin_plans_alike() -> None:
    """The twin sorts all (side, basic window) at once; the kernel merges two sorted lists."""
    evidence = [[(10 * j + 5, (7 * j) % 5) for j in range(n)] for n in (7, 11)]
    cpu = tg.Cpu(100, adapt_every=PERIOD, basic_window=BASIC)
    budget = Budget(cpu, [12, WINDOW], BASIC, PERIOD, 100.0)
    budget.fraction, budget.probes = 0.3, [8.0, 8.0]
    for of_side, twin_cells in zip(evidence, budget.sides, strict=True):
        for (comparisons, hits), cell in zip(of_side, twin_cells, strict=True):
            cell.tries, cell.comparisons, cell.hits, cell.worth = 8.0, comparisons, hits, hits
    budget.plan()
    throttle, sides = planned(evidence, 0.3, direction="adaptive")
    for side in (0, 1):
        assert sides[side].tolist() == [cell.share for cell in budget.sides[side]]
        turns = throttle.cells[side].turn[: len(sides[side])]
        assert turns.tolist() == budget.orders[side]
