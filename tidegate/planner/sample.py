"""A workload measured on samples of the two streams.

Law: what is measured is what the cost model reads: arrivals per unit of time, tuples in a full
window, distinct keys in a window, and the share of all pairs that match. Rows that no join would
take (NULL times or keys) are left out.

Times that are timestamps are counted in seconds; integer times in their own unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidegate.columns.intake import to_arrow
from tidegate.costs.workload import Workload
from tidegate.spec import Band, Equal, JoinSpec, TidegateError, Window

_PLACES = 50  # windows that are looked into, evenly spread


@dataclass(frozen=True)
class Sample:
    """A measured workload, the mean bytes of a row, and the unit of time."""

    workload: Workload
    row_bytes: float
    time_unit: str


def sample_of(streams: Mapping[str, Any], spec: JoinSpec) -> Sample:
    """Measure the samples of both streams of a join."""
    if len(spec.streams) != 2:
        raise TidegateError(f"the cost model is of two streams; this join has {len(spec.streams)}")
    missing = [name for name in spec.streams if name not in streams]
    if missing:
        raise TidegateError(f"no sample of stream {missing[0]!r}; give one for each stream")
    tables = [to_arrow(streams[name], name) for name in spec.streams]
    for name, table, column in zip(spec.streams, tables, spec.time_columns, strict=True):
        if column not in table.column_names:
            raise TidegateError(
                f"stream {name!r} has no column {column!r}; it has {', '.join(table.column_names)}"
            )
    moments = [moments_of(t[c], c) for t, c in zip(tables, spec.time_columns, strict=True)]
    in_seconds = _in_seconds(tables, spec)
    predicate, keys = keys_of(tables, spec)
    rates, windows, distinct, kept = [], [], [], []
    for stream, (name, ticks) in enumerate(zip(spec.streams, moments, strict=True)):
        good = ~np.isnan(ticks) & ~np.isnan(keys[stream])
        order = np.argsort(ticks[good], kind="stable")
        times, values = ticks[good][order], keys[stream][good][order]
        rates.append(_rate(times, name))
        held, different = _window(times, values, spec.windows[stream], name)
        windows.append(held)
        distinct.append(max(1.0, different))
        kept.append(values)
    chance = _matching(kept[0], kept[1], predicate)
    rows = sum(table.num_rows for table in tables)
    workload = Workload(
        (windows[0], windows[1]),
        (rates[0], rates[1]),
        keys=(distinct[0], distinct[1]),
        selectivity=chance,
        predicate="equality" if isinstance(predicate, Equal) else "band",
    )
    return Sample(workload, _bytes(tables) / max(1, rows), "second" if in_seconds else "unit")


def _in_seconds(tables: list[pa.Table], spec: JoinSpec) -> bool:
    stamped = [
        pa.types.is_timestamp(t[c].type) for t, c in zip(tables, spec.time_columns, strict=True)
    ]
    durations = any(window.kind == "duration" and window.size for window in spec.windows)
    integers = any(window.kind == "integer" and window.size for window in spec.windows)
    if (durations and not all(stamped)) or (integers and any(stamped)):
        raise TidegateError(
            "windows and times do not fit: durations such as '10 minutes' go with timestamps, "
            "integers with integer times"
        )
    return all(stamped)


def _bytes(tables: list[pa.Table]) -> int:
    return int(sum(table.nbytes for table in tables))


def moments_of(column: pa.ChunkedArray, name: str) -> NDArray[np.float64]:
    """Times as seconds where they are timestamps, as they are where they are integers."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        ticks = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
        return np.asarray(ticks.to_pandas(), np.float64) / 1e6
    if pa.types.is_integer(kind):
        return np.asarray(column.to_pandas(), np.float64)
    raise TidegateError(f"column {name!r} of type {kind} is no time; give timestamps or integers")


def keys_of(tables: list[pa.Table], spec: JoinSpec) -> tuple[Any, list[NDArray[np.float64]]]:
    """The first predicate that an index can serve, and each row's key under it; NaN for none."""
    equals = [each for each in spec.predicates if isinstance(each, Equal)]
    bands = [each for each in spec.predicates if isinstance(each, Band)]
    if equals:
        numbers = np.zeros(sum(table.num_rows for table in tables))
        for each in equals:
            codes = _codes([t[c] for t, c in zip(tables, each.columns, strict=True)], each.columns)
            joined = numbers * (np.nanmax(codes, initial=0.0) + 1.0) + codes
            numbers = np.unique(joined, return_inverse=True)[1].astype(np.float64)
            numbers[np.isnan(joined)] = np.nan
        return equals[0], [numbers[: tables[0].num_rows], numbers[tables[0].num_rows :]]
    if bands:
        columns = [t[c] for t, c in zip(tables, bands[0].columns, strict=True)]
        plain = all(pa.types.is_integer(c.type) or pa.types.is_floating(c.type) for c in columns)
        if not plain or not all(isinstance(b, int | float) for b in (bands[0].low, bands[0].high)):
            raise TidegateError("the planner reads bands on integers and floats only")
        return bands[0], [np.asarray(c.to_pandas(), np.float64) for c in columns]
    raise TidegateError(
        "the cost model knows equality and band joins; this join has neither, so there is no "
        "index to choose"
    )


def _codes(columns: list[pa.ChunkedArray], names: tuple[str, ...]) -> NDArray[np.float64]:
    """The values of both columns, one after the other, as numbers of distinct values."""
    plain = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in columns
    ]
    try:
        together = pa.chunked_array([*plain[0].chunks, *plain[1].cast(plain[0].type).chunks])
        found = pc.dictionary_encode(together.combine_chunks())
    except pa.ArrowException as error:
        raise TidegateError(
            f"columns {names[0]!r} and {names[1]!r} cannot be compared: {error}"
        ) from None
    return np.asarray(found.indices.to_numpy(zero_copy_only=False), np.float64)


def _rate(times: NDArray[np.float64], name: str) -> float:
    if len(times) < 2 or times[-1] == times[0]:
        raise TidegateError(
            f"the sample of stream {name!r} has no two different times; a rate needs more rows"
        )
    return float((len(times) - 1) / (times[-1] - times[0]))


def _window(
    times: NDArray[np.float64], keys: NDArray[np.float64], window: Window, name: str
) -> tuple[float, float]:
    """Mean tuples and mean distinct keys of full windows; the end is inclusive."""
    if window.kind == "rows":
        size = window.size
        if size > len(times):
            raise TidegateError(
                f"the window of stream {name!r} holds {size} rows and its sample only "
                f"{len(times)}; give a longer sample"
            )
        ends = np.linspace(size, len(times), _PLACES).astype(int)
        begins = ends - size
    else:
        length = window.size / (1e6 if window.kind == "duration" else 1)
        if length > times[-1] - times[0]:
            raise TidegateError(
                f"the window of stream {name!r} is longer than its sample; give a longer sample"
            )
        moments = np.linspace(times[0] + length, times[-1], _PLACES)
        begins = np.searchsorted(times, moments - length, "left")
        ends = np.searchsorted(times, moments, "right")
    distinct = [len(np.unique(keys[b:e])) for b, e in zip(begins, ends, strict=True)]
    return float(np.mean(ends - begins)), float(np.mean(distinct))


def _matching(first: NDArray[np.float64], second: NDArray[np.float64], predicate: Any) -> float:
    """Share of all pairs of the two samples that match."""
    ordered = np.sort(second)
    low, high = (
        (0.0, 0.0)
        if isinstance(predicate, Equal)
        else (float(predicate.low), float(predicate.high))
    )
    begin = np.searchsorted(ordered, first + low, "left")
    end = np.searchsorted(ordered, first + high, "right")
    return float((end - begin).sum()) / (len(first) * len(second))
