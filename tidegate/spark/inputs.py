"""What the user passes to `window_join`, checked while it is still a plan.

Law: whatever can be known to be wrong before a query starts is said here, in one sentence that
names the stream. What passes is a tuple of streams that all run or all stand still, with a clock
where one is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from tidegate.binding.result_schema import bind
from tidegate.columns.spark_keys import quoted, route_hash
from tidegate.engine import check_supported
from tidegate.spark.packing import AHEAD_COLUMN, HASH_COLUMN
from tidegate.spec import Equal, JoinSpec, Theta, TidegateError
from tidegate.spec.units import nearest_hint, parse_window

GUARDED_TIME = "__tidegate_time"
# Under this key Spark keeps, in a column's metadata, that the column has a watermark.
WATERMARK_KEY = "spark.watermarkDelayMs"


@dataclass(frozen=True)
class Inputs:
    """The streams of a join, in the order of its spec, and what is known of them.

    `delay` is the longest watermark delay in milliseconds, None where Spark keeps no clock.
    """

    spec: JoinSpec
    frames: tuple[DataFrame, ...]
    streaming: bool
    delay: int | None
    max_ahead: int | None

    @property
    def schemas(self) -> tuple[T.StructType, ...]:
        """The Spark schemas of the streams."""
        return tuple(frame.schema for frame in self.frames)

    @property
    def arrow_schemas(self) -> dict[str, pa.Schema]:
        """The same for Arrow, by stream."""
        return {
            name: arrow_schema(schema)
            for name, schema in zip(self.spec.streams, self.schemas, strict=True)
        }

    def prepared(self, stream: int) -> DataFrame:
        """A stream's rows with the columns that the packer reads beside them."""
        frame, time = self.frames[stream], quoted(self.spec.time_columns[stream])
        # Spark's mapInArrow fails on names with dots, so columns travel under plain ones.
        plain = [quoted(name).alias(f"c{place}") for place, name in enumerate(frame.columns)]
        plain.append(route_hash(self.spec, stream, self.schemas).alias(HASH_COLUMN))
        if self.max_ahead is not None:
            limit = F.unix_micros(F.current_timestamp()) + F.lit(self.max_ahead)
            ahead = F.coalesce(F.unix_micros(time.cast("timestamp")) > limit, F.lit(False))
            plain.append(ahead.alias(AHEAD_COLUMN))
            # A time that is too far ahead must not reach the watermark, which never goes back.
            time = F.when(~ahead, time)
        if self.delay is not None and not _has_watermark(frame, self.spec, stream):
            frame = frame.withColumn(GUARDED_TIME, time)
            frame = frame.withWatermark(GUARDED_TIME, f"{self.delay} milliseconds")
        return frame.select(*plain)


def arrow_schema(schema: T.StructType) -> pa.Schema:
    """A Spark schema in Arrow's types, all times in UTC, whatever the session's time zone is."""
    fields = [T.StructField(f.name, f.dataType, True) for f in schema.fields]
    arrow: pa.Schema = to_arrow_schema(T.StructType(fields), timezone="UTC")
    return arrow


def _check_types(stream: str, schema: T.StructType) -> None:
    """Refuse columns of types that Spark cannot hand to Python, such as year-month intervals."""
    for field in schema.fields:
        try:
            arrow_schema(T.StructType([field]))
        except Exception:
            # Spark's errors here share no class; what they say is about its own machinery.
            raise TidegateError(
                f"stream {stream!r} has a column {field.name!r} of type "
                f"{field.dataType.simpleString()}, which Spark cannot hand to Python; cast it to "
                "another type or drop it"
            ) from None


def read_inputs(frames: Mapping[str, Any], spec: JoinSpec, max_ahead: Any) -> Inputs:
    """Check the frames against the spec."""
    if set(frames) != set(spec.streams):
        raise TidegateError(
            f"the frames are {', '.join(map(repr, frames))} but the spec's streams are "
            f"{', '.join(map(repr, spec.streams))}; give one frame for each stream"
        )
    ordered = tuple(frames[name] for name in spec.streams)
    for name, frame in zip(spec.streams, ordered, strict=True):
        if not isinstance(frame, DataFrame):
            raise TidegateError(
                f"stream {name!r} is a {type(frame).__name__}; give a Spark DataFrame"
            )
        _check_columns(name, frame.columns)
        _check_types(name, frame.schema)
    for stream, names in enumerate(_columns_of(spec)):
        _check_present(spec.streams[stream], names, ordered[stream].columns)
    streaming = _all_streaming(spec, ordered)
    ahead = None if max_ahead is None else _max_ahead(max_ahead, spec, ordered)
    delay = _delay(spec, ordered) if streaming else None
    inputs = Inputs(spec, ordered, streaming, delay, ahead)
    check_supported(spec)
    if spec.cpu is not None and spec.cpu.keep_up and not streaming:
        raise TidegateError(
            "cpu=Cpu(keep_up=True) follows the time of micro-batches, and these DataFrames are not "
            "streaming; give comparisons_per_second= or share_of_core="
        )
    bind(spec, inputs.arrow_schemas)  # Types that do not fit each other are refused here.
    return inputs


def _check_columns(stream: str, columns: Sequence[str]) -> None:
    for name, count in Counter(columns).items():
        if count > 1:
            raise TidegateError(
                f"stream {stream!r} has {count} columns named {name!r}; rename all but one"
            )
        if name == GUARDED_TIME:
            raise TidegateError(
                f"stream {stream!r} has a column {name!r}, which is used inside; rename it"
            )


def _columns_of(spec: JoinSpec) -> list[set[str]]:
    """The columns that a spec reads, by stream."""
    needed = [{time} for time in spec.time_columns]
    for stream, names in enumerate(needed):
        if spec.importance_columns is not None:
            names.add(spec.importance_columns[stream])
        for predicate in spec.predicates:
            columns = predicate.columns[stream]
            names.update(columns if isinstance(predicate, Theta) else [str(columns)])
    return needed


def _check_present(stream: str, names: set[str], columns: Sequence[str]) -> None:
    for name in sorted(names):
        if name not in columns:
            raise TidegateError(
                f"stream {stream!r} has no column {name!r}; {nearest_hint(name, columns, 'it has')}"
            )


def _all_streaming(spec: JoinSpec, frames: Sequence[DataFrame]) -> bool:
    streaming = [frame.isStreaming for frame in frames]
    if any(streaming) and not all(streaming):
        moving = spec.streams[streaming.index(True)]
        still = spec.streams[streaming.index(False)]
        raise TidegateError(
            f"stream {moving!r} is streaming but {still!r} is not; give only streaming or only "
            "batch DataFrames (a table that does not change is joined with DataFrame.join)"
        )
    return all(streaming)


def _has_watermark(frame: DataFrame, spec: JoinSpec, stream: int) -> bool:
    return WATERMARK_KEY in frame.schema[spec.time_columns[stream]].metadata


def _delay(spec: JoinSpec, frames: Sequence[DataFrame]) -> int | None:
    """The watermark delay: that of the frames, or `lateness` where they have none."""
    if any(window.kind == "rows" for window in spec.windows):
        return None  # Rows die when newer ones come; there is nothing for a watermark to do.
    lateness = spec.lateness_window
    delays = [0]
    for stream, name in enumerate(spec.streams):
        column = frames[stream].schema[spec.time_columns[stream]]
        if not isinstance(column.dataType, (T.TimestampType, T.TimestampNTZType)):
            raise TidegateError(
                f"stream {name!r} has times of type {column.dataType.simpleString()} in "
                f"{column.name!r}; a streaming join over time needs timestamps (or rows(n) windows)"
            )
        found = column.metadata.get(WATERMARK_KEY)
        if found is None and lateness.size == 0:
            raise TidegateError(
                f"stream {name!r} has no watermark, so its rows would never expire; call "
                f"withWatermark({column.name!r}, ...) on it or give lateness="
            )
        if found is not None and lateness.size not in (0, found * 1000):
            raise TidegateError(
                f"stream {name!r} has a watermark delay of {found} ms but lateness is "
                f"{spec.lateness!r}; give one of them, or both alike"
            )
        delays.append(-(-lateness.size // 1000) if found is None else found)
    return max(delays)


def _max_ahead(value: Any, spec: JoinSpec, frames: Sequence[DataFrame]) -> int:
    window = parse_window(value, "max_ahead", counts=False)
    if window.kind != "duration":
        raise TidegateError(f"max_ahead {value!r} is not a duration; write one such as '1 hour'")
    for stream, name in enumerate(spec.streams):
        if frames[stream].isStreaming and _has_watermark(frames[stream], spec, stream):
            raise TidegateError(
                f"max_ahead comes too late for stream {name!r}, whose watermark is set before it; "
                "drop withWatermark and give lateness= instead"
            )
    return window.size


def key_columns(spec: JoinSpec, stream: int) -> tuple[str, ...]:
    """The columns of a stream that must be equal."""
    return tuple(p.columns[stream] for p in spec.predicates if isinstance(p, Equal))
