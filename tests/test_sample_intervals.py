"""Intervals of groups that are seldom known, against draws; the limits, against their equations.

Law: of the samples that have an interval, the truth is covered by 93 % or more, also where most
samples have none.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from tidegate.sample.intervals import (
    FEWEST,
    LEAST,
    Arithmetic,
    Clusters,
    _selected,
    reaches,
    student,
)

pytestmark = pytest.mark.nojit
NUMPY = Arithmetic(np.where, np.sqrt, np.exp)


def known_and_covered(
    sizes: NDArray[np.float64], share: float, samples: int, rng: np.random.Generator
) -> tuple[float, float]:
    """The share of the samples that have an interval, and of these that hold the sum of sizes."""
    is_in = rng.random((samples, len(sizes))) < share
    total = sizes / share
    squares = total**2 * (1.0 - share)  # what each cluster adds to the variance
    estimate, variance = is_in @ total, is_in @ squares
    effective = variance**2 / np.maximum(is_in @ squares**2, 1e-9)
    number = is_in.sum(axis=1).astype(float)
    known = (number >= FEWEST) & (effective >= LEAST)
    estimate, error = estimate[known], np.sqrt(variance[known])
    clusters = Clusters(number[known], effective[known])
    below, above = reaches(0.95, estimate, error, clusters, NUMPY, is_ratio=False)
    covered = (estimate - below <= sizes.sum()) & (sizes.sum() <= estimate + above)
    return float(known.mean()), float(covered.sum() / max(1, known.sum()))


@pytest.mark.parametrize("clusters", [10, 13, 16, 20, 26, 50, 130])
@pytest.mark.parametrize("spread", [0.0, 0.8])
@pytest.mark.parametrize("share", [0.05, 0.3])
def test_intervals_hold_where_they_are_known(clusters: int, spread: float, share: float) -> None:
    """Student's interval holds in 84 % of the samples of 13 equal clusters that know one, and in
    none of those of 10."""
    rng = np.random.default_rng(1)
    sizes = rng.lognormal(0.0, spread, round(clusters / share))
    known, covered = known_and_covered(sizes, share, 100_000 // len(sizes) * 20, rng)
    if known > 0.005:
        assert covered >= 0.93
    if known > 0.99:
        assert covered <= 0.975


def test_hardly_known_is_hardly_bounded_below() -> None:
    """Of clusters that are all alike; where the estimate has a part that is certain, it stays."""
    error, least = math.sqrt(FEWEST), Clusters(FEWEST, FEWEST)
    below, above = reaches(0.95, FEWEST, error, least, NUMPY, is_ratio=False)
    assert below == pytest.approx(FEWEST)
    assert 11 < above < 13  # a count of 20 has a mean up to 30.9 (z) or 31.8 (t)
    # Where few large ones of many clusters decide, their number explains little.
    large, many = 10.0 * error, Clusters(2.0 * FEWEST, LEAST)
    below, above = reaches(0.95, 2.0 * large, large, many, NUMPY, is_ratio=False)
    t, unit = student(0.95, LEAST - 1.0), large / math.sqrt(LEAST)
    half = t * math.sqrt(LEAST + t * t / 4.0)
    assert below == pytest.approx((half - t * t / 2.0) * unit, rel=0.3)
    assert above == pytest.approx((half + t * t / 2.0) * unit)


def test_signs() -> None:
    clusters = Clusters(25.0, 20.0)
    limits = reaches(0.95, 400.0, 80.0, clusters, NUMPY, is_ratio=False)
    assert reaches(0.95, -400.0, 80.0, clusters, NUMPY, is_ratio=False) == limits[::-1]
    even = 80.0 * student(0.95, 19.0)
    for estimate in (0.0, 90.0, -300.0):  # sums of numbers of both signs
        assert reaches(0.95, estimate, 80.0, clusters, NUMPY, is_ratio=False) == (even, even)
    assert reaches(0.95, 400.0, 80.0, clusters, NUMPY, is_ratio=True) == (even, even)


@pytest.mark.parametrize("level", [0.68, 0.8, 0.95, 0.99, 0.9999])
def test_the_mean_of_what_was_selected(level: float) -> None:
    """Its equation, solved by bisection."""
    start = 2.0 * math.sqrt(FEWEST)
    for depth in (0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0):
        low, high = start - 30.0, start + depth
        for _ in range(100):
            mean = (low + high) / 2.0
            is_rare = above(start + depth, mean) < (1.0 - level) * above(start, mean)
            low, high = (mean, high) if is_rare else (low, mean)
        if low > start - 29.0:  # beyond, the normal distribution is hardly more than 0
            found = _selected(level, ((start + depth) / 2.0) ** 2, NUMPY)
            assert found == pytest.approx(start + depth - low, rel=0.03)


def above(bound: float, mean: float) -> float:
    """The probability of a normal number above a bound."""
    return math.erfc((bound - mean) / math.sqrt(2.0)) / 2.0


@pytest.mark.parametrize("freedom", [9, 15, 40, 1000])
def test_quantiles_of_student(freedom: int) -> None:
    draws = np.random.default_rng(4).standard_t(freedom, 400_000)
    assert (np.abs(draws) <= student(0.95, freedom)).mean() == pytest.approx(0.95, abs=0.002)
