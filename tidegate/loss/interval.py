"""From a sample of tuples to the recall of a join, with an interval of 95 % confidence.

Every result belongs to one tuple, the one of it that came first. Of tuple i let y_i be all its
results and x_i those that the join gave out; i is in the sample with probability p_i, independently
of others. X, the sum of x over all tuples, is known: the join has counted it. Wanted is Y, the sum
of y. For any number b

    Y(b) = b X + sum over the sample of (y_i - b x_i) / p_i

is unbiased, with the variance sum of (y_i - b x_i)^2 (1 - p_i) / p_i, itself estimated by dividing
by p_i once more. The b of least variance is that of a regression through the origin. Where the join
keeps nearly all, it is near 1 and only what was lost is estimated; where what it keeps says nothing
about what there is, it is near 0. The recall is X / Y.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FEWEST = 30.0  # tuples of the sample, weighed by their results: with fewer nothing is said
_NORMAL_95 = 1.959964
MOMENTS = 6


class Recall(NamedTuple):
    """A share of the results, and between which shares it lies with 95 % confidence."""

    share: float
    low: float
    high: float
    exact: float  # how many results there would have been, or their importance


def moments(
    exact: NDArray[np.float64], kept: NDArray[np.float64], rate: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The sums that `recall_of` needs of some tuples, whose results are divided by their p."""
    left_out = 1.0 - rate
    return np.array(
        [
            exact.sum(),
            kept.sum(),
            (left_out * exact * exact).sum(),
            (left_out * exact * kept).sum(),
            (left_out * kept * kept).sum(),
            (exact * exact).sum(),
        ]
    )


def recall_of(sums: NDArray[np.float64], given_out: float) -> Recall | None:
    """The recall of a join that gave out so much; None where the sample is too small to say."""
    exact, kept, exact_2, both, kept_2, all_2 = (float(number) for number in sums)
    effective = exact * exact / all_2 if all_2 > 0.0 else 0.0
    if effective < FEWEST or given_out <= 0.0:
        return None
    slope = both / kept_2 if kept_2 > 0.0 else 0.0
    total = slope * given_out + exact - slope * kept
    variance = max(0.0, exact_2 - 2.0 * slope * both + slope * slope * kept_2)
    lost = max(0.0, total - given_out)
    # One tuple more, of usual size: what was never seen to be lost may still be lost.
    variance += (lost / (given_out + lost) + 1.0 / effective) * (exact_2 / exact) ** 2
    low, high = _bounds(lost, total - given_out, variance, effective)
    share = given_out / (given_out + lost)
    return Recall(share, given_out / (given_out + high), given_out / (given_out + low), total)


def _bounds(lost: float, raw: float, variance: float, effective: float) -> tuple[float, float]:
    """Between which numbers lies what was lost?

    Its variance grows with it, as that of a count; solving for the numbers at which the estimate
    is just likely enough gives bounds that are never below 0 (Wilson's score interval).
    """
    z = _NORMAL_95 * (1.0 + (_NORMAL_95**2 + 1.0) / (4.0 * effective))  # Student's t
    spread = z * math.sqrt(variance)
    if raw <= spread:  # too near to 0 for its variance to be scaled
        return 0.0, max(0.0, raw) + spread
    scale = z * z * variance / lost
    middle = lost + scale / 2.0
    half = math.sqrt(scale * lost + scale * scale / 4.0)
    return max(0.0, middle - half), middle + half
