"""From a sample of tuples to the recall of a join, with an interval of 95 % confidence.

Every result belongs to one tuple, the one of it that came first. Of tuple i let y_i be all its
results and x_i those that the join gave out; i is in the sample with probability p_i, independently
of others. X, the sum of x over all tuples, and N, the number of tuples, are known: the join has
counted them. Wanted is Y, the sum of y. For any numbers a and b

    Y(a, b) = a N + b X + sum over the sample of (y_i - a - b x_i) / p_i

is unbiased, with the variance sum of (y_i - a - b x_i)^2 (1 - p_i) / p_i, itself estimated by
dividing by p_i once more. The a and b of least variance are those of a regression. Where the join
keeps nearly all, b is near 1 and only what was lost is estimated; where what it keeps says nothing
about what there is, b is near 0. The recall is X / Y.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FEWEST = 30.0  # tuples of the sample, weighed by their results: with fewer nothing is said
_NORMAL_95 = 1.959964
# The sums of y, x and 1, of the products of any two, and of all y y.
_NAMES = (
    "exact", "kept", "count", "exact_exact", "exact_kept", "exact_count", "kept_kept",
    "kept_count", "count_count", "squares",
)  # fmt: skip
MOMENTS = len(_NAMES)
TAKEN = "sentinel_taken"  # what N is called in `stats()`
# What is measured, what the join has counted of it, and what the sums are called in `stats()`.
MEASURES = (
    ("recall", "rows_out", "sentinel"),
    ("importance_recall", "importance_out", "sentinel_importance"),
)


class Recall(NamedTuple):
    """A share of the results, and between which shares it lies with 95 % confidence."""

    share: float
    low: float
    high: float
    exact: float  # how many results there would have been, or their importance


def moments(
    exact: NDArray[np.float64],
    kept: NDArray[np.float64],
    count: NDArray[np.float64],
    rate: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The sums that `recall_of` needs of some tuples, whose y, x and 1 are divided by their p."""
    columns = np.stack([exact, kept, count])
    products = (columns * (1.0 - rate)) @ columns.T
    return np.array(
        [*columns.sum(axis=1), *products[np.triu_indices(3)], float(exact @ exact)], np.float64
    )


def recall_of(sums: NDArray[np.float64], given_out: float, taken: float) -> Recall | None:
    """The recall of a join that took so many tuples and gave out so much; None where the sample
    is too small to say."""
    exact, squares = float(sums[0]), float(sums[-1])
    effective = exact * exact / squares if squares > 0.0 else 0.0
    if effective < FEWEST or given_out <= 0.0:
        return None
    weights, variance = _regression(sums)
    total = exact + float(weights @ (np.array([given_out, taken]) - sums[1:3]))
    exact_2 = float(sums[3])
    lost = max(0.0, total - given_out)
    # As if one tuple more of usual size were lost: what was never seen lost may still be lost.
    variance = max(variance, (lost / (given_out + lost) + 1.0 / effective) * (exact_2 / exact) ** 2)
    low, high = _bounds(lost, total - given_out, variance)
    share = given_out / (given_out + lost)
    return Recall(share, given_out / (given_out + high), given_out / (given_out + low), total)


def _regression(sums: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """b and a, and the variance with them; only b where a is not determined."""
    exact_2, with_kept, with_count, kept_2, both, count_2 = (float(n) for n in sums[3:9])
    wanted = np.array([with_kept, with_count])
    weights = np.zeros(2)
    if kept_2 * count_2 - both * both > 1e-9 * kept_2 * count_2:
        weights = np.linalg.solve(np.array([[kept_2, both], [both, count_2]]), wanted)
    elif kept_2 > 0.0:
        weights[0] = with_kept / kept_2
    return weights, max(0.0, exact_2 - float(weights @ wanted))


def described(name: str, found: Recall | None) -> dict[str, int | float]:
    """A recall as numbers by name; none where it is not known."""
    if found is None:
        return {}
    return {name: found.share, f"{name}_low": found.low, f"{name}_high": found.high}


def named_sums(prefix: str, sums: NDArray[np.float64]) -> dict[str, int | float]:
    """The sums as numbers by name; those of several samples add up."""
    return {f"{prefix}_{name}": float(n) for name, n in zip(_NAMES, sums, strict=True)}


def of_total(total: Mapping[str, float]) -> dict[str, int | float]:
    """The recall of joins whose numbers were added up, such as the buckets of one join."""
    found: dict[str, int | float] = {}
    for name, given_out, prefix in MEASURES:
        if f"{prefix}_{_NAMES[0]}" not in total:
            continue
        sums = np.array([total[f"{prefix}_{moment}"] for moment in _NAMES])
        if total["evicted"] + total["refused"] == 0:
            found |= described(name, Recall(1.0, 1.0, 1.0, total[given_out]))
        else:
            found |= described(name, recall_of(sums, total[given_out], total[TAKEN]))
    return found


def is_of_one_sample(name: str) -> bool:
    """Is this number of a sentinel true for one sample only, so that it cannot be added up?"""
    return "recall" in name or name == "sentinel_rate"


def _bounds(lost: float, raw: float, variance: float) -> tuple[float, float]:
    """Between which numbers lies what was lost?

    Its variance grows with it, as that of a count; solving for the numbers at which the estimate
    is just likely enough gives bounds that are never below 0 (Wilson's score interval).
    """
    spread = _NORMAL_95 * math.sqrt(variance)
    if raw <= spread:  # too near to 0 for its variance to be scaled
        return 0.0, max(0.0, raw) + spread
    scale = spread * spread / lost
    middle = lost + scale / 2.0
    half = math.sqrt(scale * lost + scale * scale / 4.0)
    return max(0.0, middle - half), middle + half
