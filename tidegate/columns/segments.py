"""Rows that stand together in memory: copied and joined end to end.

Law: a segment has one array per column, in stored form, and its rows have consecutive addresses
from `base` on. What `copied` and `merged` return shares no memory with what they were given, and
is as large as its rows ask for.

Segments are made in blocks of Arrow's *system* pool, of exactly their size: two blocks at most, one
for plain columns and one for all others. Measured with strings and lists, Arrow's default pool kept
up to twice the bytes that it had handed out, and did not return them when asked to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.columns.pages import OWN_POOL
from tidegate.columns.sizes import exact_row_sizes, held_bytes
from tidegate.columns.storage import Codec

Addresses = NDArray[np.int64]
_SMALL_BLOCK = 1 << 14  # bytes: below, arrays stay where Arrow has made them
_WIDTHS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


@dataclass
class Segment:
    """Some rows of a stream."""

    base: int  # address of the first row
    arrays: list[pa.Array]
    rows: int

    @property
    def end(self) -> int:
        return self.base + self.rows

    @cached_property
    def held(self) -> int:
        """Bytes of the memory behind its arrays."""
        return held_bytes(self.arrays)

    @cached_property
    def starts(self) -> list[int | None]:
        """Where a column of plain values would have the value of address 0; None for others."""
        return [
            array.buffers()[1].address + (array.offset - self.base) * array.type.bit_width // 8
            if reads_at_once(array)
            else None
            for array in self.arrays
        ]

    @cached_property
    def nbytes(self) -> int:
        """Bytes of its own rows: less than `held` if it is a slice of something larger."""
        return sum(array.nbytes for array in self.arrays)

    @cached_property
    def largest_row(self) -> float:
        return float(self.row_sizes().max(initial=0.0))

    def row_sizes(self) -> NDArray[np.float64]:
        return exact_row_sizes(self.as_table())

    def size_of_first(self, rows: int) -> int:
        return sum(array.slice(0, rows).nbytes for array in self.arrays)

    def as_table(self) -> pa.Table:
        names = [str(at) for at in range(len(self.arrays))]
        return pa.Table.from_arrays(self.arrays, names)

    def part(self, begin: int, end: int) -> Segment:
        """A copy of some of its rows; they keep their addresses."""
        arrays = copied([array.slice(begin, end - begin) for array in self.arrays])
        return Segment(self.base + begin, arrays, end - begin)

    def recoded(self, old: Sequence[Codec], new: Sequence[Codec]) -> Segment:
        """The same rows with the numbers of other lists of categories."""
        arrays = [
            after.encoded(before.decoded(array), only_used=True)
            if after.all_categories()
            else array
            for before, after, array in zip(old, new, self.arrays, strict=True)
        ]
        return Segment(self.base, copied(arrays), self.rows)


def reads_at_once(array: pa.Array) -> bool:
    """Is it one value after the other, of a width that a CPU reads at once?"""
    kind = array.type
    simple = pa.types.is_primitive(kind) and not pa.types.is_boolean(kind)
    return simple and array.null_count == 0 and kind.bit_width in _WIDTHS


def values_of(array: pa.Array) -> NDArray[np.generic]:
    width = _WIDTHS[array.type.bit_width]
    if len(array) == 0:
        return np.empty(0, width)
    return np.frombuffer(array.buffers()[1], width)[array.offset :][: len(array)]


def in_a_block(
    kinds: Sequence[pa.DataType],
    count: int,
    fill: Callable[[int, NDArray[np.generic]], None],
    pool: pa.MemoryPool,
) -> list[pa.Array]:
    """Plain arrays in one block of a pool; `fill(k, values)` writes the k-th.

    Asking the system for fresh pages takes as long as filling them; a pool has used ones.
    """
    widths = [np.dtype(_WIDTHS[kind.bit_width]) for kind in kinds]
    ends = np.cumsum([-(-count * width.itemsize // 64) * 64 for width in widths])
    if not len(ends):
        return []
    block = pa.allocate_buffer(int(ends[-1]), pool)
    content = np.frombuffer(block, np.uint8)
    arrays = []
    begin = 0
    for at, (kind, width, end) in enumerate(zip(kinds, widths, ends, strict=True)):
        fill(at, content[begin:end].view(width)[:count])
        data = block.slice(begin, count * width.itemsize)
        arrays.append(pa.Array.from_buffers(kind, count, [None, data], 0))
        begin = int(end)
    return arrays


def in_one_block(arrays: list[pa.Array], are_copies: bool) -> list[pa.Array]:
    """The same rows in a block of their own (a record batch of Arrow IPC); few are left alone."""
    if sum(array.nbytes for array in arrays) < _SMALL_BLOCK:
        return arrays if are_copies else [pa.concat_arrays([array]) for array in arrays]
    batch = pa.RecordBatch.from_arrays(arrays, [str(at) for at in range(len(arrays))])
    block = batch.serialize(memory_pool=OWN_POOL)
    return pa.ipc.read_record_batch(block, batch.schema).columns


def in_columns(
    plain: Sequence[bool], filled: list[pa.Array], others: list[pa.Array]
) -> list[pa.Array]:
    quick, slow = iter(filled), iter(others)
    return [next(quick) if is_plain else next(slow) for is_plain in plain]


def copied(arrays: Sequence[pa.Array]) -> list[pa.Array]:
    """The same rows in memory of their own."""
    return merged([arrays])


def merged(parts: Sequence[Sequence[pa.Array]]) -> list[pa.Array]:
    """The rows of several segments, end to end, in memory of their own."""
    columns = [list(column) for column in zip(*parts, strict=True)]
    plain = [all(map(reads_at_once, column)) for column in columns]
    quick = [column for column, is_plain in zip(columns, plain, strict=True) if is_plain]

    def fill(at: int, out: NDArray[np.generic]) -> None:
        np.concatenate([values_of(array) for array in quick[at]], out=out)

    count = sum(len(array) for array in columns[0]) if columns else 0
    filled = in_a_block([column[0].type for column in quick], count, fill, OWN_POOL)
    slow = [column for column, is_plain in zip(columns, plain, strict=True) if not is_plain]
    several = len(parts) > 1
    others = [pa.concat_arrays(column) if several else column[0] for column in slow]
    return in_columns(plain, filled, in_one_block(others, several) if others else [])
