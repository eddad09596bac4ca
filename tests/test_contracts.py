"""Every policy, split and index keeps the contracts of `contracts.py`.

The law: a new policy joins these tests by its name alone (`tg.policies()`); nobody has to remember
to write them.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from contracts import (
    Case,
    check_ample_budget,
    check_budget,
    check_conservation,
    check_cuts,
    check_failing_push_changes_nothing,
    check_snapshot,
    check_subset,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import RULES, cases, cases_for, is_hopeless, with_marks
from tries import examples

import tidegate as tg
from tidegate.shed.recipes import recipe_of
from tidegate.spec.options import Policy

SOME, PER_POLICY, FEW = examples(1 / 3), examples(1 / 6), examples(1 / 15)

POLICIES = sorted(set(tg.policies()) - {"auto"})  # see `test_auto_is_value`
SPLITS = ("even", "shared", "auto", "tuples", "shares")
INDEXES = {
    "nested-loop": sorted(RULES),
    "hash": ["equality", "several_keys"],
    "btree": ["equality", "numeric_band", "several_keys", "time_band", "timestamp_band"],
    "ttree": ["equality", "numeric_band", "several_keys", "time_band", "timestamp_band"],
    "inverted": ["overlap"],
}

every_policy = pytest.mark.parametrize("policy", with_marks(POLICIES))
every_index = pytest.mark.parametrize("index", sorted(INDEXES))


@st.composite
def shedding(draw: st.DrawFn, policy: str, ordered: bool = False) -> Case:
    """A case of any rule under a small budget, split in any way."""
    split = draw(st.sampled_from(SPLITS))
    case = draw(cases_for(policy, ordered))
    total = draw(st.integers(0, 8))
    given: Any = split
    if split == "tuples":
        first = draw(st.integers(0, total))
        given = {"left": first, "right": total - first}
    if split == "shares":
        given = {"left": 0.25, "right": 0.75}
    seed = draw(st.integers(0, 3))
    shed = case.with_spec(memory=total, split=given, policy=policy, seed=seed)
    assume(not is_hopeless(shed.spec))
    return shed


@every_policy
@settings(max_examples=PER_POLICY)
@given(data=st.data())
def test_contracts_in_any_order(policy: str, data: st.DataObject) -> None:
    """Budget, subset, conservation, snapshots; out of order too."""
    case = data.draw(shedding(policy))
    check_budget(case)
    shed = check_subset(case)
    check_conservation(shed.stats, case.spec.streams)
    check_snapshot(case, data.draw(st.integers(0, len(case.pushes))), shed)


@every_policy
@settings(max_examples=PER_POLICY)
@given(data=st.data())
def test_contracts_in_order_of_time(policy: str, data: st.DataObject) -> None:
    """Any cut between two times gives the same; a budget above the windows is the exact join."""
    case = data.draw(shedding(policy, ordered=True))
    check_cuts(case)
    # A quarter, the smallest share, still holds all rows a stream can have.
    ample = {"left": 32, "right": 32} if case.spec.split_rows else case.spec.split
    check_ample_budget(case.with_spec(memory=64, split=ample))


def test_auto_is_value() -> None:
    """So what is shown for the one is shown for the other."""
    assert "auto" in tg.policies()
    assert recipe_of(Policy.of("auto")) == recipe_of(Policy.of("value"))


@pytest.mark.nojit
@every_index
@settings(max_examples=FEW)
@given(data=st.data())
def test_every_index_keeps_the_contracts(index: str, data: st.DataObject) -> None:
    case = data.draw(cases(data.draw(st.sampled_from(INDEXES[index])), ordered=True))
    case = case.with_spec(index=index)
    check_cuts(case)
    check_snapshot(case, after=data.draw(st.integers(0, len(case.pushes))))
    shed = case.with_spec(memory=data.draw(st.integers(0, 8)), policy="recent", split="even")
    check_budget(shed)
    check_subset(shed)


@pytest.mark.nojit
@settings(max_examples=SOME)
@given(data=st.data())
def test_a_failing_push_changes_nothing(data: st.DataObject) -> None:
    check_failing_push_changes_nothing(data.draw(cases(data.draw(st.sampled_from(sorted(RULES))))))


def kept_by_chance(seed: int) -> frozenset[int]:
    """Of 64 tuples on the left that all match, the four that a last tuple still meets."""
    split = {"left": 4, "right": 0}
    spec = tg.JoinSpec(
        on="k", time="ts", within=100, memory=4, split=split, policy="random", seed=seed
    )
    left = pa.table({"row_left": range(64), "ts": range(64), "k": [1] * 64})
    right = pa.table({"row_right": [0], "ts": [64], "k": [1]})
    result = tg.join({"left": left, "right": right}, spec)
    return frozenset(result.table.column("row_left").to_pylist())


@pytest.mark.nojit
def test_the_random_policy_depends_on_its_seed_only() -> None:
    kept = [kept_by_chance(seed) for seed in range(10)]
    assert kept == [kept_by_chance(seed) for seed in range(10)]
    assert all(len(rows) == 4 for rows in kept)
    assert len(set(kept)) > 5
