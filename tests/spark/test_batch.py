"""Batch DataFrames: keys of any type, payload of any type, any number of partitions, any predicate.

Spark's own join of the same tables, with the windows written out, is the reference.
"""

from __future__ import annotations

import datetime
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from spark.feeds import in_window

from tidegate.spark import window_join
from tidegate.spec import band, overlap, rows, theta

# A key of each type, made from a small number n, once for each stream.
KEYS = {
    "integers": ("cast(n as int)", "n"),
    "strings": ("concat('key ', n)", "concat('key ', n)"),
    "binary": ("cast(cast(n as string) as binary)", "cast(cast(n as string) as binary)"),
    "dates": ("date_add(date'2020-01-01', cast(n as int))", "date_from_unix_date(18262 + n)"),
    "decimals": ("cast(n as decimal(9,2))", "cast(n as decimal(20,6))"),
    "booleans": ("n % 2 = 0", "n % 2 = 0"),
    "floats": (
        "cast(if(n = 3, 'NaN', n * -1D) as float)",
        "if(n = 3, double('NaN'), n * -1D) + 0D",
    ),
    "timestamps": ("timestamp_seconds(n)", "timestamp_micros(n * 1000000)"),
}


def numbers(spark: SparkSession, seed: int, count: int = 300) -> DataFrame:
    """Rows (n, x, ts, id): a key with some NULLs, a number, a time on whole seconds."""
    chance = F.pmod(F.xxhash64("id", F.lit(seed)), F.lit(10_000))
    return spark.range(count).select(
        F.when(chance % 23 != 0, chance % 7).alias("n"),
        (chance % 50).cast("double").alias("x"),
        F.timestamp_seconds(F.lit(1_700_000_000) + chance % 97).alias("ts"),
        "id",
    )


def reference(left: DataFrame, right: DataFrame, holds: Column) -> Counter[Any]:
    """The pairs of ids that Spark's own join gives."""
    renamed = right.select(*[F.col(name).alias(f"{name}_right") for name in right.columns])
    joined = left.join(renamed, holds & in_window("ts", "ts_right", (9, 4)))
    return Counter((row.id, row.id_right) for row in joined.select("id", "id_right").collect())


def pairs(joined: DataFrame) -> Counter[Any]:
    return Counter((row.id, row.id_right) for row in joined.select("id", "id_right").collect())


WINDOWS = {"time": "ts", "within": {"left": "9 s", "right": "4 s"}}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_any_type(spark: SparkSession, kind: str) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    left, right = (
        numbers(spark, seed).withColumn("key", F.expr(made)) for seed, made in enumerate(KEYS[kind])
    )
    # For Spark NaN equals NaN; in this join, as in SQL elsewhere, it equals nothing.
    same = F.expr("key = key_right")
    holds = same & ~F.isnan("key") if kind == "floats" else same
    expected = reference(left, right, holds)
    assert sum(expected.values()) > 100
    assert pairs(window_join(left, right, on="key", **WINDOWS)) == expected


def test_several_keys_and_any_number_of_partitions(spark: SparkSession) -> None:
    left, right = (
        numbers(spark, seed).withColumn("text", F.concat(F.lit("a"), F.col("id") % 3))
        for seed in (3, 4)
    )
    expected = reference(left, right, F.expr("n = n_right and text = text_right"))
    assert sum(expected.values()) > 50
    for partitions in ("1", "4"):
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
        joined = window_join(left, right.repartition(5), on=["n", "text"], **WINDOWS)
        assert pairs(joined) == expected


def near() -> Any:
    """A condition made on the spot: it has no name by which a worker could import it."""

    def condition(left_x: float, right_x: float) -> bool:
        return abs(left_x - right_x) < 2.0

    return condition


@pytest.mark.parametrize(
    ("on", "condition"),
    [
        (band("x", -1, 3), "x_right - x between -1 and 3"),
        (overlap("tags", 2), "size(array_intersect(tags, tags_right)) >= 2"),
        (theta(near(), ["x"]), "abs(x - x_right) < 2"),
        ([band("x", 0, 9), "n"], "x_right - x between 0 and 9 and n = n_right"),
    ],
    ids=["band", "overlap", "theta", "band and key"],
)
def test_predicates_that_keys_cannot_split(spark: SparkSession, on: Any, condition: str) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "6")
    tags = F.array(F.col("id") % 5, F.col("id") % 7, F.col("id") % 11)
    left, right = (numbers(spark, seed).withColumn("tags", tags) for seed in (5, 6))
    expected = reference(left, right, F.expr(condition))
    assert sum(expected.values()) > 100
    assert pairs(window_join(left, right, on=on, **WINDOWS)) == expected


def test_payload_of_any_type(spark: SparkSession) -> None:
    schema = T.StructType.fromDDL(
        "key int, ts timestamp, naive timestamp_ntz, day date, text string, raw binary, "
        "price decimal(10,3), flag boolean, many array<struct<a: int, b: array<string>>>, "
        "table map<string, struct<at: timestamp, n: bigint>>, nothing void, `odd.name` smallint"
    )
    moment = datetime.datetime(2023, 11, 14, 22, 13, 20, 123456)
    full = (
        1, moment, moment, moment.date(), "ü", b"\x00\xff", Decimal("1.250"), True,
        [(1, ["x", None]), (None, [])], {"k": (moment, 5)}, None, 7,
    )  # fmt: skip
    empty = (1, moment, *[None] * 10)
    frame = spark.createDataFrame([full, empty], schema)
    joined = window_join({"a": frame, "b": frame}, on="key", time="ts", within="1 s")
    width = len(schema)
    assert joined.columns == [*schema.names, *[f"{n}_b" for n in schema.names], "_importance"]
    assert [field.dataType for field in joined.schema][:width] == [f.dataType for f in schema]
    stored = frame.collect()
    expected = Counter(str((*a, *b, 1.0)) for a in stored for b in stored)
    assert Counter(str(tuple(row)) for row in joined.collect()) == expected


def test_count_windows_hold_rows_of_the_whole_stream(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    left = spark.range(20).select(F.col("id").alias("t"), (F.col("id") % 2).alias("n"), "id")
    right = spark.range(20).select(F.col("id").alias("t"), (F.col("id") % 2).alias("n"), "id")
    joined = window_join(left, right, on="n", time="t", within=rows(3))
    # At t the left row comes first: it finds the right rows of t-1, t-2, t-3; then the right row
    # finds the left rows of t, t-1, t-2. Keys alternate, so differences are even.
    expected = {(t, t - 2) for t in range(2, 20)}
    expected |= {(t - d, t) for t in range(20) for d in (0, 2) if t >= d}
    assert pairs(joined) == Counter(expected)


def test_rows_without_a_time_and_empty_tables(spark: SparkSession) -> None:
    some = numbers(spark, 1).withColumn("ts", F.when(F.col("id") % 4 > 0, F.col("ts")))
    none = numbers(spark, 1, count=0)
    assert pairs(window_join(some, some, on="n", **WINDOWS)) == reference(
        some, some, F.expr("n = n_right")
    )
    assert window_join(some, none, on="n", **WINDOWS).collect() == []


def test_result_time_is_the_later_one(spark: SparkSession) -> None:
    left, right = numbers(spark, 1), numbers(spark, 2)
    joined = window_join(left, right, on="n", result_time="at", **WINDOWS).collect()
    assert len(joined) > 100
    assert all(row["at"] == max(row.ts, row.ts_right) for row in joined)
