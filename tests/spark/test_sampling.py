"""Sampled joins and their estimates on Spark.

Law: Spark's sums give the estimates of the local tables, in batches and on streams. A batch join of
one bucket is the local join of the same seed, weights included; more buckets draw other samples,
whose estimates have no bias either.
"""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from sampled_clusters import sample_of, whole_of
from spark.feeds import EPOCH, SECOND, Feed

import tidegate as tg
from tidegate.columns.spark_keys import route_hash
from tidegate.spark import window_join
from tidegate.spark.routing import Routing, bucket_spec

AGGREGATES = ("count(*)", "count(x)", "sum(x)", "avg(x)")


def sample(seed: int = 3) -> pa.Table:
    table = sample_of(
        whole_of(600, seed=21, groups=3), "pps-cluster", 0.2, np.random.default_rng(seed)
    )
    # A group of certain rows: those beside it show that others were lost.
    certain = {"group": [9] * 4, "x": [1.0] * 4, "_weight": [1.0] * 4}
    table = pa.concat_tables([table, pa.table(certain, table.schema)])
    moments = (EPOCH + np.arange(table.num_rows) % 300) * SECOND
    return table.append_column("ts", pa.array(moments, pa.timestamp("us", "UTC")))


def three_streams() -> pa.Table:
    """A sample of a join of three streams, whose weights name two tuples each."""
    tables = streams(100)
    names = ("a", "b", "c")
    spec = tg.JoinSpec(on="k", time="ts", within="60 s", streams=names, memory=60)
    given = dict(zip(names, [*tables.values(), tables["left"]], strict=True))
    table = tg.join(given, spec.replace(policy="eq-cluster")).table
    assert len(set(table.column("_weight").to_pylist())) > 50
    return table.select(["x", "_weight"])


def same(found: list[Any], expected: pa.Table, keys: list[str]) -> None:
    rows = {tuple(row[key] for key in keys): row for row in expected.to_pylist()}
    assert len(found) == len(rows)
    for row in found:
        other = rows[tuple(row[key] for key in keys)]
        assert (row["interval"], row["rows"], row["tuples"]) == (
            other["interval"], other["rows"], other["tuples"],
        )  # fmt: skip
        for name in ("estimate", "low", "high", "error"):
            assert row[name] == (other[name] and pytest.approx(other[name], rel=1e-6))


def test_batches_are_estimated_as_tables_are(spark: SparkSession) -> None:
    table = sample()
    frame = spark.createDataFrame(table.to_pandas())
    for aggregate in AGGREGATES:
        found = tg.estimate(frame, aggregate, by="group").collect()
        same(found, tg.estimate(table, aggregate, by="group"), ["group"])
    (row,) = tg.estimate(frame, "avg(x)").collect()
    same([row], tg.estimate(table, "avg(x)"), [])
    for weight in ("double(0.5)", "IF(group = 0, NULL, _weight)", "double('NaN')"):
        with pytest.raises(Exception, match="values that are no weights"):
            tg.estimate(frame.selectExpr(f"{weight} AS _weight"), "count(*)").collect()
    three = three_streams()
    frame3 = spark.createDataFrame(three.to_pandas())
    for aggregate in ("count(*)", "avg(x)"):
        same(tg.estimate(frame3, aggregate).collect(), tg.estimate(three, aggregate), [])
    (row,) = tg.estimate(frame.limit(0), "count(*)").collect()
    assert (row["interval"], row["estimate"]) == ("unknown", None)


def test_streams_are_estimated_by_stretches_of_time(feed: Feed) -> None:
    table = sample()
    order = np.argsort(table.column("ts").to_numpy())
    table = table.take(order)
    end = pa.table(  # moves the watermark past the last stretch
        {name: table.column(name).slice(0, 1) for name in table.column_names if name != "ts"}
        | {"ts": pa.array([(EPOCH + 5000) * SECOND], pa.timestamp("us", "UTC"))}
    )
    half = table.num_rows // 2
    end = end.select(table.column_names)
    feed.write("rows", [table.slice(0, half), table.slice(half), end])
    schema = "group long, x double, _weight double, ts timestamp"
    stream = feed.stream("rows", schema).withWatermark("ts", "10 seconds")
    asked = {"by": "group", "every": "1 minute", "time": "ts"}
    run = feed.run(tg.estimate(stream, "sum(x)", **asked), "estimates")
    expected = tg.estimate(table, "sum(x)", **asked)
    found = [row.asDict() for row in run.rows]
    for row in found:
        row["window_start"] = int(row["window_start"].timestamp())
    starts = [int(moment.timestamp()) for moment in expected.column("window_start").to_pylist()]
    expected = expected.set_column(
        expected.column_names.index("window_start"), "window_start", pa.array(starts)
    )
    same(found, expected, ["group", "window_start"])


def test_a_stream_needs_stretches_of_time(feed: Feed) -> None:
    feed.write("rows", [sample()])
    stream = feed.stream("rows", "group long, x double, _weight double, ts timestamp")
    with pytest.raises(tg.TidegateError, match="a stream has no end"):
        tg.estimate(stream, "count(*)")
    twice = stream.selectExpr("*", "ts AS at")
    with pytest.raises(tg.TidegateError, match="one column that has a watermark"):
        tg.estimate(twice, "count(*)", every="1 minute", time=["ts", "at"])
    with pytest.raises(tg.TidegateError, match="needs numbers"):
        tg.estimate(stream, "sum(ts)", every="1 minute", time="ts")
    maps = stream.selectExpr("*", "map(1, x) AS m")
    with pytest.raises(tg.TidegateError, match="cannot be grouped by column 'm'"):
        tg.estimate(maps, "count(*)", by="m", every="1 minute", time="ts")


def streams(rows: int = 400) -> dict[str, pa.Table]:
    rng = np.random.default_rng(6)
    return {
        name: pa.table(
            {
                "k": rng.integers(0, 20, rows),
                "ts": pa.array((EPOCH + np.arange(rows)) * SECOND, pa.timestamp("us", "UTC")),
                "x": rng.normal(100, 20, rows),
                "id": np.arange(rows),
            }
        )
        for name in ("left", "right")
    }


@pytest.mark.parametrize("policy", ["eq-cluster", "pps-cluster", "uniform"])
def test_one_bucket_is_the_local_join(spark: SparkSession, tmp_path: Path, policy: str) -> None:
    tables = streams()
    spec = tg.JoinSpec(on="k", time="ts", within="60 s", memory=40, policy=policy, seed=9)
    frames = {name: spark.createDataFrame(table.to_pandas()) for name, table in tables.items()}
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    joined = window_join(frames, spec)
    assert joined.columns[-2:] == ["_importance", "_weight"]
    local = tg.join(tables, bucket_spec(spec, 0, 1))
    found = sorted((row.id, row.id_right, row._weight) for row in joined.collect())
    columns = [local.table.column(name).to_pylist() for name in ("id", "id_right", "_weight")]
    assert found == sorted(zip(*columns, strict=True))
    (row,) = tg.estimate(joined, "avg(x)").collect()
    same([row], tg.estimate(local, "avg(x)"), [])
    # Two buckets draw another sample, of the same whole.
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    (other,) = tg.estimate(window_join(frames, spec), "count(*)").collect()
    exact = tg.join(tables, spec.replace(memory=None)).table.num_rows
    assert other["estimate"] != row["estimate"]
    assert math.isclose(other["estimate"], exact, rel_tol=0.5)


@pytest.mark.parametrize("partitions", [1, 2])
def test_streams_are_estimated_as_the_local_engine_does(feed: Feed, partitions: int) -> None:
    """For the same seed and buckets; two buckets draw what two local engines draw."""
    tables = streams()
    write_to_the_end(feed, tables, [tables["left"].num_rows])
    spec = tg.JoinSpec(on="k", time="ts", within="60 s", memory=60, policy="pps-cluster", seed=5)
    feed.spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    joined = window_join(sources(feed, tables), spec, result_time="at")
    run = feed.run(tg.estimate(joined, "sum(x)", every="1 minute", time="at"), "sampled")
    layout = Routing.of(spec).layout(partitions)
    schema = feed.stream("left", SCHEMA).schema
    keys = feed.spark.range(20).selectExpr("id AS k", "timestamp_seconds(id) AS ts")
    hashes = keys.select("k", route_hash(spec, 0, [schema, schema]).alias("hash"))
    lanes = {row.k: layout.lane_of(0, np.array([row.hash]))[0] for row in hashes.collect()}
    pieces = []
    for bucket in range(layout.buckets):
        engine = tg.JoinEngine(bucket_spec(spec, bucket, layout.buckets))
        kept = {
            name: table.filter(pa.array([lanes[k] == bucket for k in table["k"].to_pylist()]))
            for name, table in tables.items()
        }
        pieces.append(engine.push(kept, watermark=EPOCH * SECOND))  # no row is late
    expected = tg.estimate(
        pa.concat_tables(pieces), "sum(x)", every="1 minute", time=["ts", "ts_right"]
    )
    found = [row.asDict() for row in run.rows]
    rows = {int(row["window_start"].timestamp()): row for row in expected.to_pylist()}
    found = [row for row in found if int(row["window_start"].timestamp()) in rows]
    assert len(found) == len(rows) == 7
    for row in found:
        other = rows[int(row["window_start"].timestamp())]
        assert (row["rows"], row["interval"]) == (other["rows"], other["interval"])
        for name in ("estimate", "low", "high", "error"):
            assert row[name] == (other[name] and pytest.approx(other[name], rel=1e-6))
    assert any(row["interval"] == "95 %" for row in found)


SCHEMA = "k long, ts timestamp, x double, id long"


def write_to_the_end(feed: Feed, tables: dict[str, pa.Table], cuts: list[int]) -> None:
    """The rows cut into micro-batches, then two far ahead that close all stretches of time."""
    for name, table in tables.items():
        end = table.slice(0, 1).set_column(
            1, "ts", pa.array([(EPOCH + 9000) * SECOND], pa.timestamp("us", "UTC"))
        )
        pieces = [table.slice(a, b - a) for a, b in pairwise([0, *cuts])]
        feed.write(name, [*pieces, end, end])


def sources(feed: Feed, tables: dict[str, pa.Table]) -> dict[str, Any]:
    return {name: feed.stream(name, SCHEMA).withWatermark("ts", "5 seconds") for name in tables}


def test_a_streaming_join_is_estimated(feed: Feed) -> None:
    """Memory for everything, so that the estimates are the numbers of the exact join."""
    tables = streams()
    write_to_the_end(feed, tables, [200, 400])
    spec = tg.JoinSpec(on="k", time="ts", within="60 s", memory=5000, policy="eq-cluster")
    joined = window_join(sources(feed, tables), spec, result_time="at")
    run = feed.run(tg.estimate(joined, "count(*)", every="1 minute", time="at"), "joined")
    local = tg.join(tables, spec)
    expected = tg.estimate(local, "count(*)", every="1 minute", time=["ts", "ts_right"])
    found = {int(row.window_start.timestamp()): row for row in run.rows}
    for row in expected.to_pylist():
        other = found[int(row["window_start"].timestamp())]
        assert (other.estimate, other.interval) == (row["estimate"], "exact")
