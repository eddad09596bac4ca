"""Which policy is best, from what contenders found in the last windows; and how sure that is.

Law: a verdict follows from the blocks alone. A block is what the join and each contender earned
between two reviews.

All results of the join are known. A contender's are known of a sample, and its miniature may do
better or worse than the policy does in the large; that *bias* is measured while the policy is in
force, and taken off later. Two contenders are compared on the same tuples, so what the sample has
too much of cancels out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

SIGMAS = 1.6


class Lead(NamedTuple):
    """By how much one is ahead: the logarithm of a ratio, and its standard error."""

    ahead: float
    error: float


def lead(above: NDArray[np.float64], below: NDArray[np.float64]) -> Lead:
    """Of one over the other, block by block (jackknife).

    >>> lead(np.array([2.0, 2.0, 2.0]), np.array([1.0, 1.0, 1.0])).error
    0.0
    """
    tiny = 1e-9 * (above.sum() + below.sum()) + 1e-300

    def ratio(one: Any, other: Any) -> Any:
        return np.log((one + tiny) / (other + tiny))

    count = len(above)
    without = ratio(above.sum() - above, below.sum() - below)
    error = np.sqrt((count - 1) / count * np.square(without - without.mean()).sum())
    return Lead(float(ratio(above.sum(), below.sum())), float(error))


def believed(measured: Lead) -> float:
    """A bias, as far as it is more than noise."""
    if not measured.ahead:
        return 0.0
    return measured.ahead * max(0.0, 1.0 - (SIGMAS * measured.error / measured.ahead) ** 2)


def rounded(sums: Any) -> NDArray[np.float64]:
    """Nine digits: the last ones of a sum depend on how rows were cut into pushes."""
    digits, exponent = np.frexp(np.asarray(sums, np.float64))
    return np.asarray(np.ldexp(np.round(digits * 2.0**30) * 2.0**-30, exponent))
