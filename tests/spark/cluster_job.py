"""A job as it is submitted to a cluster: it knows tidegate only through what it was shipped with.

Run by `spark-submit --py-files tidegate.zip` with a folder that holds the streams `left` and
`right`; its rows go to the folder `out`.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession

import tidegate as tg

SCHEMA = "k long, ts timestamp, id long"


def stream(spark: SparkSession, folder: str) -> DataFrame:
    """The files of a folder, one per micro-batch."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.parquet(folder).withWatermark("ts", "10 seconds")


def main(root: str) -> None:
    spark = tg.configure(SparkSession.builder, partitions=2).getOrCreate()
    left, right = (stream(spark, f"{root}/{name}") for name in ("left", "right"))
    joined = tg.window_join(left, right, on="k", time="ts", within="20 s")
    writer = joined.writeStream.trigger(availableNow=True).format("parquet")
    writer = writer.option("path", f"{root}/out")
    query = writer.option("checkpointLocation", f"{root}/checkpoint").start()
    query.awaitTermination()
    print(f"shipped in {tg.__file__}")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
