"""JoinEngine: tables in, results out; expire -> probe -> emit -> admit -> shed inside.

Law: a push is all or nothing. Everything that can be wrong with its input is found before the first
tuple is taken; from then on every row is accounted for:
rows in = alive + expired + evicted + refused + too late + rejected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.binding.batching import arrivals_of, by_time, kept_rows, select
from tidegate.binding.binding import Binding, Encoded
from tidegate.binding.spec_records import INVERTED
from tidegate.columns.intake import to_arrow
from tidegate.columns.payload import Payload
from tidegate.columns.storage import declared, empty_table
from tidegate.compiled.scratch import Scratch, borrowed
from tidegate.driver import admission, arrival, in_order, in_order_many, instant, leaving
from tidegate.engine import resizing, snapshot, snapshot_checks
from tidegate.engine.examples import row_of
from tidegate.engine.guard import Call, Guard
from tidegate.engine.indexing import IndexWatch, is_open
from tidegate.engine.probes import probe_of
from tidegate.engine.replay import replay
from tidegate.engine.results import Results
from tidegate.engine.sample_checks import check_sample
from tidegate.engine.searching import shares_of, with_search
from tidegate.engine.snapshot import Saved
from tidegate.engine.throttling import check_cpu, check_fuel, fuel_of, is_fuel, throttle_stats
from tidegate.estimators import frequency
from tidegate.estimators.importance import of_ones
from tidegate.loss import ledger as ledgers
from tidegate.loss import saved_sentinel, sentinel
from tidegate.loss.ledger import Ledger
from tidegate.loss.sentinel import Sentinel
from tidegate.shed import recipes
from tidegate.shed.shed_records import BY_AGE
from tidegate.spec import Equal, JoinSpec, TidegateError
from tidegate.state import arrays, byte_budget, join_state, shed_arrays, throttle_arrays
from tidegate.state.join_state import (
    ALL_AGES,
    DEPARTURES,
    NOTHING_FOUND,
    RESULTS,
    Many,
    Output,
    Work,
)
from tidegate.state.settings import slot_limit, state_of
from tidegate.state.shed_arrays import shed_of
from tidegate.windows.arrivals import Arrivals

EXAMPLES_KEPT = 3
# How much dead payload is kept, of that alive: in an exact join, and under a budget in tuples.
SLACK, SLACK_IN_TUPLES = 1 / 2, 1 / 3


def check_supported(spec: JoinSpec) -> None:
    """An error if this version cannot run such a join."""
    check_sample(spec)
    if len(spec.streams) > 2 and spec.memory is not None:
        recipes.check_for_many(spec.policy_choice)
    check_cpu(spec)
    sentinel.check(spec)
    recipes.recipe_of(spec.policy_choice, len(spec.streams))


class JoinEngine:
    """A window join that is fed push by push.

    Parameters
    ----------
    spec
        What to join; see `JoinSpec`.
    schemas
        The pyarrow schema of each stream, where known beforehand. Otherwise a stream's schema is
        that of its first push.
    probe
        How an arrival looks for partners on more than two streams; results do not depend on it.
        "auto" looks first whether every stream can have one (kwon2011's bit-vector hash table).
        "selectivity" goes from stream to stream until one has none, first to the one that most
        often has none, and a list of all streams goes in that order (MJoin).
    ledger
        An empty folder to which every row is written when it leaves the join, with the reason;
        `tidegate repair` computes from it exactly the results that were lost.

    Example
    -------
    >>> import pyarrow as pa, tidegate as tg
    >>> engine = tg.JoinEngine(tg.JoinSpec(on="k", time="t", within=10))
    >>> left = pa.table({"t": [1, 5], "k": ["a", "b"]})
    >>> right = pa.table({"t": [2, 30], "k": ["a", "b"]})
    >>> engine.push({"left": left, "right": right}).to_pylist()
    [{'t': 1, 'k': 'a', 't_right': 2, 'k_right': 'a', '_importance': 1.0}]
    >>> engine.stats()["expired"]
    3
    """

    def __init__(
        self,
        spec: JoinSpec,
        schemas: Mapping[str, pa.Schema] | None = None,
        *,
        probe: str | Sequence[str] = "auto",
        ledger: str | Path | None = None,
    ) -> None:
        check_supported(spec)
        if ledger is not None:
            ledgers.check(spec)
        self._ledger = None if ledger is None else Ledger(ledger, spec)
        self._probe = probe_of(probe, spec.streams)
        self.spec = spec
        self._own = sentinel.join_part(spec)  # what the sentinel leaves
        self._schemas: list[pa.Schema | None] = [None] * len(spec.streams)
        self._payloads: list[Payload | None] = [None] * len(spec.streams)
        self._rows_in = [0] * len(spec.streams)
        self._rejected: list[Counter[str]] = [Counter() for _ in spec.streams]
        self._examples: list[dict[str, Any]] = []
        self._bytes_peak = 0
        # Which arrays were weighed last, and their bytes.
        self._weighed: tuple[Any, Any, bool] | None = None
        self._searches = shares_of(spec)
        self._index_watch = IndexWatch(spec) if is_open(spec) else None
        self._arrays_bytes = 0
        self._fuel = fuel_of(spec)
        self._guard = Guard()
        for name, schema in _by_name(schemas or {}, "schemas").items():
            stream = self._stream(name)
            if not isinstance(schema, pa.Schema):
                raise TidegateError(
                    f"schemas has {type(schema).__name__} for stream {name!r}; give a pyarrow "
                    "Schema, such as table.schema"
                )
            self._schemas[stream] = declared(schema, name)
        self._start(Binding(spec, list(self._schemas)))

    def _start(self, binding: Binding) -> None:
        """An empty join under a binding."""
        self._binding = binding
        self._schemas = list(binding.schemas)
        self._payloads = [
            None if schema is None else self._store(schema) for schema in self._schemas
        ]
        self._state = state_of(self._own, binding)
        if self._fuel is not None:
            self._set_fuel(self._fuel)
        self._results = Results(binding, self._payloads)
        self._disorder = [0] * len(self.spec.streams)  # the largest of all pushes
        self._shed = shed_of(self._own, binding, self._state)
        if self._state.gate[0].by_bytes and self._shed is not None:
            byte_budget.check(self._own, self._state, self._shed)
        self._sentinel = None if self.spec.sentinel is None else Sentinel(self.spec, self._state)
        self._count_arrays()
        self._report_departures()

    def _report_departures(self) -> None:
        self._state.gate[0].reports_left = self._ledger is not None

    def _store(self, schema: pa.Schema) -> Payload:
        """Dead payload costs rows under a budget in bytes; elsewhere moving it costs time."""
        if self.spec.memory_bytes is not None:
            return Payload(schema, is_tight=True)
        return Payload(schema, slack=SLACK if self.spec.memory is None else SLACK_IN_TUPLES)

    # --- pushing --------------------------------------------------------------------------

    def push(
        self, tables: Mapping[str, Any], *, watermark: Any = None, fuel: float | None = None
    ) -> pa.Table:
        """Take new rows and return the results they complete.

        Before all streams have shown their columns there are no results, and the table has no
        columns either; `pa.concat_tables(tables, promote_options="default")` joins it with those
        of later pushes. With `schemas` given to the engine all tables have the same columns.

        Parameters
        ----------
        tables
            Rows by stream name; a stream may be missing. pyarrow, pandas or polars.
        watermark
            A moment before which no more rows come, kept from outside (Spark): it replaces
            `clock - lateness` as the bound of expiry and lateness. It never moves back.
        fuel
            With `cpu=Cpu(keep_up=True)`: comparisons per second of event time from this push on.
            Without it as before; before the first, as many as are asked for.
        """
        with self._guard.using() as call:
            pieces = list(self._take(call, tables, watermark, fuel))
            return pa.concat_tables(pieces) if pieces else empty_table(self._results.schema)

    def results(
        self, tables: Mapping[str, Any], *, watermark: Any = None, fuel: float | None = None
    ) -> Iterator[pa.Table]:
        """The same in pieces of bounded size, each made when it is asked for.

        The rows are taken when the first piece is asked for; take all pieces, since the engine can
        do nothing else before the last.
        """
        with self._guard.using() as call:
            yield from self._take(call, tables, watermark, fuel)

    def _take(
        self, call: Call, tables: Mapping[str, Any], watermark: Any, fuel: float | None
    ) -> Iterator[pa.Table]:
        check_fuel(self.spec, fuel)
        given = {
            self._stream(name): to_arrow(table, name, self._schemas[self._stream(name)])
            for name, table in _by_name(tables, "push").items()
            if table is not None
        }
        binding = self._binding_with({stream: table.schema for stream, table in given.items()})
        if self._ledger is not None:
            ledgers.check_columns(binding.schemas)
        moment = None if watermark is None else binding.moment(watermark)
        encoded = {stream: self._encode(binding, stream, table) for stream, table in given.items()}
        self._refuse_bad_rows(given, encoded)
        # All that can be wrong with the input was found; from here on a push is finished, or the
        # engine is not used again.
        with self._undone_by_failures(call, binding), borrowed() as scratch:
            call.changes = True
            if binding is not self._binding:
                self._rebind(binding)
            if fuel is not None:
                self._set_fuel(fuel)
            if moment is not None:
                self._set_watermark(moment, self._room(scratch))
                self._binding.opened_by(watermark)
            arrivals = self._arrivals(given, encoded, scratch)
            if arrivals is not None:
                pieces = self._run(arrivals, scratch)
                # What may still be undone is not given out.
                yield from list(pieces) if binding.may_raise else pieces
            self._settle()
            self._choose_indexes()
            if self._ledger is not None:
                self._ledger.end()
            self._bytes_peak = max(self._bytes_peak, self._bytes_now())

    @contextmanager
    def _undone_by_failures(self, call: Call, binding: Binding) -> Iterator[None]:
        """If a theta function raises, the engine is what it was before the push.

        Most of them cannot raise (`Binding.may_raise`), and then nothing is written down.
        """
        before = self._dump() if binding.may_raise else None
        examples = list(self._examples)
        try:
            yield
        except Exception:
            if before is not None:
                self._examples = examples
                self._become(JoinEngine.restore(before, self.spec))
                self._report_departures()
                if self._ledger is not None:
                    self._ledger.forget_push()
                call.changes = False
            raise

    def _encode(self, binding: Binding, stream: int, table: pa.Table) -> Encoded:
        try:
            return binding.encode(stream, table)
        except pa.ArrowInvalid as error:
            raise TidegateError(
                f"a join column of stream {self.spec.streams[stream]!r} does not fit the type in "
                f"which the streams are compared ({str(error).splitlines()[0]}); cast the columns "
                "to one type before the join"
            ) from error

    def _stream(self, name: str) -> int:
        if name not in self.spec.streams:
            raise TidegateError(
                f"{name!r} is not a stream of this join; its streams are "
                f"{', '.join(map(repr, self.spec.streams))}"
            )
        return self.spec.streams.index(name)

    def _binding_with(self, schemas: Mapping[int, pa.Schema]) -> Binding:
        """The binding that also fits these schemas; the one in use if nothing is new."""
        merged = list(self._schemas)
        for stream, schema in schemas.items():
            known = merged[stream]
            if known is not None and known.equals(schema, check_metadata=True):
                continue  # what has been declared stays as it is
            schema = declared(schema, self.spec.streams[stream])
            if known is None:
                merged[stream] = schema
            elif not known.equals(schema):
                raise TidegateError(
                    f"stream {self.spec.streams[stream]!r} changed its columns from "
                    f"({_listed(known)}) to ({_listed(schema)}); push the same columns each time"
                )
        if merged == self._schemas:
            return self._binding
        binding = Binding(self.spec, merged)
        binding.check_follows(self._binding)
        return binding

    def _rebind(self, binding: Binding) -> None:
        """Take a new binding into use; what is retained is encoded again.

        That happens when a stream shows its columns after others were pushed: what is retained is
        written down under the old binding and read back under the new one.
        """
        if not any(self._rows_in) and not self._state.gate[0].external:
            self._start(binding)  # nothing came so far, so nothing is compiled to read it back
            return
        saved = snapshot.load(self._dump(), self.spec)
        finer = (self._binding.time_unit, binding.time_unit) == ("us", "ns")
        self._start(binding)
        known = [
            payload if name in saved.schemas else None
            for name, payload in zip(self.spec.streams, self._payloads, strict=True)
        ]
        scale = 1000 if finer else 1
        self._state, self._shed = snapshot.refill(
            self._state, self._shed, binding, known, saved, scale
        )
        if self._sentinel is not None:
            self._sentinel.begin_later(self._state)
        self._count_arrays()

    def _refuse_bad_rows(
        self, given: Mapping[int, pa.Table], encoded: Mapping[int, Encoded]
    ) -> None:
        if self.spec.bad_rows != "fail":
            return
        for stream, part in encoded.items():
            for reason, mask in part.rejected.items():
                row = int(np.flatnonzero(mask)[0])
                raise TidegateError(
                    f"row {row} of stream {self.spec.streams[stream]!r} cannot be joined "
                    f"({reason.replace('_', ' ')}): {row_of(given[stream], row)}; "
                    "nothing of this push was taken; bad_rows='count' drops and counts such rows"
                )

    def _set_watermark(self, moment: int, output: Output) -> None:
        self._state = state = arrays.with_late(self._state)
        if not state.pool[0].tracked:
            arrays.start_tracking(state)
        state.gate[0].external = 1
        self._count_arrays()
        state.gate[0].watermark = max(int(state.gate[0].watermark), moment)
        leaving.expire_now(state, self._shed, output)
        self._departures(output)

    def _set_fuel(self, per_second: float) -> None:
        """Grant so many comparisons per second of event time from now on."""
        assert self._state.throttle is not None
        self._fuel = per_second
        throttle_arrays.set_fuel(self._state.throttle, self._binding, per_second)

    def _arrivals(
        self, given: Mapping[int, pa.Table], encoded: Mapping[int, Encoded], scratch: Scratch
    ) -> Arrivals | None:
        """Store the payload of the rows that can be joined, and line them up."""
        parts: dict[int, Encoded] = {}
        rows: list[NDArray[np.int64]] = []
        sizes = [np.zeros(0, np.int64)]
        for stream in sorted(given):
            table, part = given[stream], encoded[stream]
            flags = with_search(
                part.matchable, self._searches, self.spec.seed, stream, self._rows_in[stream]
            )
            part = part._replace(matchable=flags)
            self._rows_in[stream] += table.num_rows
            kept = kept_rows(part)
            payload = self._payloads[stream]
            assert payload is not None
            base = payload.append(table, kept)
            if kept is not None:
                self._count_rejected(stream, table, part)
                part = select(part, kept)
            part, address, disorder = by_time(part, base)
            self._disorder[stream] = max(self._disorder[stream], disorder)
            if self._state.gate[0].by_bytes and len(address):
                sizes.append(byte_budget.charges(payload.pushed_sizes()[address - base]))
            parts[stream] = part
            rows.append(address)
        if not any(len(address) for address in rows):
            return None
        nothing = select(part, np.zeros(0, np.int64))
        complete = [parts.get(stream, nothing) for stream in range(len(self.spec.streams))]
        return arrivals_of(complete, rows, np.concatenate(sizes), scratch)

    def _count_rejected(self, stream: int, table: pa.Table, part: Encoded) -> None:
        if self._ledger is not None:
            self._ledger.reject(stream, table, part.rejected, self._binding)
        seen = np.zeros(table.num_rows, np.bool_)
        for reason, mask in part.rejected.items():
            mask = mask & ~seen
            seen |= mask
            self._rejected[stream][reason] += int(mask.sum())
            room = EXAMPLES_KEPT - sum(1 for e in self._examples if e["reason"] == reason)
            for row in np.flatnonzero(mask)[: max(0, room)]:
                example = row_of(table, int(row))
                name = self.spec.streams[stream]
                self._examples.append({"stream": name, "reason": reason, "row": example})

    # --- running --------------------------------------------------------------------------

    def _run(self, arrivals: Arrivals, scratch: Scratch) -> Iterator[pa.Table]:
        if self._state.throttle is not None:
            span = throttle_arrays.span_of(self._state, arrivals.time)
            self._state = throttle_arrays.with_room(self._state, *span)
        work, many = self._work(arrivals, scratch), self._many()
        output = self._room(scratch)
        drive = self._driver()
        if self._state.gate[0].order + len(arrivals.time) > arrays.MOST_ORDERS:
            if self._ledger is not None:
                self._ledger.renumbered(self._state)
            shed_arrays.renumber(self._shed, self._state)
        if self._ledger is not None:
            self._ledger.begin(arrivals, self._state, self._payloads, self._binding)
        if self._sentinel is not None:
            ends = [0 if payload is None else payload.end for payload in self._payloads]
            self._sentinel.watch(arrivals, self._state, ends)
        need = -1
        while need != admission.DONE:
            need = int(drive(self._state, self._shed, arrivals, work, many, output))
            self._binding.raise_failures()
            if need not in (admission.DONE, admission.NEED_OUTPUT):
                self._weighed = None  # or the arrays that grow would be held twice
            if need == admission.NEED_SLOTS:
                self._grow_slots(int((arrivals.end - work.cursor).sum()))
                work, many = work._replace(**self._candidates()), self._many()
                if self._ledger is not None:
                    self._departures(output)
                    output = self._ledger.room(output, self._state)
            elif need == admission.NEED_NODES:
                self._state = arrays.with_more_nodes(self._state)
                self._count_arrays()
            elif need == admission.NEED_PLACES:
                self._share_out_places()
            elif need == admission.NEED_RARE and self._shed is not None:
                self._shed = shed_arrays.with_more_rare(self._shed)
                self._fit_budget(output)
            elif need == admission.NEED_ARENA:
                self._state = arrays.with_tidy_arena(self._state, _largest_set(arrivals))
                self._count_arrays()
            else:
                self._departures(output)
                if output.filled[RESULTS]:
                    if self._sentinel is not None:
                        self._sentinel.credit(output)
                    yield from self._results.drain(output, self._state.gate[0])
        if self._sentinel is not None:
            self._sentinel.close(self._state)

    def _room(self, scratch: Scratch) -> Output:
        """Where a driver writes results, and departures if the join has a ledger."""
        output = self._results.room(scratch)
        return output if self._ledger is None else self._ledger.room(output, self._state)

    def _departures(self, output: Output) -> None:
        """Take note of the tuples that left, where the join reports them."""
        if self._ledger is not None:
            self._ledger.take(output, self._payloads, self._binding)
        output.filled[DEPARTURES] = 0

    def _grow_slots(self, ahead: int) -> None:
        """Make room for more tuples; under a budget in bytes, as far as it reaches."""
        state, shed = self._state, self._shed
        by_bytes = bool(state.gate[0].by_bytes)
        capacity: int | None = None
        if by_bytes and shed is not None:
            capacity = byte_budget.larger_capacity(self._own, state, shed)
        if capacity is None and by_bytes and self.spec.ties == "arrival":
            # Asked again when as many have come as there are slots: rows may be smaller then.
            state.pool[0].closed_until = state.gate[0].order + len(state.slots)
            return
        if capacity is None:
            # Under ties="instant" the tuples of an instant need slots before they are admitted.
            capacity = arrays.larger_capacity(state, ahead, slot_limit(self._own))
        self._state = arrays.with_more_slots(state, capacity)
        if shed is not None:
            self._shed = shed_arrays.with_more_slots(shed, self._state)
        self._count_arrays()

    def _share_out_places(self) -> None:
        """Give each stream places in lines and queues as it needs them now."""
        self._state = arrays.with_even_lines(self._state)
        if self._shed is not None and self._shed.rule[0].standing != BY_AGE:
            self._shed = shed_arrays.with_even_queues(self._shed, len(self._state.slots))

    def _fit_budget(self, output: Output) -> None:
        """Shed what a budget has no room for, because it was made smaller or arrays have grown."""
        self._count_arrays()
        if self._shed is not None and self._state.gate[0].by_bytes:
            admission.trim(self._state, self._shed, output)

    def _count_arrays(self) -> None:
        """Under a budget in bytes: what the arrays take is not left for payload."""
        if self._state.gate[0].by_bytes and self._shed is not None:
            byte_budget.set_capacities(self._own, self._state, self._shed)

    def _driver(self) -> Callable[..., int]:
        """The loop that serves this join."""
        if self.spec.ties == "instant":
            return instant.run
        if self._shed is None and self._searches is None:
            if in_order.serves(self._state):
                return in_order.run
            if in_order_many.serves(self._state, self._probe.way):
                return in_order_many.run
        return arrival.run

    def _candidates(self) -> dict[str, NDArray[Any]]:
        """Room for what one probe finds."""
        capacity = len(self._state.slots)
        inverted = INVERTED in self._state.lanes.index
        return {
            "found": np.empty(capacity, np.int64),
            "totals": np.zeros((capacity if inverted else 1, 2)),
        }

    def _work(self, arrivals: Arrivals, scratch: Scratch) -> Work:
        groups = len(arrivals.time) if self.spec.ties == "instant" else 0
        return Work(
            cursor=arrivals.begin.copy(),
            progress=np.array([NOTHING_FOUND, *[0] * 7], np.int64),
            part=np.full((len(self.spec.streams), 2), ALL_AGES, np.int64),
            **self._candidates(),
            group=np.zeros((groups, 4), np.int64),
            bucket=in_order.room_for_buckets(scratch, len(arrivals.time)),
            hashed=np.zeros(1, np.int64),
        )

    def _many(self) -> Many | None:
        """Room for the probes of more than two streams."""
        streams = len(self.spec.streams)
        if streams == 2:
            return None
        bounds = np.zeros((2, streams, 2), np.int64)
        told = self._shed is not None or self._state.throttle is not None
        return Many(
            way=np.array([self._probe.way], np.int64),
            order=np.array(self._probe.order, np.int64),
            reach=bounds[0],
            ranges=bounds[1],
            block=np.zeros(2, np.int64),
            digit=np.zeros(streams, np.int64),
            next=np.zeros(streams, np.int64),
            shares=np.zeros(len(self._state.slots) if told else 1, np.float64),
        )

    def _alive_from(self, stream: int) -> int:
        """An address before which no payload row of the stream is alive.

        Addresses grow along the line, but for the rows of one unordered push: so it is that of the
        head, less the rows that can have come before it in its push.
        """
        payload = self._payloads[stream]
        head = join_state.head_of(self._state, stream)
        if head < 0:
            return payload.end if payload else 0
        return int(self._state.slots[head].row) - self._disorder[stream]

    def _settle(self) -> None:
        """Let go of the payload of the push but for the rows alive."""
        for stream, payload in enumerate(self._payloads):
            if payload is not None:
                alive = int(self._state.lanes[stream].alive)
                line = cache(partial(join_state.line_of, self._state, stream))
                end = payload.end
                settlement = payload.settle(
                    alive, self._alive_from(stream), partial(self._addresses, line)
                )
                payload.accept(settlement)
                if self._sentinel is not None and (len(settlement.moved) or payload.end < end):
                    self._sentinel.moved(stream, self._addresses(line), settlement)
                if len(settlement.moved):
                    self._state.slots.row[line()[settlement.moved]] = settlement.addresses

    def _choose_indexes(self) -> None:
        """Where the user leaves it open: other indexes, if they are much cheaper."""
        if self._index_watch is not None:
            better = self._index_watch.better(self._state)
            if better is not None:
                self._state = arrays.with_indexes(self._state, better)

    def _addresses(self, line: Callable[[], NDArray[np.int64]]) -> NDArray[np.int64]:
        """Of the payload rows of a line."""
        return self._state.slots.row[line()]

    def _refuel(self, fuel: Any) -> None:
        """Grant what a snapshot says was granted last, on whatever machine that was."""
        if fuel is not None:
            snapshot_checks.require(is_fuel(self.spec, fuel), "its fuel is out of range")
            self._set_fuel(fuel)

    # --- reading --------------------------------------------------------------------------

    def _bytes_now(self) -> int:
        stored = sum(payload.nbytes for payload in self._payloads if payload is not None)
        now = (self._state, self._shed, bool(self._state.pool[0].tracked))
        # Arrays are never resized: tuples with others take their place.
        if self._weighed is None or any(
            a is not b for a, b in zip(self._weighed, now, strict=True)
        ):
            self._weighed = now
            self._arrays_bytes = arrays.nbytes(self._state) + shed_arrays.nbytes(self._shed)
        watched = 0 if self._sentinel is None else self._sentinel.nbytes
        return stored + self._arrays_bytes + watched

    def stats(self) -> dict[str, int | float]:
        """What became of every row, and what it cost: totals, and per stream as `name_stream`."""
        with self._guard.using():
            return self._stats()

    def _stats(self) -> dict[str, int | float]:
        state, names = self._state, self.spec.streams
        lanes, gate = state.lanes, state.gate[0]
        unit = of_ones(gate.combine, len(names))
        stats: dict[str, int | float] = {
            "rows_out": int(gate.results),
            "importance_out": float(
                gate.importance_out if gate.has_importance else gate.results * unit
            ),
            "memory_rows": int(state.pool[0].alive),
            "memory_rows_peak": int(state.pool[0].peak),
            "memory_bytes": self._bytes_now(),
            "memory_bytes_peak": max(self._bytes_peak, self._bytes_now()),
        }
        if self._shed is not None and self._shed.samples is not None:
            estimated, expected, _ = self._shed.samples.sums.tolist()
            stats["rows_estimated"] = estimated
            counted = self._shed.rule[0].statistics == frequency.WINDOW
            equal = all(isinstance(predicate, Equal) for predicate in self.spec.predicates)
            if self._shed.rule[0].keyed and counted and equal:
                stats["rows_expected"] = expected
        per_stream = {
            "rows_in": self._rows_in,
            "rejected": [counter.total() for counter in self._rejected],
            "memory_rows": lanes.alive,
            "memory_rows_peak": lanes.peak,
        }
        for name in (
            "alive", "expired", "evicted", "refused", "too_late", "comparisons", "visits", "updates"
        ):  # fmt: skip
            per_stream[name] = lanes[name]
        for name, values in per_stream.items():
            stats.setdefault(name, int(sum(values)))
            stats |= {f"{name}_{s}": int(v) for s, v in zip(names, values, strict=True)}
        if state.throttle is not None:
            stats |= throttle_stats(state.throttle, names)
        if self._sentinel is not None:
            stats |= self._sentinel.stats(state)
            stats["memory_rows"] += self._sentinel.held
            stats["memory_rows_peak"] += self._sentinel.peak
        for counter in self._rejected:
            for reason, count in counter.items():
                label = f"rejected_{reason}"
                stats[label] = stats.get(label, 0) + count
        return stats

    def rejected_examples(self) -> list[dict[str, Any]]:
        """A few rejected rows of each reason."""
        return list(self._examples)

    # --- keeping --------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """All that the engine remembers, as Arrow IPC: one table of retained rows per stream."""
        with self._guard.using():
            self._write_ledger()
            return self._dump()

    def write_ledger(self) -> None:
        """Write the rows that are alive too, so that the ledger is complete as of now.

        `snapshot` does the same. To be called when a stream has ended.
        """
        with self._guard.using():
            self._write_ledger()

    def _write_ledger(self) -> None:
        if self._ledger is not None:
            self._ledger.write_out(self._state, self._payloads, self._binding)

    def _dump(self) -> bytes:
        counted = {
            "rows_in": self._rows_in,
            "rejected": [dict(counter) for counter in self._rejected],
            "bytes_peak": self._bytes_peak,
            "time_unit": self._binding.time_unit,
            "fuel": self._fuel,
        }
        if self._index_watch is not None:
            counted["index"] = self._state.lanes.index.tolist()
        if self._ledger is not None:
            counted["ledger"] = self._ledger.saved()
        watched = (
            None if self._sentinel is None else saved_sentinel.dump(self._sentinel, self._state)
        )
        return snapshot.dump(
            self.spec, self._state, self._shed, self._schemas, self._payloads, counted, watched
        )

    @classmethod
    def restore(
        cls, blob: bytes, spec: JoinSpec | None = None, *, ledger: str | Path | None = None
    ) -> JoinEngine:
        """The engine that `snapshot` wrote; it goes on as if nothing had happened.

        `spec` is needed only where the snapshot's own cannot be read back (a theta function that
        is not importable), and must be the one the snapshot was made with. `ledger` is the folder
        of the engine's ledger, if it had one; what was written there after the snapshot is removed.
        """
        with snapshot_checks.reading():
            saved = snapshot.load(blob, spec)
            engine = cls(saved.spec, saved.schemas)
            engine._refill(saved)
            if ledger is not None:
                engine._ledger = ledgers.reopened(ledger, saved.spec, saved.counted.get("ledger"))
                engine._report_departures()
            output = engine._room(Scratch())
            engine._fit_budget(output)
            engine._departures(output)
            return engine

    def _refill(self, saved: Saved) -> None:
        """Put what was saved into this fresh engine."""
        self._rows_in = saved.counted["rows_in"]
        self._rejected = [Counter(counts) for counts in saved.counted["rejected"]]
        self._bytes_peak = saved.counted["bytes_peak"]
        self._binding.restore_unit(saved.counted["time_unit"])
        self._refuel(saved.counted.get("fuel"))
        self._state, self._shed = snapshot.refill(
            self._state, self._shed, self._binding, self._payloads, saved
        )
        kinds = saved.counted.get("index")
        if self._index_watch is not None and kinds is not None:
            snapshot_checks.check_indexes(kinds, self.spec)
            self._state = arrays.with_indexes(self._state, kinds)

    def resize(self, memory: int | str) -> None:
        """Go on with another budget, in the unit of the first.

        A smaller one sheds at once, by the policy, and counts what goes as evicted; a larger one is
        room. `spec.memory` is the budget in force. To be called between two pushes: it costs about
        as much as a snapshot and its restore.

        >>> import pyarrow as pa, tidegate as tg
        >>> spec = tg.JoinSpec(on="k", time="t", within=9, memory=4, policy="recent")
        >>> engine = tg.JoinEngine(spec)
        >>> _ = engine.push({"left": pa.table({"t": [1, 2, 3, 4], "k": [1, 2, 3, 4]})})
        >>> engine.resize(2)
        >>> engine.stats()["memory_rows"], engine.stats()["evicted"], engine.spec.memory
        (2, 2, 2)
        """
        with self._guard.using() as call:
            spec = resizing.resized_spec(self.spec, memory)
            if self._ledger is not None:
                raise TidegateError(
                    "this engine writes what it loses into a ledger, and its budget cannot change "
                    "so far; give it no ledger"
                )
            if spec.memory == self.spec.memory:
                return
            fresh = self._empty(spec)  # refuses a budget that is too small
            assert self._shed is not None
            assert fresh._shed is not None
            call.changes = True
            crowded = resizing.crowded_by_monitors(self._shed, fresh._shed.curve.watch.limit)
            if len(crowded):
                same = self._empty(self.spec)
                same._refill(resizing.without_monitors(self._saved(), crowded, self._shed))
                self._become(same)
            part = 1.0
            while not self._resized_into(fresh, part):
                fresh, part = self._empty(spec), part * resizing.TRY_LESS
            self._become(fresh)

    def _empty(self, spec: JoinSpec) -> JoinEngine:
        """An engine for the streams of this one."""
        known = zip(spec.streams, self._schemas, strict=True)
        return JoinEngine(spec, {name: schema for name, schema in known if schema is not None})

    def _saved(self) -> Saved:
        return snapshot.load(self._dump(), self.spec)

    def _become(self, other: JoinEngine) -> None:
        kept = {name: getattr(self, name) for name in ("_guard", "_examples", "_probe", "_ledger")}
        self.__dict__.update(other.__dict__ | kept)

    def _resized_into(self, fresh: JoinEngine, part: float) -> bool:
        """Shed, and fill an empty engine with what is left; False if that exceeds its budget."""
        assert self._shed is not None
        assert fresh._shed is not None
        spec, by_bytes = fresh.spec, fresh.spec.memory_bytes is not None
        with borrowed() as scratch:
            output = self._results.room(scratch)
            if by_bytes:
                fixed = resizing.fixed_bytes(fresh._state, fresh._shed, self._shed)
                resizing.shed_bytes(spec, self._state, self._shed, output, fixed, part)
            else:
                resizing.shed_tuples(spec, self._state, self._shed, output)
            fresh._refill(resizing.fitted(self._saved(), spec, fresh._shed))
            fits = not by_bytes or byte_budget.fits(spec, fresh._state, fresh._shed)
            if fits or not fresh._state.pool[0].alive:
                fresh._fit_budget(output)
                return True
        return False


def _by_name(given: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise TidegateError(
            f"{what} was given {type(given).__name__}; give a dict by stream name, such as "
            "{'left': ...}"
        )
    return given


def _listed(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)


def _largest_set(arrivals: Arrivals) -> int:
    return int(arrivals.spans[:, :, 1].sum(axis=1).max(initial=0))


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
    whole = {name: to_arrow(table, name) for name, table in tables.items()}
    results = list(replay(engine, whole, progress))
    return JoinResult(pa.concat_tables(results), engine.stats())
