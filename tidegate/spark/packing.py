"""Rows as Arrow blobs: packed per bucket before the shuffle.

Law: packing changes how rows travel, never what they are. A blob is an Arrow IPC stream with the
user's columns in the user's types, so nested payload survives and neither pandas nor pickle ever
sees it; the shuffle moves a few large rows instead of many small ones.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark import TaskContext

from tidegate.spark.routing import Layout, Routing

# Columns that ride along with the user's rows as far as the packer.
HASH_COLUMN = "hash"
AHEAD_COLUMN = "ahead"

# What travels to a bucket. `origin` orders the blobs of a micro-batch; `newest` is the latest time
# in the blob, in microseconds; `ahead` counts rows that the guard against future times kept back;
# `micros` is the time that packing took; stream -1 is a heartbeat. No number is NULL, or pandas
# would turn all of its column into floats.
PACKED_FIELDS: tuple[tuple[str, Any, str], ...] = (
    ("label", pa.int32(), "int"),
    ("stream", pa.int32(), "int"),
    ("origin", pa.int64(), "long"),
    ("rows", pa.int64(), "long"),
    ("home", pa.bool_(), "boolean"),
    ("newest", pa.int64(), "long"),
    ("ahead", pa.int64(), "long"),
    ("hot_key", pa.string(), "string"),
    ("hot_rows", pa.int64(), "long"),
    ("micros", pa.int64(), "long"),
    ("blob", pa.binary(), "binary"),
)
PACKED_ARROW = pa.schema([pa.field(name, kind) for name, kind, _ in PACKED_FIELDS])
PACKED_SPARK = ", ".join(f"{name} {kind}" for name, _, kind in PACKED_FIELDS)

# Large blobs save calls and schemas, small ones bound what a task holds: either limit closes one.
ROWS_PER_PACK = 131_072
BYTES_PER_PACK = 16_000_000
# Where a task finds the number of shuffle partitions. The first is set for streaming queries and
# holds what the checkpoint fixed, while the second may hold the wish of a later session.
PARTITION_PROPERTIES = (
    "spark.sql.streaming.internal.stateStore.partitions",
    "spark.sql.shuffle.partitions",
)
DEFAULT_PARTITIONS = 200  # Spark's own
# The most frequent key is looked for among this many rows of a pack, spread evenly.
HOT_SAMPLE = 4_096
HOT_TEXT = 80
# The time after which rows expire where their times are no timestamps.
NEVER = 2**63 - 1


def encode(table: pa.Table, compression: str | None = "zstd") -> pa.Buffer:
    """Write a table as one Arrow IPC stream.

    Rows that go into the state are compressed. State costs about 10 ms per MB to write and 30 to
    read; zstd costs 4 ms and more than halves a blob of keys, times and numbers.
    """
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def decode(blobs: Sequence[Any]) -> pa.Table:
    """Read blobs of one stream back into one table, in their order."""
    tables = [pa.ipc.open_stream(pa.py_buffer(blob)).read_all() for blob in blobs]
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)


def partitions_of_task() -> int:
    """How many shuffle partitions the running query has."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("rows can be packed only inside a Spark task; none is running here")
    for name in PARTITION_PROPERTIES:
        value = context.getLocalProperty(name)
        if value is not None:
            return int(value)
    return DEFAULT_PARTITIONS


@dataclass(frozen=True)
class Packer:
    """The `mapInArrow` function of one stream: rows in, one packed row per bucket out."""

    stream: int
    routing: Routing
    schema: pa.Schema
    time_column: str
    key_columns: tuple[str, ...]
    heartbeat: bool

    def pack(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack the rows of one task."""
        context = TaskContext.get()
        task = context.partitionId() if context is not None else 0
        layout = self.routing.layout(partitions_of_task())
        if self.heartbeat and task == 0:
            yield _heartbeats(layout)
        for number, table in enumerate(gather(batches)):
            yield from self._packed(table, layout, (task << 32) + number)

    def _packed(self, table: pa.Table, layout: Layout, origin: int) -> Iterator[pa.RecordBatch]:
        """Pack one table: each lane is encoded once, and sent to all of its buckets."""
        began = time.perf_counter()
        hashes = np.asarray(table.column(HASH_COLUMN))
        lanes = layout.lane_of(self.stream, hashes)
        kept_back = np.zeros(layout.lanes(self.stream), np.int64)
        if AHEAD_COLUMN in table.column_names:
            ahead = np.asarray(table.column(AHEAD_COLUMN)).astype(bool)
            kept_back = np.bincount(lanes[ahead], minlength=len(kept_back))
            table, hashes, lanes = table.filter(~ahead), hashes[~ahead], lanes[~ahead]
        payload = self._payload(table)
        hot = self._hot_key(payload, hashes, lanes)
        packed: list[tuple[Any, ...]] = []
        for lane, part in split(payload, lanes, len(kept_back)):
            if part.num_rows == 0 and kept_back[lane] == 0:
                continue
            blob = encode(part).to_pybytes() if part.num_rows else None
            newest = self._newest(part)
            hot_key = hot[:2] if hot is not None and hot[2] == lane else (None, 0)
            for copy, bucket in enumerate(layout.targets(self.stream, lane)):
                row = (layout.labels[bucket], self.stream, origin, part.num_rows, copy == 0)
                now = time.perf_counter()
                micros, began = round((now - began) * 1e6), now
                packed.append((*row, newest, int(kept_back[lane]), *hot_key, micros, blob))
            if sum(len(row[-1] or b"") for row in packed) > BYTES_PER_PACK:
                yield _packed_batch(packed)
                packed = []
        yield _packed_batch(packed)

    def _payload(self, table: pa.Table) -> pa.Table:
        """The user's columns, under their names; what the session prefers must not show."""
        payload = table.select(range(len(self.schema)))
        return payload.rename_columns(self.schema.names).cast(self.schema)

    def _newest(self, part: pa.Table) -> int:
        column = part.column(self.time_column)
        if not pa.types.is_timestamp(column.type):
            return NEVER
        newest = pc.max(column)
        return int(newest.value) if newest.is_valid else 0

    def _hot_key(
        self, payload: pa.Table, hashes: NDArray[np.int64], lanes: NDArray[np.int64]
    ) -> tuple[str, int, int] | None:
        """The most frequent key of a pack as text, about how many rows it has, and its lane."""
        if not self.key_columns or len(hashes) == 0:
            return None
        stride = max(1, len(hashes) // HOT_SAMPLE)
        _, first, counts = np.unique(hashes[::stride], return_index=True, return_counts=True)
        most = int(np.argmax(counts))
        row = int(first[most]) * stride
        values = [payload.column(name)[row].as_py() for name in self.key_columns]
        text = str(values[0] if len(values) == 1 else tuple(values))[:HOT_TEXT]
        return text, int(counts[most]) * stride, int(lanes[row])


def gather(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Join small record batches into tables that are worth packing."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= ROWS_PER_PACK or size >= BYTES_PER_PACK:
            yield pa.Table.from_batches(waiting).combine_chunks()
            waiting, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(waiting).combine_chunks()


def split(table: pa.Table, lanes: NDArray[np.int64], count: int) -> Iterator[tuple[int, pa.Table]]:
    """Cut a table by lane; rows of a lane keep their order."""
    if count == 1:
        yield 0, table
        return
    # numpy sorts 16-bit integers in linear time.
    small = lanes.astype(np.uint16) if count <= 2**16 else lanes
    order = np.argsort(small, kind="stable")
    bounds = np.searchsorted(small[order], np.arange(count + 1))
    ordered = table.take(pa.array(order))
    for lane, (begin, end) in enumerate(itertools.pairwise(bounds.tolist())):
        yield lane, ordered.slice(begin, end - begin)


def _heartbeats(layout: Layout) -> pa.RecordBatch:
    """One empty row for each bucket, so that every bucket hears of every micro-batch.

    A bucket that skips a micro-batch misses its watermark, which decides what is late in the next.
    """
    return _packed_batch(
        [(label, -1, -1, 0, False, 0, 0, None, 0, 0, None) for label in layout.labels]
    )


def _packed_batch(rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = [
        pa.array([row[index] for row in rows], type=field.type)
        for index, field in enumerate(PACKED_ARROW)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=PACKED_ARROW)
