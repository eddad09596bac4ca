"""A random part of the arrivals searches; the engine does what a plan says.

Law: who searches is as the twin draws it, results are those of the searches that are made, and no
cut, no snapshot and no index changes anything.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from contracts import Case, check_conservation, check_cuts, check_snapshot, results_of
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import Arrival, NaiveJoin, Result
from naive_policies import chance
from strategies import cases

import tidegate as tg
from tidegate.costs.workload import Workload
from tidegate.engine.searching import draws
from tidegate.lab.kang2003_scarce import simulated_rate
from tidegate.planner.quadrants import allocate_resources, splits

OWN_DRAWS = 0xD6E8FEB86659FD93
HALF = {"left": 0.5, "right": 0.25}


class SearchingJoin(NaiveJoin):
    """The naive join in which only some arrivals look for partners."""

    def take(self, arrival: Arrival) -> list[Result]:
        results = super().take(arrival)
        assert self.spec.cpu is not None
        shares = self.spec.cpu.search_of(self.spec.streams)
        assert shares is not None
        drawn = chance(self.spec.seed ^ OWN_DRAWS, arrival.stream, arrival.row)
        return results if drawn < shares[arrival.stream] else []


def searching(case: Case, search: Any, seed: int) -> Case:
    cpu = tg.Cpu(search=search)
    return case.with_spec(cpu=cpu, seed=seed, ties="arrival")


@pytest.mark.nojit
@settings(max_examples=40)
@given(data=st.data())
def test_search_equals_twin(data: st.DataObject) -> None:
    rule = data.draw(st.sampled_from(("equality", "numeric_band", "overlap", "theta")))
    shares = st.sampled_from((0.0, 0.25, 0.5, 1.0))
    case = data.draw(cases(rule))
    search = {"left": data.draw(shares), "right": data.draw(shares)}
    case = searching(case, search, data.draw(st.integers(0, 2**63 - 1)))
    if data.draw(st.booleans()):
        case = case.with_spec(memory=4, policy="recent", split="even")
    engine, twin = tg.JoinEngine(case.spec), SearchingJoin(case.spec)
    for push in case.pushes:
        table = engine.push(push.tables, watermark=push.watermark)
        rows = {name: part.to_pylist() for name, part in push.tables.items()}
        expected = twin.push(rows, watermark=push.watermark)
        assert Counter(results_of(table, case.spec)) == Counter(expected)
    check_conservation(engine.stats(), case.spec.streams)
    for name, number in twin.stats().items():
        assert engine.stats().get(name, 0) == number, name


@settings(max_examples=10)
@given(data=st.data())
def test_cuts_and_snapshots_change_nothing(data: st.DataObject) -> None:
    case = searching(data.draw(cases("equality", ordered=True)), HALF, 5)
    check_cuts(case)
    check_snapshot(case, after=data.draw(st.integers(0, len(case.pushes))))


def test_draws_are_those_of_the_twin_and_even() -> None:
    found = draws(7, 1, 3, 2000)
    assert found[:50].tolist() == [chance(7 ^ OWN_DRAWS, 1, 3 + n) for n in range(50)]
    assert np.histogram(found, 10, (0, 1))[0].min() > 150
    assert abs(np.corrcoef(found, draws(7, 0, 3, 2000))[0, 1]) < 0.1


def test_three_streams_search_too() -> None:
    rng = np.random.default_rng(0)
    spec = tg.JoinSpec(
        on="k", time="ts", within=50, streams=("a", "b", "c"),
        cpu=tg.Cpu(search={"a": 1.0, "b": 0.0, "c": 0.0}),
    )  # fmt: skip
    number = np.arange(200)
    tables = {
        name: pa.table({"ts": number, "k": rng.integers(0, 9, 200), f"row_{name}": number})
        for name in spec.streams
    }
    exact = tg.join(tables, spec.replace(cpu=None)).table
    found = tg.join(tables, spec).table
    # Those that the tuple of `a` completes: of equal times it is taken first.
    last = exact["row_a"].to_numpy() > np.maximum(exact["row_b"], exact["row_c"])
    assert results_of(found, spec) == results_of(exact.filter(pa.array(last)), spec)


def test_refusals() -> None:
    spec = tg.JoinSpec(on="k", time="ts", within=5)
    for search, words in (
        ({"left": 2.0, "right": 1.0}, "search 2.0 is out of range; give 0 to 1"),
        ({"left": 0.5}, "search"),
        ("some", "search"),
    ):
        with pytest.raises(tg.TidegateError, match=words):
            spec.replace(cpu=tg.Cpu(search=search))
    instant = spec.replace(cpu=tg.Cpu(search=0.5), ties="instant")
    with pytest.raises(tg.TidegateError, match="give ties='arrival'"):
        tg.JoinEngine(instant)
    assert tg.JoinSpec.from_json(instant.to_json()) == instant


# --- plans -------------------------------------------------------------------------------


def test_a_plan_becomes_a_spec() -> None:
    spec = tg.JoinSpec(on="key", time="t", within=10)
    ample = tg.plan(windows=(100, 200), rates=(80, 20), weights="paper").apply(spec)
    assert (ample.memory, ample.cpu) == (None, None)
    assert ample.index == {"left": "hash", "right": "hash"} or "ttree" in str(ample.index)
    scarce = tg.plan(windows=(100, 200), rates=(80, 20), memory=150.9, service_rate=20)
    obeying = scarce.apply(spec)
    assert obeying.memory == sum(obeying.split_rows or ()) <= 150
    assert obeying.policy_choice.name == "random"
    assert obeying.cpu is not None
    assert obeying.cpu.search_of(spec.streams) == scarce.allocation.search
    with pytest.raises(tg.TidegateError, match="the plan is for the streams 'left', 'right'"):
        scarce.apply(spec.replace(streams=("a", "b")))


QUADRANTS = {
    "cpu": (Workload((100, 200), (80, 20), keys=(40, 40)), {"service_rate": 20.0}),
    "memory": (Workload((300, 300), (10, 50), keys=(60, 40)), {"memory": 300.0}),
    "both": (
        Workload((300, 300), (50, 50), keys=(40, 40)), {"service_rate": 20.0, "memory": 100.0}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", QUADRANTS)
def test_the_planned_allocation_gives_most_in_the_engine(name: str) -> None:
    """More than an equal one, one in proportion to the rates, and one inverse to them."""
    workload, limits = QUADRANTS[name]
    planned = allocate_resources(workload, **limits)
    others = {}
    for kind in ("equal", "proportional", "inverse"):
        rates, windows = workload.rates, workload.windows
        if "service_rate" in limits:
            rates = splits(workload.rates, workload.rates, limits["service_rate"])[kind]
        if "memory" in limits:
            windows = splits(workload.windows, workload.rates, limits["memory"])[kind]
        others[kind] = (rates, windows)
    best = simulated_rate(workload, planned.rates, planned.windows, 120.0, 3)
    for kind, (rates, windows) in others.items():
        assert best > 1.02 * simulated_rate(workload, rates, windows, 120.0, 3), kind
    expected = planned.output_rate or 0.0
    assert best == pytest.approx(expected, rel=0.1)
