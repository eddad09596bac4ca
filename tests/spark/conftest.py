"""One Spark session for all tests that need one, started by the first of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from spark.feeds import Feed
from spark.sessions import with_settings

from tidegate.engine import JoinEngine
from tidegate.spark import configure
from tidegate.spec import JoinSpec, band, overlap

# For every JVM that a test starts: none lives long enough to earn back what optimising costs.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.fixture(scope="session")
def compiled() -> None:
    """Let this process compile what the workers will load, or each of them would compile it."""
    moment = pa.array([0, 1], pa.timestamp("us", "UTC"))
    columns = {"k": [1, 2], "x": [0.5, 1.5], "tags": [[1, 2], [1, 2]], "ts": moment}
    for on in ("k", band("x", 0, 1), band("k", 0, 1), overlap("tags", 2)):
        for budget in ({}, {"memory": 2, "policy": "random"}):
            spec = JoinSpec(on=on, time="ts", within="1 s", **budget)
            engine = JoinEngine(spec)
            table = pa.table(columns)
            engine.push({"left": table, "right": table}, watermark=0)
            JoinEngine.restore(engine.snapshot()).push({"left": table}, watermark=1)
    for budget in ({}, {"memory": 2, "policy": "random"}):
        spec = JoinSpec(on="k", time="ts", within="1 s", streams=("s1", "s2", "s3"), **budget)
        JoinEngine(spec).push(dict.fromkeys(spec.streams, pa.table(columns)), watermark=0)


@pytest.fixture(scope="session")
def session(compiled: None) -> Iterator[SparkSession]:
    builder = (
        with_settings(SparkSession.builder.master("local[2]"))
        .appName("tidegate tests")
        # Compiling Java for a few rows takes longer than interpreting; jobs of their own compile.
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        # Far from UTC, so that a time zone lost on the way would show.
        .config("spark.sql.session.timeZone", "Asia/Kolkata")
    )
    spark = configure(builder, partitions=2).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.stop()


@pytest.fixture
def spark(session: SparkSession) -> Iterator[SparkSession]:
    """The session, with settings that tests change put back after each."""
    yield session
    session.conf.set("spark.sql.shuffle.partitions", "2")
    session.conf.unset("spark.sql.streaming.noDataMicroBatches.enabled")


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path)
