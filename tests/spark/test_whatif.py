"""What-if on DataFrames: the same numbers as on the tables, whoever chooses the tuples."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from spark.feeds import EPOCH, Feed

import tidegate as tg
from tidegate.planner import replays

SPEC = tg.JoinSpec(on="k", time="ts", within="800 s")
ASKED = ([600, 1500], ["random", "prob"])


def tables() -> dict[str, pa.Table]:
    rng = np.random.default_rng(3)
    rows, weight = 12_000, 1.0 / np.arange(1, 6_001)
    stamps = pa.array((EPOCH + np.arange(rows)) * 1_000_000, pa.timestamp("us", "UTC"))
    made = {}
    for name in ("left", "right"):
        key = pa.array(
            rng.choice(6_000, rows, p=weight / weight.sum()), mask=rng.random(rows) < 0.1
        )
        made[name] = pa.table({"ts": stamps, "k": key, "note": ["payload"] * rows})
    return made


def test_a_sample_is_chosen_by_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    local = tables()
    frames = {name: spark.createDataFrame(table.to_pandas()) for name, table in local.items()}
    exact = tg.whatif(local, SPEC, *ASKED, optimum=False)
    assert tg.whatif(frames, SPEC, *ASKED, optimum=False).curve == exact.curve
    monkeypatch.setattr(replays, "MOST_ROWS", 10_000)
    some = tg.whatif(frames, SPEC, *ASKED, optimum=False)
    assert some.sampled == pytest.approx(10_000 / 4 / 24_000)
    assert some.exact["size"] == pytest.approx(exact.exact["size"], rel=0.3)
    for row, true in zip(some.curve, exact.curve, strict=True):
        assert row["low"] <= true["recall"] <= row["high"]
        assert abs(row["recall"] - true["recall"]) < 0.1
    assert some.needed["0.90"] is not None


def test_what_cannot_be_asked(
    spark: SparkSession, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = spark.range(50).selectExpr("id as k", "timestamp_seconds(id) as ts")
    feed.write("left", [])
    moving = feed.stream("left")
    with pytest.raises(tg.TidegateError, match="'right' is streaming"):
        tg.whatif({"left": frame, "right": moving}, SPEC)
    with pytest.raises(tg.TidegateError, match="'right' is no Spark DataFrame"):
        tg.whatif({"left": frame, "right": tables()["right"]}, SPEC)
    monkeypatch.setattr(replays, "MOST_ROWS", 10)
    band = SPEC.replace(on=tg.band("k", 0, 1))
    with pytest.raises(tg.TidegateError, match="100 rows are too many"):
        tg.whatif({"left": frame, "right": frame}, band)
