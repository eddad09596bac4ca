"""The offline optimum against its slow twins, and against everything that must stay below it.

The law: flow, dynamic program, the paper's network and brute force agree; the schedule can be
followed and gives what was promised, through the engine too; no policy gets more.
"""

from __future__ import annotations

import math
from typing import Any

import naive_optimum
import numpy as np
import pyarrow as pa
import pytest
from contracts import Case, replay
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import COMPILED, RARE_POLICIES, RULES, Shape, cases, is_hopeless, with_marks
from test_worked_examples import (
    EXACT_IMPORTANCE,
    EXACT_SIZE,
    LARGEST_SIZE_AT_4,
    OPTIMUM_AT_4,
    ojewole_spec,
    ojewole_tables,
)
from tries import examples

import tidegate as tg
from tidegate.offline.optimum import METHODS, Optimum

MANY, SOME, FEW = examples(1 / 2), examples(1 / 3), examples(1 / 10)
TINY = Shape(rows=5, ticks=5)  # brute force tries all subsets of what is alive
SOLVERS = ("flow", "dp", "esja")
FORGET_ONLY_IF_FULL = ("random", "recent", "until-expiry", "simp")  # so there is a floor too


def whole(case: Case) -> Case:
    """The case as the optimum takes it: both streams, at once."""
    case = case.in_one_push()
    assume(len(case.pushes[0].tables) == len(case.spec.streams))
    return case


def rows_of(case: Case) -> dict[str, list[dict[str, Any]]]:
    return {name: table.to_pylist() for name, table in case.whole().items()}


def best_of(case: Case, **options: Any) -> Optimum:
    return tg.optimum(case.whole(), case.spec, **options)


# --- the worked example of ojewole2006 ---------------------------------------------------


@pytest.mark.nojit
@pytest.mark.parametrize("method", METHODS)
def test_ojewole_optimum(method: Any) -> None:
    """M = 4 split evenly: seven tuples with an importance of 30 (section 4.1)."""
    best = tg.optimum(ojewole_tables(), ojewole_spec(memory=4, split="even"), method=method)
    assert (best.importance, best.size) == (OPTIMUM_AT_4, 7)
    assert (best.exact_importance, best.exact_size) == (EXACT_IMPORTANCE, EXACT_SIZE)
    # r(1) is kept for s(4), s(0) for r(3): path 0 of figure 1.
    assert best.kept_until["r"][1].as_py() == 4
    assert best.kept_until["s"][0].as_py() == 3


@pytest.mark.nojit
@pytest.mark.parametrize("method", METHODS)
def test_ojewole_largest_result(method: Any) -> None:
    """The largest result has eight tuples, but an importance of only 12 (path 1)."""
    spec = ojewole_spec(memory=4, split="even")
    best = tg.optimum(ojewole_tables(), spec, objective="size", method=method)
    assert (best.size, best.importance) == (LARGEST_SIZE_AT_4, 12)


@pytest.mark.nojit
@pytest.mark.parametrize("memory", [8, None])
def test_enough_memory_gives_the_exact_result(memory: int | None) -> None:
    best = tg.optimum(ojewole_tables(), ojewole_spec(memory=memory))
    assert (best.importance, best.size) == (EXACT_IMPORTANCE, EXACT_SIZE)


@pytest.mark.nojit
def test_no_memory_leaves_the_pairs_of_an_instant() -> None:
    best = tg.optimum(ojewole_tables(), ojewole_spec(memory=0))
    assert (best.importance, best.size) == (1, 1)
    assert tg.optimum(ojewole_tables(), ojewole_spec(memory=0, ties="arrival")).size == 0


# --- all methods and brute force agree ---------------------------------------------------


@pytest.mark.nojit
@settings(max_examples=3 * MANY)
@given(data=st.data())
def test_all_methods_agree_with_brute_force(data: st.DataObject) -> None:
    """Which pairs exist is the engine's matter: other rules than equality are a third."""
    rule = data.draw(st.sampled_from(["equality"] * 16 + sorted(RULES)))
    case = whole(data.draw(cases(rule, budget=True, ordered=True, shape=TINY)))
    rows = rows_of(case)
    expected = naive_optimum.brute_force(rows, case.spec)
    largest = naive_optimum.brute_force(rows, case.spec, naive_optimum.size)
    for method in SOLVERS:
        assert best_of(case, method=method).importance == pytest.approx(expected)
        assert best_of(case, method=method, objective="size").size == largest


@pytest.mark.nojit
@settings(max_examples=SOME)
@given(data=st.data())
def test_least_importance(data: st.DataObject) -> None:
    """The worst of all ways that forget only where they must."""
    case = whole(data.draw(cases("equality", budget=True, ordered=True, shape=TINY)))
    expected = naive_optimum.least(rows_of(case), case.spec)
    for method in ("auto", "dp"):
        least = best_of(case, objective="least-importance", method=method)
        assert least.importance == pytest.approx(expected)


@pytest.mark.nojit
@settings(max_examples=SOME)
@given(data=st.data(), unwanted=st.integers(0, 3))
def test_unwanted_results(data: st.DataObject, unwanted: int) -> None:
    """Weights below zero: what is not wanted is met only where it pays."""
    case = whole(data.draw(cases("numeric_band", budget=True, ordered=True, shape=TINY)))

    def sign(left: int, right: int) -> float:
        return -1.5 if (left + 2 * right) % 4 <= unwanted else 1.0

    def weights(results: pa.Table) -> list[float]:
        columns = (results.column(f"row_{name}").to_pylist() for name in case.spec.streams)
        return [sign(*rows) for rows in zip(*columns, strict=True)]

    expected = naive_optimum.brute_force(rows_of(case), case.spec, lambda result: sign(*result[0]))
    best = best_of(case, weights=weights)
    followed = naive_optimum.follow(rows_of(case), case.spec, best.kept_through)
    assert sum(sign(*rows) for rows, _ in followed) == pytest.approx(expected)


# --- the schedule ------------------------------------------------------------------------


@pytest.mark.nojit
@pytest.mark.parametrize("method", SOLVERS)
@pytest.mark.parametrize("objective", ["importance", "size", "least-importance"])
@settings(max_examples=FEW)
@given(data=st.data())
def test_following_the_schedule_gives_the_result(
    method: Any, objective: Any, data: st.DataObject
) -> None:
    rule = data.draw(st.sampled_from(sorted(RULES)))
    case = whole(data.draw(cases(rule, budget=True, ordered=True)))
    if objective == "least-importance" and method in ("flow", "esja"):
        method = "auto"  # flow cannot do it for all streams, and auto knows for which
    best = best_of(case, method=method, objective=objective)
    results = naive_optimum.follow(rows_of(case), case.spec, best.kept_through)
    assert len(results) == best.size
    assert math.fsum(importance for _, importance in results) == pytest.approx(best.importance)
    for name, through in best.kept_through.items():
        assert [time is None for time in best.kept_until[name].to_pylist()] == list(through < 0)


@pytest.mark.parametrize("objective", ["importance", "size"])
@pytest.mark.parametrize("rule", sorted(RULES))
@settings(max_examples=FEW)
@given(data=st.data())
def test_the_engine_replays_the_schedule(rule: str, objective: Any, data: st.DataObject) -> None:
    """A priority that says until when a tuple is kept makes the engine follow the schedule.

    Whoever has the lowest priority goes, so a tuple whose time has come goes before all others.
    One that stays longer than it must, because there is room, meets nobody: that would be more
    than the optimum.
    """
    case = whole(data.draw(cases(rule, budget=True, ordered=True)))
    best = best_of(case, objective=objective)
    exact = dict(replay(case.with_spec(memory=None, split="auto", policy="auto")).results)
    tables = {}
    for stream, (name, table) in enumerate(case.whole().items()):
        priority = [float(last) + 2 for last in best.kept_through[name]]
        if case.spec.importance_columns is not None:
            values = table.column(case.spec.importance_columns[stream]).to_pylist()
            pairs = zip(priority, values, strict=True)
            # A row that is rejected for its importance stays so.
            priority = [p if v is not None and 0 < v < math.inf else None for p, v in pairs]
        tables[name] = table.append_column("priority", pa.array(priority, pa.float64()))
    spec = case.spec.replace(policy="simp", importance="priority")
    engine = tg.JoinEngine(spec)
    output = engine.push(tables)
    numbers = [output.column(f"row_{name}").to_pylist() for name in spec.streams]
    kept = list(zip(*numbers, strict=True))
    assert len(kept) == best.size
    assert math.fsum(exact[rows] for rows in kept) == pytest.approx(best.importance)
    assert engine.stats()["memory_rows_peak"] <= (spec.memory_rows or 0)


def test_times_of_the_schedule_have_the_type_of_the_column() -> None:
    kind = pa.timestamp("ms", "Europe/Berlin")
    left = pa.table({"at": pa.array([0, 1000], kind), "k": [1, 2]})
    right = pa.table({"at": pa.array([5000], kind), "k": [1]})
    spec = tg.JoinSpec(on="k", time="at", within="1 minute", memory=2)
    best = tg.optimum({"left": left, "right": right}, spec)
    assert best.kept_until["left"].type == pa.timestamp("us", "Europe/Berlin")
    assert best.kept_until["left"].to_pylist() == [right.column("at")[0].as_py(), None]


# --- nothing gets more -------------------------------------------------------------------


@pytest.mark.parametrize("policy", with_marks(sorted(tg.policies())))
@settings(max_examples=SOME)
@given(data=st.data(), seed=st.integers(0, 9))
def test_no_policy_exceeds_the_optimum(policy: str, data: st.DataObject, seed: int) -> None:
    case = whole(data.draw(cases("equality", budget=True, ordered=True)))
    case = case.with_spec(policy=policy, seed=seed)
    if COMPILED and policy in RARE_POLICIES:
        case = case.with_spec(index="hash", ties="arrival")
    assume(not is_hopeless(case.spec))
    stats = replay(case).stats
    assert stats["rows_out"] <= best_of(case, objective="size").size
    most = best_of(case).importance
    assert stats["importance_out"] <= most * (1 + 1e-9)
    if policy in FORGET_ONLY_IF_FULL:
        least = best_of(case, objective="least-importance", method="dp").importance
        assert stats["importance_out"] >= least * (1 - 1e-9)


# --- input that cannot be solved ---------------------------------------------------------


@pytest.mark.nojit
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": "flw"}, "method 'flw' is not known; did you mean 'flow'"),
        ({"objective": "sizes"}, "objective 'sizes' is not known; did you mean 'size'"),
        ({"weights": lambda results: [1.0]}, "one finite number for each result"),
        ({"weights": lambda results: -np.ones(results.num_rows), "method": "dp"}, "use method"),
    ],
)
def test_options_that_are_wrong(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(tg.TidegateError, match=sentence):
        tg.optimum(ojewole_tables(), ojewole_spec(memory=4), **options)


@pytest.mark.nojit
def test_specs_that_cannot_be_solved() -> None:
    with pytest.raises(tg.TidegateError, match="is in bytes; the optimum needs a number"):
        tg.optimum(ojewole_tables(), ojewole_spec(memory="1 MB"))
    with pytest.raises(tg.TidegateError, match="the streams given are 'r'"):
        tg.optimum({"r": ojewole_tables()["r"]}, ojewole_spec(memory=4))
