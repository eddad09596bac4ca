"""DuckDB and Polars on the same join as one batch: `python -m benchmarks.batch_peers PEER ...`.

Law: a peer runs in a process of its own, on one thread, in the formulation that is fastest for it
here, and ends with all columns of all results in Arrow or in its own columns. Both formulations are
timed: equality on the key with a filter on time, which makes every pair of a key before it drops
most of them; and equality on key and stretch of time, which makes few pairs but each left tuple
three times.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import pyarrow as pa

from benchmarks.workload import Workload

PEERS = ("duckdb", "polars")
REPETITIONS = 2

Formulations = dict[str, Callable[[], int]]


def duckdb_formulations(tables: dict[str, pa.Table], window: int) -> Formulations:
    import duckdb

    connection = duckdb.connect()
    connection.execute("PRAGMA threads=1")
    for stream, table in tables.items():
        connection.register(f"{stream}_given", table)
        connection.execute(f'CREATE TABLE "{stream}_rows" AS SELECT * FROM "{stream}_given"')
    in_window = f"r.time BETWEEN l.time - {window} AND l.time + {window}"
    plain = f"SELECT l.*, r.* FROM left_rows l JOIN right_rows r ON l.key = r.key AND {in_window}"
    stretches = (
        "SELECT l.* EXCLUDE (stretch), r.* FROM (SELECT *, "
        f"unnest([time // {window} - 1, time // {window}, time // {window} + 1]) AS stretch "
        f"FROM left_rows) l JOIN right_rows r "
        f"ON l.key = r.key AND l.stretch = r.time // {window} AND {in_window}"
    )

    def runner(query: str) -> Callable[[], int]:
        return lambda: int(connection.sql(query).to_arrow_table().num_rows)

    return {"key, then filter": runner(plain), "key and stretch": runner(stretches)}


def polars_formulations(tables: dict[str, pa.Table], window: int) -> Formulations:
    import polars as pl

    left, right = (pl.DataFrame(table).lazy() for table in tables.values())
    # Both names: the key of the right side is a column of the result, too.
    right = right.with_columns(key_right=pl.col("key"))
    in_window = (pl.col("time_right") - pl.col("time")).abs() <= window
    stretch = pl.col("time") // window
    spread = left.with_columns(stretch=pl.concat_list(stretch - 1, stretch, stretch + 1)).explode(
        "stretch"
    )
    plain = left.join(right, on="key").filter(in_window)
    stretches = (
        spread.join(right.with_columns(stretch=stretch), on=["key", "stretch"])
        .filter(in_window)
        .drop("stretch")
    )

    def runner(query: pl.LazyFrame) -> Callable[[], int]:
        return lambda: query.collect(engine="streaming").height

    return {"key, then filter": runner(plain), "key and stretch": runner(stretches)}


def measure(peer: str, workload: Workload) -> dict[str, str | float | int]:
    """The peer's faster formulation, its best time and its number of results."""
    make = {"duckdb": duckdb_formulations, "polars": polars_formulations}[peer]
    best: tuple[float, str, int] | None = None
    for name, contestant in make(workload.tables(), workload.window).items():
        for _ in range(REPETITIONS):
            begin = time.perf_counter()
            results = contestant()
            taken = (time.perf_counter() - begin, name, results)
            best = taken if best is None else min(best, taken)
    assert best is not None
    return {"seconds": best[0], "formulation": best[1], "results": best[2]}


if __name__ == "__main__":
    rows_per_stream, keys, window = map(int, sys.argv[2:5])
    print(json.dumps(measure(sys.argv[1], Workload(rows_per_stream, keys, window))))
