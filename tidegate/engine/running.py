"""A join that runs: the arrays and payload that it holds, and the loops that it drives.

Law: a compiled loop never allocates. It says what it needs, gets larger arrays from here and is
called again where it stopped; tuples of arrays take the place of others and are never resized.

`JoinEngine` stands on this and adds what users see: tables, checks, stats, snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.binding.binding import Binding
from tidegate.binding.spec_records import INVERTED
from tidegate.columns.pages import return_unused_pages
from tidegate.columns.payload import Payload
from tidegate.compiled.scratch import Scratch
from tidegate.driver import admission, arrival, in_order, in_order_many, instant, leaving
from tidegate.engine import live_miniatures, steering
from tidegate.engine.indexing import IndexWatch, is_open
from tidegate.engine.miniature import Miniature
from tidegate.engine.probes import Probe
from tidegate.engine.results import Results
from tidegate.engine.searching import shares_of
from tidegate.engine.steering import Steering
from tidegate.engine.throttling import fuel_of
from tidegate.loss import sentinel
from tidegate.loss.ledger import Ledger
from tidegate.loss.ledger_files import Files
from tidegate.loss.sentinel import Sentinel
from tidegate.shed.shed_records import BY_AGE
from tidegate.spec import JoinSpec
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

# How much dead payload is kept, of that alive: in an exact join, and under a budget in tuples.
SLACK, SLACK_IN_TUPLES = 1 / 2, 1 / 3


class RunningJoin:
    """What a join holds between two pushes, and how arrivals go through it."""

    def __init__(
        self,
        spec: JoinSpec,
        probe: Probe,
        ledger: str | Path | Files | None,
        miniature: Miniature | None,
    ) -> None:
        self.spec = spec
        self._steering: Steering | None = None
        self._limit(steering.with_watchers(spec))
        self._counts_only = False
        self._probe = probe
        self._ledger = None if ledger is None else Ledger(ledger, spec)
        self._searches = shares_of(spec)
        self._miniature = miniature
        self._index_watch = IndexWatch(spec) if is_open(spec) else None
        self._fuel = fuel_of(spec)
        # Which arrays were weighed last, and their bytes.
        self._weighed: tuple[Any, Any, bool] | None = None
        self._arrays_bytes = 0

    def _limit(self, spec: JoinSpec) -> None:
        """The budget in force is that of `spec`, of which others take a part."""
        self._in_force = spec
        watched = steering.with_watchers(self.spec)
        reserved = 0 if spec.miniatures is None else live_miniatures.room_of(watched)
        if self._steering is not None:
            reserved += self._steering.room_of_race
        self._own = sentinel.join_part(spec, reserved)

    def _start(self, binding: Binding) -> None:
        """An empty join under a binding."""
        self._binding = binding
        self._schemas: list[pa.Schema | None] = list(binding.schemas)
        self._payloads: list[Payload | None] = [
            None if schema is None else self._store(schema) for schema in self._schemas
        ]
        self._state = state_of(self._own, binding)
        if self._fuel is not None:
            self._set_fuel(self._fuel)
        self._results = Results(binding, self._payloads)
        self._disorder = [0] * len(self.spec.streams)  # the largest of all pushes
        log = None if self._miniature is None else self._miniature.log
        self._shed = shed_of(self._own, binding, self._state, log)
        if self._state.gate[0].by_bytes and self._shed is not None:
            byte_budget.check(self._own, self._state, self._shed, self._held_under)
        watched = self._in_force.sentinel is not None
        self._sentinel = Sentinel(self._in_force, self._state) if watched else None
        self._count_arrays()
        self._set_reports()

    def _held_under(self, spec: JoinSpec) -> int:
        """Bytes of all arrays of this join, empty, under another budget."""
        state = state_of(spec, self._binding)
        shed = shed_of(spec, self._binding, state)
        assert shed is not None
        return byte_budget.held(state, shed)

    def _set_reports(self) -> None:
        """What the driver writes of departures and results."""
        self._state.gate[0].reports_left = self._ledger is not None
        self._state.gate[0].only_counts = self._counts_only

    def _store(self, schema: pa.Schema) -> Payload:
        """Dead payload costs rows under a budget in bytes; elsewhere moving it costs time."""
        if self.spec.memory_bytes is not None:
            return Payload(schema, is_tight=True)
        return Payload(schema, slack=SLACK if self.spec.memory is None else SLACK_IN_TUPLES)

    def _set_watermark(self, moment: int, output: Output) -> None:
        self._state = state = arrays.with_late(self._state)
        if not state.pool[0].tracked:
            self._state = state = arrays.with_index_for(state, in_order=False)
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

    def _run(self, arrivals: Arrivals, scratch: Scratch) -> Iterator[pa.Table]:
        if self._state.throttle is not None:
            span = throttle_arrays.span_of(self._state, arrivals.time)
            self._state = throttle_arrays.with_room(self._state, *span)
        work, many = self._work(arrivals, scratch), self._many()
        output = self._room(scratch)
        drive = self._driver()
        self._state = arrays.with_index_for(
            self._state, in_order=drive in (in_order.run, in_order_many.run)
        )
        if self._state.gate[0].order + len(arrivals.time) > arrays.MOST_ORDERS:
            if self._ledger is not None:
                self._ledger.renumbered(self._state)
            shed_arrays.renumber(self._shed, self._state)
        if self._ledger is not None:
            self._ledger.begin(arrivals, self._state, self._payloads, self._binding)
        if self._sentinel is not None:
            ends = [0 if payload is None else payload.end for payload in self._payloads]
            self._sentinel.watch(arrivals, self._state, ends)
        if self._steering is not None and self._steering.race is not None:
            self._steering.race.watch(arrivals, self._state)
        need = -1
        while need != admission.DONE:
            need = int(drive(self._state, self._shed, arrivals, work, many, output))
            self._binding.raise_failures()
            is_grown = need not in (admission.DONE, admission.NEED_OUTPUT)
            if is_grown:
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
            if is_grown and self._state.gate[0].by_bytes:
                return_unused_pages()  # of the arrays that were replaced
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
        if self._shed is None and self._searches is None and self._miniature is None:
            if in_order.serves(self._state):
                return in_order.run
            if in_order_many.serves(self._state):
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
        streams = len(self.spec.streams)
        return Work(
            cursor=arrivals.begin.copy(),
            progress=np.array([NOTHING_FOUND, *[0] * 7], np.int64),
            part=np.full((streams, 2), ALL_AGES, np.int64),
            **self._candidates(),
            group=np.zeros((groups, 4), np.int64),
            bucket=in_order.room_for_buckets(scratch, len(arrivals.time)),
            hashed=np.zeros(1, np.int64),
            next=np.zeros(streams, np.int64),
            since=np.zeros(streams, np.int64),
            held=np.zeros(streams, np.int64),
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
        steered = 0 if self._steering is None else self._steering.nbytes
        return stored + self._arrays_bytes + watched + steered


def _largest_set(arrivals: Arrivals) -> int:
    return int(arrivals.spans[:, :, 1].sum(axis=1).max(initial=0))
