"""Finite streams become pushes: whole tables are fed to an engine piece by piece.

Law: the pieces are cut between two times, never inside one, and follow each other in order of time.
So the results are those of one push, whatever the size of a piece, while the memory of a piece and
of its results is all that is held at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidegate.spec import JoinSpec, TidegateError
from tidegate.spec.notices import warn_of_rejected

ROWS_PER_PUSH = 200_000

Times = NDArray[np.int64]
_LARGEST = 2**63 - 1


class Pushed(Protocol):
    """What a replay needs of an engine."""

    spec: JoinSpec

    def push(self, tables: Mapping[str, Any]) -> pa.Table:
        """Take rows and return the results they complete."""

    def stats(self) -> dict[str, int | float]:
        """What became of every row."""


def replay(
    engine: Pushed,
    tables: Mapping[str, pa.Table],
    progress: Callable[[int, int], None] | None = None,
    rows_per_push: int = ROWS_PER_PUSH,
) -> Iterator[pa.Table]:
    """Feed whole streams to an engine and yield the results as they come.

    The first table has no rows: its schema is that of all that follow, and by then the engine has
    checked the columns.

    Parameters
    ----------
    engine
        A `JoinEngine`; its `stats()` are complete when the last table was yielded.
    tables
        The whole of each stream, by name. Unsorted ones are sorted by time.
    progress
        Called as `progress(rows done, rows in total)` after each piece.
    rows_per_push
        About how many rows a piece has; rows of equal time stay together.

    Example
    -------
    >>> import pyarrow as pa, tidegate as tg
    >>> engine = tg.JoinEngine(tg.JoinSpec(on="k", time="t", within=10))
    >>> left, right = pa.table({"t": [5, 1], "k": [1, 1]}), pa.table({"t": [2, 9], "k": [1, 1]})
    >>> streams = {"left": left, "right": right}
    >>> [table.num_rows for table in replay(engine, streams, rows_per_push=2)]
    [0, 1, 3]
    """
    if rows_per_push < 1:
        raise TidegateError(f"rows_per_push {rows_per_push} is below 1; give 1 or more")
    total = sum(table.num_rows for table in tables.values())
    done = 0
    yield engine.push({name: table.slice(0, 0) for name, table in tables.items()})
    for piece in _pieces(engine.spec, tables, total, rows_per_push):
        result = engine.push(piece)
        done += sum(table.num_rows for table in piece.values())
        if progress is not None:
            progress(done, total)
        yield result
    warn_of_rejected(engine.stats(), engine.spec.streams)


def _pieces(
    spec: JoinSpec, tables: Mapping[str, pa.Table], total: int, rows_per_push: int
) -> Iterator[dict[str, pa.Table]]:
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
        name: table.column(spec.time_columns[spec.streams.index(name)])
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
    return table.take(pa.array(order)), times[order]


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
