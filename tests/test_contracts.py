"""Every policy, split and index keeps the contracts of `contracts.py`.

The law: a new policy joins these tests by its name alone (`tg.policies()`); nobody has to remember
to write them.
"""

from __future__ import annotations

import os
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
    check_repeatable,
    check_snapshot,
    check_subset,
    replay,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import RULES, cases

import tidegate as tg

EXAMPLES = int(os.environ.get("TIDEGATE_EXAMPLES", settings().max_examples))
SOME, FEW = (max(2, EXAMPLES // part) for part in (3, 30))

POLICIES = sorted(tg.policies())
SPLITS = ("even", "shared", "auto", "tuples", "shares")
INDEXES = {
    "nested-loop": sorted(RULES),
    "hash": ["equality", "several_keys"],
    "btree": ["equality", "numeric_band", "several_keys", "time_band", "timestamp_band"],
    "ttree": ["equality", "numeric_band", "several_keys", "time_band", "timestamp_band"],
    "inverted": ["overlap"],
}

every_policy = pytest.mark.parametrize("policy", POLICIES)
every_split = pytest.mark.parametrize("split", SPLITS)
every_index = pytest.mark.parametrize("index", sorted(INDEXES))


@st.composite
def shedding(
    draw: st.DrawFn, policy: str, split: str, ordered: bool = False, memory: int | None = None
) -> Case:
    """A case of any rule under a small budget, or the given one."""
    case = draw(cases(draw(st.sampled_from(sorted(RULES))), ordered=ordered))
    total = draw(st.integers(0, 8)) if memory is None else memory
    given: Any = split
    if split == "tuples":
        first = draw(st.integers(0, total)) if memory is None else total // 2
        given = {"left": first, "right": total - first}
    if split == "shares":
        given = {"left": 0.25, "right": 0.75}
    seed = draw(st.integers(0, 3))
    return case.with_spec(memory=total, split=given, policy=policy, seed=seed)


@every_split
@every_policy
@settings(max_examples=FEW)
@given(data=st.data())
def test_budget_is_never_exceeded(policy: str, split: str, data: st.DataObject) -> None:
    check_budget(data.draw(shedding(policy, split)))


@every_split
@every_policy
@settings(max_examples=FEW)
@given(data=st.data())
def test_output_is_a_subset_and_rows_are_conserved(
    policy: str, split: str, data: st.DataObject
) -> None:
    case = data.draw(shedding(policy, split))
    check_subset(case)
    check_conservation(replay(case).stats, case.spec.streams)


@every_split
@every_policy
@settings(max_examples=FEW)
@given(data=st.data())
def test_same_seed_same_output(policy: str, split: str, data: st.DataObject) -> None:
    check_repeatable(data.draw(shedding(policy, split)))


@every_split
@every_policy
@settings(max_examples=FEW)
@given(data=st.data())
def test_any_cut_between_two_times_gives_the_same_output(
    policy: str, split: str, data: st.DataObject
) -> None:
    check_cuts(data.draw(shedding(policy, split, ordered=True)))


@every_split
@every_policy
@settings(max_examples=FEW)
@given(data=st.data())
def test_snapshot_and_restore_change_nothing(policy: str, split: str, data: st.DataObject) -> None:
    case = data.draw(shedding(policy, split))
    check_snapshot(case, after=data.draw(st.integers(0, len(case.pushes))))


@every_split
@every_policy
@settings(max_examples=FEW)
@given(data=st.data())
def test_a_budget_above_the_windows_is_the_exact_join(
    policy: str, split: str, data: st.DataObject
) -> None:
    # A quarter, the smallest share, still holds all rows a stream can have.
    check_ample_budget(data.draw(shedding(policy, split, memory=64)))


@pytest.mark.nojit
@every_index
@settings(max_examples=FEW)
@given(data=st.data())
def test_every_index_keeps_the_contracts(index: str, data: st.DataObject) -> None:
    case = data.draw(cases(data.draw(st.sampled_from(INDEXES[index])), ordered=True))
    case = case.with_spec(index=index)
    check_cuts(case)
    check_snapshot(case, after=data.draw(st.integers(0, len(case.pushes))))
    check_repeatable(case)
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
