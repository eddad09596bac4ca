"""Hash index of streams whose tuples leave in the order in which they came.

Law: nobody is taken out. The tuples of a stream are numbered as they are taken, so those it holds
are the last `held` of them, from number `since` on, and a number says by itself whether its tuple
is still there. A bucket knows number and slot of the newest tuple of each stream, a tuple those of
the one that came before it in its bucket; a chain ends where a number is no longer held.

So expiry touches no bucket, and an arrival touches one and no other tuple. The question of
kwon2011's bit-vector hash table (does this stream hold a tuple in this bucket?) is answered by a
comparison, and the bit falls when the last tuple of the bucket leaves, without being told.

The table stands where that of `hash_table` does, and is told from it by its shape: [bucket, stream]
are the numbers, [bucket, streams + stream] the slots. Numbers have 31 bits. None is left behind so
long that it could look held again: the table is filled anew whenever orders of arrival start again
(`state.arrays.renumber`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidegate.compiled.kernel import prefetch, step

_MASK = 2**31 - 1


def empty(streams: int, capacity: int) -> NDArray[np.int32]:
    """Buckets for `capacity` tuples of all streams together; `clear` makes them ready.

    With two streams one for each two tuples, as in `hash_table`. With more, 2.5 for each tuple of a
    stream: an arrival looks first whether all other streams have a tuple in its bucket, and tuples
    of other keys make it walk in vain.
    """
    buckets = capacity // 2 if streams == 2 else int(2.5 * capacity / streams)
    return np.zeros((max(16, buckets), 2 * streams, 1), np.int32)


def clear(buckets: NDArray[np.int32], stream: int, since: int) -> None:
    """Let no bucket hold a tuple of this stream, of whose tuples those before `since` are gone."""
    buckets[:, stream] = (since - 1) & _MASK


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
def newest_slot(buckets, bucket, stream):
    """Where the newest tuple of a bucket is, if it is held."""
    return np.int64(buckets[bucket, np.uint64(buckets.shape[1] // 2 + stream), 0])


@step
def insert(buckets, slots, stream, bucket, slot, number):
    own = np.uint64(buckets.shape[1] // 2 + stream)
    slots[slot].newer = buckets[bucket, stream, 0]  # here the number of the one before it
    slots[slot].older = buckets[bucket, own, 0]
    buckets[bucket, stream, 0] = number & _MASK
    buckets[bucket, own, 0] = slot


@step
def chain(buckets, slots, bucket, stream, since, held, code, found, begin):
    """Write the held tuples of a stream with this code into `found` from `begin` on, newest first.

    Returns where they end, and how many tuples were compared.
    """
    end, comparisons = np.uint64(begin), 0
    newer = held
    place = place_of(buckets[bucket, stream, 0], since)
    slot = np.uint64(newest_slot(buckets, bucket, stream))
    while place < newer:  # a link leads to a tuple that came before, or to nobody
        if slots[slot].code == code:
            found[end] = slot
            end += np.uint64(1)
        comparisons += 1
        newer = place
        place = place_of(slots[slot].newer, since)
        slot = np.uint64(slots[slot].older)
    return np.int64(end), comparisons


@step
def warm_row(buckets, bucket):
    """Bring a bucket near that will be asked soon; it may lie on two cache lines."""
    row = buckets.ctypes.data + np.int64(bucket) * buckets.shape[1] * 4
    prefetch(row)
    prefetch(row + buckets.shape[1] * 4 - 1)
