"""A life of a query in a process of its own, with its own cores and its own wish for partitions.

Run as a script with the folder of a `Feed`, a number of cores and a number of streams; it goes on
from the checkpoint that is there, to the end of the files or of its life.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from spark.feeds import Feed
from spark.sessions import with_settings

from tidegate.spark import configure, window_join

# Before it stops, Spark runs a last micro-batch without data, if the watermark has moved. That
# frees memory earlier than in a run that goes on, and chance then takes other rows.
NO_EMPTY_BATCHES = ("spark.sql.streaming.noDataMicroBatches.enabled", "false")


NAMES = ("left", "right", "third")
POLICIES = {2: "random", 3: "value"}  # by number of streams


LEDGER = "shed"


def joined(feed: Feed, streams: int, **others: Any) -> DataFrame:
    """The join of the restart test."""
    return exact(feed, streams, memory=70, policy=POLICIES[streams], seed=9, **others)


def exact(feed: Feed, streams: int, **others: Any) -> DataFrame:
    """The same without a budget."""
    frames = {n: feed.stream(n).withWatermark("ts", "10 seconds") for n in NAMES[:streams]}
    return window_join(frames, on="k", time="ts", within="20 s", buckets=2, **others)


def main() -> None:
    builder = with_settings(SparkSession.builder.master(f"local[{sys.argv[2]}]"))
    spark = configure(builder, partitions=5).getOrCreate()
    spark.conf.set(*NO_EMPTY_BATCHES)
    feed = Feed(spark, Path(sys.argv[1]))
    frame = joined(feed, int(sys.argv[3]), ledger=feed.root / LEDGER)
    feed.start(frame, "disturbed").awaitTermination()


if __name__ == "__main__":
    main()
