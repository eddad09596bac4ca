"""Finite streams: whole tables become pushes, fed to an engine piece by piece.

Law: the results are those of one push, whatever the size of a piece (`binding.pieces`), while the
memory of a piece and of its results is all that is held at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from tidegate.binding.pieces import pieces_of
from tidegate.columns.intake import to_arrow
from tidegate.engine.join_engine import JoinEngine
from tidegate.spec import JoinSpec, TidegateError
from tidegate.spec.given import by_name
from tidegate.spec.notices import warn_of_rejected

ROWS_PER_PUSH = 200_000


class Pushed(Protocol):
    """What a replay needs of an engine."""

    spec: JoinSpec

    def push(self, tables: Mapping[str, Any]) -> pa.Table:
        """Take rows and return the results they complete."""

    def results(self, tables: Mapping[str, Any]) -> Iterator[pa.Table]:
        """The same in pieces of bounded size."""

    def stats(self) -> dict[str, int | float]:
        """What became of every row."""


def replay(
    engine: Pushed,
    tables: Mapping[str, pa.Table],
    progress: Callable[[int, int], None] | None = None,
    rows_per_push: int = ROWS_PER_PUSH,
) -> Iterator[pa.Table]:
    """Feed whole streams to an engine and yield the results as they come, in bounded pieces.

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
    for piece in pieces_of(engine.spec, tables, rows_per_push):
        yield from engine.results(piece)
        done += sum(table.num_rows for table in piece.values())
        if progress is not None:
            progress(done, total)
    warn_of_rejected(engine.stats(), engine.spec.streams)


@dataclass(frozen=True)
class JoinResult:
    """The results of a finite join, and what became of every row."""

    table: pa.Table
    stats: dict[str, int | float]


def join(
    tables: Mapping[str, Any],
    spec: JoinSpec,
    progress: Callable[[int, int], None] | None = None,
) -> JoinResult:
    """Replay finite streams.

    Parameters
    ----------
    tables
        The whole of each stream, by name; pyarrow, pandas or polars.
    spec
        What to join.
    progress
        Called as `progress(rows done, rows in total)` from time to time.
    """
    engine = JoinEngine(spec)
    whole = {name: to_arrow(table, name) for name, table in by_name(tables, "join").items()}
    results = list(replay(engine, whole, progress))
    return JoinResult(pa.concat_tables(results), engine.stats())
