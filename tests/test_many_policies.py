"""Under a budget n streams lose the tuples that the slow twins lose, one by one.

Law: who is evicted or refused, in which order, every result and the account of all rows are those
of the twin of `naive_many_policies`; so are they across snapshots. Budgets in bytes hold, and with
room for everything the join is the exact one. Weights and decays are powers of two: no rounding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from many_cases import ManyCase, many_case, names_of
from many_runs import Feeder, Found, Reporting, check_victims, found_in
from naive_many import Push, Shedding, definition
from naive_many_policies import (
    Additive,
    Age,
    AutoSplit,
    Cumulative,
    Frequency,
    Multiplicative,
    Output,
    Recent,
    Simp,
    UntilExpiry,
    WeighedAtArrival,
    WeighedFrequency,
)
from naive_many_policies import (
    Random as RandomTwin,
)
from naive_prospects import Value
from tries import examples

import tidegate as tg

SEEDS = st.integers(0, 2**32)
DYADIC = {"decay": 0.5, "gain": 0.25}
CURVE = (1, 0, 2, 1)
FORM = {"alpha": 2.0, "beta": 0.5}

# Name: policy of the spec, its twin, what its priorities count (for `split="auto"`).
POLICIES: dict[str, tuple[Any, Callable[[], Shedding], str]] = {
    "recent": ("recent", Recent, "nothing"),
    "until-expiry": ("until-expiry", UntilExpiry, "nothing"),
    "simp": ("simp", Simp, "importance"),
    "random": ("random", RandomTwin, "nothing"),
    "output": ("output", Output, "nothing"),
    "prob": ("prob", Frequency, "matches"),
    "prob-retained": (tg.prob(statistics="retained"), lambda: Frequency("retained"), "matches"),
    "simpprob": ("simpprob", WeighedAtArrival, "matches"),
    "simpprob-retained": (
        tg.simpprob(statistics="retained"), lambda: WeighedAtArrival("retained"), "matches"
    ),
    "dimpprob": ("dimpprob", WeighedFrequency, "matches"),
    "dimpprob-retained": (
        tg.dimpprob(statistics="retained"), lambda: WeighedFrequency("retained"), "matches"
    ),
    "dgl": (tg.dgl(**DYADIC), lambda: Cumulative(1.0, 0.25, 0.5), "nothing"),
    "dgl-retained": (
        tg.dgl(**DYADIC, statistics="retained"),
        lambda: Cumulative(1.0, 0.25, 0.5, "retained"),
        "nothing",
    ),
    "cumulative": (
        tg.priority("cumulative", alpha=2.0, beta=0.5, delta=0.25),
        lambda: Cumulative(2.0, 0.5, 0.25),
        "nothing",
    ),
    "additive": (
        tg.priority("additive", **FORM, delta=1.0), lambda: Additive(2.0, 0.5, 1.0), "nothing"
    ),
    "multiplicative": (
        tg.priority("multiplicative", alpha=2.0, beta=1.0, delta=1.0),
        lambda: Multiplicative(2.0, 1.0, 1.0),
        "nothing",
    ),
    "age": (tg.age(curve=CURVE, bucket=2), lambda: Age(CURVE, 2), "age"),
    "value": ("value", Shedding, "age"),
}  # fmt: skip

every_policy = pytest.mark.parametrize("name", sorted(POLICIES))


def planned(case: ManyCase, name: str) -> tuple[ManyCase, Shedding]:
    """The case under a policy, and its twin."""
    given_policy, twin, currency = POLICIES[name]
    spec = case.spec.replace(policy=given_policy)
    made = Value(spec) if name == "value" else twin()
    policy = AutoSplit(made, currency) if spec.split == "auto" else made
    return ManyCase(spec, case.pushes), policy


def budget_case(seed: int, streams: int, ties: Any, **options: Any) -> ManyCase:
    rows = {3: 10, 4: 6, 5: 4}[streams]  # their product is what the twin enumerates
    return many_case(seed, streams, rows=rows, budget=True, ties=ties, **options)


@pytest.mark.nojit
@pytest.mark.parametrize("ties", ["arrival", "instant"])
@every_policy
@settings(deadline=None, max_examples=examples(1 / 5))
@given(seed=SEEDS, streams=st.integers(3, 5))
def test_victims_are_those_of_the_twin(name: str, ties: Any, seed: int, streams: int) -> None:
    check_victims(*planned(budget_case(seed, streams, ties), name))


@every_policy
@settings(deadline=None, max_examples=examples(1 / 8))
@given(seed=SEEDS, streams=st.integers(3, 5), ties=st.sampled_from(["arrival", "instant"]))
def test_memory_shared_out_by_what_streams_earn(
    name: str, seed: int, streams: int, ties: Any
) -> None:
    check_victims(*planned(budget_case(seed, streams, ties, split="auto"), name))


@every_policy
@settings(deadline=None, max_examples=examples(1 / 8))
@given(seed=SEEDS, streams=st.integers(3, 4), ties=st.sampled_from(["arrival", "instant"]))
def test_snapshots_keep_the_victims(name: str, seed: int, streams: int, ties: Any) -> None:
    check_victims(*planned(budget_case(seed, streams, ties), name), Random(seed))


@pytest.mark.parametrize("ties", ["arrival", "instant"])
@every_policy
def test_longer_streams(name: str, ties: Any) -> None:
    """More plans, more results that change what is worth keeping, and fuller queues."""
    for seed in range(3):
        split = ("even", "auto", "shared")[seed]
        options = {"memory": 30, "split": split, "ties": ties, "within": 12, "lateness": seed}
        case = many_case(seed, 3, rows=70, budget=True, **options)
        case = ManyCase(case.spec, tuple(map(stretched, case.pushes)))
        assert len(check_victims(*planned(case, name)).victims) > 10


def test_value_while_evidence_fades() -> None:
    """More tuples than a fading needs, in ten windows; restored now and then."""
    options = {"memory": 24, "split": "even", "ties": "arrival", "within": 9, "lateness": 0}
    case = many_case(1, 3, rows=200, budget=True, importance="weight", **options)
    case = ManyCase(case.spec, tuple(map(stretched, case.pushes)))
    case, policy = planned(case, "value")
    check_victims(case, policy, Random(1))
    assert isinstance(policy, Value)
    assert policy.weight < sum(len(rows) for push in case.pushes for rows in push.tables.values())


@pytest.mark.nojit
def test_value_of_nine_streams() -> None:
    """Places are told apart by the number of streams that hold a key."""
    victims = 0
    for seed in range(6):
        case = many_case(seed, 9, rows=3, budget=True, memory=7, split="shared", within=6)
        victims += len(check_victims(*planned(case, "value")).victims)
    assert victims > 10


def stretched(push: Push) -> Push:
    """The same rows at more moments; many are equal."""
    tables = {
        name: [
            row | {"ts": None if row["ts"] is None else 4 * row["ts"] + at % 4}
            for at, row in enumerate(rows)
        ]
        for name, rows in push.tables.items()
    }
    return Push(tables, None)


# --- contracts ---------------------------------------------------------------------------


@every_policy
def test_room_for_everything_is_the_exact_join(name: str) -> None:
    for seed in range(10):
        case = many_case(seed, 3, rows=8, memory=1000, split=("even", "shared", "auto")[seed % 3])
        case, _ = planned(case, name)
        engine, feeder = Reporting(case.spec), Feeder(case.spec)
        found: Found = []
        for push in case.pushes:
            table = engine.push(feeder.tables(push), watermark=push.watermark)
            found += found_in(case.spec, table)
        expected = definition(case.spec, case.pushes)
        assert Counter(found) == Counter((r.rows, r.importance) for r in expected)
        assert not engine.victims


def long_tables(streams: int, rows: int, keys: int) -> dict[str, pa.Table]:
    random = np.random.default_rng(5)
    return {
        name: pa.table(
            {
                "ts": np.sort(random.integers(0, rows, rows)),
                "k0": random.integers(0, keys, rows).astype(np.float64),
                "row": np.arange(rows),
                "text": pa.array([f"{number:>40}" for number in range(rows)]),
            }
        )
        for name in names_of(streams)
    }


@pytest.mark.parametrize("split", ["even", "shared", "auto"])
@pytest.mark.parametrize("name", ["random", "prob", "output", "dgl", "age", "recent", "value"])
def test_budgets_in_bytes_hold(name: str, split: str) -> None:
    tables = long_tables(4, 3000, 300)
    memory = 400_000
    spec = LONG.replace(memory=f"{memory} B", split=split, policy=POLICIES[name][0])
    engine = tg.JoinEngine(spec)
    found = []
    for begin in range(0, 3000, 100):
        found.append(engine.push({n: t.slice(begin, 100) for n, t in tables.items()}))
        assert engine.stats()["memory_bytes"] <= memory
    stats = engine.stats()
    assert stats["evicted"] + stats["refused"] > 0
    shed, exact = combinations(pa.concat_tables(found)), exact_combinations()
    assert 0 < sum(shed.values()) < sum(exact.values())
    assert not shed - exact


LONG = tg.JoinSpec(on="k0", time="ts", within=2000, streams=names_of(4))


def combinations(table: pa.Table) -> Counter[tuple[int, ...]]:
    names = ["row", *(f"row_{s}" for s in names_of(4)[1:])]
    return Counter(zip(*(table[n].to_pylist() for n in names), strict=True))


@cache
def exact_combinations() -> Counter[tuple[int, ...]]:
    return combinations(tg.join(long_tables(4, 3000, 300), LONG).table)


def test_what_is_not_built_is_refused() -> None:
    policy = tg.value(frequencies={"s1": {1: 0.5}})
    spec = tg.JoinSpec(on="k", time="t", within=5, streams=names_of(3), memory=9, policy=policy)
    with pytest.raises(tg.TidegateError, match="learns all it needs, and frequencies is for two"):
        tg.JoinEngine(spec)
