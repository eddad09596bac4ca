"""How far an interval reaches below and above an estimate, from its error and its clusters.

**Averages** have Student's interval, error * t, with effective clusters less 1 as its freedom.

**Counts and sums** vary as a number n of included clusters does, each of which is worth a unit:
what is estimated is rest + unit * mean of n, where error^2 = unit^2 * n and n the effective
clusters. Few clusters are skewed, as counts are, so the limits are those means mu from which n is t
of their own standard deviations away:

    (n - mu)^2 = t^2 mu        mu = n + t^2 / 2 +- t sqrt(n + t^2 / 4)

Hoelder's inequality bounds n * unit by the estimate for numbers of one sign; sums of numbers of
both signs have no skew that n could tell, and Student's interval.

**Selection.** An interval is known only if the number m of sampled clusters is FEWEST or more.
Where about half of the samples know it, those that do have more clusters than others and a larger
estimate. As 2 sqrt(m) is nearly normal around 2 sqrt(mu) with a deviation of 1, the least mean mu
of m that is not ruled out solves

    P(2 sqrt(M) >= 2 sqrt(m)) = alpha * P(2 sqrt(M) >= 2 sqrt(FEWEST)),    M of mean mu

It is 0 at m = FEWEST, and above the ordinary limit far from it, which counts then. It has all of
alpha: a mean so small is never above the upper limit of a known interval, which stays as it is.
Estimate and m have the correlation r = estimate / (sqrt(m) * error), or less if part of the
estimate is certain: their covariance is what is estimated, the variance of m is m. So r is 1 where
clusters have the same worth and weight, and small where few large ones decide. r^2, the share of
the variance that m explains, says how much of the way to the limit of a selected m is gone.

The number m decides and not the effective clusters n, because n falls when a large cluster is
included: samples that had none would be those with an interval, and too small. Of n only so much is
asked (LEAST) that an error is known at all.

Law: arithmetic that numpy and Spark share.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any, NamedTuple

FEWEST = 20.0  # sampled clusters for which intervals have shown to be honest
LEAST = 3.0  # effective clusters
_OF_ONE_SIGN = 1.0 + 1e-9
_NEAR = 0.01  # no number of clusters is nearer to FEWEST, so that nothing is divided by 0


def _itself(value: Any) -> Any:
    return value


class Arithmetic(NamedTuple):
    """Functions of arrays of numpy or columns of Spark.

    `keep` is for what is used more than once: a column of Spark is an expression, which is repeated
    in full wherever it stands until it is a column of its own.
    """

    where: Callable[[Any, Any, Any], Any]
    root: Callable[[Any], Any]
    exp: Callable[[Any], Any]
    keep: Callable[[Any], Any] = _itself


class Clusters(NamedTuple):
    """What an estimate rests on."""

    number: Any  # m, FEWEST or more
    effective: Any  # n, LEAST or more


def reaches(
    level: float, estimate: Any, error: Any, clusters: Clusters, of: Arithmetic, is_ratio: bool
) -> tuple[Any, Any]:
    """How far the interval reaches below the estimate, and above it."""
    number, effective = clusters
    t = of.keep(student(level, effective - 1.0))
    even = of.keep(error * t)
    if is_ratio:
        return even, even
    root, spread = of.keep(of.root(effective)), of.keep(of.root(number))
    unit = of.keep(error / root)
    size = of.keep(of.where(estimate < 0.0, -estimate, estimate))
    is_one_sign = of.keep(error * root <= size * _OF_ONE_SIGN)
    outer = of.keep(unit * (t * t / 2.0 + t * of.root(effective + t * t / 4.0)))
    inner = of.keep(outer - unit * t * t)
    lowest = of.keep(spread - _selected(level, number, of) / 2.0)
    selected = number - of.where(lowest > 0.0, lowest * lowest, 0.0)
    scale = of.keep(spread * error)
    explained = of.keep(size / of.where(scale > 0.0, scale, 1.0))
    explained = of.where(explained < 1.0, explained * explained, 1.0)
    further = of.keep(error / spread * selected - inner)
    further = explained * of.where(further > 0.0, further, 0.0)
    inner = of.keep(of.where(is_one_sign, inner + further, even))
    outer = of.keep(of.where(is_one_sign, outer, even))
    is_negative = estimate < 0.0
    return of.where(is_negative, outer, inner), of.where(is_negative, inner, outer)


def _selected(level: float, number: Any, of: Arithmetic) -> Any:
    """How far below 2 sqrt(m) the mean is for which m is as large as the level allows, given that m
    is FEWEST or more.

    With d = 2 sqrt(m) - 2 sqrt(FEWEST) it is d / 2 + log(1 / alpha) / d for a small d, and the
    normal quantile z for a large one. In between it is right within 3 %.
    """
    z, depth = NormalDist().inv_cdf(level), -math.log(1.0 - level)
    d = of.keep(2.0 * of.root(number) - 2.0 * math.sqrt(FEWEST))
    d = of.keep(of.where(d > _NEAR, d, _NEAR))
    return z + depth / d * of.exp(-(z * d + 0.45 * d * d) / depth)


def student(level: float, freedom: Any) -> Any:
    """Student's quantile of a two-sided interval: its expansion in 1 / degrees of freedom.

    >>> round(student(0.95, 9.0), 2), round(student(0.95, 30.0), 3)
    (2.26, 2.042)
    """
    z = NormalDist().inv_cdf((1.0 + level) / 2.0)
    terms = (
        (z**3 + z) / 4.0,
        (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0,
        (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0,
    )
    first, second, third = terms
    return z + (first + (second + third / freedom) / freedom) / freedom
