"""The demonstration as a Spark pipeline: files in, the join, a windowed aggregate downstream.

Law: what is shown comes from the metrics of the queries and from what they wrote. Spark runs inside
this process (`local_spark`); its own messages are shown only if it fails.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.cli.live import LiveLine, watch
from tidegate.cli.local_spark import LOG, session
from tidegate.spec import JoinSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

BATCHES = 10
WARM_UP_BATCHES = 2  # left out of rows/s: code is loaded and compiled in them
AGGREGATE_WINDOW = "30 minutes"

SCHEMAS = {
    "auctions": "auction_id long, opened timestamp, seller long, category string, "
    "importance double",
    "bids": "auction_id long, made timestamp, bidder long, amount double, importance double",
}
TIMES = {"auctions": "opened", "bids": "made"}


@dataclass(frozen=True)
class PipelineRun:
    """What one query gave: its counters, its speed, and what the aggregate counted."""

    stats: dict[str, float]
    rows_per_second: float
    windows: dict[str, dict[str, float]]  # by category: results and importance in the last window
    window: str  # when that window began


@contextlib.contextmanager
def pipeline(streams: Mapping[str, pa.Table]) -> Iterator[Pipeline]:
    """Start Spark and write the streams as files; all is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="tidegate-demo-") as name:
        folder = Path(name)
        write_streams(streams, folder)
        spark = session(folder, "tidegate demo")
        try:
            yield Pipeline(spark, folder)
        except Exception:
            sys.stderr.write((folder / LOG).read_text(errors="replace")[-3000:])
            raise
        finally:
            spark.stop()


@dataclass(frozen=True)
class Pipeline:
    """Queries over the files in a folder."""

    spark: SparkSession
    folder: Path

    def run(self, name: str, spec: JoinSpec, budget: int | None, quiet: bool) -> PipelineRun:
        """Run one query to its end, showing its numbers meanwhile."""
        import tidegate as tg

        streams = {stream: self._stream(stream) for stream in spec.streams}
        joined = tg.window_join(streams, spec=spec, result_time="at")
        query = (
            counted(joined)
            .writeStream.format("memory")
            .queryName(f"windows_{name}")
            .option("checkpointLocation", str(self.folder / f"checkpoint-{name}"))
            .trigger(availableNow=True)
            .start()
        )
        watch(query, LiveLine(name, quiet), budget)
        return self._measured(query, f"windows_{name}")

    def _stream(self, name: str) -> DataFrame:
        reader = self.spark.readStream.schema(SCHEMAS[name]).option("maxFilesPerTrigger", 1)
        frame = reader.parquet(str(self.folder / name))
        return frame.withWatermark(TIMES[name], "0 seconds")

    def _measured(self, query: Any, table: str) -> PipelineRun:
        from tidegate.spark import metrics

        batches = [p for p in query.recentProgress if p["numInputRows"]][WARM_UP_BATCHES:]
        seconds = sum(p["durationMs"]["triggerExecution"] for p in batches) / 1000
        rows = sum(p["numInputRows"] for p in batches)
        found = self.spark.table(table).collect()
        last = max((row["begin"] for row in found), default="")
        categories = {
            row["category"]: {"results": row["results"], "importance": row["importance"]}
            for row in found
            if row["begin"] == last
        }
        return PipelineRun(metrics(query).total, rows / max(seconds, 1e-9), categories, last)


def counted(joined: DataFrame) -> DataFrame:
    """What a user would do with the results: count them, by category and half hour."""
    from pyspark.sql import functions as F  # noqa: N812

    windows = joined.groupBy(F.window("at", AGGREGATE_WINDOW), "category").agg(
        F.count("*").alias("results"), F.sum("_importance").alias("importance")
    )
    # As text, since Python would turn a time into that of its own time zone.
    begin = F.date_format("window.start", "yyyy-MM-dd HH:mm").alias("begin")
    return windows.select(begin, "category", "results", "importance")


def write_streams(streams: Mapping[str, pa.Table], folder: Path) -> None:
    """Write each stream as files, one per micro-batch, all cut at the same times."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    times = {name: streams[name].column(column).cast(pa.int64()) for name, column in TIMES.items()}
    begin = min(pc.min(column).as_py() for column in times.values())
    end = max(pc.max(column).as_py() for column in times.values())
    cuts = np.linspace(begin, end + 1, BATCHES + 1).astype(np.int64)
    for name, column in times.items():
        (folder / name).mkdir()
        position = streams[name].column_names.index(TIMES[name])
        moments = streams[name].column(TIMES[name]).cast(pa.timestamp("us", "UTC"))
        table = streams[name].set_column(position, TIMES[name], moments)
        places = np.searchsorted(np.asarray(column), cuts)
        for batch in range(BATCHES):
            path = folder / name / f"{batch:03d}.parquet"
            pq.write_table(table.slice(places[batch], places[batch + 1] - places[batch]), path)
            # The file source takes the oldest first.
            os.utime(path, (1_000_000 + batch, 1_000_000 + batch))
