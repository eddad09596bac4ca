"""Which arrivals search: the effective rates of kang2003, section 5.2.1.

Law: every tuple enters its window; a random part of each stream's tuples also searches the other
windows, so results are a random subset. Whether a tuple does is drawn from the seed, its stream and
its place in it, so no cut of the input and no snapshot changes it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tidegate.spec import JoinSpec, TidegateError
from tidegate.windows.arrivals import SEARCHES, WAITS

_STREAM = 0x94D049BB133111EB
_NUMBER = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_OF_ITS_OWN = 0xD6E8FEB86659FD93  # not the draws of the policy `random`


def shares_of(spec: JoinSpec) -> tuple[float, ...] | None:
    """The part of each stream's arrivals that searches; None where all do."""
    shares = None if spec.cpu is None else spec.cpu.search_of(spec.streams)
    if shares is None or all(share == 1.0 for share in shares):
        return None
    if spec.ties != "arrival":
        raise TidegateError(
            f"cpu: search is given with ties={spec.ties!r}, where arrivals of an instant find each "
            "other without a search; give ties='arrival'"
        )
    return tuple(shares)


def draws(seed: int, stream: int, first: int, count: int) -> NDArray[np.float64]:
    """Numbers in [0, 1) for the tuples of a stream from the `first` on (splitmix64, twice)."""
    number = np.arange(first + 1, first + count + 1, dtype=np.uint64)
    state = np.uint64((seed ^ _OF_ITS_OWN) % 2**64) + _NUMBER * number
    state ^= np.uint64(_STREAM * (stream + 1) % 2**64)
    for _ in range(2):
        state = (state ^ state >> np.uint64(30)) * _MIX_1
        state = (state ^ state >> np.uint64(27)) * _MIX_2
        state ^= state >> np.uint64(31)
    return (state >> np.uint64(11)).astype(np.float64) / 2.0**53


def with_search(
    matchable: NDArray[np.uint8], shares: Sequence[float] | None, seed: int, stream: int, first: int
) -> NDArray[np.uint8]:
    """The flags of arrivals: those that can match search, or wait to be found."""
    if shares is None or shares[stream] == 1.0:
        return matchable
    searching = draws(seed, stream, first, len(matchable)) < shares[stream]
    return matchable * np.where(searching, SEARCHES, WAITS).astype(np.uint8)
