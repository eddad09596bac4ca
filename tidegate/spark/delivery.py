"""How results leave the processor: as rows, or, where pandas cannot carry them, as blobs.

Law: what Spark gets is what the engine gave, type for type. Spark takes the output of a stateful
processor as pandas frames. Columns that are backed by Arrow pass through such a frame untouched, as
long as they are flat; nested ones would be taken apart value by value. So a result with nested
columns travels as Arrow blobs, which one more worker unpacks after the processor, at about a third
of a micro-batch; all others travel as they are.

Beside the results each bucket sends one row with its report for the metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from tidegate.spark.packing import decode, encode

REPORT = "report"
# A report that begins so is an error, which Spark raises with the rest as its message.
FAILED = "failed: "
BLOB = "blob"
# A piece of a result: large enough to be worth a call, small enough for all that hold it at once.
BYTES_PER_PIECE = 16_000_000

FLAT = (
    T.NumericType, T.StringType, T.BinaryType, T.BooleanType, T.DateType, T.TimestampType,
    T.TimestampNTZType,
)  # fmt: skip


@dataclass(frozen=True)
class Delivery:
    """The way from the processor to the rows of the result, whose schema it knows."""

    schema: T.StructType
    direct: bool

    @classmethod
    def of(cls, schema: T.StructType) -> Delivery:
        """Choose the way for a result."""
        return cls(schema, all(isinstance(field.dataType, FLAT) for field in schema.fields))

    @property
    def carried(self) -> T.StructType:
        """What the processor gives to Spark; plain names, since not all carry dots."""
        columns = [T.StructField(REPORT, T.StringType())]
        if not self.direct:
            return T.StructType([*columns, T.StructField(BLOB, T.BinaryType())])
        for place, field in enumerate(self.schema.fields):
            columns.append(T.StructField(f"c{place}", field.dataType))
        return T.StructType(columns)

    def results(self, piece: pa.Table) -> pd.DataFrame:
        """A piece of the result, as the pandas frame that Spark wants."""
        if not self.direct:
            return self._frame(None, pa.array([encode(piece, None).to_pybytes()], pa.binary()))
        # Spark wants one array per column.
        columns = piece.combine_chunks().columns
        return self._frame(pa.nulls(piece.num_rows, pa.string()), *columns)

    def report(self, text: str) -> pd.DataFrame:
        """The row with the report."""
        nothing = [pa.nulls(1) for _ in self.carried.fields[1:]]
        return self._frame(pa.array([text]), *nothing)

    def _frame(self, report: pa.Array | None, *columns: Any) -> pd.DataFrame:
        first = pa.nulls(1, pa.string()) if report is None else report
        table = pa.table([first, *columns], names=self.carried.names)
        return table.to_pandas(types_mapper=pd.ArrowDtype)

    def rows(self, carried: DataFrame) -> DataFrame:
        """The rows of the result, out of what the processor gave."""
        if not self.direct:
            return carried.mapInArrow(unpack, self.schema)
        report = F.col(REPORT)
        error = F.raise_error(F.expr(f"substr({REPORT}, {len(FAILED) + 1})"))
        kept = F.when(report.startswith(FAILED), error).otherwise(report.isNull())
        return carried.where(kept).select(
            *[F.col(f"c{place}").alias(name) for place, name in enumerate(self.schema.names)]
        )


def pieces(table: pa.Table) -> Iterator[pa.Table]:
    """Cut a result into pieces of bounded size."""
    count = max(1, -(-table.nbytes // BYTES_PER_PIECE))
    step = max(1, -(-table.num_rows // count))
    for begin in range(0, table.num_rows, step):
        yield table.slice(begin, step)


def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The `mapInArrow` function after the processor: blobs in, the rows of the result out."""
    for batch in batches:
        for blob in batch.column(BLOB):
            if blob.is_valid:
                yield from decode([blob.as_buffer()]).to_batches()
