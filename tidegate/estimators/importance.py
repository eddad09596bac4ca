"""What a result will be worth: E[f(own importance, importance of whom it meets)].

Law: of the importances of a stream only a histogram is kept, with four bins to a doubling; each bin
knows how many and how much fell into it, so sums are exact and only what lies inside the bin of the
own importance is rounded to the bin's mean. All five f never fall as the own importance grows.

That takes whom a tuple meets for a random tuple. It need not be: the same url has the same size. So
what results were in fact worth is kept too, by the bin of the own importance, and takes the place
of the expectation as it becomes more than a few.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.compiled.frames import frame
from tidegate.compiled.kernel import part
from tidegate.estimators.frequency import FADING

BINS = 256  # 2**-32 to 2**32; what lies beyond falls into the bins at the ends
_PER_DOUBLING = 4
LARGEST = 1e300  # of a sum of importances: far from infinity, which no difference survives
FEW = 32.0  # results, of which the mean is as good as the expectation
MIN, MAX, SUM, PRODUCT, MEAN = range(5)  # how importances are combined


@frame
class Importances(NamedTuple):
    """[stream, bin]"""

    number: NDArray[np.float64]
    total: NDArray[np.float64]
    number_below: NDArray[np.float64]  # of all bins before this one, as of the last `summarise`
    total_below: NDArray[np.float64]
    fresh_results: NDArray[np.float64]  # of tuples of the stream in this bin, and what they earned,
    fresh_earned: NDArray[np.float64]  # since the last fading
    results: NDArray[np.float64]  # before, faded
    earned: NDArray[np.float64]


def empty(streams: int, weighed: bool = True) -> Importances:
    """Without importances there is nothing to keep."""
    bins = BINS if weighed else 0
    return Importances(*(np.zeros((streams, bins + 1), np.float64) for _ in range(8)))


@part
def bin_of(importance):
    place = math.floor(_PER_DOUBLING * math.log2(importance)) + BINS // 2
    return min(BINS - 1, max(0, place))


@part
def observe(importances, stream, importance):
    at = bin_of(importance)
    importances.number[stream, at] += 1.0
    importances.total[stream, at] = min(LARGEST, importances.total[stream, at] + importance)


@part
def combined(combine, one, other):
    """f(one, other): a result's importance from those of its tuples (ojewole2006, section 3.2)."""
    if combine == MIN:
        return min(one, other)
    if combine == MAX:
        return max(one, other)
    if combine == SUM:
        return one + other
    return one * other if combine == PRODUCT else (one + other) / 2.0


def of_ones(combine: int, streams: int) -> float:
    """The importance of a result where every tuple counts as 1."""
    return float(streams) if combine == SUM else 1.0


@part
def earn(importances, stream, combine, own, other):
    """A tuple of `stream` has met one of this importance."""
    at = bin_of(own)
    importances.fresh_results[stream, at] += 1.0
    earned = importances.fresh_earned[stream, at] + combined(combine, own, other)
    importances.fresh_earned[stream, at] = min(LARGEST, earned)


@part
def fade(importances):
    """What was seen counts for less from now on."""
    for stream in range(len(importances.number)):
        for at in range(importances.number.shape[1] - 1):
            importances.number[stream, at] *= FADING
            importances.total[stream, at] *= FADING
            results = importances.results[stream, at] + importances.fresh_results[stream, at]
            earned = importances.earned[stream, at] + importances.fresh_earned[stream, at]
            # Few results are kept until there are more.
            keep = FADING if results >= 8.0 * FEW else 1.0
            importances.results[stream, at] = results * keep
            importances.earned[stream, at] = earned * keep
            importances.fresh_results[stream, at] = importances.fresh_earned[stream, at] = 0.0


@part
def summarise(importances):
    """Make the sums that `expected` reads; the last entry holds those over all bins."""
    for stream in range(len(importances.number)):
        number = total = 0.0
        for at in range(importances.number.shape[1]):
            importances.number_below[stream, at] = number
            importances.total_below[stream, at] = total
            number += importances.number[stream, at]
            total += importances.total[stream, at]


@part
def worth(importances, stream, combine, own):
    """What a result of a tuple of `stream` will be worth."""
    at = bin_of(own)
    results = importances.results[stream, at] + importances.fresh_results[stream, at]
    earned = importances.earned[stream, at] + importances.fresh_earned[stream, at]
    expects = expected(importances, 1 - stream, combine, own)
    return (earned + FEW * expects) / (results + FEW)


@part
def expected_of_many(importances, stream, combine, own):
    """The same for one tuple of each other stream, one after the other: exact for sums and
    products, else as if each of them were what is expected so far."""
    fold = SUM if combine == MEAN else combine
    result = own
    for other in range(len(importances.number)):
        if other != stream:
            result = min(LARGEST, expected(importances, other, fold, result))
    return result / len(importances.number) if combine == MEAN else result


@part
def expected(importances, stream, combine, own):
    """E[f(own, Y)] for Y from `stream`, as of the last `summarise`; before that f(own, own)."""
    number = importances.number_below[stream, BINS]
    mean = own if number == 0.0 else importances.total_below[stream, BINS] / number
    if combine == SUM:
        return own + mean
    if combine == PRODUCT:
        return own * mean
    if combine > PRODUCT:
        return (own + mean) / 2.0
    if number == 0.0:
        return own
    at = bin_of(own)
    below = importances.number_below[stream, at]
    total = importances.total_below[stream, at]
    inside = importances.number_below[stream, at + 1] - below
    if inside > 0.0:
        # Those in its own bin count as if all had the mean of the bin.
        amount = importances.total_below[stream, at + 1] - total
        if amount / inside < own:
            below += inside
            total += amount
    share_below = below / number
    total_below = total / number
    if combine == MIN:
        return total_below + (1.0 - share_below) * own
    return share_below * own + (mean - total_below)
