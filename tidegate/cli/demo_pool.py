"""`tidegate demo --pool`: two Spark queries under one memory, divided equally and as a pool.

Law: every number comes from the runs just made. Both runs get the same rows and the same memory;
what an exact join finds in them is counted by the engine alone.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.cli import chart_file, demo_pool_view, local_spark
from tidegate.cli.screen import answer, console, say
from tidegate.spec import JoinSpec, TidegateError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

MEMORY = 600  # tuples for both joins
BATCHES = 12
SECONDS = 20  # of event time in a micro-batch
SPEC = JoinSpec(on="k", time="ts", within="60 seconds", policy="prob")
# Rows per stream and micro-batch, and keys: one join needs little, the other more than there is.
JOINS = {"alerts": (12, 4), "orders": (150, 120)}
EPOCH = 1_700_000_000
SCHEMA = "k long, ts timestamp"

Streams = Mapping[str, list["pa.Table"]]


def demo_pool(seed: int, json: bool, chart: Path | None) -> None:
    """Run both ways, and show who found how much with which share."""
    chart_file.check(chart)
    reason = local_spark.missing()
    if reason is not None:
        raise TidegateError(f"a pool divides memory between Spark queries: {reason}")
    say(
        f"Two joins on Spark share {MEMORY} tuples of memory. 'alerts' has few rows that all find "
        "partners; 'orders' would need more than there is.\nFirst each has one half; then they "
        "share a pool, which is divided again between micro-batches as their recall shows."
    )
    streams = {f"{join}-{side}": _batches(join, seed + at) for join in JOINS for at, side in _SIDES}
    exact = {join: _exact(join, streams) for join in JOINS}
    with tempfile.TemporaryDirectory(prefix="tidegate-demo-") as name:
        folder = Path(name)
        _write(streams, folder)
        spark = local_spark.session(folder, "tidegate demo")
        try:
            found = {
                "equal": _run(spark, folder, "equal", dict.fromkeys(JOINS, MEMORY // 2)),
                "pool": _run(spark, folder, "pool", None),
            }
        finally:
            spark.stop()
    history = [
        row | {"run": run, "recall": row["results"] / exact[row["join"]][row["batch"]]}
        for run, rows in found.items()
        for row in rows
    ]
    _show(history, exact, json)
    if chart is not None:
        chart_file.write(demo_pool_view, history, chart)
        say(f"The chart is in {chart}.")


_SIDES = tuple(enumerate(SPEC.streams))


def _batches(join: str, seed: int) -> list[pa.Table]:
    """A stream, one table per micro-batch."""
    import numpy as np
    import pyarrow as pa

    rows, keys = JOINS[join]
    rng = np.random.default_rng(seed)
    made = []
    for batch in range(BATCHES):
        seconds = np.sort(rng.uniform(0, SECONDS, rows)) + EPOCH + SECONDS * batch
        times = pa.array((seconds * 1e6).astype(np.int64), pa.timestamp("us", "UTC"))
        made.append(pa.table({"k": rng.integers(0, keys, rows), "ts": times}))
    return made


def _exact(join: str, streams: Streams) -> list[int]:
    """Results of the exact join up to each micro-batch."""
    from tidegate.engine import JoinEngine

    engine, found = JoinEngine(SPEC), []
    for batch in range(BATCHES):
        engine.push({side: streams[f"{join}-{side}"][batch] for side in SPEC.streams})
        found.append(int(engine.stats()["rows_out"]))
    return found


def _write(streams: Streams, folder: Path) -> None:
    import pyarrow.parquet as pq

    for name, tables in streams.items():
        (folder / name).mkdir()
        for batch, table in enumerate(tables):
            path = folder / name / f"{batch:03d}.parquet"
            pq.write_table(table, path)
            os.utime(path, (1_000_000 + batch, 1_000_000 + batch))  # the oldest is read first


def _run(
    spark: SparkSession, folder: Path, run: str, memory: Mapping[str, int] | None
) -> list[dict[str, Any]]:
    """Both queries at once, each with a memory of its own or with a pool for both."""
    import tidegate as tg

    say(f"Joining on Spark: {run} ...")
    pool = None if memory is not None else tg.Pool(MEMORY)
    queries = {}
    for join in JOINS:
        left, right = (_stream(spark, folder / f"{join}-{side}") for side in SPEC.streams)
        spec = SPEC if memory is None else SPEC.replace(memory=memory[join])
        shared = {} if pool is None else {"memory": pool}
        joined = tg.window_join(left, right, spec, name=join, buckets=1, **shared)
        queries[join] = (
            joined.writeStream.format("noop")
            .option("checkpointLocation", str(folder / f"checkpoint-{run}-{join}"))
            .trigger(availableNow=True)
            .start()
        )
    for query in queries.values():
        query.awaitTermination()
    return [
        row
        for join, query in queries.items()
        for row in _history(join, query, None if memory is None else memory[join])
    ]


def _stream(spark: SparkSession, folder: Path) -> DataFrame:
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder)).withWatermark("ts", "0 seconds")


def _history(join: str, query: Any, memory: int | None) -> list[dict[str, Any]]:
    """What a query had found, and what it might hold, after each micro-batch with rows."""
    from tidegate.spark.reports import PREFIX, reports_in

    rows: list[dict[str, Any]] = []
    for progress in query.recentProgress:
        observed = dict(progress["observedMetrics"] or {}).get(PREFIX + join)
        if progress["numInputRows"] and observed is not None:
            stats = [report["stats"] for report in reports_in(observed)]
            share = sum(each.get("memory_budget", memory or 0) for each in stats)
            found = sum(each["rows_out"] for each in stats)
            rows.append({"join": join, "batch": len(rows), "results": found, "share": share})
    return rows


def _show(history: list[dict[str, Any]], exact: Mapping[str, list[int]], json: bool) -> None:
    last = {(row["run"], row["join"]): row for row in history}
    recall = {run: {join: last[run, join]["recall"] for join in JOINS} for run in ("equal", "pool")}
    least = {run: min(found.values()) for run, found in recall.items()}
    sentence = (
        f"With {MEMORY // 2} tuples each, the worse join found {least['equal']:.0%} of its "
        f"results; with a pool of {MEMORY} tuples, {least['pool']:.0%}."
    )
    if json:
        answer(
            {"memory": MEMORY, "recall": recall, "least_recall": least, "exact": exact,
             "history": history, "seen": sentence}
        )  # fmt: skip
        return
    from rich.table import Table

    table = Table(show_edge=False, title="Results found, and the share of memory at the end")
    for title in ("join", "equal halves", "pool", "share in the pool"):
        table.add_column(title, justify="left" if title == "join" else "right")
    for join in JOINS:
        share = f"{last['pool', join]['share']:,.0f}"
        cells = [f"{recall[run][join]:.1%}" for run in ("equal", "pool")]
        table.add_row(join, *cells, share)
    console().print(table)
    for join in JOINS:
        shares = [row["share"] for row in history if (row["run"], row["join"]) == ("pool", join)]
        console().print(f"{join:>8} {demo_pool_view.bars(shares, MEMORY)}")
    console().print(f"\n{sentence}", soft_wrap=True)
