"""Hashes of keys, and where the search for one begins in a table.

Law: a table is open addressing with places in a row. A search begins at the place of its hash and
goes on to the next place until it finds an empty one; the first comes after the last.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidegate.compiled.kernel import step

_MIX_1 = np.uint64(0xFF51AFD7ED558CCD)
_MIX_2 = np.uint64(0xC4CEB9FE1A85EC53)
_HALF = np.uint64(32)
_ODD = np.uint64(33)


@step
def mark_of(code):
    """The hash by which a key is known when it has no record; never 0."""
    mixed = np.uint64(code)
    mixed = (mixed ^ (mixed >> _ODD)) * _MIX_1
    mixed = (mixed ^ (mixed >> _ODD)) * _MIX_2
    return max(np.int64(1), np.int64(mixed >> _HALF))


def marks_of(codes: NDArray[np.int64]) -> NDArray[np.uint32]:
    """The hashes of many codes; see `mark_of`."""
    mixed = codes.astype(np.int64).view(np.uint64)
    for factor in (_MIX_1, _MIX_2):
        mixed = (mixed ^ (mixed >> _ODD)) * factor
    return np.maximum(1, mixed >> _HALF).astype(np.uint32)


@step
def place_of(places, mark):
    """Where the search for a hash begins, in a table of so many places."""
    return np.int64((np.uint64(mark) * np.uint64(places)) >> _HALF)


@step
def following(place, places):
    return place + 1 if place + 1 < places else np.int64(0)


@step
def ahead_of(place, home, places):
    """How many places a search from `home` has gone when it comes to `place`."""
    return place - home if place >= home else place - home + places
