"""Where a row goes: which bucket joins it, and which part of the budget that bucket has.

Law: every pair of rows that can match meets in exactly one bucket; every shuffle partition gets
exactly one bucket; what the buckets may retain sums to what the join may retain. A row's way
depends on its contents alone, so a task that runs twice sends its rows the same way twice.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tidegate.spec import Equal, JoinSpec, TidegateError
from tidegate.spec.units import bytes_text, require_integer

RouteKind = Literal["key", "grid", "single"]

# Spark's HashPartitioning takes Murmur3 with this seed, modulo the number of partitions.
SPARK_SEED = 42
_LOW_32 = 0xFFFFFFFF
# A budget is cut into no more buckets than get this much each: with less, a bucket that meets a
# few keys more than the others forgets what they have room for.
FEWEST_ROWS = 256
FEWEST_BYTES = 4_000_000  # of which VALUE needs about one before it retains a row
# The same where a bucket steers itself: its miniatures get a twentieth, and see no more than that.
FEWEST_ROWS_STEERED, FEWEST_BYTES_STEERED = 16_384, 64_000_000
# Below this no engine retains anything, whatever its policy.
SMALLEST_BYTES = 100_000


def spark_hash(label: int) -> int:
    """Spark's `hash` of one 32-bit integer (Murmur3, x86, 32 bits)."""
    block = _rotate((label & _LOW_32) * 0xCC9E2D51 & _LOW_32, 15) * 0x1B873593 & _LOW_32
    state = (_rotate(SPARK_SEED ^ block, 13) * 5 + 0xE6546B64) & _LOW_32
    state ^= 4
    state = (state ^ state >> 16) * 0x85EBCA6B & _LOW_32
    state = (state ^ state >> 13) * 0xC2B2AE35 & _LOW_32
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _LOW_32


@lru_cache(maxsize=16)
def partition_labels(partitions: int) -> tuple[int, ...]:
    """For each shuffle partition the smallest label that Spark sends there.

    Numbers 0 to P-1 will not do: Spark's hash put both of two such buckets into one partition.
    """
    found: dict[int, int] = {}
    for label in itertools.count():
        found.setdefault(spark_hash(label) % partitions, label)
        if len(found) == partitions:
            return tuple(found[partition] for partition in range(partitions))
    raise AssertionError("unreachable")


def grid_shape(cells: int, dimensions: int) -> tuple[int, ...]:
    """The sides of a grid of at most `cells` cells, as equal as they can be.

    >>> grid_shape(12, 2), grid_shape(7, 2), grid_shape(2, 2), grid_shape(8, 3)
    ((3, 4), (2, 3), (1, 2), (2, 2, 2))
    """
    sides: list[int] = []
    for left in range(dimensions, 0, -1):
        used = math.prod(sides)
        side = max(1, round((cells / used) ** (1 / left)))
        while used * side**left > cells and side > 1:
            side -= 1
        sides.append(cells // used if left == 1 else side)
    return tuple(sides)


@dataclass(frozen=True)
class Routing:
    """How rows are spread, before the number of partitions is known.

    That number comes with the running task, not with the session that plans the query: on a
    restart Spark keeps the partitions of the checkpoint whatever the session says. `most` bounds
    the buckets where a budget cannot feed one per partition.
    """

    kind: RouteKind
    streams: int
    most: int | None = None

    @classmethod
    def of(cls, spec: JoinSpec, buckets: int | None = None) -> Routing:
        """Choose by key where an equality splits the join, else a grid.

        A count window holds the last rows of the whole stream, so it cannot be split at all.
        `buckets` is the user's own bound.
        """
        most = most_buckets(spec) if buckets is None else _checked_buckets(spec, buckets)
        if any(window.kind == "rows" for window in spec.windows):
            return cls("single", len(spec.streams), most)
        keyed = any(isinstance(predicate, Equal) for predicate in spec.predicates)
        return cls("key" if keyed else "grid", len(spec.streams), most)

    def layout(self, partitions: int) -> Layout:
        """Lay the buckets out over a number of shuffle partitions."""
        return Layout(self, partitions)


@dataclass(frozen=True)
class Layout:
    """The buckets of a running join, numbered from 0, and the way to them."""

    routing: Routing
    partitions: int

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The sides of the grid; one side where a row has one bucket only."""
        if self.routing.kind == "grid":
            return grid_shape(self._most, self.routing.streams)
        return (1,) if self.routing.kind == "single" else (self._most,)

    @property
    def _most(self) -> int:
        """As many buckets as there can be: one per partition, fewer where a budget is small."""
        return min(self.partitions, self.routing.most or self.partitions)

    @property
    def fewer(self) -> bool:
        """Whether a small budget, not the kind of join, keeps partitions without a bucket."""
        return self.routing.kind != "single" and self._most < self.partitions

    def warnings(self, spec: JoinSpec) -> list[str]:
        """What is to be said about the number of buckets."""
        if not self.fewer:
            return []
        noun = "bucket" if self.buckets == 1 else "buckets"
        little = "know too little of what it loses" if steers(spec) else "keep next to nothing"
        return [
            f"memory {spec.memory!r} is cut into {self.buckets} {noun} instead of one for each of "
            f"the {self.partitions} shuffle partitions, since one with less would {little}; give "
            f"more memory, or set spark.sql.shuffle.partitions to {self.buckets}"
        ]

    @cached_property
    def buckets(self) -> int:
        """How many buckets there are, at most one per partition."""
        return math.prod(self.shape)

    @cached_property
    def labels(self) -> tuple[int, ...]:
        """The label of each bucket: what Spark groups by."""
        return partition_labels(self.partitions)[: self.buckets]

    def bucket_of(self, label: int) -> int:
        """The number of the bucket with a label."""
        return self.labels.index(label)

    def lanes(self, stream: int) -> int:
        """Into how many groups the rows of a stream fall; a group goes to `targets`."""
        return self.shape[stream if self.routing.kind == "grid" else 0]

    def lane_of(self, stream: int, hashes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The group of each row."""
        return np.mod(hashes, self.lanes(stream))

    def targets(self, stream: int, lane: int) -> tuple[int, ...]:
        """The buckets that get a group's rows; the first is their home, where they are counted."""
        if self.routing.kind != "grid":
            return (lane,)
        cells = np.arange(self.buckets).reshape(self.shape)
        return tuple(int(cell) for cell in np.take(cells, lane, axis=stream).ravel())


def steers(spec: JoinSpec) -> bool:
    """Has the join miniatures, for a target or its retention curve?"""
    return spec.target is not None or spec.miniatures is not None


def most_buckets(spec: JoinSpec) -> int | None:
    """Into how many buckets a budget may be cut; None where there is none.

    >>> spec = JoinSpec(on="k", time="t", within="1 s", memory=1000)
    >>> [most_buckets(spec.replace(memory=memory)) for memory in (10, 1000, "20 MB", None)]
    [1, 3, 5, None]
    >>> most_buckets(spec.replace(memory=100_000, target="recall >= 0.9"))
    6
    """
    steered = steers(spec)
    if spec.memory_bytes is not None:
        if spec.memory_bytes < SMALLEST_BYTES:
            raise TidegateError(
                f"memory {spec.memory!r} is too small for a join; give {bytes_text(SMALLEST_BYTES)}"
                " or more, or a number of tuples"
            )
        return max(1, spec.memory_bytes // (FEWEST_BYTES_STEERED if steered else FEWEST_BYTES))
    fewest = FEWEST_ROWS_STEERED if steered else FEWEST_ROWS
    return None if spec.memory_rows is None else max(1, spec.memory_rows // fewest)


def _checked_buckets(spec: JoinSpec, buckets: int) -> int:
    """The user's number of buckets, which the budget must be able to feed at all."""
    if require_integer(buckets, "buckets") < 1:
        raise TidegateError(f"buckets {buckets} is below 1; give 1 or more")
    if spec.memory_rows is not None and spec.memory_rows < buckets:
        needed, most = f"{buckets} tuples", spec.memory_rows
    elif spec.memory_bytes is not None and spec.memory_bytes < buckets * SMALLEST_BYTES:
        needed, most = bytes_text(buckets * SMALLEST_BYTES), spec.memory_bytes // SMALLEST_BYTES
    else:
        return buckets
    raise TidegateError(
        f"memory {spec.memory!r} is too small for {buckets} buckets; give {needed} or more, or at "
        f"most {max(1, most)} buckets"
    )


def share(total: int, index: int, parts: int) -> int:
    """Part `index` of a number cut into whole parts that differ by at most one.

    >>> [share(7, index, 3) for index in range(3)]
    [3, 2, 2]
    """
    return total // parts + (index < total % parts)


def bucket_seed(seed: int, bucket: int) -> int:
    """The seed of a bucket's engine; that of the first is the join's.

    Mixed (the finaliser of splitmix64), because tuples are told apart by adding to the seed
    (`shed.worth.chance`): seeds at equal distances would give buckets shifted copies of the same
    numbers.
    """
    if bucket == 0:
        return seed
    mixed = (seed + bucket * 0x9E3779B97F4A7C15) % 2**64
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % 2**64
    return (mixed ^ mixed >> 31) >> 1


def bucket_spec(spec: JoinSpec, bucket: int, buckets: int) -> JoinSpec:
    """What one bucket's engine is asked for: its part of the budgets, and chance of its own."""
    changes: dict[str, object] = {"seed": bucket_seed(spec.seed, bucket)}
    if spec.memory_bytes is not None:
        changes["memory"] = f"{share(spec.memory_bytes, bucket, buckets)} bytes"
    if spec.memory_rows is not None:
        rows = spec.split_rows or ()
        # Streams start at different buckets, so that their remainders do not pile up.
        parts = [
            share(count, (bucket + stream) % buckets, buckets) for stream, count in enumerate(rows)
        ]
        slack = share(spec.memory_rows - sum(rows), bucket, buckets)
        changes["memory"] = sum(parts) + slack
        if parts:
            changes["split"] = tuple(parts)
    if spec.cpu is not None and spec.cpu.comparisons_per_second is not None:
        rate = spec.cpu.comparisons_per_second / buckets
        changes["cpu"] = dataclasses.replace(spec.cpu, comparisons_per_second=rate)
    elif spec.cpu is not None:
        # What a machine can do is decided once, outside, and comes with each push.
        changes["cpu"] = dataclasses.replace(spec.cpu, share_of_core=None, keep_up=True)
    return spec.replace(**changes)
