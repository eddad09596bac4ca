"""The ledger of a join on Spark: with the output it is the exact join, whatever was tried twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark.feeds import EPOCH, Feed
from spark.test_state import BUDGET, TARGET, Cells, batches_of, plan_of, step

from tidegate.engine import JoinEngine
from tidegate.loss.bucket_chain import buckets_of
from tidegate.offline.repair import repair
from tidegate.spark import bucket_store, exchange, window_join
from tidegate.spark.engines import Residents
from tidegate.spark.fingerprint import describe
from tidegate.spec import Cpu, JoinSpec, TidegateError


def rows_of(tables: list[pa.Table]) -> Counter[str]:
    return Counter(str(row) for table in tables for row in table.to_pylist())


@pytest.mark.parametrize(("seed", "spec"), [(700, BUDGET), (800, TARGET)], ids=["budget", "target"])
def test_only_what_was_committed_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seed: int, spec: JoinSpec
) -> None:
    """Tasks die after they wrote, engines are lost, some micro-batches bring no rows, and others
    are taken in parts, between which a target changes the memory."""
    monkeypatch.setattr(exchange, "residents", Residents())
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path)[:60])
    monkeypatch.setattr(bucket_store, "SMALLEST_LOG_BYTES", 5_000)
    chance = np.random.default_rng(seed)
    batches: list[dict[int, pa.Table]] = [
        {} if n % 4 == 2 else tables
        for n, tables in enumerate(batches_of(seed, 16, 6 if spec is BUDGET else 80))
    ]
    shed = tmp_path / "shed"
    plan = plan_of(spec, batches[0][0], ledger=str(shed))
    exact = JoinEngine(spec.unwatched().replace(memory=None, policy="auto"), plan.schemas)
    cells, given_out, everything, watermark = Cells(), [], [], 0
    for number, tables in enumerate(batches):
        named = {spec.streams[stream]: table for stream, table in tables.items()}
        everything.append(exact.push(named, watermark=watermark * 1000 + 1))
        if chance.random() < 0.4:
            dead = Cells()
            dead.meta, dead.segments = cells.meta, dict(cells.segments)
            step(plan, dead, tables, number)
        if chance.random() < 0.4:
            monkeypatch.setattr(exchange, "residents", Residents())
        work = step(plan, cells, tables, number)
        given_out += work.results  # type: ignore[attr-defined]
        watermark = (EPOCH + 20 * number - 5) * 1000
        if number in (6, 15):
            found = repair(shed)
            lost = list(found.results())
            assert sum(table.num_rows for table in lost) == found.size
            assert rows_of(given_out) + rows_of(lost) == rows_of(everything)
            assert sum(found.rows.values()) == exact.stats()["rows_in"]
    assert found.size > 0
    links = list((shed / "query-None").glob("*.link"))
    assert len(links) > len(buckets_of(shed)[0].links)  # some were tried in vain
    counts = buckets_of(shed)[0].links[0].token
    next((shed / "query-None").glob(f"left-*-{counts}.parquet")).unlink()
    with pytest.raises(TidegateError, match="lacks files"):
        repair(shed)


def test_a_micro_batch_that_was_not_committed(tmp_path: Path) -> None:
    batches = batches_of(900, 4)
    plan = plan_of(BUDGET, batches[0][0], ledger=f"file://{tmp_path}/shed")
    cells = Cells()
    for number, tables in enumerate(batches):
        step(plan, cells, tables, number)
    commits = tmp_path / "checkpoint" / "commits"
    commits.mkdir(parents=True)
    for number in range(3):
        (commits / str(number)).touch()
    assert repair(tmp_path / "shed").batch == 3
    assert repair(tmp_path / "shed", tmp_path / "checkpoint").batch == 2
    with pytest.raises(TidegateError, match="not the checkpoint"):
        repair(tmp_path / "shed", tmp_path / "nowhere")
    next((tmp_path / "shed" / "query-None").glob("*-000000001-*.link")).unlink()
    with pytest.raises(TidegateError, match="lacks files"):
        repair(tmp_path / "shed")


def test_a_folder_for_each_query(tmp_path: Path) -> None:
    tables = batches_of(900, 1)[0]
    shed = str(tmp_path / "shed")
    step(plan_of(BUDGET, tables[0], ledger=shed), Cells(), tables, 0)
    other = plan_of(BUDGET.replace(seed=8), tables[0], ledger=shed)
    with pytest.raises(TidegateError, match="another join or query"):
        step(other, Cells(), tables, 0)


def test_a_ledger_is_part_of_what_state_is_for() -> None:
    schemas = [pa.schema([("k", pa.int64())])] * 2
    assert describe(BUDGET, schemas) != describe(BUDGET, schemas, has_ledger=True)


def test_batch(spark: SparkSession, tmp_path: Path) -> None:
    """Two actions write it twice; the last counts."""
    sides = [
        spark.range(400).select(
            F.pmod(F.xxhash64("id", F.lit(seed)), F.lit(9)).alias("k"),
            F.timestamp_seconds(F.lit(EPOCH) + F.pmod(F.xxhash64("id"), F.lit(97))).alias("ts"),
            "id",
        )
        for seed in range(2)
    ]
    join: dict[str, Any] = {"on": "k", "time": "ts", "within": "9 s"}
    limited = window_join(*sides, **join, memory=40, policy="random", ledger=tmp_path, buckets=2)
    assert limited.count() == limited.count()
    ids = ["id", "id_right"]
    kept = Counter(tuple(row) for row in limited.select(*ids).collect())
    exact = Counter(tuple(row) for row in window_join(*sides, **join).select(*ids).collect())
    found = repair(tmp_path)
    lost = pa.concat_tables(found.results())
    assert lost.column_names == limited.columns
    assert kept + Counter(zip(*(lost.column(n).to_pylist() for n in ids), strict=True)) == exact
    assert sum(found.rows.values()) == 800
    fuel = Cpu(comparisons_per_second=5)
    with pytest.raises(TidegateError, match="cpu is given"):
        window_join(*sides, **join, memory=40, cpu=fuel, ledger=tmp_path)


def test_streaming_over_several_buckets(feed: Feed) -> None:
    """Late rows, rows that cannot be joined, a restart; the exact join is the exact query."""
    from spark.feeds import random_batches

    feed.spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    names = ("left", "right")
    batches = {name: random_batches(seed, 4) for seed, name in enumerate(names)}

    def joined(**options: Any) -> Any:
        sides = (feed.stream(name).withWatermark("ts", "10 seconds") for name in names)
        return window_join(*sides, on="k", time="ts", within="20 s", buckets=2, **options)

    limited = {"memory": 60, "policy": "prob", "seed": 2, "ledger": feed.root / "shed"}
    for name in names:
        feed.write(name, batches[name][:2])
    feed.start(joined(**limited), "limited").awaitTermination()
    for name in names:
        feed.write(name, batches[name][2:], first=2)
    kept = feed.run(joined(**limited), "limited").pairs("id", "id_right")
    exact = feed.run(joined(), "exact").pairs("id", "id_right")
    found = repair(feed.root / "shed", feed.root / "checkpoint-limited")
    lost = pa.concat_tables(found.results())
    pairs = zip(lost.column("id").to_pylist(), lost.column("id_right").to_pylist(), strict=True)
    assert lost.num_rows > 0
    assert kept + Counter(pairs) == exact
    assert sum(found.rows.values()) == 2 * 4 * 80
    assert found.rows["too late"] > 0
