"""Inclusion probabilities of cluster samples (srivastava2004, section 4.3.1).

A retained tuple brings all its results into the sample: they are its cluster. EQ-CLUSTER retains
every tuple with the same probability, PPS-CLUSTER with one proportional to the size of its cluster.

Law: probabilities never exceed 1, and their sum is the memory where the memory does not hold all.
Where a probability proportional to size would exceed 1, the tuple is certain, and the others share
what is left of the memory, until none exceeds 1 (the paper's footnote 2).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.spec import TidegateError

Floats = NDArray[np.float64]


def inclusion_probabilities(sizes: Any, memory: float, numbers: Any = None) -> Floats:
    """Probabilities proportional to `sizes`, capped at 1, that fill the memory on average.

    Parameters
    ----------
    sizes
        The size of each cluster; all equal for EQ-CLUSTER. A cluster of size 0 is never included.
    memory
        The expected number of retained tuples.
    numbers
        How many tuples have each size, on average, in a full window; 1 each by default.

    >>> inclusion_probabilities([8, 1, 1], 2).tolist()
    [1.0, 0.5, 0.5]
    """
    size = np.asarray(sizes, np.float64)
    number = np.ones(size.shape) if numbers is None else np.asarray(numbers, np.float64)
    if not memory >= 0 or not (np.isfinite(size) & (size >= 0) & (number >= 0)).all():
        raise TidegateError("inclusion probabilities need a memory, sizes and numbers of 0 or more")
    certain = np.zeros(size.shape, np.bool_)
    while True:
        rest = memory - number[certain].sum()
        total = (number * size)[~certain].sum()
        if total == 0:
            return certain.astype(np.float64)
        probability = np.where(certain, 1.0, size * (rest / total))
        if (probability <= 1.0).all():
            return probability
        certain |= probability >= 1.0
