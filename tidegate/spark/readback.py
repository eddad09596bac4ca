"""The state of a join, read back from a checkpoint without running the query.

Law: reading changes nothing. What comes back is what the next micro-batch would find: the counters
of each bucket, and the rows that its log still holds (a snapshot is given as it is; the engine
restores it).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tidegate.spark.bucket_store import ORIGIN, Meta, read_log, unpressed, unseal
from tidegate.spark.engines import Push


@dataclass(frozen=True)
class StoredBucket:
    """What a checkpoint holds of one bucket.

    `origin` says what the state was made for; `snapshot` is empty where the log suffices.
    """

    label: int
    meta: Meta
    origin: dict[str, str]
    snapshot: bytes
    pushes: list[Push] = field(repr=False)

    def rows(self, stream: int) -> pa.Table | None:
        """The rows of a stream that were pushed since the snapshot, oldest push first."""
        tables = [push.table(stream) for push in self.pushes if stream in push.blobs]
        return pa.concat_tables(tables) if tables else None


def read_state(spark: SparkSession, checkpoint: str, operator_id: int = 0) -> list[StoredBucket]:
    """Read the buckets of a join from the checkpoint of its query.

    A query with several stateful operators numbers them; `operator_id` picks one.
    """
    metas = {
        row.label: Meta.from_bytes(bytes(row.body))
        for row in _variable(spark, checkpoint, operator_id, "meta")
        .select("key.label", F.col("value.body").alias("body"))
        .collect()
    }
    segments: dict[int, dict[int, bytes]] = {label: {} for label in metas}
    rows = _variable(spark, checkpoint, operator_id, "segments").select(
        "key.label", "user_map_key.number", F.col("user_map_value.body").alias("body")
    )
    for row in rows.collect():
        segments[row.label][row.number] = unseal(bytes(row.body), row.number)
    return [_bucket(label, metas[label], segments[label]) for label in sorted(metas)]


def _variable(spark: SparkSession, checkpoint: str, operator_id: int, name: str) -> DataFrame:
    reader = spark.read.format("statestore").option("operatorId", operator_id)
    return reader.option("stateVarName", name).load(checkpoint)


def _bucket(label: int, meta: Meta, segments: dict[int, bytes]) -> StoredBucket:
    pieces = [segments[number] for number in range(meta.snapshot_begin, meta.snapshot_end)]
    pushes = [push for push, _ in read_log(meta, segments.__getitem__)]
    origin = json.loads(segments[ORIGIN])
    snapshot = unpressed(b"".join(pieces)) if pieces else b""
    return StoredBucket(label, meta, origin, snapshot, pushes)
