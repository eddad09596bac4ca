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


SEEDS, SHARE = 600, 0.3


def included_rows(policy: Policy, memory: int) -> tuple[list[Any], list[set[Any]]]:
    """All results, and for each seed those that are in the sample."""
    tables = streams(drift=False)
    exact = naive.join(tables, JoinSpec(on="k", time="t", within=12)).pairs
    samples = []
    for seed in range(SEEDS):
        spec = JoinSpec(
            on="k", time="t", within=12, policy=policy, seed=seed, memory=memory, split="shared"
        )
        twin = SampledJoin(spec)
        twin.push(tables)
        samples.append({row for row, _ in twin.weights})
    return exact, samples


def excess(exact: list[Any], samples: list[set[Any]], share: float) -> tuple[float, float]:
    """Chi-square of results and of pairs of them, how far above their means, in their deviations.

    Pairs share rows, so their numbers vary together; the bounds below allow for it.
    """
    rows = Counter(row for sample in samples for row in sample)
    of_rows = sum((rows[r] - SEEDS * share) ** 2 / (SEEDS * share * (1 - share)) for r in exact)
    watched = exact[:: max(1, len(exact) // 12)]
    pairs = Counter(b for s in samples for b in combinations([r for r in watched if r in s], 2))
    both, p = list(combinations(watched, 2)), share**2
    of_pairs = sum((pairs[b] - SEEDS * p) ** 2 / (SEEDS * p * (1 - p)) for b in both)
    found = [
        (chi_square - count) / math.sqrt(2 * count)
        for chi_square, count in ((of_rows, len(exact)), (of_pairs, len(both)))
    ]
    return found[0], found[1]


def test_uniform_means_uniform_and_independent() -> None:
    policy = Policy.of("uniform", margin=20.0, fraction=SHARE)
    of_rows, of_pairs = excess(*included_rows(policy, memory=1000), SHARE)
    assert abs(of_rows) < 4
    assert abs(of_pairs) < 6


def test_clusters_are_neither() -> None:
    """The same numbers tell a sample that is not uniform, and one that is not independent."""
    exact, samples = included_rows(Policy.of("eq-cluster"), memory=8)
    share = sum(map(len, samples)) / SEEDS / len(exact)
    of_rows, of_pairs = excess(exact, samples, share)
    assert of_rows > 20
    assert of_pairs > 20
