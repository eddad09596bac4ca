"""Streaming joins inside larger queries: budgets, grids, counts, guards, aggregates downstream."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from spark.feeds import EPOCH, SCHEMA, SECOND, Feed, Run, in_window, random_batches

from tidegate.spark import metrics, window_join
from tidegate.spark.reports import PREFIX, summarise
from tidegate.spec import band, rows


def conserved(total: dict[str, float]) -> bool:
    """Rows in = alive + expired + evicted + refused + too late + rejected."""
    ends = ("alive", "expired", "evicted", "refused", "too_late", "rejected")
    return total["rows_in"] == sum(total[name] for name in ends)


def reports(run: Run) -> list[dict[str, float]]:
    """The totals after each micro-batch that had any."""
    found = []
    for progress in run.query.recentProgress:
        for name, row in progress["observedMetrics"].items():
            if name.startswith(PREFIX) and row.reports:
                buckets = {r["bucket"]: r for r in map(json.loads, row.reports)}
                found.append(summarise(progress["batchId"], buckets).total)
    return found


PAIR_BATCHES = 3


@pytest.fixture
def pair(feed: Feed) -> Feed:
    """Two random streams."""
    for seed, name in enumerate(("left", "right")):
        feed.write(name, random_batches(40 + seed, PAIR_BATCHES))
    return feed


def test_budget_holds_in_total(pair: Feed) -> None:
    left, right = (pair.stream(n).withWatermark("ts", "10 seconds") for n in ("left", "right"))
    spec = {"on": "k", "time": "ts", "within": "20 s"}
    exact = pair.run(window_join(left, right, **spec), "exact")
    small = pair.run(window_join(left, right, memory=61, policy="random", seed=5, **spec), "small")
    totals = reports(small)
    assert len(totals) >= PAIR_BATCHES
    assert all(total["memory_rows"] <= 61 for total in totals)
    assert all(total["memory_rows_peak"] <= 61 for total in totals)
    assert all(map(conserved, totals))
    assert totals[-1]["evicted"] + totals[-1]["refused"] > 0
    kept = small.pairs("id", "id_right")
    assert 0 < sum(kept.values()) < len(exact.rows)
    assert kept <= exact.pairs("id", "id_right")
    assert totals[-1]["rows_out"] == totals[-1]["importance_out"] == sum(kept.values())


def test_grid(pair: Feed) -> None:
    pair.spark.conf.set("spark.sql.shuffle.partitions", "4")
    left, right = (pair.stream(n).withWatermark("ts", "10 minutes") for n in ("left", "right"))
    ours = pair.run(window_join(left, right, on=band("k", -1, 0), time="ts", within="2 s"), "ours")
    still = [pair.spark.read.schema(SCHEMA).parquet(str(pair.root / n)) for n in ("left", "right")]
    renamed = still[1].select(*[F.col(name).alias(f"{name}_right") for name in still[1].columns])
    near = F.expr("k_right - k between -1 and 0") & in_window("ts", "ts_right", (2, 2))
    expected = still[0].join(renamed, near).collect()
    assert len(expected) > 100
    assert ours.pairs("id", "id_right") == Counter((r.id, r.id_right) for r in expected)
    total = metrics(ours.query).total
    # Four buckets lie 2 x 2, so each row is in two of them but was read once.
    assert total["rows_in"] == 2 * total["rows_read"] == 2 * 2 * PAIR_BATCHES * 80
    assert conserved(total)


def test_count_windows_need_no_watermark(feed: Feed) -> None:
    times = [pa.array([n, n], pa.timestamp("us", "UTC")) for n in range(3)]
    batches = [pa.table({"k": [1, 1], "ts": times[n], "id": [n, n + 10]}) for n in range(3)]
    feed.write("left", batches)
    feed.write("right", batches)
    left, right = feed.stream("left"), feed.stream("right")
    ours = feed.run(window_join(left, right, on="k", time="ts", within=rows(2)), "ours")
    # In each micro-batch the left rows come first and find the last two right rows; then the right
    # rows find the last two left rows, which are those of their own micro-batch.
    own = {(a, b) for n in range(3) for a in (n, n + 10) for b in (n, n + 10)}
    older = {(a, b) for n in (1, 2) for a in (n, n + 10) for b in (n - 1, n + 9)}
    assert ours.pairs("id", "id_right") == Counter(own | older)
    assert metrics(ours.query).total["alive"] == 4


def test_guard_against_the_far_future(feed: Feed) -> None:
    far = 4_000_000_000
    times = [[EPOCH, far], [EPOCH + 1, far + 1], [EPOCH + 2, EPOCH - 99]]
    for name in ("left", "right"):
        feed.write(name, [
            pa.table({
                "k": [1, 1], "ts": pa.array(np.array(t) * SECOND, pa.timestamp("us", "UTC")),
                "id": [n, n + 10],
            }) for n, t in enumerate(times)
        ])  # fmt: skip
    left, right = feed.stream("left"), feed.stream("right")
    ours = feed.run(
        window_join(
            left, right, on="k", time="ts", within="5 s", lateness="1 s", max_ahead="1 hour"
        ),
        "ours",
    )
    # Without the guard the first micro-batch would have made all others late.
    assert ours.pairs("id", "id_right") == Counter((a, b) for a in range(3) for b in range(3))
    found = metrics(ours.query)
    assert found.total["rejected_ahead"] == found.total["rejected"] == 4
    assert found.total["too_late"] == 2
    assert found.total["rejected_ahead_left"] == 2
    assert conserved(found.total)


def test_windowed_aggregate_downstream(feed: Feed) -> None:
    for seed, name in enumerate(("left", "right")):
        feed.write(name, random_batches(60 + seed, batches=4))
    left, right = (feed.stream(n).withWatermark("ts", "10 seconds") for n in ("left", "right"))
    spec = {"on": "k", "time": "ts", "within": {"left": "30 s", "right": "5 s"}}
    joined = window_join(left, right, result_time="at", **spec)
    counted = joined.groupBy(F.window("at", "10 seconds")).agg(F.count("*").alias("n"))
    windows = feed.run(counted.select("window.start", "n"), "counted")
    assert windows.late == 0
    plain = feed.run(joined, "plain")
    expected = Counter(int(row["at"].timestamp()) // 10 * 10 for row in plain.rows)
    found = {int(row.start.timestamp()): row.n for row in windows.rows}
    assert len(found) >= 4
    # The last windows are still open when the streams end.
    newest = max(found)
    assert found == {start: n for start, n in expected.items() if start <= newest}


FLAT = {
    "a": "cast(id as tinyint)", "b": "cast(id as smallint)", "c": "cast(id as int)",
    "d": "cast(id / 3 as float)", "e": "id / 7", "f": "cast(id as decimal(12,3))",
    "g": "id % 2 = 0", "h": "concat('text ', id)", "i": "cast(cast(id as string) as binary)",
    "j": "date_add(date'2020-01-01', cast(id as int))", "nothing": "cast(null as string)",
    "odd.name": "timestamp_ntz'2020-01-01 12:00:00.123456'",
}  # fmt: skip
NESTED = {
    "many": "array(id, null)", "table": "map('k', named_struct('at', ts, 'n', id))", "text": "'x'",
}  # fmt: skip


@pytest.mark.parametrize("columns", [FLAT, NESTED], ids=["flat", "nested"])
def test_payload_of_any_type_streams(feed: Feed, columns: dict[str, str]) -> None:
    for seed, name in enumerate(("left", "right")):
        feed.write(name, random_batches(70 + seed, batches=2, rows=40, gaps=0.0))
    moving, still = [], []
    for name in ("left", "right"):
        read = feed.spark.read.schema(SCHEMA).parquet(str(feed.root / name))
        for frames, frame in ((moving, feed.stream(name)), (still, read)):
            # Each third row lacks its values.
            made = [F.expr(f"if(id % 3 = 0, null, {e})").alias(n) for n, e in columns.items()]
            frames.append(frame.select("k", "ts", "id", *made).withWatermark("ts", "1 hour"))
    spec = {"on": "k", "time": "ts", "within": "9 s"}
    run = feed.run(window_join(*moving, **spec), "moving")
    expected = window_join(*still, **spec)
    assert len(run.rows) > 20
    assert sorted(map(str, run.rows)) == sorted(map(str, expected.collect()))
    assert metrics(run.query).total["rows_out"] == len(run.rows)


def test_batches_are_handed_to_a_function(pair: Feed) -> None:
    left, right = (pair.stream(n).withWatermark("ts", "10 seconds") for n in ("left", "right"))
    joined = window_join(left, right, on="k", time="ts", within="5 s")
    found: list[tuple[int, int]] = []

    def take(frame: DataFrame, batch: int) -> None:
        found.extend((row.id, row.id_right) for row in frame.select("id", "id_right").collect())

    writer = joined.writeStream.foreachBatch(take).trigger(availableNow=True)
    writer.option("checkpointLocation", str(pair.root / "handed")).start().awaitTermination()
    assert len(found) > 100
    assert Counter(found) == pair.run(joined, "written").pairs("id", "id_right")


def test_metrics_tell_rejections_and_skew(feed: Feed) -> None:
    tables = []
    for table in random_batches(80, batches=2, rows=400):
        hot = np.where(np.arange(400) % 10 < 8, 17, np.arange(400))
        tables.append(table.set_column(0, "k", pa.array(hot)))
    feed.write("left", tables)
    feed.write("right", random_batches(81, batches=2, rows=40))
    left, right = (feed.stream(n).withWatermark("ts", "1 minute") for n in ("left", "right"))
    run = feed.run(window_join(left, right, on="k", time="ts", within="1 s", name="ads"), "run")
    found = metrics(run.query, "ads")
    missing = sum(t.column("ts").null_count for t in tables)
    assert found.total["rejected_null_time"] >= missing > 0
    assert any("null_time" in text for text in found.examples)
    assert found.total["hot_key_share"] == pytest.approx(640 / 880, abs=0.1)
    assert "key '17' carries" in found.warnings[0]
    assert set(found.buckets) == {0, 1}
    assert sum(b["rows_read"] for b in found.buckets.values()) == found.total["rows_read"] == 880
    text = found.prometheus()
    assert "# TYPE tidegate_rows_in_total counter" in text
    labels = f'query="{run.query.id}",join="ads",bucket="0"'
    assert f"tidegate_rows_in_total{{{labels}}} {found.buckets[0]['rows_in']}" in text
    assert "# TYPE tidegate_memory_bytes gauge" in text
    for step in ("decode", "engine", "state"):
        assert found.total[f"seconds_{step}"] > 0
