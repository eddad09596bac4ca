"""Columnar tuples, merged into order of arrival.

Law: inside one push tuples are taken by time, ties by stream, then by input order. Each stream's
part is sorted once (if it was not sorted already); the streams are merged on the fly by the driver,
so a push of time-ordered tables costs no sorting at all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.compiled.frames import frame
from tidegate.compiled.kernel import step

# What a tuple that can match does when it arrives: it looks for partners and stays, is only found
# by later ones, or looks and does not stay (`engine.searching`).
SEARCHES, WAITS, PASSES = 1, 2, 3


@frame
class Arrivals(NamedTuple):
    """One push: the tuples of all streams, stream after stream, each part sorted by time."""

    begin: NDArray[np.int64]  # [stream]: where its part begins
    end: NDArray[np.int64]
    time: NDArray[np.int64]
    code: NDArray[np.int64]
    row: NDArray[np.int64]  # address of the payload in the stream's store
    importance: NDArray[np.float64]
    matchable: NDArray[np.uint8]  # 0, SEARCHES, WAITS or PASSES
    values: NDArray[np.int64]  # [arrival, k], floats as their bits
    reals: NDArray[np.float64]  # the same memory, read as floats
    spans: NDArray[np.int64]  # [arrival, k, (begin, length)] into items and weights
    items: NDArray[np.int64]
    weights: NDArray[np.float64]
    size: NDArray[np.int64]  # bytes of the payload (only under a budget in bytes)


@step
def earliest(time, cursor, end):
    """The stream whose next tuple comes first (ties: the lower stream), or -1 at the end."""
    best = -1
    for stream in range(len(cursor)):
        if cursor[stream] < end[stream] and (best < 0 or time[cursor[stream]] < time[cursor[best]]):
            best = stream
    return best
