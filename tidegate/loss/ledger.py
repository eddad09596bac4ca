"""The ledger: every row that a join lets go, written to files with its reason.

Law: each row that was pushed stands in the ledger once: when it left (expired, evicted, refused,
too late, rejected) or, when the ledger is written out, as alive. Orders of arrival say who was
there when: a result is lost iff one of its tuples was gone when the last one came, so the ledger
alone says which results the join did not give out (`offline.repair`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.binding.binding import Binding
from tidegate.columns.payload import Payload
from tidegate.columns.storage import some_rows
from tidegate.loss import ledger_files
from tidegate.loss.ledger_files import (
    ADDED,
    AT,
    GONE,
    NEVER,
    ORDER,
    REASON,
    WORTH,
    Files,
    PushFiles,
)
from tidegate.spec import JoinSpec, TidegateError
from tidegate.state.join_state import (
    ADDRESS,
    CLOCK,
    DEPARTURE,
    DEPARTURES,
    NEXT_ORDER,
    OWN_ORDER,
    STREAM_LEFT,
    WHY,
    Output,
    State,
    line_of,
)
from tidegate.windows.arrivals import Arrivals

_REASONS = (ledger_files.EXPIRED, ledger_files.EVICTED, ledger_files.REFUSED)  # see driver.leaving

Payloads = Sequence[Payload | None]


def check(spec: JoinSpec, where: Any) -> None:
    """An error if the join can have no ledger, or none can be written there."""
    if not isinstance(where, str | Path | Files):
        raise TidegateError(f"ledger is {type(where).__name__}; give the path of a folder")
    reason = None
    if spec.memory is None:
        reason = "memory is None, so nothing is shed"
    elif spec.cpu is not None:
        reason = "cpu is given, which loses results without shedding rows"
    elif spec.ties != "arrival":
        reason = f"ties is {spec.ties!r}, and a ledger needs ties='arrival' so far"
    elif any(window.kind == "rows" for window in spec.windows):
        reason = "within is a number of rows, and a ledger needs time windows so far"
    if reason is not None:
        raise TidegateError(f"ledger is given, but {reason}; leave ledger out")
    for name in spec.streams:  # they are parts of names of files
        if set(name) & set("/\\\0") or name.endswith("-alive"):
            raise TidegateError(
                f"ledger is given, but a file cannot be called after stream {name!r}; rename it"
            )


def check_columns(schemas: Sequence[pa.Schema | None]) -> None:
    """An error if a stream has a column that the ledger adds."""
    for schema in schemas:
        for name in schema.names if schema is not None else ():
            if name in ADDED:
                raise TidegateError(f"a column is called {name!r}, which a ledger adds; rename it")


class Ledger:
    """Writes the ledger of one engine: `begin`, `take` and `reject` in a push, `end` after it."""

    def __init__(
        self, where: str | Path | Files, spec: JoinSpec, saved: Mapping[str, Any] | None = None
    ) -> None:
        self._files = PushFiles(Path(where)) if isinstance(where, str | Path) else where
        self._spec = spec
        saved = saved or {"pushes": 0, "taken": 0, "first": 0, "old": [], "rows": {}}
        # That were written, by stream; snapshots of old do not say.
        self._rows: Counter[str] | None = None
        if saved.get("rows") is not None:
            self._rows = Counter({name: int(n) for name, n in saved["rows"].items()})
        self._pushes = int(saved["pushes"])  # that were completed
        self._taken = int(saved["taken"])  # arrivals, ever
        # The engine numbers its tuples again from time to time: the orders of those that were
        # retained then, and the order of the first that came after.
        self._first = int(saved["first"])
        self._old = np.array(saved["old"], np.int64)
        self._coming = 0  # arrivals of the push under way
        self._parts: list[list[pa.Table]] = [[] for _ in spec.streams]
        self._files.open(spec, self._pushes)

    def saved(self) -> dict[str, Any]:
        """What a snapshot holds of it."""
        return {
            "pushes": self._pushes,
            "taken": self._taken,
            "first": self._first,
            "old": self._old.tolist(),
            "rows": None if self._rows is None else dict(self._rows),
        }

    # --- a push ---------------------------------------------------------------------------

    def room(self, output: Output, state: State) -> Output:
        """Room for departures: one arrival can make all retained tuples leave."""
        size = 2 * len(state.slots) + 1024
        if len(output.left) >= size:
            return output
        left = np.empty((size, DEPARTURE), np.int64)
        return output._replace(left=left, worth=np.empty(size))

    def renumbered(self, state: State) -> None:
        """To be called before the engine numbers its tuples again."""
        slots = np.concatenate([line_of(state, at) for at in range(len(state.lanes))])
        self._old = self._absolute(np.sort(state.notes.order[slots].astype(np.int64)))
        self._first = self._taken

    def _absolute(self, orders: NDArray[np.int64]) -> NDArray[np.int64]:
        """Orders among all arrivals ever, from those of the engine."""
        since = orders - len(self._old) + self._first
        if not len(self._old):
            return since
        return np.where(
            orders < len(self._old), self._old[np.minimum(orders, len(self._old) - 1)], since
        )

    def begin(self, arrivals: Arrivals, state: State, payloads: Payloads, binding: Binding) -> None:
        """The arrivals of a push, before the engine takes them: the late ones are written."""
        watermark = int(state.gate[0].watermark)
        taken = 0
        for stream, (begin, end) in enumerate(zip(arrivals.begin, arrivals.end, strict=True)):
            late = arrivals.row[begin:end][arrivals.time[begin:end] < watermark]
            taken += int(end - begin) - len(late)
            if len(late):
                self._add(stream, payloads, binding, np.sort(late), ledger_files.TOO_LATE, state)
        self._coming = taken

    def reject(
        self,
        stream: int,
        table: pa.Table,
        rejected: Mapping[str, NDArray[np.bool_]],
        binding: Binding,
    ) -> None:
        """Rows that cannot be joined."""
        seen = np.zeros(table.num_rows, np.bool_)
        for reason, mask in rejected.items():
            rows = some_rows(table, pa.array(mask & ~seen))
            seen |= mask
            nobody = np.full(rows.num_rows, -1, np.int64)
            at = pa.nulls(rows.num_rows, _kind_of_moments(binding, stream))
            self._parts[stream].append(
                _described(
                    rows, [f"rejected: {reason.replace('_', ' ')}"], at, nobody, nobody, None
                )
            )

    def _add(
        self, stream: int, payloads: Payloads, binding: Binding,
        addresses: NDArray[np.int64], reason: str, state: State,
    ) -> None:  # fmt: skip
        """Rows that never were in the join, or still are."""
        payload = payloads[stream]
        assert payload is not None
        rows = payload.gather(addresses)
        nobody = np.full(len(addresses), -1, np.int64)
        at = _moments(np.full(len(addresses), int(state.gate[0].clock)), binding, stream)
        self._parts[stream].append(_described(rows, [reason], at, nobody, nobody, None))

    def take(self, output: Output, payloads: Payloads, binding: Binding) -> None:
        """The departures that the driver has reported; the output has room again then."""
        count = int(output.filled[DEPARTURES])
        output.filled[DEPARTURES] = 0
        for stream, payload in enumerate(payloads):
            own = np.flatnonzero(output.left[:count, STREAM_LEFT] == stream)
            if payload is None or not len(own):
                continue
            left = output.left[own]
            self._parts[stream].append(
                _described(
                    payload.gather(left[:, ADDRESS]),
                    [_REASONS[why] for why in left[:, WHY].tolist()],
                    _moments(left[:, CLOCK], binding, stream),
                    self._absolute(left[:, OWN_ORDER]),
                    self._absolute(left[:, NEXT_ORDER]),
                    output.worth[own],
                )
            )

    def end(self, state: State, payloads: Payloads, binding: Binding) -> None:
        """The push is over: what left in it is written, and where asked what came and stays."""
        if self._files.holds_new:
            for stream, table in self._retained(state, payloads, binding, self._taken):
                if table.num_rows:
                    self._parts[stream].append(table)
        tables = {
            name: pa.concat_tables(parts)
            for name, parts in zip(self._spec.streams, self._parts, strict=True)
            if parts
        }
        self._files.write(self._pushes, tables)
        if self._rows is not None:
            self._rows += Counter({name: table.num_rows for name, table in tables.items()})
        self._parts = [[] for _ in self._spec.streams]
        self._pushes += 1
        self._taken += self._coming
        self._coming = 0

    def forget_push(self) -> None:
        """The push under way was undone."""
        self._parts = [[] for _ in self._spec.streams]
        self._coming = 0

    def write_out(self, state: State, payloads: Payloads, binding: Binding) -> None:
        """Write the rows that are alive too, so that the ledger is complete as of now."""
        if self._files.holds_alive:
            alive = {
                self._spec.streams[stream]: table
                for stream, table in self._retained(state, payloads, binding, 0)
            }
            rows = None
            if self._rows is not None:
                rows = self._rows + Counter({name: t.num_rows for name, t in alive.items()})
            self._files.write_alive(self._spec, self._pushes, alive, rows)

    def _retained(
        self, state: State, payloads: Payloads, binding: Binding, first: int
    ) -> Iterator[tuple[int, pa.Table]]:
        """Of each stream the retained rows, from an order of arrival on."""
        for stream, payload in enumerate(payloads):
            if payload is None:
                continue
            line = line_of(state, stream)
            orders = self._absolute(state.notes.order[line].astype(np.int64))
            line, orders = line[orders >= first], orders[orders >= first]
            table = _described(
                payload.gather(state.slots.row[line]),
                [ledger_files.ALIVE],
                _moments(np.full(len(line), int(state.gate[0].clock)), binding, stream),
                orders,
                np.full(len(line), NEVER, np.int64),
                None,
            )
            yield stream, table


def _moments(clock: NDArray[np.int64], binding: Binding, stream: int) -> pa.Array:
    """Times of the join in the type of the stream's time column."""
    return pa.array(clock, _kind_of_moments(binding, stream))


def _kind_of_moments(binding: Binding, stream: int) -> pa.DataType:
    schema = binding.schemas[stream]
    assert schema is not None
    kind = schema.field(binding.spec.time_columns[stream]).type
    if pa.types.is_timestamp(kind):
        return pa.timestamp("ns" if binding.time_unit == "ns" else "us", kind.tz)
    return pa.int64()


def _described(
    rows: pa.Table,
    reasons: Sequence[str],
    at: pa.Array,
    order: NDArray[np.int64],
    gone: NDArray[np.int64],
    worth: NDArray[np.float64] | None,
) -> pa.Table:
    """Rows with what the ledger says of them; one reason may stand for all."""
    count = rows.num_rows
    if len(reasons) == 1:
        reasons = list(reasons) * count
    columns = {
        REASON: pa.array(reasons, pa.string()),
        AT: at,
        WORTH: pa.nulls(count, pa.float64()) if worth is None else pa.array(worth),
        ORDER: pa.array(order),
        GONE: pa.array(gone),
    }
    for name in ADDED:
        rows = rows.append_column(name, columns[name])
    return rows


def reopened(where: str | Path | Files, spec: JoinSpec, saved: Any) -> Ledger:
    """The ledger of an engine that a snapshot restores."""
    if saved is None:
        raise TidegateError(
            "the snapshot was made without a ledger, so the ledger could not be complete; restore "
            "without ledger="
        )
    numbers = [saved[name] for name in ("pushes", "taken", "first")]
    orders = np.array(saved["old"], np.int64)
    if min(numbers) < 0 or (np.diff(orders) <= 0).any() or (orders < 0).any():
        raise TidegateError("the snapshot is damaged: its ledger's numbers; restore an older one")
    return Ledger(where, spec, saved)
