"""Hash index of streams whose tuples leave in the order in which they came.

Law: nobody is taken out. The tuples of a stream are numbered as they are taken, so those it holds
are the last `held` of them, from number `since` on, and a number says by itself whether its tuple
is still there. A bucket knows the newest tuple of each stream, a tuple the one that came before it
in its bucket; a chain ends where a number is no longer held.

So expiry touches no bucket, and an arrival touches one, in which it writes one number. The question
of kwon2011's bit-vector hash table (does this stream hold a tuple in this bucket?) is answered by a
comparison, and the bit falls when the last tuple of the bucket leaves, without being told.

The table stands where that of `hash_table` does, and is told from it by its shape: one number for
each bucket and stream instead of two ends. Numbers have 31 bits. When they start again, a number
that was left behind can look held; then the code of a tuple of another bucket is compared in vain.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidegate.compiled.kernel import prefetch, step

_MASK = 2**31 - 1


def empty(streams: int, capacity: int) -> NDArray[np.int32]:
    """Buckets for `capacity` tuples of all streams together.

    2.5 for each tuple of a stream: an arrival looks first whether all other streams have a tuple in
    its bucket, and tuples of other keys make it walk in vain. With two others that is soon so.
    """
    buckets = (5 if streams == 3 else 2.5) * capacity / streams
    return np.full((max(16, int(buckets)), streams, 1), -1, np.int32)


def is_table_of(buckets: NDArray[np.int32]) -> bool:
    """Is this a table of numbers?"""
    return buckets.shape[2] == 1


@step
def place_of(number, since):
    """How many of the held tuples came before the one with this number; more than all if gone."""
    return (np.int64(number) - since) & _MASK


@step
def lacks_somebody(buckets, bucket, stream, since, held):
    """Has another stream no tuple in this bucket? Without a branch, which nobody could predict."""
    lacking = 0
    for other in range(len(held)):
        is_gone = place_of(buckets[bucket, other, 0], since[other]) >= held[other]
        lacking += is_gone & (other != stream)
    return lacking > 0


@step
def insert(buckets, slots, stream, bucket, slot, number):
    slots[slot].older = buckets[bucket, stream, 0]
    buckets[bucket, stream, 0] = number & _MASK


@step
def warm_row(buckets, bucket):
    """Bring a bucket near that will be asked soon; it may lie on two lines of the CPU's cache."""
    row = buckets.ctypes.data + np.int64(bucket) * buckets.shape[1] * 4
    prefetch(row)
    prefetch(row + buckets.shape[1] * 4 - 1)
