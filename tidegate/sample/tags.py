"""A weight names the sampled tuples that its row belongs to.

Law: the variance of an estimate needs to know which rows were included together. Output columns
are fixed, so the lowest bits behind the point of a weight are not part of the number but a tag. A
weight of exactly 1 belongs to a row that was certain when all rows were; one of SURE to a row that
was certain after others had been lost. Both have no tag. The two lowest bits of a tag say what it
names:

| layout | retained tuples of a row | tag | a weight is off by up to |
|---|---|---|---|
| 0 | one, or a single row of a uniform sample | a name of 26 bits | 1 in 16 million |
| 1 | two (a join of three streams) | two fields, names of 15 bits | 1 in 4,000 |
| 2 | three (of four) | three fields, names of 9 bits | 1 in 2,000 |
| 3 | more | none | nothing |

It is off up or down alike, so that sums of weights are right. A field is the name of a tuple (the
lowest bit is its *sign*), then 4 bits: the share of its own weight in the weight of the row, in
fifteenths of the logarithm, 0 if it was certain.

Names are short, so tuples share them. That makes no bias: the rows of a tuple are added up with its
sign, and the products of rows of different tuples, which come with a random sign, have a mean of 0
(the sketch of second moments of streams, AMS). With 2^14 names a variance is off by 1 %, with 2^8
by 9 %.

A tag survives whatever keeps doubles: Arrow, pandas, Parquet, Spark. Weights that were rounded to
decimals have random tags, a quarter of them of layout 3, and intervals are unknown; those that
were rounded to 32 bits all have the same name, and intervals are unknown too.

The bits are read by arithmetic, which is exact here and which Spark has too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

ONE, TWO, THREE, NONE = range(4)  # layouts
LAYOUTS = 4.0
TAG_BITS = 28  # of layout ONE
NAMES = {TWO: 15, THREE: 9}  # bits
SHARES = 15.0
SURE = 1.0 + 2.0**-50
_CODES = 4.0  # of a key: one, two or three tuples


class Entry(NamedTuple):
    """What a row adds to the variance on behalf of some of its tuples; see `sums`.

    key
        Equal for the rows that have these tuples: their names and, below 4, how many they are.
    sign
        1 or -1: with it the row is added up.
    factor
        The product of 1 - p over these tuples, p the probability of each.
    order
        How many tuples.
    present
        Does the row have such tuples?
    main
        Is it the first of its row?
    """

    key: Any
    sign: Any
    factor: Any
    order: int
    present: Any
    main: Any


def significand_of(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights scaled into [1, 2)."""
    _, exponent = np.frexp(weights)
    return np.ldexp(weights, 1 - exponent)


def bits_of(significand: Any) -> Any:
    """All bits of a significand in [1, 2), as a whole number."""
    return significand * 2.0**52


def layout_of(bits: Any) -> Any:
    """What the tag of a weight names."""
    return bits % LAYOUTS


def entries(
    weight: Any,
    bits: Any,
    floor: Callable[[Any], Any],
    where: Callable[[Any, Any, Any], Any],
    layouts: Collection[float] = (TWO, THREE),
) -> list[Entry]:
    """The entries of rows, as arrays of numpy or columns of Spark; of these layouts, and ONE.

    The first has each row that has no tuple to name: a certain one (key -1, or -3 if others had
    been lost), or one of layout NONE (key -2).
    """
    layout = layout_of(bits)
    uncertain = weight > SURE
    named = uncertain & (layout < float(NONE))
    single = uncertain & (layout == float(ONE))
    own = floor(bits % 2.0**TAG_BITS / LAYOUTS) * _CODES
    nothing = where(uncertain, -2.0, where(weight > 1.0, -3.0, -1.0))
    found = [
        Entry(
            key=where(single, own, nothing),
            sign=1.0,
            factor=where(single, 1.0 - 1.0 / weight, 0.0),
            order=1,
            present=single | ~named,
            main=single | ~named,
        )
    ]
    for kind, retained in ((TWO, 2), (THREE, 3)):
        if kind in layouts:
            is_kind = uncertain & (layout == float(kind))
            found += _entries_of(weight, bits, is_kind, NAMES[kind], retained, floor)
    return found


def _entries_of(
    weight: Any, bits: Any, is_kind: Any, size: int, retained: int, floor: Any
) -> list[Entry]:
    """Of rows with so many retained tuples: an entry for each set of them."""
    rest = floor(bits % 2.0 ** (retained * (size + 4) + 2) / LAYOUTS)
    fields: list[Any] = []
    for _ in range(retained):  # the last tuple stands in the lowest bits
        fields.insert(0, rest % 2.0 ** (size + 4))
        rest = floor(rest / 2.0 ** (size + 4))
    shares = [field % (SHARES + 1.0) for field in fields]
    names = [floor(field / (SHARES + 1.0)) for field in fields]
    found, is_first = [], is_kind
    for order in range(1, retained + 1):
        for chosen in combinations(range(retained), order):
            present, key, sign, factor = is_kind, 0.0, 1.0, 1.0
            for at in chosen:
                present = present & (shares[at] > 0.0)
                key = key * 2.0 ** (size - 1) + floor(names[at] / 2.0)
                sign = sign * (1.0 - 2.0 * (names[at] % 2.0))
                factor = factor * (1.0 - weight ** (-shares[at] / SHARES))
            main = present & is_first if order == 1 else present & ~present
            if order == 1:
                is_first = is_first & ~present
            found.append(Entry(key * _CODES + (order - 1.0), sign, factor, order, present, main))
    return found


def tagged(weights: NDArray[np.float64], tags: NDArray[np.uint64]) -> NDArray[np.float64]:
    """These weights, each with the lowest bits of a tag of layout ONE; those of 1 stay."""
    bits = weights.view(np.uint64)
    mask = np.uint64(2**TAG_BITS - 1)
    names = (tags << np.uint64(2)) & mask
    marked = ((bits & ~mask) | names).view(np.float64)
    return np.where(weights == 1.0, 1.0, marked)
