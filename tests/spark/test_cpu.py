"""CPU budgets on Spark: streaming and batch, fuel shared out over the buckets, and keeping up.

The law: results are a part of the exact ones, with enough fuel all of them; a query that stops and
goes on gives the rows of one that did not; the metrics say what was not compared.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pyspark.sql import DataFrame
from spark.doomed_job import NO_EMPTY_BATCHES
from spark.feeds import Feed, random_batches

from tidegate.spark import metrics, window_join
from tidegate.spec import Cpu, TidegateError, band

BATCHES = 3
JOIN: dict[str, Any] = {
    "on": band("k", 0, 0),
    "time": "ts",
    "within": "20 s",
    "index": "nested-loop",
}
SMALL = Cpu(30.0, adapt_every="5 s", basic_window="2 s")


@pytest.fixture
def pair(feed: Feed) -> Feed:
    for seed, name in enumerate(("left", "right")):
        feed.write(name, random_batches(70 + seed, BATCHES))
    return feed


def streams(feed: Feed) -> list[DataFrame]:
    return [feed.stream(n).withWatermark("ts", "10 seconds") for n in ("left", "right")]


def test_streaming_and_a_restart(feed: Feed) -> None:
    """A query that stops after its first micro-batch gives the rows of one that did not."""
    parts = {
        name: random_batches(70 + seed, BATCHES) for seed, name in enumerate(("left", "right"))
    }
    for name, batches in parts.items():
        feed.write(name, batches)
        feed.write(f"{name}-again", batches[:1])
    feed.spark.conf.set(*NO_EMPTY_BATCHES)  # one of them would move the watermark
    exact = feed.run(window_join(*streams(feed), **JOIN), "exact").pairs("id", "id_right")
    ample = feed.run(window_join(*streams(feed), cpu=Cpu(10**9), **JOIN), "ample")
    assert ample.pairs("id", "id_right") == exact
    total = metrics(ample.query).total
    assert total["skipped_comparisons"] == total["skipped_results_estimate"] == 0
    assert total["cpu_fraction"] == 1.0
    small = feed.run(window_join(*streams(feed), cpu=SMALL, **JOIN), "small")
    total = metrics(small.query).total
    assert 0 < total["comparisons"] < metrics(ample.query).total["comparisons"]
    assert total["skipped_comparisons"] > 0
    assert 0 < total["cpu_fraction"] < 1
    assert total["skipped_results_estimate"] > 0
    assert "tidegate_skipped_comparisons_total" in metrics(small.query).prometheus()
    kept = small.pairs("id", "id_right")
    assert 0 < kept.total() < exact.total()
    assert kept <= exact

    def joined() -> DataFrame:
        again = [feed.stream(f"{n}-again").withWatermark("ts", "10 seconds") for n in parts]
        return window_join(*again, cpu=SMALL, **JOIN)

    feed.run(joined(), "again")
    for name, batches in parts.items():
        feed.write(f"{name}-again", batches[1:], first=1)
    again = feed.run(joined(), "again")
    assert again.pairs("id", "id_right") == kept
    names = ("comparisons", "skipped_comparisons", "rows_out")
    found = metrics(again.query).total
    assert [found[name] for name in names] == [total[name] for name in names]


def test_keeping_up_with_what_cannot_be_kept_up_with(pair: Feed) -> None:
    """Each micro-batch may take a millisecond: comparisons are cut down, and all rows are kept."""
    cpu = Cpu(keep_up=True, interval="1 ms", basic_window="2 s")
    run = pair.run(window_join(*streams(pair), cpu=cpu, **JOIN), "keep-up")
    total = metrics(run.query).total
    assert total["skipped_comparisons"] > 0
    assert total["rows_read"] == 2 * BATCHES * 80
    assert len(run.rows) == total["rows_out"] > 0


def test_batch(pair: Feed) -> None:
    tables = [pair.spark.read.parquet(str(pair.root / name)) for name in ("left", "right")]

    def found(**options: Any) -> tuple[Counter[Any], Any]:
        joined = window_join(*tables, **JOIN, **options)
        pairs = Counter((row.id, row.id_right) for row in joined.collect())
        return pairs, metrics(joined).total

    exact, _ = found()
    assert found(cpu=Cpu(10**9))[0] == exact
    small, total = found(cpu=SMALL)
    assert small <= exact
    assert 0 < small.total() == total["rows_out"] < exact.total()
    assert total["skipped_comparisons"] > 0
    assert found(cpu=Cpu(share_of_core=0.5))[0] == exact
    with pytest.raises(TidegateError, match="these DataFrames are not streaming"):
        window_join(*tables, cpu=Cpu(keep_up=True), **JOIN)
