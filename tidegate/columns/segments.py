"""Rows that stand together in memory: copied and joined end to end.

Law: a segment's rows have consecutive addresses from `base` on. As it was pushed it has one Arrow
array per column. Once it is `packed`, its columns of fixed width without NULLs stand row by row in
one block of memory, so that gathering a row for output touches one or two cache lines instead of
one per column (measured: 2.6 instead of 6.4 ns per value, with windows that outgrow the cache).
What `packed` and `merged` return shares no memory with what they were given, and is as large as its
rows ask for.

Blocks come from Arrow's *system* pool, of exactly their size: two at most, one for rows and one for
all other columns. Measured with strings and lists, Arrow's default pool kept up to twice the bytes
that it had handed out, and did not return them when asked to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.columns.moving import COLUMN_BLOCK, PACKED_BLOCK, copy_values, find_homes
from tidegate.columns.pages import OWN_POOL
from tidegate.columns.sizes import VALIDITY, held_bytes, row_sizes
from tidegate.columns.storage import Codec

Addresses = NDArray[np.int64]
Homes = NDArray[np.int16]
Place = tuple[int, int]  # where a column would have the value of address 0, and its stride
PARTS = 8  # a segment holds at most such a part of the rows alive, so that it can leave as a whole
SMALL = 16_384  # rows: segments below are not divided
LARGE = 1 << 20  # bytes: more columns than that are written past the CPU's caches
_SMALL_BLOCK = 1 << 14  # bytes: below, arrays stay where Arrow has made them
_WIDTHS = {8, 16, 32, 64}  # bits


@dataclass
class Segment:
    """Some rows of a stream."""

    base: int  # address of the first row
    rows: int
    kinds: Sequence[pa.DataType]  # of all columns
    arrays: list[pa.Array | None]  # None: the column stands in the block
    block: pa.Buffer | None = None  # None: as it was pushed, in memory of the pushed table

    @property
    def end(self) -> int:
        return self.base + self.rows

    @cached_property
    def row_width(self) -> int:
        """Bytes of a row of the block."""
        return sum(_width(kind) for kind in self._packed_kinds)

    @property
    def _packed_kinds(self) -> list[pa.DataType]:
        return [k for k, array in zip(self.kinds, self.arrays, strict=True) if array is None]

    @property
    def _others(self) -> list[pa.Array]:
        return [array for array in self.arrays if array is not None]

    @cached_property
    def held(self) -> int:
        """Bytes of the memory behind it."""
        return held_bytes(self._others) + (self.block.size if self.block else 0)

    def all_arrays(self) -> list[pa.Array]:
        """All that is held, for `held_bytes`."""
        block = [] if self.block is None else [_bytes_of(self.block)]
        return [*self._others, *block]

    @cached_property
    def nbytes(self) -> int:
        """Bytes of its own rows: less than `held` if it is a slice of something larger."""
        return self.size_of_first(self.rows)

    def size_of_first(self, rows: int) -> int:
        return rows * self.row_width + sum(a.slice(0, rows).nbytes for a in self._others)

    @cached_property
    def largest_row(self) -> float:
        return float(self.row_sizes().max(initial=0.0))

    def row_sizes(self) -> NDArray[np.float64]:
        inside = sum(_width(kind) + VALIDITY for kind in self._packed_kinds)
        return inside + row_sizes(self._others, self.rows)

    @cached_property
    def places(self) -> list[Place | None]:
        """Of each column of plain values; None for others."""
        found: list[Place | None] = []
        offset = 0
        for kind, array in zip(self.kinds, self.arrays, strict=True):
            if array is None and self.block is not None:
                start = self.block.address + offset - self.base * self.row_width
                found.append((start, self.row_width))
                offset += _width(kind)
            elif array is not None and reads_at_once(array):
                start = array.buffers()[1].address + (array.offset - self.base) * _width(kind)
                found.append((start, _width(kind)))
            else:
                found.append(None)
        return found

    def column(self, at: int) -> pa.Array:
        """One column as an Arrow array; a copy if it stands in the block."""
        array = self.arrays[at]
        if array is not None:
            return array
        rows, homes = np.arange(self.base, self.end), np.zeros(self.rows, np.int16)
        return Sources([self]).columns_at([at], rows, homes, OWN_POOL)[0]

    def packed(self, begin: int, end: int) -> Segment:
        """A copy of some of its rows, row by row; they keep their addresses."""
        if self.block is None:
            return self._packed(Sources([self]), begin, end)
        part = self.block.slice(begin * self.row_width, (end - begin) * self.row_width)
        others = [None if a is None else a.slice(begin, end - begin) for a in self.arrays]
        base = self.base + begin
        return Segment(base, end - begin, self.kinds, _copied(others), _joined([part]))

    def in_parts(self, alive_rows: int) -> list[Segment]:
        """Packed, in parts that can leave one by one; as it is if it is packed."""
        if self.block is not None:
            return [self]
        alone, step = Sources([self]), largest_part(alive_rows)
        begins = range(0, self.rows, step)
        return [self._packed(alone, begin, min(begin + step, self.rows)) for begin in begins]

    def _packed(self, alone: Sources, begin: int, end: int) -> Segment:
        rows = np.arange(self.base + begin, self.base + end)
        block = alone.rows_at(rows, np.zeros(len(rows), np.int16))
        others = [
            None if is_plain or array is None else array.slice(begin, end - begin)
            for is_plain, array in zip(alone.plain, self.arrays, strict=True)
        ]
        return Segment(self.base + begin, len(rows), self.kinds, _copied(others), block)

    def recoded(self, old: Sequence[Codec], new: Sequence[Codec]) -> Segment:
        """The same rows with the numbers of other lists of categories."""
        arrays: list[pa.Array | None] = [
            after.encoded(before.decoded(self.column(at)), only_used=True)
            if after.all_categories()
            else self.column(at)
            for at, (before, after) in enumerate(zip(old, new, strict=True))
        ]
        return Segment(self.base, self.rows, self.kinds, arrays).packed(0, self.rows)


def largest_part(rows: int) -> int:
    """Rows of a segment at most, where so many are alive."""
    return max(SMALL, rows // PARTS)


def _width(kind: pa.DataType) -> int:
    return kind.bit_width // 8


def _bytes_of(block: pa.Buffer) -> pa.Array:
    return pa.Array.from_buffers(pa.uint8(), block.size, [None, block], 0)


def reads_at_once(array: pa.Array) -> bool:
    """Is it one value after the other, of a width that a CPU reads at once?"""
    kind = array.type
    simple = pa.types.is_primitive(kind) and not pa.types.is_boolean(kind)
    return simple and array.null_count == 0 and kind.bit_width in _WIDTHS


def are_packed_alike(segments: Sequence[Segment]) -> bool:
    """Do the same columns stand in their blocks?"""
    first = [array is None for array in segments[0].arrays]
    return all([array is None for array in s.arrays] == first for s in segments)


def merged(segments: Sequence[Segment]) -> Segment:
    """The rows of several packed segments that follow each other, in memory of their own."""
    first = segments[0]
    rows = sum(segment.rows for segment in segments)
    block = _joined([segment.block for segment in segments if segment.block is not None])
    others = [
        None if column[0] is None else pa.concat_arrays(column)
        for column in zip(*(segment.arrays for segment in segments), strict=True)
    ]
    return Segment(first.base, rows, first.kinds, in_one_block(others, True), block)


def _joined(blocks: Sequence[pa.Buffer]) -> pa.Buffer:
    """Copies of blocks, end to end."""
    joined = pa.allocate_buffer(sum(block.size for block in blocks), OWN_POOL)
    if joined.size:
        parts = [np.frombuffer(block, np.uint8) for block in blocks]
        np.concatenate(parts, out=np.frombuffer(joined, np.uint8))
    return joined


def _copied(arrays: list[pa.Array | None]) -> list[pa.Array | None]:
    return in_one_block(arrays, False)


def in_one_block(arrays: list[pa.Array | None], are_copies: bool) -> list[pa.Array | None]:
    """The same rows in a block of their own (a record batch of Arrow IPC); few are left alone."""
    given = [array for array in arrays if array is not None]
    if sum(array.nbytes for array in given) < _SMALL_BLOCK:
        moved = given if are_copies else [pa.concat_arrays([array]) for array in given]
    else:
        batch = pa.RecordBatch.from_arrays(given, [str(at) for at in range(len(given))])
        block = batch.serialize(memory_pool=OWN_POOL)
        moved = pa.ipc.read_record_batch(block, batch.schema).columns
    each = iter(moved)
    return [None if array is None else next(each) for array in arrays]


class Sources:
    """Segments in order of address, and where their columns of plain values stand."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.segments = segments
        self.kinds = segments[0].kinds
        self.bases = np.array([segment.base for segment in segments], np.int64)
        self.ends = np.array([segment.end for segment in segments], np.int64)
        self.plain = [
            None not in column for column in zip(*(s.places for s in segments), strict=True)
        ]
        places = [[s.places[at] for s in segments] for at in self.plain_columns]
        numbers = np.array(places, np.int64).reshape(len(places), len(segments), 2)
        self._starts, self._strides = numbers[..., 0].copy(), numbers[..., 1].copy()

    @cached_property
    def plain_columns(self) -> list[int]:
        """The columns of plain values in all segments."""
        return [at for at, is_plain in enumerate(self.plain) if is_plain]

    def homes_of(self, addresses: Addresses) -> Homes:
        """The number of the segment of each address."""
        homes = np.empty(len(addresses), np.int16)
        table = np.empty(1024, np.int64)
        if len(addresses) and not find_homes(self.bases, self.ends, addresses, table, homes):
            raise RuntimeError("a payload address is not stored; this is a fault of tidegate")
        return homes

    def rows_at(self, addresses: Addresses, homes: Homes) -> pa.Buffer:
        """The plain columns at these addresses, row by row, in a block of their own."""
        widths = [_width(self.kinds[at]) for at in self.plain_columns]
        block = pa.allocate_buffer(len(addresses) * sum(widths), OWN_POOL)
        begins = np.cumsum([0, *widths])[:-1]
        self._copy(self.plain_columns, addresses, homes, block, begins, [sum(widths)] * len(widths))
        return block

    def columns_at(
        self, columns: Sequence[int], addresses: Addresses, homes: Homes, pool: pa.MemoryPool
    ) -> list[pa.Array]:
        """Plain columns at these addresses, one after the other in one block of a pool.

        Asking the system for fresh pages takes as long as filling them; a pool has used ones.
        """
        count = len(addresses)
        kinds = [self.kinds[at] for at in columns]
        widths = [_width(kind) for kind in kinds]
        begins = np.cumsum([0, *(-(-count * width // 64) * 64 for width in widths)])
        block = pa.allocate_buffer(int(begins[-1]), pool)
        past = block.size >= LARGE
        self._copy(columns, addresses, homes, block, begins[:-1], widths, past)
        return [
            pa.Array.from_buffers(kind, count, [None, block.slice(begin, count * width)], 0)
            for kind, width, begin in zip(kinds, widths, begins.tolist(), strict=False)
        ]

    def _copy(
        self,
        columns: Sequence[int],
        addresses: Addresses,
        homes: Homes,
        block: pa.Buffer,
        begins: NDArray[np.int64],
        steps: Sequence[int],
        past: bool = False,
    ) -> None:
        if not block.size:
            return
        at = [self.plain_columns.index(column) for column in columns]
        starts, strides = self._starts[at], self._strides[at]
        alike = bool((starts - starts[0] == (starts - starts[0])[:, :1]).all())
        alike &= bool((strides == strides[0]).all())
        widths = np.array([_width(self.kinds[column]) for column in columns], np.int64)
        outs = block.address + begins
        is_packed = len(columns) > 1 and alike and strides[0, 0] > widths[0]
        room = np.empty(PACKED_BLOCK if is_packed else COLUMN_BLOCK, np.int64)
        numbers = (widths, outs, np.array(steps, np.int64), past, room)
        copy_values(starts, strides, alike, homes, addresses, *numbers)
