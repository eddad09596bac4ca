"""The streams that the benchmarks join: seeded, and alike on both sides.

Law: a workload is its numbers. Whoever holds a `Workload`, in this process or in another, makes the
same tables from it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

STREAMS = ("left", "right")

Columns = dict[str, NDArray[np.int64] | NDArray[np.float64]]


@dataclass(frozen=True)
class Workload:
    """Two streams with one tuple per unit of time and side, keys uniform.

    The window is a time window; with one tuple per unit it holds `window` tuples per side.
    """

    rows_per_stream: int
    keys: int
    window: int
    seed: int = 0

    @property
    def tuples(self) -> int:
        return len(STREAMS) * self.rows_per_stream

    def columns(self) -> dict[str, Columns]:
        """The whole of both streams as numpy columns."""
        return self.columns_between(0, self.rows_per_stream)

    def columns_between(self, begin: int, end: int) -> dict[str, Columns]:
        """The tuples with begin <= time < end; each span has random numbers of its own."""
        generator = np.random.default_rng([self.seed, begin])
        return {stream: self._one_stream(generator, begin, end) for stream in STREAMS}

    def _one_stream(self, generator: np.random.Generator, begin: int, end: int) -> Columns:
        count = end - begin
        return {
            "key": generator.integers(0, self.keys, count),
            "time": np.arange(begin, end, dtype=np.int64),
            "price": generator.random(count),
            "amount": generator.integers(0, 1_000_000, count),
        }

    def tables(self) -> dict[str, pa.Table]:
        """The whole of both streams as Arrow tables."""
        return as_tables(self.columns())


def as_tables(columns: dict[str, Columns]) -> dict[str, pa.Table]:
    return {stream: pa.table(dict(part)) for stream, part in columns.items()}


def cut(tables: dict[str, pa.Table], rows: int) -> list[dict[str, pa.Table]]:
    """The tables in pushes of so many rows per stream."""
    total = max(table.num_rows for table in tables.values())
    return [
        {stream: table.slice(begin, rows) for stream, table in tables.items()}
        for begin in range(0, total, rows)
    ]
