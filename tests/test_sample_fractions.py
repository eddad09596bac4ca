"""The mathematics of sampling against brute force.

Law: capped probabilities add up to the memory and are proportional where they are not 1; expected
memories are those of a simulated UNIFORM; the stated probability of exceeding a memory is met.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.sample.fraction import (
    AgeModel,
    FrequencyModel,
    largest_fraction,
    mean_that_fits,
    poisson_above,
)
from tidegate.sample.inclusion import inclusion_probabilities
from tidegate.spec import TidegateError

sizes_of = st.lists(st.floats(0.01, 1000), min_size=1, max_size=12)


@given(sizes_of, st.floats(0.01, 0.999))
def test_capped_probabilities_fill_the_memory(sizes: list[float], share: float) -> None:
    memory = share * len(sizes)
    found = inclusion_probabilities(sizes, memory)
    assert (found <= 1).all()
    assert found.sum() == pytest.approx(memory)
    free = found < 1 - 1e-12
    ratios = found[free] / np.array(sizes)[free]
    assert np.ptp(ratios) <= 1e-9 * ratios.max(initial=1)
    # Whoever is certain would be above 1 at the ratio of the others.
    if free.any():
        assert (ratios.max() * np.array(sizes)[~free] >= 1 - 1e-9).all()


@given(sizes_of, st.lists(st.integers(0, 20), min_size=12, max_size=12), st.floats(0, 100))
def test_numbers_stand_for_repeated_sizes(
    sizes: list[float], numbers: list[int], memory: float
) -> None:
    numbers = numbers[: len(sizes)]
    repeated = [s for s, n in zip(sizes, numbers, strict=True) for _ in range(n)]
    by_number = inclusion_probabilities(sizes, memory, numbers)
    spread = [p for p, n in zip(by_number, numbers, strict=True) for _ in range(n)]
    assert spread == pytest.approx(inclusion_probabilities(repeated, memory).tolist(), rel=1e-6)


def test_more_memory_than_tuples() -> None:
    assert inclusion_probabilities([3, 5, 0], 10).tolist() == [1, 1, 0]
    assert inclusion_probabilities([1, 1, 1, 1], 1).tolist() == [0.25] * 4
    with pytest.raises(TidegateError, match="0 or more"):
        inclusion_probabilities([1, -1], 1)


def kept_share(n: int, p: float) -> float:
    """Of all 2^n samples of n results: the mean share of life until the last that is wanted."""
    total = 0.0
    for wanted in itertools.product((False, True), repeat=n):
        chance = math.prod(p if is_in else 1 - p for is_in in wanted)
        last = max((i + 1 for i, is_in in enumerate(wanted) if is_in), default=0)
        total += chance * last / n
    return total


@pytest.mark.parametrize("p", [0.05, 0.5, 0.95, 1.0])
@pytest.mark.parametrize("n", [1, 2, 7])
def test_theorem_4_2_against_all_samples(n: int, p: float) -> None:
    model = FrequencyModel(tuples=[10.0], matches=[float(n)])
    assert model.expected_memory(p) == pytest.approx(10 * kept_share(n, p))


def test_theorem_4_3_against_all_samples() -> None:
    ages, p = [2.0, 3.0, 9.0], 0.3
    total = 0.0
    for wanted in itertools.product((False, True), repeat=3):
        chance = math.prod(p if is_in else 1 - p for is_in in wanted)
        total += chance * max(
            (a for a, is_in in zip(ages, wanted, strict=True) if is_in), default=0
        )
    assert AgeModel(rate=4.0, ages=ages).expected_memory(p) == pytest.approx(4 * total)


@given(st.integers(1, 2000), st.floats(0.001, 0.5))
def test_the_memory_is_exceeded_as_rarely_as_stated(memory: int, exceeding: float) -> None:
    mean = mean_that_fits(memory, exceeding)
    assert poisson_above(memory, mean) == pytest.approx(exceeding, rel=1e-3)


def test_poisson_above_against_draws() -> None:
    draws = np.random.default_rng(3).poisson(50.0, 200_000)
    assert poisson_above(60, 50.0) == pytest.approx((draws > 60).mean(), abs=0.002)


@given(st.floats(0.0, 1.0), st.lists(st.tuples(st.floats(1, 50), st.integers(0, 30)), min_size=1))
def test_the_largest_fraction_is_the_largest(share: float, values: list[tuple[float, int]]) -> None:
    model = FrequencyModel([t for t, _ in values], [float(n) for _, n in values])
    memory = share * model.expected_memory(1.0)
    p = largest_fraction(memory, [model])
    assert model.expected_memory(p) <= memory + 1e-6
    assert p >= 1 - 1e-9 or model.expected_memory(min(1, p * 1.01 + 1e-6)) >= memory - 1e-6


def test_a_stated_probability_costs_some_of_the_fraction() -> None:
    stream = AgeModel(rate=5.0, ages=[10.0, 20.0, 30.0])
    bare, safe = (largest_fraction(100, [stream, stream], risk) for risk in (None, 0.01))
    assert 0 < safe < bare < 1
    assert largest_fraction(0, [stream]) == 0
    assert largest_fraction(10_000, [stream]) == 1
    with pytest.raises(TidegateError, match="probability"):
        largest_fraction(100, [stream], 1.5)
    with pytest.raises(TidegateError, match="memory"):
        largest_fraction(-1, [stream])
