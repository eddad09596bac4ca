"""`window_join` of n streams gives the rows of a chain of Spark's own joins with the same windows.

A combination is a result iff every pair of its rows is in each other's windows: for the latest row
that is the rule of the join, and for all other pairs it follows. So the chain asks for every pair.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark.feeds import Feed, in_window, random_batches

import tidegate as tg
from tidegate.spark import metrics, window_join

WITHIN = {"s1": 12, "s2": 8, "s3": 15, "s4": 5}


def spec_of(streams: int, **options: Any) -> tg.JoinSpec:
    names = list(WITHIN)[:streams]
    windows = {name: f"{WITHIN[name]} s" for name in names}
    return tg.JoinSpec(on="k", time="ts", within=windows, streams=names, **options)


def sparks_own_joins(frames: dict[str, DataFrame]) -> DataFrame:
    """A chain of Spark's joins: each new stream with all that were joined before."""
    joined: DataFrame | None = None
    before: list[str] = []
    for name, frame in frames.items():
        renamed = frame.select(*[F.col(c).alias(f"{c}_{name}") for c in frame.columns])
        if joined is None:
            joined = renamed
        else:
            condition = F.expr(f"k_{before[0]} = k_{name}")
            for other in before:
                within = WITHIN[other], WITHIN[name]
                condition = condition & in_window(f"ts_{other}", f"ts_{name}", within)
            joined = joined.join(renamed, condition)
        before.append(name)
    assert joined is not None
    return joined


def rows_of(frame: DataFrame, names: list[str]) -> Counter[tuple[Any, ...]]:
    return Counter(map(tuple, frame.select(*names).collect()))


def our_names(spec: tg.JoinSpec) -> list[str]:
    return ["id", *(f"id_{name}" for name in spec.streams[1:])]


def test_streams_equal_a_chain_of_sparks_joins(feed: Feed) -> None:
    """Nothing is late here; the query stops once and is started again."""
    feed.spark.conf.set("spark.sql.shuffle.partitions", "2")
    spec = spec_of(4, lateness="1000 s")
    for begin, end in itertools.pairwise((0, 2, 4)):
        for seed, name in enumerate(spec.streams):
            batches = random_batches(seed, batches=4, rows=40, keys=8)
            feed.write(name, batches[begin:end], first=begin)
        ours = feed.run(window_join({n: feed.stream(n) for n in spec.streams}, spec), "ours")
    read = feed.spark.read.schema("k long, ts timestamp, id long")
    frames = {name: read.parquet(str(feed.root / name)) for name in spec.streams}
    theirs = rows_of(sparks_own_joins(frames), [f"id_{name}" for name in spec.streams])
    assert len(theirs) > 100
    assert ours.pairs(*our_names(spec)) == theirs
    assert metrics(ours.query).total["rows_out"] == sum(theirs.values())


def test_batch_equals_a_chain_of_sparks_joins(spark: SparkSession) -> None:
    spec = spec_of(3)
    frames = {
        name: spark.createDataFrame(
            pa.concat_tables(random_batches(seed, batches=3, rows=50, keys=8))
        )
        for seed, name in enumerate(spec.streams)
    }
    theirs = rows_of(sparks_own_joins(frames), [f"id_{name}" for name in spec.streams])
    assert len(theirs) > 100
    assert rows_of(window_join(frames, spec), our_names(spec)) == theirs


def test_a_budget_holds_over_all_buckets(feed: Feed) -> None:
    feed.spark.conf.set("spark.sql.shuffle.partitions", "2")
    options = {"memory": 600, "policy": "arrival-order", "split": "even"}
    spec = spec_of(3, lateness="10 s", **options)
    for seed, name in enumerate(spec.streams):
        feed.write(name, random_batches(seed, batches=3, rows=400, keys=200))
    ours = feed.run(window_join({n: feed.stream(n) for n in spec.streams}, spec), "ours")
    total = metrics(ours.query).total
    assert total["memory_rows_peak"] <= 600
    assert total["evicted"] > 0
    assert total["rows_out"] == len(ours.rows) > 0
