"""Finite streams are cut into pushes, all at the same times.

Law: the pieces are cut between two times, never inside one, and follow each other in order of time.
Rows of equal time keep their order; rows without a time come first, to be rejected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidegate.columns.encoding import value_array
from tidegate.columns.storage import some_rows
from tidegate.spec import JoinSpec, TidegateError

Times = NDArray[np.int64]
_LARGEST = 2**63 - 1


def pieces_of(
    spec: JoinSpec, tables: Mapping[str, pa.Table], rows_per_push: int
) -> Iterator[dict[str, pa.Table]]:
    """The streams piece by piece, about so many rows each; unsorted streams are sorted."""
    total = sum(table.num_rows for table in tables.values())
    # bad_rows="fail" promises that nothing was taken before the error, and its error counts the
    # rows as the user gave them: both need a single push.
    if total <= rows_per_push or spec.bad_rows == "fail":
        yield dict(tables)
        return
    names = list(tables)
    times = _comparable_times(spec, tables)
    ordered = []
    for stream, name in enumerate(names):
        table, times[stream] = _in_order(tables[name], times[stream])
        ordered.append(table)
    for begins, ends in _bounds(times, rows_per_push):
        yield {
            name: table.slice(begin, end - begin)
            for name, table, begin, end in zip(names, ordered, begins, ends, strict=True)
        }


def _comparable_times(spec: JoinSpec, tables: Mapping[str, pa.Table]) -> list[Times]:
    """The time columns as integers of one unit; what cannot be joined (NULL) comes first."""
    columns = {
        name: value_array(table.column(spec.time_columns[spec.streams.index(name)]))
        for name, table in tables.items()
    }
    finest = "ns" if any(getattr(c.type, "unit", "") == "ns" for c in columns.values()) else "us"
    times = []
    for name, column in columns.items():
        try:
            if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
                column = column.cast(pa.timestamp(finest, getattr(column.type, "tz", None)))
                column = column.cast(pa.int64())
            elif column.type == pa.uint64():
                column = pc.min_element_wise(column, pa.scalar(_LARGEST, pa.uint64()))
        except pa.ArrowInvalid as error:
            raise TidegateError(
                f"the times of stream {name!r} do not fit 64 bits in the unit {finest}, in which "
                "the streams are compared; use a coarser unit in all of them"
            ) from error
        times.append(pc.fill_null(column.cast(pa.int64()), -_LARGEST).to_numpy())
    return times


def _in_order(table: pa.Table, times: Times) -> tuple[pa.Table, Times]:
    if len(times) < 2 or not (times[1:] < times[:-1]).any():
        return table, times
    order = np.argsort(times, kind="stable")
    return some_rows(table, pa.array(order)), times[order]


def _bounds(
    times: Sequence[Times], rows_per_push: int
) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """For each piece, where it begins and ends in each stream."""
    merged = np.sort(np.concatenate(times), kind="stable")
    # A piece ends before the time that its successor starts with, so equal times never part.
    starts = np.unique(merged[rows_per_push::rows_per_push])
    begins = [0] * len(times)
    for start in starts:
        ends = [int(np.searchsorted(part, start, side="left")) for part in times]
        if ends != begins:
            yield begins, ends
        begins = ends
    yield begins, [len(part) for part in times]
