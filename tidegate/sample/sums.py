"""From sums over sampled rows to an estimate and its interval.

A row has a weight w, the inverse of the probability that it was included, and a number x. Rows that
one random decision brought in form a cluster (`tags`). With A = sum of w x and B = sum of x over a
cluster, and A1, B1 the same for x = 1, the estimates are (Horvitz-Thompson, and a ratio)

    count(*) = sum A1        sum(x) = sum A        avg(x) = R = sum A / sum A1

Decisions of different clusters are uncorrelated, so variances add up. That of a cluster whose rows
all have the weight w is estimated by w (w - 1) B^2 = A (A - B). For the ratio x is replaced by the
residual x - R, divided by the estimated number of rows:

    V(count) = sum c         V(sum) = sum a        V(avg) = (sum a - R sum b + R^2 sum c) / count^2
    a = A (A - B)            b = A (A1 - B1) + A1 (A - B)            c = A1 (A1 - B1)

Where the weight rose during the life of a tuple, the exact estimate has (w - 1) w' with the smaller
w and the larger w' for two rows; A (A - B) has their mean over both orders, which is a little more.

Law: everything here is made of sums, which merge, and of arithmetic that numpy and Spark share. An
interval is Student's, its degrees of freedom the effective number of clusters; where these are too
few, or nothing can be said, the interval is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import NormalDist
from typing import Any, NamedTuple

from tidegate.sample.aggregate import COUNT, SUM
from tidegate.spec import TidegateError

FEWEST = 10.0  # effective clusters for which intervals have shown to be honest
_LOST = 1e-11  # of a difference of sums: below that, digits were lost

# The sums of a group over its clusters; names that differ in more than case, as Spark wants it.
TOTALS = ("rows", "clusters", "certain", "number", "total", "a", "b", "c", "aa", "cc")


class Finished(NamedTuple):
    """Columns of an answer; `is_known` says whether the interval is known."""

    estimate: Any
    error: Any
    reach: Any  # half the length of the interval
    is_known: Any
    is_exact: Any


def cluster_terms(rows: Any, certain: Any, a1: Any, b1: Any, ax: Any, bx: Any) -> dict[str, Any]:
    """What a cluster adds to the sums of its group; see TOTALS."""
    a, c = ax * (ax - bx), a1 * (a1 - b1)
    return {
        "rows": rows, "clusters": rows * 0 + 1.0, "certain": certain, "number": a1, "total": ax,
        "a": a, "b": ax * (a1 - b1) + a1 * (ax - bx), "c": c, "aa": a * a, "cc": c * c,
    }  # fmt: skip


def finish(
    function: str,
    total: Mapping[str, Any],
    level: float,
    where: Callable[[Any, Any, Any], Any],
    root: Callable[[Any], Any],
) -> Finished:
    """Estimate and interval of groups from their TOTALS, as arrays of numpy or columns of Spark."""
    if function == COUNT:
        estimate, variance, squares, known = total["number"], total["c"], total["cc"], total["c"]
        largest = total["c"]
    elif function == SUM:
        estimate, variance, squares, known = total["total"], total["a"], total["aa"], total["a"]
        largest = total["a"]
    else:
        number = where(total["number"] > 0.0, total["number"], 1.0)
        estimate = ratio = total["total"] / number
        scale = number * number
        variance = (total["a"] - ratio * total["b"] + ratio * ratio * total["c"]) / scale
        largest = (total["a"] + ratio * ratio * total["c"]) / scale
        squares, known = total["cc"], total["c"]
    is_exact = total["certain"] == total["rows"]
    effective = where(squares > 0.0, known * known / where(squares > 0.0, squares, 1.0), 0.0)
    is_known = (effective >= FEWEST) & (variance > _LOST * largest)
    error = root(where(is_known, variance, 0.0))
    reach = error * student(level, where(is_known, effective, FEWEST) - 1.0)
    return Finished(estimate, error, reach, is_known, is_exact)


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


def check_level(level: Any) -> float:
    """The level of an interval, if it is one."""
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise TidegateError(f"level {level!r} is not between 0 and 1; give such as 0.95")
    return float(level)
