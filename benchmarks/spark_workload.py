"""Streams of files for benchmarks on Spark, and the session that all contestants get.

Law: contestants differ in the operator they run and in nothing else: the same files, one per stream
and micro-batch, the same cores, heap, partitions and sink. A file is written once and its contents
follow from the seed, so whoever names the same `FileWorkload` reads the same rows.
"""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.spec import TidegateError

NAMES = ("left", "right", "third", "fourth")
STREAMS = NAMES[:2]
SCHEMA = "key long, ts timestamp, price double, amount long"
# Spark's own join drops rows at or before the epoch as late.
EPOCH_MICROSECONDS = 1_700_000_000_000_000
MILLISECOND = 1_000


@dataclass(frozen=True)
class FileWorkload:
    """Streams with one row per `step` microseconds each, keys uniform."""

    batches: int
    rows_per_batch: int  # all streams together
    keys: int
    window_seconds: int
    step: int = MILLISECOND
    seed: int = 0
    streams: int = 2

    @property
    def rows(self) -> int:
        return self.batches * self.rows_per_batch

    @property
    def window_rows(self) -> int:
        """How many rows of all streams lie in the windows."""
        return self.streams * self.window_seconds * 1_000_000 // self.step

    def write(self, folder: Path) -> None:
        """Put one file per stream and micro-batch, read in this order."""
        for stream, name in enumerate(NAMES[: self.streams]):
            (folder / name).mkdir(parents=True)
            for batch in range(self.batches):
                path = folder / name / f"{batch:05d}.parquet"
                pq.write_table(self.table(stream, batch), path, compression="lz4")
                # The file source takes the oldest first.
                os.utime(path, (1_000_000 + batch, 1_000_000 + batch))

    def table(self, stream: int, batch: int) -> pa.Table:
        """The rows of one file."""
        chance = np.random.default_rng([self.seed, stream, batch])
        count = self.rows_per_batch // self.streams
        times = EPOCH_MICROSECONDS + (batch * count + np.arange(count)) * self.step
        return pa.table(
            {
                "key": chance.integers(0, self.keys, count),
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                "price": chance.random(count),
                "amount": chance.integers(0, 1_000_000, count),
            }
        )


def need_spark(name: str) -> None:
    """Refuse to run where PySpark is missing."""
    if importlib.util.find_spec("pyspark") is None:
        raise TidegateError(
            f"benchmark {name!r} needs the package 'pyspark'; install tidegate[spark]"
        )
