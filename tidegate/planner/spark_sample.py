"""Tuples that stand for all, chosen by Spark: what is collected fits one machine.

Law: the same as `planner.stand_ins`, computed by Spark's expressions: no Python worker touches a
row, and nothing reaches into the JVM, so it runs over Spark Connect too. Of the keys only the most
frequent are known one by one; all others are included with the rate. A key that was not found to be
frequent costs accuracy, and makes nothing wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.planner import stand_ins
from tidegate.planner.stand_ins import Floats, StandIns
from tidegate.spec import JoinSpec, TidegateError

MOST_FREQUENT = 10_000  # keys that are told to each task
_HASH, _COUNT, _INCLUSION = "_tidegate_hash", "_tidegate_count", "_tidegate_inclusion"
_STEPS = 2**30  # of the numbers that keys draw


def is_frame(given: Any) -> bool:
    """Whether this is a Spark DataFrame, also a remote one."""
    return type(given).__module__.startswith("pyspark.sql") and hasattr(given, "sparkSession")


def rows_of(frames: Mapping[str, Any], spec: JoinSpec) -> int:
    """How many rows all streams have together."""
    for name in spec.streams:
        if not is_frame(frames[name]):
            raise TidegateError(
                f"stream {name!r} is no Spark DataFrame and others are; give one kind for all"
            )
        if frames[name].isStreaming:
            raise TidegateError(
                f"stream {name!r} is streaming, and what-if needs recorded streams; give a batch "
                "DataFrame, such as spark.read.parquet(...)"
            )
    return sum(int(frames[name].count()) for name in spec.streams)


def collected(frames: Mapping[str, Any], spec: JoinSpec) -> dict[str, pa.Table]:
    """All rows."""
    return {name: frames[name].toArrow() for name in spec.streams}


def chosen(frames: Mapping[str, Any], spec: JoinSpec, rate: float, total: int) -> StandIns:
    """The tuples that stand for all, of streams larger than this machine."""
    from pyspark.sql import functions as f

    from tidegate.columns.spark_keys import route_hash

    schemas = [frames[name].schema for name in spec.streams]
    hashed = {
        name: frames[name].withColumn(_HASH, route_hash(spec, at, schemas))
        for at, name in enumerate(spec.streams)
    }
    keys = reduce(lambda a, b: a.union(b), (hashed[name].select(_HASH) for name in spec.streams))
    counts = keys.groupBy(_HASH).agg(f.count(f.lit(1)).alias(_COUNT))
    top = counts.orderBy(f.desc(_COUNT)).limit(MOST_FREQUENT).toArrow()
    known = _inclusions(top, spec, rate, total)
    session = frames[spec.streams[0]].sparkSession
    told = f.broadcast(session.createDataFrame(known.to_pandas()))
    draw = f.pmod(f.xxhash64(f.col(_HASH), f.lit(spec.seed)), f.lit(_STEPS)) / f.lit(_STEPS)
    some, inclusion = {}, {}
    for name in spec.streams:
        p = f.coalesce(f.col(_INCLUSION), f.lit(rate))
        joined = hashed[name].join(told, _HASH, "left").withColumn(_INCLUSION, p)
        table = joined.where(draw < f.col(_INCLUSION)).drop(_HASH).toArrow()
        inclusion[name] = table.column(_INCLUSION).to_numpy()
        some[name] = table.drop_columns([_INCLUSION])
    return stand_ins.drawn(some, inclusion, spec, rate, total)


def _inclusions(top: pa.Table, spec: JoinSpec, rate: float, total: int) -> pa.Table:
    """The keys that are included with more than the rate, by hash."""
    counts: Floats = top.column(_COUNT).to_numpy().astype(np.float64)
    wanted = rate * total * (stand_ins.ROWS_PER_STAY if stand_ins.can_pass(spec) else 1)
    others = rate * (total - float(counts.sum()))
    inclusion = stand_ins.inclusions(counts, rate, wanted - others)
    found = pa.table({_HASH: top.column(_HASH), _INCLUSION: inclusion})
    return found.filter(pa.array(inclusion > rate))
