"""A query that stops and goes on gives exactly the rows of one that never stopped."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from spark.feeds import Feed, random_batches
from spark.restarted_job import NO_EMPTY_BATCHES, joined

from tidegate.spark import metrics, read_state, window_join

TESTS = Path(__file__).parents[1]


def test_another_process_goes_on(feed: Feed) -> None:
    """Stopped after three micro-batches; then one core, and a session that asks for 5 partitions.

    A checkpoint keeps its partitions, and so its buckets, whatever a later session says.
    """
    feed.spark.conf.set(*NO_EMPTY_BATCHES)
    batches = {name: random_batches(seed) for seed, name in enumerate(("left", "right"))}
    for name, tables in batches.items():
        feed.write(name, tables[:3])
    first = feed.start(joined(feed), "stopped")
    first.awaitTermination()
    before = metrics(first).total["rows_read"]
    for name, tables in batches.items():
        feed.write(name, tables[3:], first=3)
    second = subprocess.run(
        [sys.executable, "-m", "spark.restarted_job", str(feed.root)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert second.returncode == 0, second.stderr[-3000:]
    # The counters went on, in the two buckets of the checkpoint.
    assert before == 2 * 3 * 80
    assert "rows read: 800 buckets: 2" in second.stdout
    rows = feed.spark.read.parquet(str(feed.root / "out-stopped")).collect()
    # What Spark keeps is what the metrics say, and can be read without the query.
    stored = read_state(feed.spark, str(feed.root / "checkpoint-stopped"))
    assert sum(bucket.meta.stats["rows_read"] for bucket in stored) == 800
    assert all(bucket.origin["memory"] == "70" for bucket in stored)
    logged = [bucket.rows(stream) for bucket in stored for stream in (0, 1)]
    assert sum(table.num_rows for table in logged if table is not None) == 800
    undisturbed = feed.run(joined(feed), "undisturbed")
    assert len(rows) > 100
    assert Counter((r.id, r.id_right) for r in rows) == undisturbed.pairs("id", "id_right")
    assert len(set(rows)) == len(rows)


def test_another_join_is_refused(feed: Feed) -> None:
    for seed, name in enumerate(("left", "right")):
        feed.write(name, random_batches(seed, batches=1))
    left, right = (feed.stream(n).withWatermark("ts", "10 seconds") for n in ("left", "right"))
    joined = window_join(left, right, on="k", time="ts", within="20 s")
    feed.start(joined, "query").awaitTermination()
    for seed, name in enumerate(("left", "right")):
        feed.write(name, random_batches(seed, batches=1), first=1)
    changed = window_join(left, right, on="k", time="ts", within="21 s")
    with pytest.raises(StreamingQueryException, match=r"within was .*20000000.* and is now"):
        feed.start(changed, "query").awaitTermination()
