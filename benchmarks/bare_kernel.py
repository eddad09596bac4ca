"""The yardstick: an equi-join written by hand for exactly one case.

Law: nothing here is general. One int64 key, one int64 time, streams sorted by time, no NULLs, no
options, no statistics; room for the results is given, made beforehand. A chained hash table per
stream keeps arrival order, so the oldest tuple is always the head of its chain and expiry is one
access. What a careful engineer would write if this one join were all that is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.workload import STREAMS, Columns

Integers = NDArray[np.int64]

# 2**64 / golden ratio: multiplicative hashing spreads consecutive keys over all buckets.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


# Written out for each stream, against the custom of this project: with its steps in functions that
# both streams share, the kernel measured clearly slower, and a slow yardstick flatters the engine.
@numba.njit(cache=True)
def index_pairs(keys_0, times_0, keys_1, times_1, window, bits, out_0, out_1):
    """Fill out_0 and out_1 with the positions of matching tuples; return how many."""
    shift = np.uint64(64 - bits)
    head_0, tail_0 = np.full(1 << bits, -1, np.int32), np.full(1 << bits, -1, np.int32)
    head_1, tail_1 = np.full(1 << bits, -1, np.int32), np.full(1 << bits, -1, np.int32)
    next_0, next_1 = np.full(len(keys_0), -1, np.int32), np.full(len(keys_1), -1, np.int32)
    taken_0 = taken_1 = oldest_0 = oldest_1 = count = 0
    while taken_0 < len(keys_0) or taken_1 < len(keys_1):
        if taken_1 >= len(keys_1) or (
            taken_0 < len(keys_0) and times_0[taken_0] <= times_1[taken_1]
        ):
            now, key = times_0[taken_0], keys_0[taken_0]
            while oldest_1 < taken_1 and now - times_1[oldest_1] > window:
                old = np.int64((np.uint64(keys_1[oldest_1]) * GOLDEN) >> shift)
                head_1[old] = next_1[oldest_1]
                if next_1[oldest_1] < 0:
                    tail_1[old] = -1
                oldest_1 += 1
            while oldest_0 < taken_0 and now - times_0[oldest_0] > window:
                old = np.int64((np.uint64(keys_0[oldest_0]) * GOLDEN) >> shift)
                head_0[old] = next_0[oldest_0]
                if next_0[oldest_0] < 0:
                    tail_0[old] = -1
                oldest_0 += 1
            bucket = np.int64((np.uint64(key) * GOLDEN) >> shift)
            other = head_1[bucket]
            while other >= 0:
                if keys_1[other] == key:
                    out_0[count] = taken_0
                    out_1[count] = other
                    count += 1
                other = next_1[other]
            if tail_0[bucket] >= 0:
                next_0[tail_0[bucket]] = taken_0
            else:
                head_0[bucket] = taken_0
            tail_0[bucket] = taken_0
            taken_0 += 1
        else:
            now, key = times_1[taken_1], keys_1[taken_1]
            while oldest_0 < taken_0 and now - times_0[oldest_0] > window:
                old = np.int64((np.uint64(keys_0[oldest_0]) * GOLDEN) >> shift)
                head_0[old] = next_0[oldest_0]
                if next_0[oldest_0] < 0:
                    tail_0[old] = -1
                oldest_0 += 1
            while oldest_1 < taken_1 and now - times_1[oldest_1] > window:
                old = np.int64((np.uint64(keys_1[oldest_1]) * GOLDEN) >> shift)
                head_1[old] = next_1[oldest_1]
                if next_1[oldest_1] < 0:
                    tail_1[old] = -1
                oldest_1 += 1
            bucket = np.int64((np.uint64(key) * GOLDEN) >> shift)
            other = head_0[bucket]
            while other >= 0:
                if keys_0[other] == key:
                    out_1[count] = taken_1
                    out_0[count] = other
                    count += 1
                other = next_0[other]
            if tail_1[bucket] >= 0:
                next_1[tail_1[bucket]] = taken_1
            else:
                head_1[bucket] = taken_1
            tail_1[bucket] = taken_1
            taken_1 += 1
    return count


@numba.njit(cache=True)
def gather(column, positions, out):
    for row in range(len(positions)):
        out[row] = column[positions[row]]


@dataclass(frozen=True)
class BareJoin:
    """The kernel with its columns and with room for the positions of its results."""

    columns: dict[str, Columns]
    window: int
    bits: int
    positions: tuple[Integers, Integers]

    @classmethod
    def over(cls, columns: dict[str, Columns], window: int, room: int) -> BareJoin:
        # About two buckets per tuple of a window: short chains, and tables that fit the caches.
        bits = max(1, int(window).bit_length() + 1)
        # Filled, not only reserved: the kernel shall not pay for the pages of its own output.
        positions = (np.zeros(room, np.int64), np.zeros(room, np.int64))
        return cls(columns, window, bits, positions)

    def pairs(self) -> int:
        """Find the positions of all matches."""
        sides = [self.columns[stream] for stream in STREAMS]
        keys_and_times = [side[name] for side in sides for name in ("key", "time")]
        return int(index_pairs(*keys_and_times, self.window, self.bits, *self.positions))

    def joined(self) -> int:
        """Find all matches and gather every column of both sides into fresh arrays.

        Their memory comes from the pool that the engine's results come from: with pages fresh from
        the system the kernel would measure the system, some runs twice as slow as others.
        """
        count = self.pairs()
        self.gathered(count)
        return count

    def gathered(self, count: int) -> list[NDArray[np.generic]]:
        fresh: list[NDArray[np.generic]] = []
        for stream, positions in zip(STREAMS, self.positions, strict=True):
            for column in self.columns[stream].values():
                block = pa.allocate_buffer(count * column.itemsize)
                fresh.append(np.frombuffer(block, column.dtype))
                gather(column, positions[:count], fresh[-1])
        return fresh
