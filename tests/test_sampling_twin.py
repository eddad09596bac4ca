"""The twin of the sampling policies is itself right: its estimates have no bias, its sample is
uniform where it says so.

Law: over many seeds the mean of the estimated count is the true count, with repeated keys, skew,
drift and evictions that a small memory forces. The rows of a uniform sample are included equally
often and independently of each other.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations
from typing import Any

import naive
import numpy as np
import pytest
from naive_sampling import SampledJoin

from tidegate.spec import JoinSpec, Policy

ROWS = 30


def streams(drift: bool) -> dict[str, list[dict[str, int]]]:
    rng = np.random.default_rng(5)
    shares = 1.0 / np.arange(1, 6) ** 1.5
    tables = {}
    for name in ("left", "right"):
        keys = rng.choice(5, ROWS, p=shares / shares.sum())
        if drift:
            keys = (keys + np.arange(ROWS) // 10) % 5
        times = np.sort(rng.integers(0, 40, ROWS))
        tables[name] = [{"t": int(t), "k": int(k)} for t, k in zip(times, keys, strict=True)]
    return tables


def totals(tables: Any, policy: Policy, seeds: int, **options: Any) -> np.ndarray:
    found = []
    for seed in range(seeds):
        spec = JoinSpec(on="k", time="t", within=12, policy=policy, seed=7919 * seed, **options)
        twin = SampledJoin(spec)
        twin.push(tables)
        assert len(twin.alive) <= spec.memory_rows
        found.append(sum(weight for _, weight in twin.weights))
    return np.array(found)


@pytest.mark.parametrize("drift", [False, True])
@pytest.mark.parametrize("split", ["shared", "even"])
@pytest.mark.parametrize("name", ["eq-cluster", "pps-cluster", "uniform"])
def test_estimates_have_no_bias(name: str, split: str, drift: bool) -> None:
    # UNIFORM is free of bias only if no tuple has more results than were expected.
    policy = Policy.of(name, **({"margin": 20.0} if name == "uniform" else {}))
    tables = streams(drift)
    truth = len(naive.join(tables, JoinSpec(on="k", time="t", within=12)).pairs)
    found = totals(tables, policy, 200, memory=8, split=split)
    assert found.std() > 0
    assert abs(found.mean() - truth) < 3 * found.std() / math.sqrt(len(found))


def test_expecting_too_few_matches_biases_uniform() -> None:
    tables = streams(drift=False)
    truth = len(naive.join(tables, JoinSpec(on="k", time="t", within=12)).pairs)
    found = totals(tables, Policy.of("uniform", margin=0.0), 200, memory=8, split="shared")
    assert found.mean() < truth - 4 * found.std() / math.sqrt(len(found))


def test_uniform_means_uniform_and_independent() -> None:
    tables = streams(drift=False)
    exact = naive.join(tables, JoinSpec(on="k", time="t", within=12)).pairs
    seeds, p = 600, 0.3
    rows: Counter[Any] = Counter()
    pairs: Counter[Any] = Counter()
    policy = Policy.of("uniform", margin=20.0, fraction=p)
    watched = exact[:: max(1, len(exact) // 12)]
    for seed in range(seeds):
        spec = JoinSpec(
            on="k", time="t", within=12, policy=policy, seed=seed, memory=1000, split="shared"
        )
        twin = SampledJoin(spec)
        twin.push(tables)
        assert {weight for _, weight in twin.weights} <= {1 / p}
        included = {row for row, _ in twin.weights}
        rows.update(included)
        pairs.update(combinations([row for row in watched if row in included], 2))
    chi_square = sum((rows[row] - seeds * p) ** 2 / (seeds * p * (1 - p)) for row in exact)
    assert abs(chi_square - len(exact)) < 4 * math.sqrt(2 * len(exact))
    both = list(combinations(watched, 2))
    spread = sum((pairs[b] - seeds * p**2) ** 2 / (seeds * p**2 * (1 - p**2)) for b in both)
    # Pairs share rows, so their numbers vary together; the bound allows for it.
    assert abs(spread - len(both)) < 6 * math.sqrt(2 * len(both))
