"""A sentinel in a snapshot: its witnesses, and what those that are gone have added up to.

Law: options come from the spec. Rows of the join are named by their slots, which a snapshot keeps;
a slot is used only if a tuple of the witness's stream stands there.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.compiled.layout import records
from tidegate.loss.sentinel import Sentinel, positions_of
from tidegate.loss.witness_records import NOWHERE, WITNESS
from tidegate.spec import TidegateError
from tidegate.state.join_state import State, line_of

_METADATA = b"sentinel"
_SAVED = ("time", "code", "importance", "draw", "rate", "stream")
_FAR = 2**62


def dump(sentinel: Sentinel, state: State) -> bytes:
    """The sentinel as an Arrow IPC stream."""
    roster = sentinel.roster
    columns: dict[str, Any] = {name: np.ascontiguousarray(roster[name]) for name in _SAVED}
    columns["slot"] = _slots(roster.address, roster.stream, state)
    for at in range(sentinel.totals[0].size if len(roster) else 0):
        columns[f"total_{at}"] = sentinel.totals.reshape(len(roster), -1)[:, at].copy()
    about = json.dumps(sentinel.numbers())
    return _written(pa.table(columns).replace_schema_metadata({_METADATA: about}))


def _written(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def _slots(
    address: NDArray[np.int64], stream: NDArray[np.int32], state: State
) -> NDArray[np.int64]:
    """The slots of the rows at these addresses; NOWHERE where the join has shed them."""
    slots = np.full(len(address), NOWHERE, np.int64)
    for at in range(len(state.lanes)):
        line = line_of(state, at)
        own = np.flatnonzero((stream == at) & (address != NOWHERE))
        found = positions_of(state.slots.row[line], address[own])
        slots[own] = np.where(found >= 0, line[found] if len(line) else NOWHERE, NOWHERE)
    return slots


def renumbered(blob: bytes, slots: NDArray[np.int64]) -> bytes:
    """The same where slot n of `slots` is now called n; other slots are empty."""
    table = pa.ipc.open_stream(pa.BufferReader(blob)).read_all()
    found = positions_of(slots, table.column("slot").to_numpy())
    at = table.schema.get_field_index("slot")
    return _written(table.set_column(at, "slot", pa.array(np.where(found >= 0, found, NOWHERE))))


def refill(sentinel: Sentinel, blob: bytes | None, state: State) -> None:
    """Write what was saved into a fresh sentinel; without it, the sentinel begins now."""
    if blob is None:
        sentinel.begin_later(state)
        return
    table = pa.ipc.open_stream(pa.BufferReader(blob)).read_all()
    table.validate(full=True)
    numbers = json.loads((table.schema.metadata or {})[_METADATA])
    roster = records(WITNESS, table.num_rows)
    for name in _SAVED:
        roster[name] = _finite(table.column(name).to_numpy())
    _require(np.isin(roster.stream, (0, 1)).all(), "a witness is of no stream")
    _require((np.abs(roster.time) < _FAR).all(), "a time is out of range")
    for name in ("draw", "rate"):
        _require(((roster[name] >= 0) & (roster[name] <= 1)).all(), f"a {name} is no share")
    _require((roster.draw < roster.rate).all(), "a witness is not in its sample")
    roster.address = _addresses(table.column("slot").to_numpy(), roster.stream, state)
    shape = sentinel.totals.shape[1:]
    totals = np.zeros((table.num_rows, int(np.prod(shape))))
    for at in range(totals.shape[1] if table.num_rows else 0):
        totals[:, at] = _finite(table.column(f"total_{at}").to_numpy())
    _require((totals >= 0).all(), "a sum is negative")
    sentinel.take(roster, totals.reshape(-1, *shape), _checked(numbers, sentinel.numbers()))


def _addresses(
    slots: NDArray[np.int64], stream: NDArray[np.int32], state: State
) -> NDArray[np.int64]:
    address = np.full(len(slots), NOWHERE, np.int64)
    for at in range(len(state.lanes)):
        line = line_of(state, at)
        own = np.flatnonzero((stream == at) & (slots != NOWHERE))
        found = positions_of(line, slots[own])
        _require((found >= 0).all(), "a witness stands in a slot that is not its own")
        address[own] = state.slots.row[line[found]]
    return address


def _checked(numbers: Any, like: dict[str, Any]) -> dict[str, Any]:
    """Numbers by name, of the shape that a fresh sentinel has."""
    _require(isinstance(numbers, dict) and set(numbers) == set(like), "its numbers are missing")
    for name, known in like.items():
        given = np.array(numbers[name], np.float64)
        _require(given.shape == np.shape(known), f"{name} is missing")
        _finite(given)
    _require(0 < numbers["rate"] <= 1, "its rate is no share")
    return dict(numbers)


def _finite(values: NDArray[Any]) -> NDArray[Any]:
    _require(np.isfinite(values).all(), "a number is not finite")
    return values


def _require(holds: Any, what: str) -> None:
    if not holds:
        raise TidegateError(
            f"the snapshot is damaged: of its sentinel, {what}; restore an older one"
        )
