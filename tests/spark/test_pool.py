"""Joins under one pool of memory: shares that change, are kept, and never sum to more than it."""

from __future__ import annotations

import copy
import dataclasses
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from spark.feeds import EPOCH, SECOND, Feed
from spark.test_state import BUDGET, Cells, batches_of, fresh_process, lines, plan_of, step

import tidegate as tg
from tidegate.engine import JoinEngine
from tidegate.spark import bucket_store, exchange, metrics, window_join
from tidegate.spark.bucket_store import Meta
from tidegate.spark.engines import Residents
from tidegate.spark.pool_book import PoolBook, PoolShare
from tidegate.spark.routing import bucket_spec
from tidegate.spec import TidegateError

__all__ = ["fresh_process"]


@pytest.mark.parametrize("seed", [1, 2])
def test_shares_are_in_the_state(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seed: int
) -> None:
    """Tasks die after they wrote, workers lose their engines, shares change also without rows: the
    results are those of one engine that is resized and takes every push once."""
    monkeypatch.setattr(bucket_store, "SMALLEST_LOG_BYTES", 5_000)
    book = PoolBook(str(tmp_path / "pool"))
    book.begin(200, "tuples")
    book.join("ours")
    batches = batches_of(seed, 16)
    plan = dataclasses.replace(
        plan_of(BUDGET.replace(memory=200), batches[0][0]),
        share=PoolShare(book, "ours", "tuples"),
    )
    engine = JoinEngine(bucket_spec(plan.spec, 0, 1), plan.schemas)
    chance, cells, watermark, snapshots = np.random.default_rng(seed), Cells(), 0, 0
    for number, tables in enumerate(batches):
        if chance.random() < 0.6:
            book.aim_at({"ours": {0: int(chance.integers(0, 120))}})
        if number and chance.random() < 0.3:
            tables = {}
        budget = book.read().aim("ours", 0, 1)
        engine.resize(budget)
        named = {plan.spec.streams[stream]: table for stream, table in tables.items()}
        expected = engine.push(named, watermark=watermark * 1000 + 1)
        if chance.random() < 0.3:  # The task writes, and dies before Spark commits.
            step(plan, copy.deepcopy(cells), tables, number)
        if chance.random() < 0.3:  # The worker is gone.
            monkeypatch.setattr(exchange, "residents", Residents())
        got = step(plan, cells, tables, number).results  # type: ignore[attr-defined]
        assert lines(pa.concat_tables(got)) == lines(expected) if got else expected.num_rows == 0
        watermark = (EPOCH + 20 * number - 5) * 1000
        record = Meta.from_bytes(cells.meta[0])  # type: ignore[index]
        assert record.memory == record.stats["memory_budget"] == budget
        assert record.stats["alive"] == engine.stats()["alive"] <= budget
        assert book.read().held == {"ours": {"0": budget}}
        snapshots = max(snapshots, record.snapshot_end - record.snapshot_begin)
    assert snapshots > 0
    assert record.stats["evicted"] > 0


# --- real queries ------------------------------------------------------------------------

MEMORY = 400
BATCHES = 8
WITHIN = "60 seconds"


def batches(seed: int, keys: int, rows: int, first: int = 0) -> list[pa.Table]:
    """Twenty seconds each; keys are all alike."""
    rng = np.random.default_rng(seed)
    made = []
    for batch in range(first, first + BATCHES):
        seconds = np.sort(rng.uniform(0, 20, rows)) + EPOCH + 20 * batch
        columns = {
            "k": pa.array(rng.integers(0, keys, rows)),
            "ts": pa.array((seconds * SECOND).astype(np.int64), pa.timestamp("us", "UTC")),
            "id": pa.array(np.arange(rows) + rows * batch),
        }
        made.append(pa.table(columns))
    return made


# Few rows that all find partners, and many of which each finds few.
JOINS = {"narrow": {"keys": 3, "rows": 8}, "wide": {"keys": 60, "rows": 70}}


def results(tables: list[list[pa.Table]], **options: Any) -> int:
    """How many rows one engine gives."""
    spec = tg.JoinSpec(on="k", time="ts", within=WITHIN, **options)
    left, right = map(pa.concat_tables, tables)
    return tg.join({"left": left, "right": right}, spec).table.num_rows


def write(feed: Feed, first: int = 0) -> dict[str, tuple[int, int]]:
    """Both streams of both joins; of each the number of exact results, and with half the memory."""
    found = {}
    for join, kind in JOINS.items():
        tables = [batches(seed, **kind, first=first) for seed in (1, 2)]
        for side, parts in zip(("left", "right"), tables, strict=True):
            feed.write(f"{join}-{side}", parts, first)
        found[join] = results(tables), results(tables, memory=MEMORY // 2, policy="prob")
    return found


def joined(feed: Feed, join: str, memory: Any) -> DataFrame:
    left, right = (
        feed.stream(f"{join}-{side}").withWatermark("ts", "0 seconds") for side in ("left", "right")
    )
    return window_join(
        left, right, on="k", time="ts", within=WITHIN, memory=memory, policy="prob", name=join
    )


def run(feed: Feed, label: str, memory: Any) -> dict[str, Any]:
    """Both queries at once; what each counted."""
    queries = {join: feed.start(joined(feed, join, memory), f"{label}-{join}") for join in JOINS}
    for query in queries.values():
        query.awaitTermination()
    return {join: metrics(query).total for join, query in queries.items()}


def test_two_queries_under_one_pool(feed: Feed) -> None:
    feed.spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    local = write(feed)
    folder = str(feed.root / "pool")
    pool = tg.Pool(MEMORY, folder=folder)
    sums: list[int] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            sums.append(sum(pool.held().values()))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        pooled = run(feed, "pooled", pool)
    finally:
        over.set()
        watcher.join()
    equal = min(half / exact for exact, half in local.values())
    recall = min(pooled[join]["rows_out"] / exact for join, (exact, _) in local.items())
    assert recall > equal + 0.05, (recall, equal)
    assert len(sums) > 50
    assert 0 < max(sums) <= MEMORY
    assert pool.shares()["wide"] > 2 * pool.shares()["narrow"], pool.divisions
    for found in pooled.values():
        causes = ("alive", "expired", "evicted", "refused", "too_late", "rejected")
        assert found["rows_in"] == sum(found[cause] for cause in causes)
    assert sum(found["memory_budget"] for found in pooled.values()) <= MEMORY
    # A driver that starts again finds the shares where they were.
    shares = pool.shares()
    again = tg.Pool(MEMORY, folder=folder)
    for join in JOINS:
        joined(feed, join, again)
    assert again.shares() == shares


def test_refusals(spark: SparkSession, feed: Feed) -> None:
    write(feed)
    pool = tg.Pool(100)
    left, right = (
        feed.stream(f"wide-{side}").withWatermark("ts", "0 seconds") for side in ("left", "right")
    )
    with pytest.raises(TidegateError, match="needs a name"):
        window_join(left, right, on="k", time="ts", within=WITHIN, memory=pool)
    table = spark.range(3).selectExpr("id as k", "timestamp_seconds(id) as ts")
    with pytest.raises(TidegateError, match="are not streaming; give the join a memory of its own"):
        window_join(table, table, on="k", time="ts", within=WITHIN, memory=pool, name="x")
    assert pool.shares() == {}
