"""A budget that changes while an engine runs.

Law: after `resize(M)` the engine retains at most M, the twin retains the same rows, every row is
accounted for, and the engine is the one that its snapshot restores.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from contracts import Case, Push, check_conservation, results_of
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import SMALL
from test_byte_budget import smallest, stream
from test_policies import POLICIES, check_victims, retained, shed_cases
from tries import examples

import tidegate as tg
from tidegate.engine import resizing
from tidegate.spec.policy import is_sampling
from tidegate.state import shed_arrays

SOME = examples(1 / 10, at_least=6)


@st.composite
def resized_cases(draw: st.DrawFn, policy: Any) -> tuple[Case, list[int]]:
    """A case whose split follows the memory, and the budgets after its pushes."""
    case = draw(shed_cases(policy, SMALL))
    if case.spec.split_rows is not None:
        case = case.with_spec(split="even")
    budgets = st.lists(st.integers(0, 10), min_size=1, max_size=len(case.pushes))
    return case, draw(budgets)


@pytest.mark.nojit
@pytest.mark.parametrize("name", sorted(POLICIES))
@settings(max_examples=SOME)
@given(data=st.data())
def test_resized_engine_equals_twin(name: str, data: st.DataObject) -> None:
    policy = data.draw(st.sampled_from(POLICIES[name]))
    check_victims(*data.draw(resized_cases(policy)))


def rows(rng: np.random.Generator, stream: str, count: int, first: int, keys: int) -> pa.Table:
    number = np.arange(first, first + count)
    drawn = rng.zipf(1.3, count) % keys
    return pa.table({"ts": number // 2, "k1": drawn, f"row_{stream}": number})


def long_case(spec: tg.JoinSpec, pushes: int = 8, count: int = 60, keys: int = 12) -> Case:
    """Enough tuples for monitors, scores and age curves to mean something."""
    rng = np.random.default_rng(7)
    parts = [
        Push({name: rows(rng, name, count, count * n, keys) for name in spec.streams}, None)
        for n in range(pushes)
    ]
    return Case(spec, tuple(parts))


SPEC = tg.JoinSpec(on="k1", time="ts", within=60, memory=80)


@pytest.mark.parametrize("policy", ["age", "value", "dgl", "prob", "random"])
@pytest.mark.parametrize("split", ["even", "auto"])
def test_monitors_and_scores_follow(policy: str, split: str) -> None:
    """From 80 tuples, some of them monitors, to 3, and back to more than the windows hold."""
    parameters = {"decay": 0.5, "gain": 0.25} if policy == "dgl" else {}
    spec = SPEC.replace(policy=getattr(tg, policy)(**parameters), split=split)
    check_victims(long_case(spec), [80, 40, 3, 0, 90, 400, 30])


def replay(engine: tg.JoinEngine, case: Case, budgets: list[Any]) -> list[Any]:
    """Results push by push; every budget is kept from the moment it is set."""
    found = []
    for push, budget in zip(case.pushes, budgets, strict=True):
        found.append(results_of(engine.push(push.tables), case.spec))
        if budget is not None:
            engine.resize(budget)
            stats, spec = engine.stats(), engine.spec
            assert stats["memory_rows"] <= (spec.memory_rows or 10**9)
            assert stats["memory_bytes"] <= (spec.memory_bytes or 10**12)
            check_conservation(stats, spec.streams)
    return found


@pytest.mark.parametrize("policy", tg.policies())
def test_every_policy_keeps_the_budget_and_restores(policy: str) -> None:
    """With a snapshot after each resize nothing changes; nor does it when all is repeated."""
    case = long_case(SPEC.replace(policy=policy))
    budgets = [None, 30, None, 9, 50, 120, None, 20]
    through, again = tg.JoinEngine(case.spec), tg.JoinEngine(case.spec)
    found = replay(through, case, budgets)
    assert found == replay(again, case, budgets)
    assert through.snapshot() == again.snapshot()
    engine = tg.JoinEngine(case.spec)
    for push, budget, expected in zip(case.pushes, budgets, found, strict=True):
        assert results_of(engine.push(push.tables), case.spec) == expected
        if budget is not None:
            engine.resize(budget)
        engine = tg.JoinEngine.restore(engine.snapshot())
    assert retained(engine) == retained(through)
    exact = replay(tg.JoinEngine(SPEC.replace(memory=None)), case, [None] * 8)
    for ours, all_of_them in zip(found, exact, strict=True):
        assert {pair for pair, *_ in ours} <= {pair for pair, *_ in all_of_them}
    assert through.stats()["evicted"] > 0


@pytest.mark.parametrize("policy", tg.policies())
def test_budgets_in_bytes(policy: str) -> None:
    rng = np.random.default_rng(5)
    spec = tg.JoinSpec(on="k", time="t", within=200, importance="v", policy=policy)
    least = smallest(spec)
    engine = tg.JoinEngine(spec.replace(memory=f"{least + 400_000} B"))
    kept = []
    for number, more in enumerate((400_000, 60_000, 2_000, 150_000, 1_000_000)):
        table = stream(rng, 400, 900)
        table = table.set_column(
            0, "t", pa.array(np.sort(rng.integers(0, 100, 400)) + 100 * number)
        )
        engine.push({"left": table, "right": table})
        budget = least + more
        engine.resize(f"{budget} B")
        stats = engine.stats()
        assert stats["memory_bytes"] <= budget == engine.spec.memory_bytes
        check_conservation(stats, engine.spec.streams)
        restored = tg.JoinEngine.restore(engine.snapshot())
        assert restored.stats()["memory_rows"] == stats["memory_rows"]
        assert restored.stats()["memory_bytes"] <= budget
        kept.append(stats["memory_rows"])
    assert kept[0] > kept[1] > kept[2]
    # The last push came into a larger budget; a sample that was thinned out stays thin.
    assert kept[4] > kept[2] or is_sampling(spec.policy_choice)


def test_n_streams_and_other_indexes() -> None:
    case = long_case(SPEC.replace(streams=("a", "b", "c"), policy="prob"), pushes=4)
    replay(tg.JoinEngine(case.spec), case, [30, 5, 60, 10])
    for on, index in ((tg.band("k1", 0, 1), "btree"), ("k1", "nested-loop")):
        case = long_case(SPEC.replace(on=on, index=index, policy="recent"), pushes=4)
        budgets = [30, 5, 60, 10]
        found = replay(tg.JoinEngine(case.spec), case, budgets)
        plain = case.with_spec(index="nested-loop")
        by_scan = replay(tg.JoinEngine(plain.spec), plain, budgets)
        assert [set(push) for push in found] == [set(push) for push in by_scan]


def test_a_log_that_does_not_fit_becomes_a_sketch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under 100 tuples windows are counted tuple by tuple here, above it in a sketch."""
    monkeypatch.setattr(shed_arrays, "MOST_WITH_LOG", 100)
    case = long_case(SPEC.replace(policy="prob"))
    engine = tg.JoinEngine(case.spec)
    replay(engine, case, [None, 150, None, 150, 60, None, 40, None])
    assert engine.stats()["memory_rows"] <= 40
    restored = tg.JoinEngine.restore(engine.snapshot())
    assert retained(restored) == retained(engine)


def test_rare_keys_that_do_not_fit_are_forgotten() -> None:
    learned = {
        "rare.marks": {"kind": "<u4", "data": np.array([5, 6, 7, 8], "<u4").tobytes()},
        "rare.tallies": {
            "kind": "<u2", "data": np.array([[16, 0], [0, 64], [32, 8], [1, 1]], "<u2").tobytes()
        },
        "rare.lines": {"kind": "<i8", "data": np.array([8], "<i8").tobytes()},
    }  # fmt: skip
    resizing._cut_rare(learned, 4)
    assert np.frombuffer(learned["rare.marks"]["data"], "<u4").tolist() == [5, 6, 7]
    assert np.frombuffer(learned["rare.tallies"]["data"], "<u2").tolist() == [16, 0, 0, 64, 32, 8]
    assert np.frombuffer(learned["rare.lines"]["data"], "<i8").tolist() == [4]


def test_shadows_that_do_not_fit_are_thinned_out() -> None:
    draws = np.arange(8, dtype="<u4")
    learned = {
        "shadows.every": {"kind": "<i8", "data": np.array([1], "<i8").tobytes()},
        "shadows.0.draw": {"kind": "<u4", "data": draws.tobytes()},
        "shadows.0.mark": {"kind": "<u4", "data": (draws + 10).tobytes()},
    }
    resizing._cut_shadows(learned, 3)
    assert np.frombuffer(learned["shadows.every"]["data"], "<i8").tolist() == [4]
    assert np.frombuffer(learned["shadows.0.mark"]["data"], "<u4").tolist() == [10, 14]


def test_refusals() -> None:
    table = pa.table({"ts": [1, 2], "k1": [1, 2]})
    engine = tg.JoinEngine(SPEC)
    engine.push({"left": table})
    before = engine.snapshot()
    for memory, words in (
        ("2 MB", "not in the unit of this join; give tuples"),
        (None, "not in the unit of this join"),
        (-1, "is negative"),
    ):
        with pytest.raises(tg.TidegateError, match=words):
            engine.resize(memory)  # type: ignore[arg-type]
    assert engine.snapshot() == before
    with pytest.raises(tg.TidegateError, match="no budget that could change"):
        tg.JoinEngine(SPEC.replace(memory=None)).resize(5)
    with pytest.raises(tg.TidegateError, match="fixes the tuples of each stream"):
        tg.JoinEngine(SPEC.replace(split=(40, 40))).resize(5)
    with pytest.raises(tg.TidegateError, match="sets the memory of this join"):
        tg.JoinEngine(SPEC.replace(memory=900, target="recall >= 0.9")).resize(500)
    with pytest.raises(tg.TidegateError, match="room for 0 tuples"):
        tg.JoinEngine(SPEC.replace(memory=500, sentinel=0.1)).resize(5)
    by_bytes = tg.JoinEngine(SPEC.replace(memory="3 MB", policy="prob"))
    by_bytes.push({"left": table})
    before = by_bytes.snapshot()
    with pytest.raises(tg.TidegateError, match="too small for policy"):
        by_bytes.resize("1 KB")
    assert by_bytes.snapshot() == before
