"""A snapshot: a join written as Arrow, read back anywhere, going on as if nothing had happened.

Law: a snapshot holds for each stream one Arrow IPC stream, its retained rows in order of arrival,
payload and notes side by side; the schema metadata of the first holds the version, the spec and
the counters as JSON. Under a budget a last one holds what was learned. There is no pickle. Codes
and indexes are not written: they are made again from the payload, and slots keep their numbers, so
that nothing depends on where a tuple stood.

Behind the Arrow streams stands a footer of 34 bytes: BLAKE2b of all before it (16 bytes), their
length (8), the version (2) and "tidegate". A snapshot that is not whole, byte by byte, is refused.

Rule for later versions: a version reads all snapshots from version 3 on, or says which version of
tidegate does. A change that an older version would misread raises VERSION; a new field with a
default does not. `tests/data` keeps a small snapshot of each version.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.binding.batching import arrivals_of
from tidegate.binding.binding import Binding
from tidegate.columns.payload import Payload
from tidegate.compiled.layout import Records
from tidegate.compiled.scratch import Scratch
from tidegate.engine import saved_estimates, saved_throttle, snapshot_checks
from tidegate.shed.shed_records import Shed
from tidegate.spec import JoinSpec, SpecError, TidegateError
from tidegate.state import arrays, indexes, join_state, shed_arrays, throttle_arrays
from tidegate.state.join_state import State
from tidegate.windows.lifetime import NOT_CHARGED, NOT_INDEXED, line_starts

VERSION = 4
OLDEST_VERSION = 3  # that can be read
_METADATA = b"tidegate"
_MAGIC = b"tidegate"
_FOOTER = struct.Struct("!16sQH8s")
_UNUSED = b"tidegate_unused_slots"
_SENTINEL = b"tidegate_sentinel"
_STEERING = b"tidegate_steering"
_MEMBERS: dict[str, type[np.generic]] = {  # under a budget
    "priority": np.float64, "basis": np.float64, "born": np.int64, "cost": np.int32,
    "key": np.int32, "monitor": np.int32,
}  # fmt: skip
_MARK = "_tidegate_"
SLOT, MONITOR = _MARK + "slot", _MARK + "monitor"
MEMBER_COLUMNS = {name: _MARK + name for name in _MEMBERS}
UNUSED_KIND = np.int32
# Options come from the spec and the binding, never from a snapshot.
_OPTIONS = {
    "window", "is_time_window", "index", "account", "begin", "end", "first", "stop", "capacity",
    "slots", "takes_late",
    "has_equality", "has_importance", "combine", "tree_term", "lateness", "limited", "by_bytes",
    "policy", "seed", "only_counts", "reports_left", "worth",
}  # fmt: skip
_RECORDS = ("gate", "lanes", "pool", "accounts")
_LONG_AGO = -(2**62)


class Saved(NamedTuple):
    """A snapshot, read."""

    spec: JoinSpec
    schemas: dict[str, pa.Schema]
    counted: dict[str, Any]
    records: dict[str, list[dict[str, Any]]]
    tables: list[pa.Table]  # payload and notes of each stream
    capacity: int
    unused: NDArray[np.int32]
    learned: pa.Table | None
    throttle: dict[str, Any] | None  # under a budget of CPU time
    sentinel: bytes | None = None  # as `loss.saved_sentinel` wrote it
    steering: bytes | None = None  # as `saved_steering` wrote it


def _plain(records: Records) -> list[dict[str, Any]]:
    return [{name: record[name].item() for name in records.dtype.names} for record in records]


def _unused_chain(state: State) -> NDArray[np.int32]:
    """Unused slots in the order in which they will be taken."""
    chain = np.empty(int(state.pool[0].unused), np.int32)
    slot = int(state.pool[0].first_unused)
    newer = state.slots.newer
    for k in range(len(chain)):
        chain[k] = slot
        slot = int(newer[slot])
    # The end of the chain is mostly slots that were never used, in order: leave them out.
    cut = len(chain)
    while cut > 0 and chain[cut - 1] == len(state.slots) - (len(chain) - cut) - 1:
        cut -= 1
    return chain[:cut]


def _stream_table(state: State, shed: Shed | None, stream: int, payload: Payload) -> pa.Table:
    line = join_state.line_of(state, stream)
    table = payload.gather(state.slots.row[line])
    notes = {"slot": pa.array(line.astype(np.int32))}
    notes["order"] = pa.array(state.notes.order[line].astype(np.int64))
    if not state.lanes[stream].is_time_window:
        notes["mark"] = pa.array(state.numbers[line])
    if shed is not None:
        notes |= {name: pa.array(_column(shed, name, line)) for name in _MEMBERS}
    is_late = np.zeros(len(line), np.bool_)
    if state.gate[0].takes_late:
        is_late = state.late_place[line] >= 0
    notes["late"] = pa.array(is_late)
    for name, column in notes.items():
        table = table.append_column(_MARK + name, column)
    return table


def _column(shed: Shed, name: str, line: NDArray[np.int64]) -> NDArray[Any]:
    """What is known of the members in `line`; one number for all where the policy needs none."""
    if name == "monitor":
        return np.asarray(shed.members.notes.monitor[line], np.int32)
    column = getattr(shed.members, name)
    return column[line] if len(column) > 1 else np.full(len(line), column[0])


def dump(
    spec: JoinSpec,
    state: State,
    shed: Shed | None,
    schemas: Sequence[pa.Schema | None],
    payloads: Sequence[Payload | None],
    counted: dict[str, Any],
    sentinel: bytes | None = None,
    steering: bytes | None = None,
) -> bytes:
    """Write a snapshot."""
    try:
        written = spec.to_json()
    except SpecError:
        written = None  # a theta function without a name: `restore` must be given the spec
    about = {
        "version": VERSION,
        "spec": written,
        "streams": [name for name, s in zip(spec.streams, schemas, strict=True) if s is not None],
        "counted": counted,
        "capacity": len(state.slots),
        "records": {name: _plain(getattr(state, name)) for name in _RECORDS},
    }
    if state.throttle is not None:
        about["throttle"] = saved_throttle.saved(state.throttle)
    sink = io.BytesIO()
    first = True
    for stream, payload in enumerate(payloads):
        if payload is None and not (first and stream == len(payloads) - 1):
            continue
        table = pa.table({}) if payload is None else _stream_table(state, shed, stream, payload)
        if first:
            metadata = {_METADATA: json.dumps(about), _UNUSED: _unused_chain(state).tobytes()}
            if sentinel is not None:
                metadata[_SENTINEL] = sentinel
            if steering is not None:
                metadata[_STEERING] = steering
            table = table.replace_schema_metadata(metadata)
            first = False
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    if shed is not None:
        table = saved_estimates.dump(shed, state)
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    return _sealed(sink.getvalue())


def _sealed(body: bytes) -> bytes:
    checksum = hashlib.blake2b(body, digest_size=16).digest()
    return body + _FOOTER.pack(checksum, len(body), VERSION, _MAGIC)


def _unsealed(blob: bytes) -> bytes:
    """What stands before the footer, if it is what was written."""
    if len(blob) < _FOOTER.size or not blob.endswith(_MAGIC):
        raise TidegateError(
            "this is not a tidegate snapshot, or its end is missing; give what snapshot() "
            "returned, whole"
        )
    body = blob[: -_FOOTER.size]
    checksum, length, version, _ = _FOOTER.unpack(blob[-_FOOTER.size :])
    if not OLDEST_VERSION <= version <= VERSION:
        raise TidegateError(
            f"the snapshot has version {version}; this tidegate reads versions {OLDEST_VERSION} "
            f"to {VERSION}"
        )
    if len(body) != length or hashlib.blake2b(body, digest_size=16).digest() != checksum:
        raise TidegateError(
            "the snapshot is damaged: it is not what snapshot() returned; restore an older one"
        )
    return body


def load(blob: bytes, spec: JoinSpec | None = None) -> Saved:
    """Read a snapshot; `spec` stands in for the snapshot's own."""
    body = _unsealed(bytes(blob))
    source = pa.BufferReader(body)
    try:
        tables = [pa.ipc.open_stream(source).read_all()]
        metadata = tables[0].schema.metadata or {}
        about = json.loads(metadata[_METADATA])
        while source.tell() < len(body):
            tables.append(pa.ipc.open_stream(source).read_all())
        for table in tables:
            table.validate(full=True)  # offsets are addresses
    except (pa.ArrowInvalid, KeyError, ValueError) as error:
        raise TidegateError(
            f"this is not a tidegate snapshot ({error}); give what snapshot() returned"
        ) from error
    chosen = _chosen_spec(about["spec"], spec)
    learned = tables[-1] if saved_estimates.is_learned(tables[-1]) else None
    snapshot_checks.check_head(about, len(tables), learned is not None, chosen)
    schemas = {
        name: pa.schema([f for f in table.schema if not f.name.startswith(_MARK)])
        for name, table in zip(about["streams"], tables, strict=False)
    }
    return Saved(
        spec=chosen,
        schemas=schemas,
        counted=about["counted"],
        records=about["records"],
        tables=[t.replace_schema_metadata(None) for t in tables[: len(schemas)]],
        capacity=about["capacity"],
        unused=np.frombuffer(metadata[_UNUSED], UNUSED_KIND),
        learned=learned,
        throttle=about.get("throttle"),
        sentinel=metadata.get(_SENTINEL),
        steering=metadata.get(_STEERING),
    )


def _chosen_spec(written: str | None, given: JoinSpec | None) -> JoinSpec:
    """The snapshot's own spec, or the given one, which must ask for the same join."""
    if written is None:
        if given is None:
            raise TidegateError(
                "the snapshot's join has a theta function that cannot be imported by name; give "
                "restore() the spec it was made with"
            )
        return given
    if given is not None and given.to_json() == written:
        return given
    own = JoinSpec.from_json(written)
    if given is not None and given != own:
        raise TidegateError(
            f"the snapshot was made with another spec: {_first_difference(own, given)}; give "
            "restore() no spec, or the one it was made with"
        )
    return given or own


def _first_difference(own: JoinSpec, given: JoinSpec) -> str:
    for field in dataclasses.fields(JoinSpec):
        before, now = getattr(own, field.name), getattr(given, field.name)
        if before != now:
            return f"{field.name} was {before!r} and is now {now!r}"
    return "its meaning differs"


def refill(
    state: State,
    shed: Shed | None,
    binding: Binding,
    payloads: Sequence[Payload | None],
    saved: Saved,
    scale: int = 1,
) -> tuple[State, Shed | None]:
    """Put what was saved into a fresh state; `scale` turns saved times into those of the state."""
    for stream, table in enumerate(saved.tables):
        counted = not state.lanes[_number_of(payloads, stream)].is_time_window
        snapshot_checks.check_table(table, _notes_of(shed, counted))
    tables = iter(saved.tables)
    by_stream = [None if payload is None else next(tables) for payload in payloads]
    lines = [_line_of(table) for table in by_stream]
    used = snapshot_checks.check_slots(lines, saved.unused)
    capacity = _capacity(saved, state, shed, used)
    if capacity > len(state.slots):
        state = arrays.with_more_slots(state, capacity)
        shed = shed and shed_arrays.with_more_slots(shed, state)
    tracked = int(state.pool[0].tracked)
    for name in _RECORDS:
        snapshot_checks.write_records(getattr(state, name), saved.records[name], _OPTIONS)
    snapshot_checks.check_records(state, lines, saved.counted, tracked)
    for times in (state.gate.clock, state.gate.watermark, state.lanes.newest):
        known = times > _LONG_AGO
        times[known] = scale * np.minimum(times[known], -_LONG_AGO // scale)
    state.pool[0].late = 0  # the heap is filled again below
    if state.gate[0].external:
        state = arrays.with_late(state)
    _share_out_lines(state, lines)
    orders = _orders(state, by_stream)
    for stream, table in enumerate(by_stream):
        payload = payloads[stream]
        if payload is not None and table is not None:
            order = orders[stream]
            state = _refill_stream(state, shed, binding, stream, payload, table, order, scale)
    _chain_unused(state, saved.unused)
    indexes.reindex(state)
    if shed is not None:
        assert saved.learned is not None
        shed = saved_estimates.refill(shed, saved.learned, state, scale)
    if state.throttle is not None:
        saved_throttle.refill(state.throttle, saved.throttle, scale)
        throttle_arrays.fill_ring(state)
    return state, shed


def _number_of(payloads: Sequence[Payload | None], at: int) -> int:
    """The stream whose table stands at this place."""
    return [stream for stream, payload in enumerate(payloads) if payload is not None][at]


def _share_out_lines(state: State, lines: Sequence[NDArray[np.int64]]) -> None:
    """Give each stream room in the (empty) array of lines as its tuples need it."""
    starts = line_starts([len(line) for line in lines], len(state.lines))
    state.lanes.first = state.lanes.begin = state.lanes.end = starts[:-1]
    state.lanes.stop = starts[1:]


def _notes_of(shed: Shed | None, counted: bool) -> dict[str, Any]:
    """The columns of notes beside the rows of a stream, and their types."""
    kinds: dict[str, type[np.generic]] = {"slot": np.int32, "late": np.bool_, "order": np.int64}
    if counted:
        kinds["mark"] = np.int64
    if shed is not None:
        kinds |= _MEMBERS
    return {_MARK + name: np.dtype(kind) for name, kind in kinds.items()}


def _line_of(table: pa.Table | None) -> NDArray[np.int64]:
    """The slots of the rows of a stream."""
    if table is None:
        return np.zeros(0, np.int64)
    return table.column(SLOT).to_numpy().astype(np.int64)


def _orders(state: State, tables: Sequence[pa.Table | None]) -> list[NDArray[np.int64]]:
    """The orders of the rows of each stream; where they were written in more bits than they have
    now, lower ones that say the same."""
    given = [
        np.zeros(0, np.int64) if table is None else table.column(_MARK + "order").to_numpy()
        for table in tables
    ]
    if state.gate[0].order <= arrays.MOST_ORDERS:
        return given
    everyone = np.unique(np.concatenate(given))
    state.pool[0].closed_until = 0
    state.gate[0].order = len(everyone)
    return [np.searchsorted(everyone, order) for order in given]


def _capacity(saved: Saved, state: State, shed: Shed | None, used: int) -> int:
    """For how many tuples there was room, as far as that is sound."""
    most = 0
    if shed is not None and saved.spec.memory_bytes is not None:
        most = saved.spec.memory_bytes // (arrays.slot_bytes(state) + shed_arrays.slot_bytes(shed))
    return snapshot_checks.restored_capacity(saved.capacity, used, len(state.slots), most)


def _refill_stream(
    state: State,
    shed: Shed | None,
    binding: Binding,
    stream: int,
    payload: Payload,
    table: pa.Table,
    order: NDArray[np.int64],
    scale: int,
) -> State:
    lane = state.lanes[stream]
    named = _notes_of(shed, not lane.is_time_window)
    notes = {name.removeprefix(_MARK): table.column(name).to_numpy() for name in named}
    rows = table.drop_columns([n for n in table.column_names if n.startswith(_MARK)])
    line = notes["slot"].astype(np.int64)
    if not lane.is_time_window:
        state.numbers[line] = notes["mark"]
    state.notes.order[line] = order
    state.notes.monitor[line] = NOT_CHARGED
    if shed is not None:
        snapshot_checks.check_monitors(notes["monitor"])
        state.notes.monitor[line] = notes["monitor"]
        for name in (name for name in _MEMBERS if name != "monitor"):
            column = getattr(shed.members, name)
            if len(column) > 1:
                column[line] = notes[name]
            elif len(line) and name in ("basis", "cost"):
                column[0] = notes[name][0]
        if lane.is_time_window and len(shed.members.born) > 1:
            shed.members.born[line] *= scale
    state.slots.row[line] = np.arange(len(line)) + payload.store(rows)
    state.notes.stream[line] = stream
    lane.begin, lane.end = lane.first, lane.first + len(line)
    state.lines[lane.begin : lane.end] = line
    state.notes.place[line] = np.arange(lane.begin, lane.end)
    state = write_codes(state, binding, stream, line, rows)
    late = notes["late"]
    snapshot_checks.check_line(state, stream, line, late)
    if state.gate[0].takes_late:
        state.late_place[line] = -1
        arrays.queue_late(state, line[late])
    return state


def write_codes(
    state: State, binding: Binding, stream: int, line: NDArray[np.int64], rows: pa.Table
) -> State:
    """Give retained tuples their numbers from their payload."""
    encoded = binding.encode(stream, rows)
    snapshot_checks.require(not encoded.rejected, "a row of it cannot be joined")
    state.slots.time[line] = encoded.time
    state.slots.code[line] = encoded.code
    state.slots.older[line] = np.where(encoded.matchable, -1, NOT_INDEXED)
    if len(encoded.importance):
        state.importance[line] = encoded.importance
    state.values[line] = encoded.values
    if encoded.sets:
        arrivals = arrivals_of([encoded], [line], np.zeros(0, np.int64), Scratch())
        needed = int(arrivals.spans[:, :, 1].sum())
        if state.arena_used[0] + needed > len(state.arena):
            state = arrays.with_tidy_arena(state, needed)
        arrays.store_sets(state, arrivals, line)
    return state


def _chain_unused(state: State, unused: NDArray[np.int32]) -> None:
    """Link the unused slots: first those given, then the rest in order."""
    rest = np.ones(len(state.slots), np.bool_)
    rest[join_state.alive_slots(state)] = False
    rest[unused] = False
    chain = np.concatenate([unused.astype(np.int64), np.flatnonzero(rest)])
    state.slots.newer[chain] = np.append(chain[1:], len(state.slots))
    state.pool[0].unused = len(chain)
    state.pool[0].first_unused = chain[0] if len(chain) else len(state.slots)
