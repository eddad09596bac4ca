"""What is wrong is said in one sentence, before a query starts where that is possible."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark.feeds import Feed, random_batches

from tidegate.spark import configure, metrics, window_join
from tidegate.spark.session import PROVIDER, PROVIDER_KEY, check_java, check_protobuf
from tidegate.spec import JoinSpec, TidegateError, rows

SPEC = JoinSpec(on="k", time="ts", within="10 s")


@pytest.fixture
def sides(feed: Feed) -> dict[str, Any]:
    """Two streams with watermarks."""
    for seed, name in enumerate(("left", "right")):
        feed.write(name, random_batches(seed, batches=1))
    return {n: feed.stream(n).withWatermark("ts", "10 seconds") for n in ("left", "right")}


def refused(words: str, *sources: Any, **options: Any) -> None:
    with pytest.raises(TidegateError, match=words) as raised:
        window_join(*sources, **options)
    assert "\n" not in str(raised.value)


def test_arguments(sides: dict[str, Any]) -> None:
    left, right = sides.values()
    refused("lacks time, within", left, right, on="k")
    refused("got a spec and also memory", sides, SPEC, memory=5)
    refused("1 DataFrames for the streams 'left', 'right'", left, spec=SPEC)
    refused("frames are 'a', 'right' but the spec's", {"a": left, "right": right}, SPEC)
    refused("stream 'right' is a int", left, 5, spec=SPEC)
    refused("result_time 'ts_right' is already a column", sides, SPEC, result_time="ts_right")


def test_columns(sides: dict[str, Any]) -> None:
    left, right = sides.values()
    refused("'left' has no column 'kk'; did you mean 'k'", left, right, spec=SPEC.replace(on="kk"))
    refused(
        "'right' has no column 'w'", sides, SPEC.replace(importance={"left": "id", "right": "w"})
    )
    twice = right.select("*", F.col("id").alias("k"))
    refused("'right' has 2 columns named 'k'", left, twice, spec=SPEC)
    inside = left.withColumn("__tidegate_time", F.lit(1))
    refused("'left' has a column '__tidegate_time'", inside, right, spec=SPEC)
    text = right.withColumn("k", F.col("k").cast("string"))
    refused("k", left, text, spec=SPEC)


def test_streams_that_do_not_go_together(spark: SparkSession, sides: dict[str, Any]) -> None:
    left, right = sides.values()
    still = spark.createDataFrame([], right.schema)
    refused("'left' is streaming but 'right' is not", left, still, spec=SPEC)


def test_watermarks(feed: Feed, sides: dict[str, Any]) -> None:
    left, right = sides.values()
    plain = feed.stream("right")
    refused("'right' has no watermark", left, plain, spec=SPEC)
    refused("delay of 10000 ms but lateness is '3 s'", sides, SPEC.replace(lateness="3 s"))
    refused("max_ahead comes too late for stream 'left'", sides, SPEC, max_ahead="1 hour")
    refused("max_ahead 5 is not a duration", plain, plain, spec=SPEC, max_ahead=5)
    whole = SPEC.replace(time="id", within=5)
    refused("times of type bigint in 'id'", left, right, spec=whole)
    assert window_join(sides, SPEC.replace(lateness="10 s")).isStreaming
    assert window_join(plain, plain, spec=SPEC.replace(lateness="3 s")).isStreaming
    assert window_join(plain, plain, spec=SPEC.replace(time="id", within=rows(5))).isStreaming


def test_state_store(spark: SparkSession, sides: dict[str, Any]) -> None:
    spark.conf.unset(PROVIDER_KEY)
    try:
        refused("needs RocksDB", sides, SPEC)
    finally:
        spark.conf.set(PROVIDER_KEY, PROVIDER)


def test_output_mode(sides: dict[str, Any]) -> None:
    writer = window_join(sides, SPEC).writeStream.format("memory").queryName("complete")
    with pytest.raises(AnalysisException, match=r"(?i)output mode: complete"):
        writer.outputMode("complete").start()


def test_metrics_of_queries_without_a_join(feed: Feed, sides: dict[str, Any]) -> None:
    run = feed.run(sides["left"], "plain")
    assert set(metrics(run.query).total.values()) == {0.0, 1.0}
    assert metrics(run.query).prometheus() == ""


def test_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(TidegateError, match="Java 17 or newer and JAVA_HOME"):
        check_java()
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    with pytest.raises(TidegateError, match="is 11; install a newer one"):
        check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TidegateError, match="none is on the PATH"):
        check_java()
    # A session of Spark Connect needs none.
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    configure(SparkSession.Builder().remote("sc://host:15002"))
    with pytest.raises(TidegateError, match="none is on the PATH"):
        configure(SparkSession.Builder())


def test_protobuf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    check_protobuf()
    # An older release, as the package manager would leave it.
    old = tmp_path / "protobuf-5.29.0.dist-info"
    old.mkdir()
    (old / "METADATA").write_text("Metadata-Version: 2.1\nName: protobuf\nVersion: 5.29.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(TidegateError, match=r"protobuf 5\.29\.0 is too old"):
        check_protobuf()


def test_partitions() -> None:
    with pytest.raises(TidegateError, match="partitions 0 is below 1"):
        configure(SparkSession.builder, partitions=0)


def test_unknown_keywords(sides: dict[str, Any]) -> None:
    wish = {"on": "k", "time": "ts", "within": "5 s"}
    refused("window_join has no option 'windw'; the window is within=", sides, windw=5, **wish)
    refused("no option 'how'; joins are inner so far", sides, how="left", **wish)
    refused("no option 'max_ahed'; did you mean 'max_ahead'", sides, max_ahed="1 s", **wish)
    refused("no option 'memroy'; did you mean 'memory'", sides, memroy=5, on="k")
    refused("buckets 0 is below 1", sides, SPEC, buckets=0)


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        ("make_ym_interval(1, 2)", "interval year to month"),
        ("array(make_ym_interval(1, 2))", r"array<interval year to month>"),
    ],
)
def test_types_that_cannot_travel(sides: dict[str, Any], made: str, kind: str) -> None:
    left, right = sides.values()
    odd = left.withColumn("months", F.expr(made))
    refused(f"'left' has a column 'months' of type {kind}, which Spark", odd, right, spec=SPEC)
    lasting = left.withColumn("lasting", F.expr("make_dt_interval(1, 2)"))
    assert window_join(lasting, right, spec=SPEC).isStreaming


def test_sentences_come_first(spark: SparkSession, sides: dict[str, Any], feed: Feed) -> None:
    """Before the traceback, and before Spark's message has gone on for long."""
    plain = feed.stream("left")
    still = spark.createDataFrame([(None, 1)], "ts timestamp, k long")
    with pytest.raises(PySparkException) as raised:
        window_join(still, still, spec=SPEC.replace(bad_rows="fail")).collect()
    sentence = "row 0 of stream 'left' cannot be joined (null time)"
    assert sentence in str(raised.value)[:100]
    assert "Traceback" not in str(raised.value)
    moving = plain.withColumn("ts", F.lit(None).cast("timestamp")).withWatermark("ts", "1 second")
    joined = window_join(moving, moving, spec=SPEC.replace(bad_rows="fail"))
    with pytest.raises(StreamingQueryException) as raised_by_query:
        feed.start(joined, "failing").awaitTermination()
    said = str(raised_by_query.value)
    assert 0 < said.index(sentence) < min(said.index("Traceback"), 900)
