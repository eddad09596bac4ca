"""Samples of joins of n streams: row for row those of their twin, without bias.

Law: the weight of a result is the product of those of its retained tuples, and the mean of the
estimates over all that tuples can draw is the truth. Victims, results and accounts are the twin's.
"""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from many_cases import ManyCase, many_case, names_of
from many_runs import Feeder, Reporting
from naive import capacity_of
from naive_many import ManyJoin
from naive_many_sampling import Cluster
from naive_sampling import CERTAIN
from standalone import Standalone
from strategies import only_plain
from tries import examples

import tidegate as tg
from tidegate.sample import tags
from tidegate.sample.waiting import waiting
from tidegate.shed import sampling_many

parts = Standalone(sampling_many)
POLICIES = ("eq-cluster", "pps-cluster")
ROUNDED = 2.0**-10  # of a weight the last bits are a tag: more of them the more tuples it names


def can_sample(spec: tg.JoinSpec) -> bool:
    """Can each of its results be retained?"""
    waits = [stream for stream, waits in enumerate(waiting(spec)) if waits]
    if spec.split in ("shared", "auto"):
        return capacity_of(spec, 0) >= min(len(waits), len(spec.streams) - 1)
    return all(capacity_of(spec, stream) >= 1 for stream in waits)


def check(case: ManyCase, policy: str, restarts: Random | None = None) -> Cluster | None:
    """Engine and twin have the same results, weights, victims and accounts."""
    spec = case.spec.replace(policy=policy)
    if not can_sample(spec):
        with pytest.raises(tg.TidegateError, match="memory"):
            Reporting(spec)
        return None
    engine = Reporting(spec)
    sampled = Cluster(by_size=policy == "pps-cluster")
    feeder, twin = Feeder(spec), ManyJoin(spec, sampled)
    for push in case.pushes:
        done = len(sampled.weights)
        table = engine.push(feeder.tables(push), watermark=push.watermark)
        twin.push(*push)
        names = ["row", *(f"row_{name}" for name in spec.streams[1:])]
        rows = list(zip(*(table.column(name).to_pylist() for name in names), strict=True))
        found = sorted(zip(rows, table.column("_weight").to_pylist(), strict=True))
        expected = sorted(sampled.weights[done:])
        assert [r for r, _ in found] == [r for r, _ in expected]
        assert [w for _, w in found] == pytest.approx([w for _, w in expected], rel=ROUNDED)
        certain = [[w if w <= CERTAIN else 0.0 for _, w in each] for each in (found, expected)]
        assert certain[0] == certain[1]
        assert engine.victims == twin.victims
        if restarts is not None and restarts.random() < 0.5:
            engine = engine.again()
    stats = engine.stats()
    for name, number in twin.stats().items():
        assert stats[name] == pytest.approx(number), name
    total = sum(weight for _, weight in sampled.weights)
    assert stats["rows_estimated"] == pytest.approx(total, rel=ROUNDED)
    return sampled


@pytest.mark.nojit
@pytest.mark.parametrize("ties", ["arrival", pytest.param("instant", marks=only_plain)])
@pytest.mark.parametrize("policy", POLICIES)
@settings(deadline=None, max_examples=examples(1 / 4))
@given(seed=st.integers(0, 2**32), streams=st.integers(3, 5))
def test_samples_are_those_of_the_twin(policy: str, ties: Any, seed: int, streams: int) -> None:
    rows = {3: 10, 4: 6, 5: 4}[streams]
    case = many_case(seed, streams, rows=rows, budget=True, ties=ties)
    check(case, policy, Random(seed) if seed % 2 else None)


def streams_of(number: int, rows: int, keys: int) -> dict[str, pa.Table]:
    rng = np.random.default_rng(number)
    shares = 1.0 / np.arange(1, keys + 1)
    return {
        name: pa.table(
            {
                "t": np.sort(rng.integers(0, rows, rows)),
                "k": rng.choice(keys, rows, p=shares / shares.sum()),
                "x": rng.normal(100, 30, rows),
            }
        )
        for name in names_of(number)
    }


@pytest.mark.parametrize(
    ("number", "rows", "keys", "within", "memory", "split"),
    [(3, 40, 4, 15, 14, "even"), (4, 30, 3, 12, 16, "shared"), (5, 20, 2, 8, 20, "shared")],
)
@pytest.mark.parametrize("policy", POLICIES)
def test_estimates_have_no_bias(
    policy: str, number: int, rows: int, keys: int, within: int, memory: int, split: str
) -> None:
    """A product of probabilities is that of several tuples, over many seeds."""
    tables = streams_of(number, rows, keys)
    spec = tg.JoinSpec(on="k", time="t", within=within, streams=names_of(number))
    truth = tg.join(tables, spec).table.num_rows
    totals = []
    for seed in range(250):
        sampled = spec.replace(memory=memory, policy=policy, split=split, seed=seed)
        totals.append(tg.join(tables, sampled).stats["rows_estimated"])
    error = np.std(totals) / math.sqrt(len(totals))
    assert 0 < error < truth / 10
    assert abs(np.mean(totals) - truth) < 3 * error


@pytest.mark.parametrize(
    ("number", "policy", "rows", "memory"),
    [(3, "eq-cluster", 500, 40), (3, "pps-cluster", 800, 30), (4, "eq-cluster", 500, 70)],
)
def test_intervals_of_three_and_four_streams(
    number: int, policy: str, rows: int, memory: int
) -> None:
    """`python -m benchmarks sampling` has the coverage over 2,000 seeds."""
    tables = streams_of(number, rows, 60)
    spec = tg.JoinSpec(on="k", time="t", within=25, streams=names_of(number))
    exact = tg.join(tables, spec).table
    column = f"x_{names_of(number)[1]}"
    truths = {"count(*)": exact.num_rows, f"avg({column})": pc.mean(exact[column]).as_py()}
    samples = [
        tg.join(tables, spec.replace(memory=memory, policy=policy, seed=seed)) for seed in range(60)
    ]
    for aggregate, truth in truths.items():
        found = [row for s in samples for row in tg.estimate(s, aggregate).to_pylist()]
        known = [row for row in found if row["interval"] == "95 %"]
        assert len(known) > 0.8 * len(found)
        spread = np.std([row["estimate"] for row in known])
        # A standard deviation of 60 numbers is known to about a tenth.
        assert np.mean([row["error"] for row in known]) == pytest.approx(spread, rel=0.35)
        assert np.mean([row["low"] <= truth <= row["high"] for row in known]) > 0.85


def test_five_streams_have_estimates_without_intervals() -> None:
    tables = streams_of(5, 20, 2)
    spec = tg.JoinSpec(
        on="k", time="t", within=8, streams=names_of(5), memory=20, policy="eq-cluster"
    )
    result = tg.join(tables, spec)
    (row,) = tg.estimate(result, "count(*)").to_pylist()
    assert row["estimate"] == pytest.approx(result.stats["rows_estimated"])
    assert (row["interval"], row["low"], row["error"]) == ("unknown", None, None)


@pytest.mark.nojit
def test_tags_of_several_tuples() -> None:
    """Names and probabilities can be read from a weight, which stays what it is on average."""
    rng = np.random.default_rng(1)
    for retained, bits in ((2, 15), (3, 9)):
        off = []
        for _ in range(300):
            own = np.where(rng.random(retained) < 0.2, 1.0, 1.0 + rng.exponential(5.0, retained))
            weight = float(own.prod())
            if weight == 1.0:
                continue
            names = [int(name) for name in rng.integers(0, 2**bits, retained)]
            tag = 0.0
            for name, each in zip(names, own, strict=True):
                tag = tag * 2.0 ** (bits + 4) + parts.field_of(name, each, math.log(weight))
            marked = parts.marked(weight, 4.0 * tag + retained - 1, retained * (bits + 4) + 2)
            off.append(marked / weight - 1.0)
            found = [e for e in entries_of(marked) if e.present.all()]
            expected = [at for at in range(retained) if own[at] > 1.0]
            singles = [e for e in found if e.order == 1]
            assert [e.key[0] for e in singles] == [names[at] // 2 * 4 for at in expected]
            assert [e.sign[0] for e in singles] == [1 - 2 * (names[at] % 2) for at in expected]
            assert len(found) == 2 ** len(expected) - 1
            assert [e.main[0] for e in found] == [True] + [False] * (len(found) - 1)
            for e, at in zip(singles, expected, strict=True):
                # A fifteenth of the logarithm, half of it lost by rounding, at least one.
                least = weight ** (-1.5 / 15) / own[at], weight ** (1.5 / 15) / own[at]
                assert least[0] <= 1.0 - e.factor[0] <= least[1]
        assert np.abs(off).max() < 2.0**-10
        assert abs(np.mean(off)) < 4 * np.std(off) / math.sqrt(len(off))


def entries_of(weight: float) -> list[tags.Entry]:
    weights = np.array([weight])
    bits = tags.bits_of(tags.significand_of(weights))
    return tags.entries(weights, bits, np.floor, np.where)
