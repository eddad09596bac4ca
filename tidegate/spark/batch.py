"""The join of tables that do not move, by the same engines.

Law: a batch join gives the rows that a streaming join of the same rows, all in time, would give.
Nothing can be late: the rows of a bucket are taken in order of time, in pieces that bound what one
push holds and end between two times, so that the cut cannot be seen in the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.spark.arrivals import Arrivals
from tidegate.spark.delivery import FAILED, REPORT
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

    def run(self, key: tuple[pa.Scalar, ...], packed: pa.Table) -> pa.Table:
        """Join one bucket."""
        from tidegate.engine import JoinEngine  # Only workers that build engines load numba.

        layout = self.routing.layout(partitions_of_task())
        try:
            result, report = self._joined(layout, layout.bucket_of(key[0].as_py()), packed)
        except TidegateError as error:
            # Spark would print the traceback before the sentence, and leave out the cause.
            result, report = JoinEngine(self.spec, self.schemas).push({}), f"{FAILED}{error}"
        return self._carried(result, report)

    def _joined(self, layout: Layout, bucket: int, packed: pa.Table) -> tuple[pa.Table, str]:
        from tidegate.engine import JoinEngine

        arrivals = Arrivals.of_table(packed)
        # Pushes come in order of time, so no row needs grace.
        spec = bucket_spec(self.spec, bucket, layout.buckets).replace(lateness=0)
        engine = JoinEngine(spec, self.schemas)
        tables = {
            self.spec.streams[stream]: decode(blobs) for stream, blobs in arrivals.blobs.items()
        }
        results = [engine.push(piece) for piece in self._pieces(tables)]
        result = pa.concat_tables(results) if results else engine.push({})
        return result, self._report(layout, bucket, engine, arrivals)

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
        )  # fmt: skip

    @staticmethod
    def _carried(result: pa.Table, report: str) -> pa.Table:
        """The rows of the result, then the report, under the names of `Delivery.carried`."""
        names = [REPORT, *(f"c{place}" for place in range(result.num_columns))]
        rows = pa.table([pa.nulls(result.num_rows, pa.string()), *result.columns], names=names)
        nothing = [pa.nulls(1, field.type) for field in result.schema]
        last = pa.table([pa.array([report]), *nothing], names=names)
        return pa.concat_tables([rows, last.cast(rows.schema)])

    def _pieces(self, tables: dict[str, pa.Table]) -> Iterator[dict[str, pa.Table]]:
        """Cut all streams at the same times; rows without a time come last, to be rejected."""
        times = {name: self._times(name, table) for name, table in tables.items()}
        rows = sum(table.num_rows for table in tables.values())
        if rows <= ROWS_PER_PUSH:
            if rows:
                yield tables
            return
        # A cut lies just after some row's time: rows up to and including it come before.
        merged = np.sort(np.concatenate(list(times.values())))
        cuts = np.unique(merged[ROWS_PER_PUSH - 1 :: ROWS_PER_PUSH])
        places = {name: np.searchsorted(cuts, values) for name, values in times.items()}
        for piece in range(len(cuts) + 1):
            part = {name: tables[name].filter(pa.array(places[name] == piece)) for name in tables}
            yield {name: table for name, table in part.items() if table.num_rows}

    def _times(self, name: str, table: pa.Table) -> np.ndarray:
        column = table.column(self.spec.time_columns[self.spec.streams.index(name)])
        if pa.types.is_date(column.type):
            column = column.cast(pa.timestamp("us"))
        whole = column.cast(pa.int64())
        return np.asarray(pc.fill_null(whole, np.iinfo(np.int64).max))
