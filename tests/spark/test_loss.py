"""A join on Spark says its recall: in the metrics, after a restart, to Prometheus, on a page."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from spark.feeds import EPOCH, SCHEMA, SECOND, Feed

from tidegate.spark import Pool, metrics, watch, window_join
from tidegate.spec import TidegateError

JOIN = {"on": "k", "time": "ts", "within": "100 s"}


def batches(seed: int, count: int = 4, rows: int = 400) -> list[pa.Table]:
    rng = np.random.default_rng(seed)
    return [
        pa.table(
            {
                "k": rng.zipf(1.3, rows) % 200,
                "ts": pa.array(
                    np.sort((EPOCH + 100 * n + rng.random(rows) * 100) * SECOND).astype(np.int64),
                    pa.timestamp("us", "UTC"),
                ),
                "id": np.arange(rows) + n * rows,
            }
        )
        for n in range(count)
    ]


def test_recall_in_the_metrics(feed: Feed) -> None:
    tables = {name: batches(seed) for seed, name in enumerate(("left", "right"))}
    for name, parts in tables.items():
        feed.write(name, parts[:2])
    limited = {**JOIN, "memory": 300, "policy": "prob", "sentinel": 0.2, "seed": 4}

    def joined(**options: object) -> object:
        sides = (feed.stream(name).withWatermark("ts", "0 seconds") for name in tables)
        return window_join(*sides, **options)

    before = metrics(feed.run(joined(**limited), "small").query).total
    for name, parts in tables.items():
        feed.write(name, parts[2:], first=2)
    run = feed.run(joined(**limited), "small")
    exact = feed.run(joined(**JOIN), "exact")
    found = metrics(run.query)
    recall = len(run.rows) / len(exact.rows)
    total = found.total
    assert total["rows_out"] == len(run.rows) < len(exact.rows)
    assert total["recall_low"] <= recall <= total["recall_high"]
    assert total["recall_high"] - total["recall_low"] < 0.5
    assert total["memory_rows_peak"] <= 300
    assert total["sentinel_exact"] > before["sentinel_exact"] > 0
    assert 'bucket="all"} 0.' in next(
        line for line in found.prometheus().splitlines() if line.startswith("tidegate_recall{")
    )
    page = watch(run.query, memory=300)
    try:
        with urllib.request.urlopen(page.url + "numbers.json", timeout=60) as answer:
            shown = json.loads(answer.read())
    finally:
        page.close()
    assert shown["samples"][-1]["recall"] == total["recall"]
    assert shown["budget"] == 300
    assert shown["done"]
    assert shown["hot_keys"]


def test_a_target_of_buckets(feed: Feed) -> None:
    """Each of two buckets keeps it with a part of its memory; the numbers are those of both."""
    rng = np.random.default_rng(3)
    tables = []
    for name in ("left", "right"):
        seconds = EPOCH + np.arange(6000)
        columns = {
            "k": rng.integers(0, 900, 6000),
            "ts": pa.array(seconds * SECOND, pa.timestamp("us", "UTC")),
            "id": np.arange(6000),
        }
        feed.write(name, [pa.table(columns)])
        tables.append(feed.spark.read.schema(SCHEMA).parquet(str(feed.root / name)))
    join = {**JOIN, "within": "1500 s"}
    target: dict[str, Any] = {"memory": 6000, "sentinel": 0.06, "miniatures": 0.3, "buckets": 2}
    joined = window_join(*tables, **join, **target, target="recall >= 0.7", policy="random")
    kept = joined.count()
    exact = window_join(*tables, **join).count()
    found = metrics(joined)
    total = found.total
    assert total["rows_out"] == kept
    assert 0.7 <= kept / exact < 0.99
    assert total["target"] == 0.7
    assert total["target_met"] == 1
    of_late = sorted(stats["target_recall"] for stats in found.buckets.values())
    assert 0.6 < of_late[0] <= total["target_recall"] <= of_late[1] < 1.0
    assert total["target_memory"] == sum(b["target_memory"] for b in found.buckets.values()) < 5500
    assert 0 < total["miniature_share"] < 1
    assert total["memory_rows_peak"] <= 6000
    recalls = [point["recall"] for point in found.retention_curve]
    assert recalls == sorted(recalls)
    assert recalls[0] < 0.6
    assert recalls[-1] == 1.0
    text = found.prometheus()
    assert 'bucket="all"} 1\n' in text[text.index("tidegate_target_met{") :]


def test_too_little_for_a_target_in_each_bucket(feed: Feed) -> None:
    for name in ("left", "right"):
        feed.write(name, batches(1, 1))
    sides = [feed.stream(name).withWatermark("ts", "0 seconds") for name in ("left", "right")]
    with pytest.raises(TidegateError, match="in 2 buckets: miniatures get 50 tuples"):
        window_join(*sides, **JOIN, memory=2000, target="recall >= 0.9", buckets=2)
    with pytest.raises(TidegateError, match="no target and no miniatures"):
        window_join(*sides, **JOIN, memory=Pool(9000), target="recall >= 0.9", name="x")


def test_too_little_for_a_sentinel_in_each_bucket(feed: Feed) -> None:
    for name in ("left", "right"):
        feed.write(name, batches(1, 1))
    sides = (feed.stream(name).withWatermark("ts", "0 seconds") for name in ("left", "right"))
    with pytest.raises(TidegateError, match="say nothing"):
        window_join(*sides, **JOIN, memory=300, sentinel=0.02)
