"""The columns that tuples carry along: stored as they came, gathered only for output.

Law: a row has an *address* from the moment it is appended until it is compacted; addresses grow
and are never used twice. Segments stand in order of address, without holes between them. What is
stored is at most twice what is alive, plus one push; merging and compacting cost a constant number
of copies per row (times the logarithm of the number of segments).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Addresses = NDArray[np.int64]


def storable(table: pa.Table) -> pa.Table:
    """The table with columns that Arrow can gather; `restored` brings the types back."""
    for at, field in enumerate(table.schema):
        kind = _storage_type(field.type)
        if pa.types.is_run_end_encoded(field.type):
            plain = [pc.run_end_decode(chunk) for chunk in table.column(at).chunks]
            table = table.set_column(at, field.with_type(kind), pa.chunked_array(plain, kind))
        elif kind != field.type:
            table = table.set_column(at, field.with_type(kind), table.column(at).cast(kind))
    return table


def _storage_type(kind: pa.DataType) -> pa.DataType:
    if kind == pa.string_view():
        return pa.large_string()
    if kind == pa.binary_view():
        return pa.large_binary()
    if pa.types.is_run_end_encoded(kind):
        return kind.value_type
    return kind


def restored(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """A gathered column in the type in which it came."""
    if column.type == kind:
        return column
    if pa.types.is_run_end_encoded(kind):
        ends = kind.run_end_type
        chunks = [pc.run_end_encode(chunk, run_end_type=ends) for chunk in column.chunks]
        return pa.chunked_array(chunks, kind)
    return column.cast(kind)


@dataclass
class _Segment:
    base: int
    table: pa.Table  # one chunk per column

    @property
    def end(self) -> int:
        return self.base + self.table.num_rows


def _joined(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).combine_chunks()


class Payload:
    """The stored rows of one stream."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._storage = storable(schema.empty_table()).schema
        self._segments: list[_Segment] = []
        self._next = 0

    @property
    def end(self) -> int:
        """The address that the next row will get."""
        return self._next

    @property
    def rows(self) -> int:
        return sum(segment.table.num_rows for segment in self._segments)

    @property
    def nbytes(self) -> int:
        return sum(segment.table.get_total_buffer_size() for segment in self._segments)

    def append(self, table: pa.Table) -> int:
        """Store a table; returns the address of its first row."""
        base = self._next
        if table.num_rows:
            stored = _joined([storable(table)])
            if stored.get_total_buffer_size() > 2 * stored.nbytes + 4096:
                # A slice of something larger: a copy lets the rest go.
                stored = stored.take(pa.array(np.arange(stored.num_rows)))
            self._segments.append(_Segment(base, stored))
            self._next += table.num_rows
            self._merge_small()
        return base

    def _merge_small(self) -> None:
        # Like a binary counter: a segment is merged once it is no smaller than half of the one
        # before it, so a row is copied about log2(number of pushes) times.
        while len(self._segments) > 1:
            older, newer = self._segments[-2:]
            if 2 * newer.table.num_rows < older.table.num_rows:
                break
            self._segments[-2:] = [_Segment(older.base, _joined([older.table, newer.table]))]

    def drop_before(self, address: int) -> None:
        """Forget the segments that end before `address`."""
        self._segments = [segment for segment in self._segments if segment.end > address]

    def keep_only(self, alive: Addresses) -> Addresses:
        """Store just these rows, in this order; returns their new addresses."""
        table = self.gather(alive)
        self._segments = []
        return np.arange(len(alive), dtype=np.int64) + self.append(table)

    def gather(self, addresses: Addresses) -> pa.Table:
        """The rows at these addresses, in this order, as they are stored."""
        if len(addresses) == 0 or not self._segments:
            return self._storage.empty_table()
        if len(self._segments) > 1 and 2 * len(addresses) >= self.rows:
            joined = _joined([segment.table for segment in self._segments])
            self._segments = [_Segment(self._segments[0].base, joined)]
        if len(self._segments) == 1:
            only = self._segments[0]
            return only.table.take(pa.array(addresses - only.base))
        return self._gather_from_many(addresses)

    def _gather_from_many(self, addresses: Addresses) -> pa.Table:
        bases = np.array([segment.base for segment in self._segments])
        home = np.searchsorted(bases, addresses, side="right") - 1
        order = np.argsort(home, kind="stable")
        bounds = np.searchsorted(home[order], np.arange(len(bases) + 1))
        parts = [
            segment.table.take(pa.array(addresses[order[first:last]] - segment.base))
            for segment, first, last in zip(self._segments, bounds, bounds[1:], strict=False)
            if last > first
        ]
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return _joined(parts).take(pa.array(back))


def row_sizes(table: pa.Table) -> NDArray[np.int64]:
    """Bytes that each row takes, for budgets in bytes."""
    sizes = np.zeros(table.num_rows, np.float64)
    for column in table.columns:
        begin = 0
        for chunk in column.chunks:
            sizes[begin : begin + len(chunk)] += _value_sizes(chunk)
            begin += len(chunk)
    return np.ceil(sizes).astype(np.int64)


def _value_sizes(array: pa.Array) -> NDArray[np.float64] | float:
    kind = array.type
    valid = 1 / 8
    if kind in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary()):
        lengths = pc.binary_length(array).fill_null(0).to_numpy(zero_copy_only=False)
        return lengths + (4.0 if kind in (pa.string(), pa.binary()) else 8.0) + valid
    try:
        return kind.bit_width / 8 + valid
    except ValueError:  # nested: the average is near enough, and the sum is right
        return array.nbytes / max(1, len(array))
