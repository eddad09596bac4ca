"""Bytes of a join that holds many tuples, from some of its rows.

Law: what is counted are the bytes of an engine that was filled twice over, so payload, slots,
indexes and what the policy remembers are in it. Streams are filled one by one, so nobody meets
anybody; their times are numbers, so that a sample of the rows can fill the memory of all. Where
there are too few rows, bytes grow with tuples, but for what an engine holds in any case.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from tidegate.engine import JoinEngine
from tidegate.engine.replay import replay
from tidegate.spec import JoinSpec

_ENDLESS = 2**30
_ROWS_PER_SLOT = 2
_PUSHES = 8  # rows that went leave payload behind, until the next is settled
_MICROSECONDS = 1_000_000


def bytes_of(tables: Mapping[str, pa.Table], spec: JoinSpec, tuples: int) -> float:
    """The bytes of a join with such rows when it holds so many tuples, under its policy."""
    numbered = {
        name: _numbered(tables[name], spec.time_columns[at]) for at, name in enumerate(spec.streams)
    }
    rows = sum(table.num_rows for table in tables.values())
    fixed = _filled(numbered, spec, spec.streams[0], 1)
    total = float(fixed)
    for name in spec.streams:
        wanted = tuples * tables[name].num_rows / max(1, rows)
        held = min(round(wanted), tables[name].num_rows // _ROWS_PER_SLOT)
        if held:
            total += max(0, _filled(numbered, spec, name, held) - fixed) * wanted / held
    return total


def _numbered(table: pa.Table, time: str) -> pa.Table:
    """The rows at one second, or number, after the other."""
    at, kind = table.column_names.index(time), table.schema.field(time).type
    ticks = np.arange(table.num_rows)
    if pa.types.is_timestamp(kind):
        stamps = pa.array(ticks * _MICROSECONDS, pa.timestamp("us", kind.tz))
        return table.set_column(at, time, stamps)
    return table.set_column(at, time, pa.array(ticks))


def _filled(tables: Mapping[str, pa.Table], spec: JoinSpec, stream: str, held: int) -> int:
    """The bytes of an engine that holds so many tuples of a stream."""
    window = held if spec.memory is None else _ENDLESS
    time = spec.time_columns[spec.streams.index(stream)]
    timed = pa.types.is_timestamp(tables[stream].schema.field(time).type)
    spec = spec.replace(
        within=f"{window} s" if timed else window,
        lateness=0,
        split="auto",
        memory=None if spec.memory is None else held,
    )
    rows = held * _ROWS_PER_SLOT
    some = {name: table.slice(0, rows if name == stream else 0) for name, table in tables.items()}
    engine = JoinEngine(spec, {name: table.schema for name, table in tables.items()})
    for _ in replay(engine, some, rows_per_push=max(1, rows // _PUSHES)):
        pass
    return int(engine.stats()["memory_bytes_peak"])
