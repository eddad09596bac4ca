"""The join of tables that do not move, by the same engines.

Law: a batch join gives the rows that a streaming join of the same rows, all in time, would give.
Nothing can be late: the rows of a bucket are taken in order of time, in pieces that bound what one
push holds and end between two times, so that the cut cannot be seen in the result.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tidegate.spark.code import receive_code
from tidegate.spark.packing import decode, partitions_of_task
from tidegate.spark.routing import Routing, bucket_spec
from tidegate.spec import JoinSpec

ROWS_PER_PUSH = 1_000_000


@dataclass(frozen=True)
class BatchJoin:
    """The `applyInArrow` function: the packed rows of one bucket in, rows of the result out."""

    spec: JoinSpec
    schemas: dict[str, pa.Schema]
    routing: Routing
    code: str | None = None  # the file with machine code that came with the query

    def run(self, key: tuple[pa.Scalar, ...], packed: pa.Table) -> pa.Table:
        """Join one bucket."""
        # Only workers that build engines load numba.
        from tidegate.binding.pieces import pieces_of
        from tidegate.engine import JoinEngine

        receive_code(self.code)
        layout = self.routing.layout(partitions_of_task())
        spec = bucket_spec(self.spec, layout.bucket_of(key[0].as_py()), layout.buckets)
        # Pushes come in order of time, so no row needs grace.
        engine = JoinEngine(spec.replace(lateness=0), self.schemas)
        tables = self._tables(packed)
        results = [engine.push(piece) for piece in pieces_of(spec, tables, ROWS_PER_PUSH)]
        return pa.concat_tables(results) if results else engine.push({})

    def _tables(self, packed: pa.Table) -> dict[str, pa.Table]:
        """The rows of each stream, in the order of their tasks."""
        packed = packed.sort_by([("stream", "ascending"), ("origin", "ascending")])
        blobs: dict[int, list[pa.Buffer]] = {}
        for stream, blob in zip(packed["stream"], packed["blob"], strict=True):
            if blob.is_valid:
                blobs.setdefault(stream.as_py(), []).append(blob.as_buffer())
        return {self.spec.streams[stream]: decode(found) for stream, found in blobs.items()}
