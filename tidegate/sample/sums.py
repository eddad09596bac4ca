"""From sums over sampled rows to an estimate and its interval.

A row has a weight w, the inverse of the probability that it was included, and a number x. The
estimates are (Horvitz-Thompson, and a ratio)

    count(*) = sum w         sum(x) = sum w x      avg(x) = R = sum w x / sum w

Two rows vary together only if they share retained tuples. Their covariance is estimated by
w x w' x' (1 - product of p), over the tuples that they share, p the probability of each when the
earlier row came (`shed.sampling_many`). Multiplied out, that is a sum over sets of tuples:

    V(sum) = sum over sets S of (-1)^(|S| + 1) sum of  w x w' x' product of (1 - p) over S

over all pairs of rows that share S. Rows that share S form a cluster: with A = sum of w x and C =
sum of w x product of (1 - p) over it, the inner sum is the sum of A C over clusters. With two
streams S is one tuple, p = 1 / w, and A C = A (A - B) with B = sum of x. For the ratio x is the
residual x - R, divided by the estimated number of rows (A1 and C1 are A and C for x = 1):

    V(count) = sum c         V(sum) = sum a        V(avg) = (sum a - R sum b + R^2 sum c) / count^2
    a = A C                  b = A C1 + A1 C       c = A1 C1

Where the weight rose during the life of a tuple, the exact estimate has the p of the earlier row
for each pair; A C has their mean over both orders, which is a little more.

Law: everything here is made of sums, which merge, and of arithmetic that numpy and Spark share. How
far an interval reaches follows from the clusters (`intervals`); where these are too few, or nothing
can be said, the interval is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from tidegate.sample.aggregate import AVG, COUNT, SUM
from tidegate.sample.intervals import FEWEST, LEAST, Arithmetic, Clusters, reaches
from tidegate.sample.tags import Entry
from tidegate.spec import TidegateError

_OF_PRODUCTS = 2.0
_HIGHEST = 0.9999  # level for which the quantile's expansion is good enough
_LOST = 1e-11  # of a difference of sums: below that, digits were lost

# The sums over the rows of a cluster: of rows once each, then of all with their signs.
PARTS = ("rows", "certain", "untagged", "number", "total", "a1", "c1", "ax", "cx")
# The sums of a group over its clusters; names that differ in more than case, as Spark wants it.
TOTALS = (
    "rows", "clusters", "certain", "untagged", "number", "total",
    "a", "b", "c", "alone_a", "alone_c", "squares_a", "squares_c",
)  # fmt: skip


class Finished(NamedTuple):
    """Columns of an answer; `is_known` says whether the interval is known."""

    estimate: Any
    error: Any
    below: Any  # how far the interval reaches below the estimate
    above: Any
    is_known: Any
    is_exact: Any


def row_parts(weight: Any, number: Any, entry: Entry, where: Any) -> tuple[Any, ...]:
    """What an entry of a row adds to its cluster, in the order of PARTS."""
    key, factor = entry.key, entry.factor
    signed, main = weight * entry.sign, where(entry.main, 1.0, 0.0)
    return (
        main,
        where(key == -1.0, 1.0, 0.0),
        where(key == -2.0, 1.0, 0.0),
        main * weight,
        main * weight * number,
        signed,
        signed * factor,
        signed * number,
        signed * factor * number,
    )


def cluster_terms(part: Mapping[str, Any], key: Any, floor: Any, where: Any) -> dict[str, Any]:
    """What a cluster adds to the sums of its group; see TOTALS."""
    a, c = part["ax"] * part["cx"], part["a1"] * part["c1"]
    b = part["ax"] * part["c1"] + part["a1"] * part["cx"]
    order = key - floor(key / 4.0) * 4.0  # 0, 1 or 2: of one, two or three tuples
    sign = where(order == 1.0, -1.0, 1.0)
    alone = where((key >= 0.0) & (order == 0.0), 1.0, 0.0)
    return {
        "rows": part["rows"], "clusters": alone, "certain": part["certain"],
        "untagged": part["untagged"], "number": part["number"], "total": part["total"],
        "a": sign * a, "b": sign * b, "c": sign * c,
        "alone_a": alone * a, "alone_c": alone * c,
        "squares_a": alone * a * a, "squares_c": alone * c * c,
    }  # fmt: skip


def finish(
    function: str,
    total: Mapping[str, Any],
    level: float,
    of: Arithmetic,
    lacking: Any,
) -> Finished:
    """Estimate and interval of groups from their TOTALS, as arrays of numpy or columns of Spark.

    Of a group's rows that were not sampled nothing is known. So it is exact only if `lacking` is 0:
    the sampled rows, of it and of the groups beside it, that came when others had been lost. In the
    same way one row without a tag among them all (`untagged`) makes all intervals unknown.
    """
    where, keep, squares, alone = of.where, of.keep, total["squares_c"], total["alone_c"]
    if function == COUNT:
        estimate, variance, largest = total["number"], total["c"], total["alone_c"]
    elif function == SUM:
        estimate, variance, largest = total["total"], total["a"], total["alone_a"]
        squares, alone = total["squares_a"], total["alone_a"]
    else:
        number = where(total["number"] > 0.0, total["number"], 1.0)
        estimate = ratio = keep(total["total"] / number)
        scale = number * number
        variance = (total["a"] - ratio * total["b"] + ratio * ratio * total["c"]) / scale
        largest = (total["alone_a"] + ratio * ratio * total["alone_c"]) / scale
    variance, is_exact = keep(variance), keep(lacking == 0.0)
    effective = where(squares > 0.0, alone * alone / where(squares > 0.0, squares, 1.0), 0.0)
    # Of rows with several tuples: products of weights are more skewed, so a cluster says less.
    worth = where(total["alone_c"] == total["c"], 1.0, _OF_PRODUCTS)
    effective, clusters = keep(effective / worth), keep(total["clusters"] / worth)
    is_known = (clusters >= FEWEST) & (effective >= LEAST)
    is_known = is_known & (variance > _LOST * largest) & (total["untagged"] == 0.0)
    is_known = keep(is_known & (variance < math.inf))  # which no NaN is, for numpy and for Spark
    error = keep(of.root(where(is_known, variance, 0.0)))
    clusters, effective = where(is_known, clusters, FEWEST), where(is_known, effective, LEAST)
    rests_on = Clusters(keep(clusters), keep(effective))
    below, above = reaches(level, estimate, error, rests_on, of, is_ratio=function == AVG)
    return Finished(estimate, error, below, above, is_known, is_exact)


def check_level(level: Any) -> float:
    """The level of an interval, if it is one."""
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise TidegateError(f"level {level!r} is not between 0 and 1; give such as 0.95")
    if level > _HIGHEST:
        raise TidegateError(f"level {level!r} is more than a sample can tell; give 0.9999 at most")
    return float(level)
