"""The joins of the Connect test: run as a script with the folder of a `Feed`.

A server is started on this machine; the rest goes through its remote session alone.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote
from spark.feeds import Feed
from spark.sessions import with_settings

from tidegate import JoinSpec, whatif
from tidegate.spark import configure, metrics, read_state, window_join


def main() -> None:
    root = Path(sys.argv[1])
    builder = with_settings(SparkSession.builder.remote("local[2]"))
    spark = configure(builder, partitions=2).getOrCreate()
    feed = Feed(spark, root)
    wish = {"on": "k", "time": "ts", "within": "20 s"}
    left, right = (feed.stream(n).withWatermark("ts", "10 seconds") for n in ("left", "right"))
    joined = window_join(left, right, name="ads", **wish)
    query = (
        joined.writeStream.trigger(availableNow=True)
        .format("parquet")
        .queryName("connected")
        .option("path", str(root / "out-connected"))
        .option("checkpointLocation", str(root / "checkpoint-connected"))
        .start()
    )
    query.awaitTermination()
    rows = spark.read.schema(joined.schema).parquet(str(root / "out-connected")).collect()
    found = metrics(query)
    still = [spark.read.parquet(str(root / name)) for name in ("left", "right")]
    batch = window_join(*still, **wish)
    pairs = batch.select("id", "id_right").collect()
    asked = {"left": still[0], "right": still[1]}
    curve = whatif(asked, JoinSpec(**wish), [10], ["random"], sample=0.5, optimum=False).curve
    told = {
        "whatif": curve[0]["recall"],
        "remote": is_remote(),
        "streaming": sorted([row.id, row.id_right] for row in rows),
        "streaming_metrics": found.total,
        "prometheus": found.prometheus(),
        "batch": sorted([row.id, row.id_right] for row in pairs),
        "batch_metrics": metrics(batch).total,
        "refused": refused(feed, window_join(left, right, **{**wish, "within": "21 s"})),
        "stored": len(read_state(spark, str(root / "checkpoint-connected"))),
    }
    (root / "told.json").write_text(json.dumps(told))
    spark.stop()


def refused(feed: Feed, changed: object) -> str:
    """What is said to a restart with another spec, once there are more rows."""
    from spark.feeds import random_batches

    for seed, name in enumerate(("left", "right")):
        feed.write(name, random_batches(seed, batches=1), first=2)
    try:
        feed.start(changed, "connected").awaitTermination()  # type: ignore[arg-type]
    except PySparkException as error:
        return str(error)
    return ""


if __name__ == "__main__":
    main()
