"""A weight names the sampled tuple that its row belongs to.

Law: the variance of an estimate needs to know which rows were included together. Output columns
are fixed, so the lowest 28 of the 52 bits behind the point of a weight are not part of the number
but a tag, equal for all rows that one random decision brought in: the rows of a retained tuple, or
a single row of a uniform sample. That changes a weight by less than 1 in 16 million, up or down
alike. A weight of exactly 1 belongs to a row that was certain, and has no tag.

A tag survives whatever keeps doubles: Arrow, pandas, Parquet, Spark. Weights that were rounded have
no tags left; then many rows look as if they were included together, and intervals come out too wide
rather than too narrow.

The bits are read by arithmetic, which is exact here and which Spark has too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

TAG_BITS = 28
KEPT_BITS = 52 - TAG_BITS


def tags_of(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The tag of each weight, as a share in [0, 1); 0 where it has none."""
    _, exponent = np.frexp(weights)
    return tag_within(np.ldexp(weights, 1 - exponent), np.floor)


def tag_within(significand: Any, floor: Any) -> Any:
    """The tag of a significand in [1, 2): what stands behind the bits that are kept."""
    shifted = significand * 2.0**KEPT_BITS
    return shifted - floor(shifted)


def tagged(weights: NDArray[np.float64], tags: NDArray[np.uint64]) -> NDArray[np.float64]:
    """These weights, each with the lowest bits of a tag; those of 1 stay as they are."""
    bits = weights.view(np.uint64)
    mask = np.uint64(2**TAG_BITS - 1)
    marked = ((bits & ~mask) | (tags & mask)).view(np.float64)
    return np.where(weights == 1.0, 1.0, marked)
