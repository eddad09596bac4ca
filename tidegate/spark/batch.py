"""The join of tables that do not move, by the same engines.

Law: a batch join gives the rows that a streaming join of the same rows, all in time, would give.
Nothing can be late: the rows of a bucket are taken in order of time, in pieces that bound what one
push holds and end between two times, so that the cut cannot be seen in the result.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidegate.loss.bucket_files import BATCH, BucketFiles, Link
from tidegate.spark.arrivals import Arrivals
from tidegate.spark.code import receive_code
from tidegate.spark.delivery import FAILED, REPORT, pieces
from tidegate.spark.engines import curve_of
from tidegate.spark.packing import decode, partitions_of_task
from tidegate.spark.reports import count_hot_key, report_text
from tidegate.spark.routing import Layout, Routing, bucket_spec
from tidegate.spec import JoinSpec, TidegateError

ROWS_PER_PUSH = 1_000_000


@dataclass(frozen=True)
class BatchJoin:
    """The `applyInArrow` function: the packed rows of one bucket in, rows of the result out.

    Beside the results goes one row with the bucket's report, as in a streaming join.
    """

    spec: JoinSpec
    schemas: dict[str, pa.Schema]
    routing: Routing
    code: str | None = None  # the file with machine code that came with the query
    ledger: str | None = None

    def run(
        self, key: tuple[pa.Scalar, ...], packed: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Join one bucket."""
        receive_code(self.code)
        layout = self.routing.layout(partitions_of_task())
        try:
            yield from self._joined(layout, layout.bucket_of(key[0].as_py()), packed)
        except TidegateError as error:
            # Spark would print the traceback before the sentence, and leave out the cause.
            yield self._last(f"{FAILED}{error}")

    def _joined(
        self, layout: Layout, bucket: int, packed: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of the result, as they come, then the report."""
        # Only workers that build engines load numba.
        from tidegate.binding.pieces import pieces_of
        from tidegate.engine import JoinEngine

        arrivals = Arrivals.of_table(pa.Table.from_batches(packed))
        # Pushes come in order of time, so no row needs grace.
        spec = bucket_spec(self.spec, bucket, layout.buckets).replace(lateness=0)
        ledger, token = self._files(bucket), ""
        engine = JoinEngine(spec, self.schemas, ledger=ledger)
        tables = {
            self.spec.streams[stream]: decode(blobs) for stream, blobs in arrivals.blobs.items()
        }
        for number, push in enumerate(pieces_of(spec, tables, ROWS_PER_PUSH)):
            if ledger is not None:
                ledger.begin_push(Link(number, token, token := f"{number + 1:x}"))
            for result in engine.results(push):
                for piece in pieces(result):
                    reports = pa.nulls(piece.num_rows, pa.string())
                    yield from self._carried([reports, *piece.columns]).to_batches()
            if ledger is not None:
                ledger.end_push()
        if ledger is not None:
            ledger.finish()
        yield self._last(self._report(layout, bucket, engine, arrivals))

    def _files(self, bucket: int) -> BucketFiles | None:
        """A part of the ledger for each time that a bucket is joined: tasks may run twice."""
        if self.ledger is None:
            return None
        run = f"{BATCH}{bucket:05d}-{uuid.uuid4().hex[:8]}"
        return BucketFiles(self.ledger, run, bucket, self.spec)

    def _report(self, layout: Layout, bucket: int, engine: Any, arrivals: Arrivals) -> str:
        stats = dict(engine.stats())
        for name, amount in arrivals.counts(self.spec.streams):
            stats[name] = stats.get(name, 0) + amount
        hot: dict[str, int] = {}
        for key, rows in arrivals.hot:
            count_hot_key(hot, key, rows)
        examples = [str(row) for row in engine.rejected_examples()][:5]
        return report_text(
            bucket, self.spec.streams, stats,
            hot=hot, examples=examples, warnings=layout.warnings(self.spec),
            curve=curve_of(engine),
        )  # fmt: skip

    def _last(self, report: str) -> pa.RecordBatch:
        """The row with the report."""
        from tidegate.binding.result_schema import result_schema

        nothing = [pa.nulls(1, field.type) for field in result_schema(self.spec, self.schemas)]
        return self._carried([pa.array([report]), *nothing]).to_batches()[0]

    @staticmethod
    def _carried(columns: list[Any]) -> pa.Table:
        """A report and columns of the result, under the names of `Delivery.carried`."""
        names = [REPORT, *(f"c{place}" for place in range(len(columns) - 1))]
        return pa.table(columns, names=names)
