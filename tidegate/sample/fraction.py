"""How large a uniform sample fits into a memory (srivastava2004, section 4.2).

Algorithm UNIFORM keeps a tuple until the last of its results that the sample wants. Of a tuple with
n results, each wanted with probability p = 1 - q, the last wanted is the i-th with probability
p q^(n-i), and none is wanted with probability q^n.

- Frequency model: the i-th result comes at the share i/n of the window W. The expected share of
  its life that a tuple is kept is sum i/n p q^(n-i) = 1 - q (1 - q^n) / (p n): theorem 4.2.
- Age model: the i-th result comes at age C^-1(i): theorem 4.3.

Law: an expected memory rises with p, so each memory has one fraction. Tuples that arrive at random
(Poisson) and are kept for independent times are at any moment a Poisson number, whose mean is the
expected memory. So a fraction can be chosen such that a memory is exceeded with a stated
probability; arrivals that are more regular exceed it more rarely.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.spec import TidegateError

Floats = NDArray[np.float64]
_STEPS = 200  # of a bisection: more than doubles have digits


@dataclass(frozen=True)
class FrequencyModel:
    """One stream under the frequency model.

    tuples
        How many tuples of each value its full window holds, on average: r1 W1 f1(v).
    matches
        How many results a tuple of each value has in its life: n1(v) = r2 W1 f2(v).
    """

    tuples: Any
    matches: Any

    def expected_memory(self, fraction: float) -> float:
        """Theorem 4.2: tuples retained on average by UNIFORM."""
        tuples = np.asarray(self.tuples, np.float64)
        matches = np.asarray(self.matches, np.float64)
        return float((tuples * _kept_share(fraction, matches)).sum())


@dataclass(frozen=True)
class AgeModel:
    """One stream under the age model.

    rate
        Tuples per unit of time.
    ages
        The age at which a tuple has its first, second, ... and last result: C^-1(i).
    """

    rate: float
    ages: Sequence[float]

    def expected_memory(self, fraction: float) -> float:
        """Theorem 4.3: tuples retained on average by UNIFORM."""
        ages = np.asarray(self.ages, np.float64)
        later = np.arange(len(ages) - 1, -1, -1)
        return float(self.rate * (fraction * (1.0 - fraction) ** later * ages).sum())


def _kept_share(fraction: float, matches: Floats) -> Floats:
    """The share of its life for which a tuple with so many results is kept."""
    if fraction <= 0.0:
        return np.zeros(matches.shape)
    rest = 1.0 - fraction
    number = np.maximum(matches, 1e-12)
    share = 1.0 - rest * (1.0 - rest**number) / (fraction * number)
    return np.where(matches > 0, share, 0.0)


def largest_fraction(
    memory: float, streams: Sequence[FrequencyModel | AgeModel], exceeding: float | None = None
) -> float:
    """The largest sampling fraction whose memory fits.

    Parameters
    ----------
    memory
        Tuples.
    streams
        What is known of each stream; all have the same fraction.
    exceeding
        The probability with which the memory may be exceeded at a moment, where arrivals are
        Poisson; None lets the expected memory fill it.

    >>> stream = FrequencyModel(tuples=[1000.0], matches=[4.0])
    >>> round(largest_fraction(500, [stream]), 4)
    0.2587
    """
    if not memory >= 0:
        raise TidegateError(f"memory {memory!r} is not a number of tuples; give 0 or more")
    mean = memory if exceeding is None else mean_that_fits(int(memory), exceeding)

    def missing(fraction: float) -> float:
        return sum(stream.expected_memory(fraction) for stream in streams) - mean

    return _root(missing, 0.0, 1.0)


def mean_that_fits(memory: int, exceeding: float) -> float:
    """The mean of a Poisson number that is above `memory` with probability `exceeding`."""
    if not 0 < exceeding < 1:
        raise TidegateError(
            f"exceeding {exceeding!r} is not a probability between 0 and 1; give such as 0.01"
        )
    most = memory + 10.0 * math.sqrt(memory) + 40.0
    return _root(lambda mean: poisson_above(memory, mean) - exceeding, 0.0, most)


def poisson_above(number: int, mean: float) -> float:
    """The probability that a Poisson number is above `number`."""
    if mean <= 0:
        return 0.0
    reach = 12.0 * math.sqrt(mean) + 60.0
    first, last = max(0, int(mean - reach)), min(number, int(mean + reach))
    logs = [k * math.log(mean) - mean - math.lgamma(k + 1) for k in range(first, last + 1)]
    return max(0.0, 1.0 - math.fsum(map(math.exp, logs)))


def _root(rising: Callable[[float], float], low: float, high: float) -> float:
    """Where a rising function passes 0; an end of the range where it does not."""
    if rising(high) <= 0:
        return high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if rising(middle) <= 0:
            low = middle
        else:
            high = middle
    return low
