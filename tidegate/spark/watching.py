"""A page about a running query: `tidegate.spark.watch`."""

from __future__ import annotations

import time

from pyspark.sql.streaming.query import StreamingQuery

from tidegate.spark.reports import metrics
from tidegate.spec.units import parse_bytes
from tidegate.watch.numbers import History, Reading
from tidegate.watch.server import Page


def watch(
    query: StreamingQuery,
    name: str | None = None,
    *,
    port: int = 0,
    memory: int | str | None = None,
) -> Page:
    """Serve a page about a join of a query on this machine, until it is closed.

    Parameters
    ----------
    query
        A streaming query with a join in it.
    name
        The name that was given to `window_join`; a query with several joins needs it.
    port
        Where to serve; 0 takes any. `url` of the page says which.
    memory
        The budget of the join, in tuples or such as "2 GB", to be drawn beside the memory in use.
    """
    in_bytes = isinstance(memory, str)
    budget = parse_bytes(memory, "memory") if isinstance(memory, str) else memory

    def read() -> Reading | None:
        found = metrics(query, name)
        if found.batch < 0:
            return None
        return Reading(
            seconds=time.time(),
            stats=found.total,
            title=f"{found.join} of {found.query}",
            budget=budget,
            in_bytes=in_bytes,
            streams=found.streams,
            hot_keys=found.hot_keys,
            warnings=found.warnings,
            curve=found.retention_curve,
            done=not query.isActive,
        )

    return Page(History(read), port)
