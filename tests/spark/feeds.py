"""Streams made of files, one file per micro-batch, and queries over them.

Law: a test decides what each micro-batch holds, so that what is late, alive or lost can be known.
The random streams lie on whole seconds, so that both ends of a window are met often; some rows come
much too late, some have no key or no time. The same seed gives the same rows.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQuery

SCHEMA = "k long, ts timestamp, id long"
EPOCH = 1_700_000_000
SECOND = 1_000_000


@dataclass(frozen=True)
class Run:
    """A query that has ended, and the rows it gave."""

    query: StreamingQuery
    rows: list[Any]

    @property
    def late(self) -> int:
        """How many rows Spark's own operators dropped as late."""
        return sum(
            operator["numRowsDroppedByWatermark"]
            for progress in self.query.recentProgress
            for operator in progress["stateOperators"]
        )

    def pairs(self, *columns: str) -> Counter[tuple[Any, ...]]:
        """The rows, as far as these columns go, each as often as it came."""
        return Counter(tuple(row[column] for column in columns) for row in self.rows)


@dataclass(frozen=True)
class Feed:
    """Streams read from files under a folder of the test."""

    spark: SparkSession
    root: Path

    def write(self, name: str, batches: Sequence[pa.Table], first: int = 0) -> None:
        """Put one file per micro-batch, read in this order."""
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        for number, table in enumerate(batches, start=first):
            path = folder / f"{number:05d}.parquet"
            pq.write_table(table, path)
            # The file source takes the oldest first.
            os.utime(path, (1_000_000 + number, 1_000_000 + number))

    def stream(self, name: str, schema: str = SCHEMA) -> DataFrame:
        """Read the files of a stream, one per micro-batch."""
        reader = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.root / name))

    def start(self, frame: DataFrame, name: str) -> StreamingQuery:
        """Start a query over all files there are, from its checkpoint if it has one."""
        writer = frame.writeStream.trigger(availableNow=True).format("parquet")
        writer = writer.option("path", str(self.root / f"out-{name}"))
        return writer.option("checkpointLocation", str(self.root / f"checkpoint-{name}")).start()

    def run(self, frame: DataFrame, name: str) -> Run:
        """Run such a query to its end and collect all rows it has ever given."""
        query = self.start(frame, name)
        query.awaitTermination()
        rows = self.spark.read.schema(frame.schema).parquet(str(self.root / f"out-{name}"))
        return Run(query, rows.collect())


def random_batches(
    seed: int, batches: int = 5, rows: int = 80, keys: int = 6, gaps: float = 0.05
) -> list[pa.Table]:
    """Make tables (k, ts, id), each about 20 seconds of a stream; `gaps` is the share of NULLs."""
    chance = np.random.default_rng(seed)
    made = []
    for batch in range(batches):
        seconds = EPOCH + batch * 20 + chance.integers(0, 20, rows)
        seconds -= (chance.random(rows) < 0.3) * chance.integers(0, 60, rows)
        missing = chance.random((2, rows)) < gaps
        columns = {
            "k": pa.array(chance.integers(0, keys, rows), mask=missing[0]),
            "ts": pa.array(seconds * SECOND, pa.timestamp("us", "UTC"), mask=missing[1]),
            "id": pa.array(np.arange(rows) + batch * rows),
        }
        made.append(pa.table(columns))
    return made


def sparks_own_join(left: DataFrame, right: DataFrame, within: tuple[int, int]) -> DataFrame:
    """Spark's inner join of two streams with columns k, ts, id and these windows, in seconds."""
    renamed = right.select(*[F.col(name).alias(f"{name}_right") for name in right.columns])
    return left.join(renamed, in_window("ts", "ts_right", within) & F.expr("k = k_right"))


def in_window(left: str, right: str, within: tuple[int, int]) -> Column:
    """Whether two times meet, written as Spark's own join wants it."""
    return F.expr(
        f"{right} <= {left} + interval {within[0]} seconds "
        f"and {left} <= {right} + interval {within[1]} seconds"
    )
