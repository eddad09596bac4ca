"""Metrics: zeros where there are no numbers yet, labels for Prometheus, batch joins, warnings."""

from __future__ import annotations

import logging
import re
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark.feeds import Feed, random_batches
from spark.test_streaming import conserved

from tidegate.loss import interval
from tidegate.spark import metrics, prometheus, window_join
from tidegate.spark.reports import JoinMetrics, report_text, summarise
from tidegate.spec import TidegateError

WINDOW = {"on": "k", "time": "ts", "within": "10 s"}
SAMPLE = re.compile(r'tidegate_(\w+)\{((?:\w+="(?:[^"\\]|\\.)*",?)+)\} (\S+)')


def samples(text: str) -> dict[tuple[str, str], float]:
    """The samples of a text, which must be one that Prometheus takes."""
    found: dict[tuple[str, str], float] = {}
    told: dict[str, set[str]] = {}
    for line in text.splitlines():
        if line.startswith("# "):
            _, kind, name, words = line.split(" ", 3)
            assert words
            assert kind not in told.setdefault(name, set())
            told[name].add(kind)
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        assert told[f"tidegate_{match[1]}"] == {"HELP", "TYPE"}
        assert (match[1], match[2]) not in found
        found[match[1], match[2]] = float(match[3])
    return found


def bucket(number: int, **stats: float) -> dict[str, Any]:
    import json

    text = report_text(number, ("left", "right"), stats, hot={}, examples=[], warnings=[])
    report: dict[str, Any] = json.loads(text)
    return report


def watched(results: float, importance: float) -> dict[str, float]:
    """What sentinels say of so much."""
    sums = np.zeros(interval.MOMENTS)
    return {
        name: value
        for prefix, exact in (("sentinel", results), ("sentinel_importance", importance))
        for name, value in interval.named_sums(prefix, np.append(exact, sums[1:])).items()
    } | {interval.TAKEN: 10.0}


def test_buckets_together_keep_a_target() -> None:
    """By the results that each had: 300 of 400 results are in a bucket that keeps 0.5."""
    usual = {
        "target": 0.9,
        "rows_in": 10,
        "rows_out": 1,
        "importance_out": 1,
        "miniature_share": 0.5,
    }
    poor = {"target_recall": 0.5, "target_met": 0, "target_missing_by": 0.4, "target_memory": 70}
    rich = {"target_recall": 0.9, "target_met": 1, "target_missing_by": 0.0, "target_memory": 20}
    reports = {
        0: bucket(0, **usual, **poor, **watched(300, 100)),
        1: bucket(1, **usual, **rich, **watched(100, 100)),
        2: bucket(2, target_memory=70),
    }
    for number, recall in ((0, 0.5), (1, 1.0)):
        point = {"memory": 50.0, "recall": recall, "importance_recall": recall}
        reports[number]["curve"] = [point, {**point, "memory": 100.0}]
    found = summarise(0, reports)
    assert found.total["target"] == 0.9
    assert found.total["target_met"] == 0
    assert found.total["target_memory"] == 160
    assert found.total["target_recall"] == pytest.approx(0.6)
    assert found.total["target_missing_by"] == pytest.approx(0.3)
    assert found.total["miniature_share"] == pytest.approx(0.5)
    assert [point["memory"] for point in found.retention_curve] == [150.0, 300.0]
    assert found.retention_curve[0]["recall"] == pytest.approx(0.625)
    assert found.retention_curve[0]["importance_recall"] == pytest.approx(0.75)
    shown = samples(found.prometheus())
    said = {labels for name, labels in shown if name == "target_recall"}
    assert len(said) == 1
    assert 'bucket="all"' in said.pop()


def test_no_numbers_are_zeros() -> None:
    for found in (JoinMetrics(), summarise(3, {}), summarise(3, {0: bucket(0)})):
        for name in ("rows_in", "evicted", "memory_bytes", "rows_in_left", "rejected_null_time"):
            assert found.total[name] == found.buckets[0][name] == 0
        assert found.total["hot_key_share"] == 0
        assert found.total["bucket_skew"] == 1
        assert found.warnings == ()
        with pytest.raises(KeyError):
            found.total["rows_inn"]


def test_empty_first_micro_batches(spark: SparkSession) -> None:
    """Two rate sources, whose first micro-batch is empty, and readings from the first moment on."""
    rates = [
        spark.readStream.format("rate").option("rowsPerSecond", 5).load()
        .select(F.col("value").alias("k"), F.col("timestamp").alias("ts"))
        .withWatermark("ts", "1 second")
        for _ in range(2)
    ]  # fmt: skip
    joined = window_join(*rates, name="rates", **WINDOW)
    query = joined.writeStream.format("memory").queryName("rates").start()
    try:
        deadline = time.monotonic() + 120
        while metrics(query).total["rows_in"] == 0 and time.monotonic() < deadline:
            assert metrics(query, "rates").total["evicted"] == 0
            assert metrics(query).buckets[0]["memory_bytes"] >= 0
            prometheus(query)
            time.sleep(0.02)
        assert metrics(query).total["rows_in"] > 0
    finally:
        query.stop()


def test_prometheus_tells_queries_joins_and_streams_apart() -> None:
    reports = {n: bucket(n, rows_in=5, rows_in_left=3, rows_in_right=2, alive=4) for n in (0, 1)}
    texts = [
        summarise(1, reports, query, join).prometheus()
        for query, join in (("ads", "a"), ("ads", "b"), ('odd "name"\\\n', "a"))
    ]
    found = [samples(text) for text in texts]
    assert len({*found[0], *found[1], *found[2]}) == sum(map(len, found))
    labels = 'query="ads",join="a",bucket="1"'
    assert found[0]["rows_in_total", labels] == 5
    assert found[0]["stream_rows_in_total", f'{labels},stream="left"'] == 3
    assert found[0]["alive", labels] == 4
    assert "# TYPE tidegate_rows_in_total counter\n" in texts[0]
    assert "# HELP tidegate_alive Rows that are retained now.\n" in texts[0]
    assert "# TYPE tidegate_alive gauge\n" in texts[0]
    # A stream may be called like the end of a number's name.
    odd = summarise(1, {0: {**bucket(0, rows_in=5, rows_in_in=5), "streams": ["in", "out"]}})
    names = {name for name, _ in samples(odd.prometheus())}
    assert {"rows_in_total", "stream_rows_in_total"} <= names


def frames(spark: SparkSession, rows: int = 300) -> list[DataFrame]:
    keys = F.pmod(F.xxhash64("id"), F.lit(40)).alias("k")
    times = F.timestamp_seconds(F.lit(1_700_000_000) + F.col("id") % 97).alias("ts")
    return [spark.range(rows).select(keys, times, "id") for _ in range(2)]


def test_batch_joins_have_metrics(spark: SparkSession) -> None:
    joined = window_join(*frames(spark), memory=600, name="pairs", result_time="at", **WINDOW)
    assert metrics(joined).total["rows_in"] == 0
    assert metrics(joined).prometheus() == ""
    rows = joined.collect()
    found = metrics(joined)
    assert found.total["rows_out"] == len(rows) > 0
    assert found.total["rows_read"] == found.total["rows_in"] == 600
    assert conserved(found.total)
    assert set(found.buckets) == {0, 1}
    assert found.batch == 0
    assert ("rows_out_total", 'query="batch",join="pairs",bucket="0"') in samples(
        found.prometheus()
    )
    # The frame can be used as any other: twice in one query, and again.
    assert joined.union(joined).count() == 2 * joined.count() == 2 * len(rows)
    with pytest.raises(TidegateError, match="give that one, not one made of it"):
        metrics(joined.limit(3))


def test_small_budgets_are_cut_into_few_buckets(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    kept = {}
    for partitions in ("2", "24"):
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
        with caplog.at_level(logging.WARNING, "tidegate"):
            joined = window_join(*frames(spark), memory=40, policy="recent", **WINDOW)
        kept[partitions] = joined.count()
        found = metrics(joined)
        sentence = f"memory 40 is cut into 1 bucket instead of one for each of the {partitions} "
        assert found.warnings[0].startswith(sentence)
        assert sentence in caplog.text
        assert set(found.buckets) == {0}
        caplog.clear()
    assert kept["2"] == kept["24"] > 0
    for memory, words in (("400 B", "give 100 kB or more"), ("0 B", "give 100 kB or more")):
        with pytest.raises(TidegateError, match=words):
            window_join(*frames(spark), memory=memory, **WINDOW)
    with pytest.raises(TidegateError, match=r"too small for 9 buckets; give 9 tuples or more, or"):
        window_join(*frames(spark), memory=8, buckets=9, **WINDOW)
    assert metrics(window_join(*frames(spark), memory=8, buckets=3, **WINDOW)).warnings == ()


def test_streams_that_are_rejected_whole(feed: Feed) -> None:
    for seed, name in enumerate(("left", "right")):
        tables = random_batches(seed, batches=2, gaps=0.0)
        sign = 1.0 if name == "left" else -1.0
        feed.write(name, [t.append_column("w", pa.array(np.full(80, sign))) for t in tables])
    left, right = (
        feed.stream(n, "k long, ts timestamp, id long, w double").withWatermark("ts", "1 minute")
        for n in ("left", "right")
    )
    run = feed.run(window_join(left, right, importance="w", **WINDOW), "run")
    assert metrics(run.query).warnings[0] == (
        "all 160 rows of stream 'right' were rejected (importance), so nothing can match; look at "
        "the examples of rejected rows"
    )
