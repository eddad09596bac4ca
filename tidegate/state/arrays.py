"""The arrays of a join: made, grown and rebuilt.

Law: growing changes nothing but the room. A slot keeps its number, an index its content, so that
results do not depend on when something grew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.binding.spec_records import BTREE, GATE, HASH, INVERTED, SERVED_BY_CODE, TTREE
from tidegate.compiled import layout
from tidegate.compiled.kernel import kernel
from tidegate.compiled.layout import Records, records
from tidegate.index import btree, hash_table, inverted, numbered, ttree
from tidegate.shed.budget import ACCOUNT
from tidegate.state import indexes
from tidegate.state.join_state import State, alive_slots, line_of
from tidegate.windows import late_heap, lifetime

FIRST_SLOTS = 1024
FIRST_ITEMS = 4096
MOST_ORDERS = 2**31 - 1  # of arrival, until tuples are renumbered
_NEVER = -(2**62)


def new_state(
    lanes: Records,
    bands: Records,
    set_terms: Records,
    thetas: Records,
    columns: int,
    has_equality: bool,
    has_importance: bool,
    capacity: int = FIRST_SLOTS,
) -> State:
    """An empty join with room for `capacity` tuples; the caller writes its options."""
    slots, notes, pool = lifetime.unused_slots(capacity)
    gate = records(GATE, 1)
    gate.has_equality = has_equality
    gate.has_importance = has_importance
    gate.tree_term = SERVED_BY_CODE if has_equality else 0
    gate.clock = gate.watermark = _NEVER * 2
    lanes.newest = _NEVER * 2
    streams = len(lanes)
    places = lifetime.places_for(capacity, streams)
    starts = lifetime.line_starts([0] * streams, places)
    lanes.first = lanes.begin = lanes.end = starts[:-1]
    lanes.stop = starts[1:]
    values = np.zeros((capacity, columns), np.int64)
    has_trees = bool(np.isin(lanes.index, (BTREE, TTREE)).any())
    return State(
        gate=gate,
        lanes=lanes,
        pool=pool,
        slots=slots,
        notes=notes,
        importance=np.ones(capacity if has_importance else 1, np.float64),
        lines=np.full(places, -1, np.int32),
        numbers=np.zeros(1 if lanes.is_time_window.all() else capacity, np.int64),
        late=np.zeros(1, np.int32),
        late_place=np.zeros(1, np.int32),
        values=values,
        reals=values.view(np.float64),
        spans=np.zeros((capacity, len(set_terms), 2), np.int64),
        bands=bands,
        set_terms=set_terms,
        thetas=thetas,
        buckets=hash_table.empty(streams, capacity if HASH in lanes.index else 1),
        btree=btree.empty(streams, capacity) if has_trees else None,
        ttree=ttree.empty(streams, capacity) if has_trees else None,
        lists=hash_table.empty(streams, FIRST_ITEMS if INVERTED in lanes.index else 1),
        arena=records(inverted.POSTING, FIRST_ITEMS if len(set_terms) else 1),
        arena_used=np.zeros(1, np.int64),
        accounts=records(ACCOUNT, streams),
        throttle=None,
    )


def _longer(array: NDArray[Any], length: int, axis: int = 0) -> NDArray[Any]:
    shape = list(array.shape)
    shape[axis] = length - shape[axis]
    filler = np.zeros(shape, array.dtype)
    return np.concatenate([array, filler], axis=axis)


def larger_capacity(state: State, ahead: int, limit: int | None) -> int:
    """Twice the slots, or up to eight times as many if the arrivals `ahead` may fill them.

    So a first large push grows the arrays a few times only, and they never have room for more than
    twice what is alive and one push; under a budget in tuples, for no more than `limit`.
    """
    if limit is not None:
        return min(limit, 2 * len(state.slots))
    capacity = 2 * len(state.slots)
    while capacity < min(8 * len(state.slots), int(state.pool[0].alive) + ahead):
        capacity *= 2
    return capacity


def with_more_slots(state: State, capacity: int) -> State:
    """The same join with room for `capacity` tuples."""
    slots, notes = lifetime.grown_slots(state.slots, state.notes, state.pool, capacity)
    values = _longer(state.values, capacity)
    counted, late = len(state.numbers) > 1, bool(state.gate[0].takes_late)
    state = state._replace(
        slots=slots,
        notes=notes,
        importance=_longer(state.importance, capacity if state.gate[0].has_importance else 1),
        numbers=_longer(state.numbers, capacity) if counted else state.numbers,
        late=_longer(state.late, capacity) if late else state.late,
        late_place=_longer(state.late_place, capacity) if late else state.late_place,
        values=values,
        reals=values.view(np.float64),
        spans=_longer(state.spans, capacity),
    )
    state = with_even_lines(state)
    if HASH in state.lanes.index:
        state = state._replace(buckets=_table_like(state.buckets)(len(state.lanes), capacity))
        indexes.reindex(state, HASH)
    return state


def _table_like(buckets: NDArray[np.int32]) -> Callable[[int, int], NDArray[np.int32]]:
    return numbered.empty if numbered.is_table_of(buckets) else hash_table.empty


def with_index_for(state: State, in_order: bool) -> State:
    """The same join with the hash index that its loop reads, that of streams in order or not."""
    if numbered.is_table_of(state.buckets) == in_order:
        return state
    make = numbered.empty if in_order else hash_table.empty
    state = state._replace(buckets=make(len(state.lanes), len(state.slots)))
    indexes.reindex(state, HASH)
    return state


def with_even_lines(state: State) -> State:
    """The same join, each line with room as its stream needs it now."""
    length = lifetime.places_for(len(state.slots), len(state.lanes))
    if state.gate[0].limited and len(state.lanes) == 2:
        length = min(length, len(state.slots) * 3 // 2 + 64)
    alive = (state.lanes.end - state.lanes.begin).tolist()
    if state.pool[0].tracked:
        alive = state.lanes.alive.tolist()
    starts = np.array(lifetime.line_starts(alive, length), np.int64)
    lines = np.full(length, -1, np.int32)
    tracked = int(state.pool[0].tracked)
    lifetime.move_lines(state.notes, tracked, state.lanes, state.lines, starts, lines)
    return state._replace(lines=lines)


def with_late(state: State) -> State:
    """The same join, ready for tuples that come out of order."""
    if state.gate[0].takes_late:
        return state
    state.gate[0].takes_late = 1
    capacity = len(state.slots)
    return state._replace(
        late=np.zeros(capacity, np.int32), late_place=np.full(capacity, -1, np.int32)
    )


def slot_bytes(state: State) -> int:
    """At most so many bytes go to one more slot, in all arrays that grow with the slots."""
    streams = len(state.lanes)
    links = 4 * lifetime.places_per_slot(streams) + 8 * int(state.gate[0].takes_late)
    links += 8 if len(state.numbers) > 1 else 0
    indexed = 8 * streams if HASH in state.lanes.index else 0
    each = (state.slots, state.notes, state.values, state.spans)
    own = sum(array.strides[0] for array in each)
    return own + links + indexed + (8 if state.gate[0].has_importance else 0)


def with_more_nodes(state: State) -> State:
    """The same join with twice the tree nodes, where trees are used."""
    if state.btree is not None and not btree.room(state.btree):
        state = state._replace(btree=btree.grow(state.btree))
    if state.ttree is not None and not ttree.room(state.ttree):
        state = state._replace(ttree=ttree.grow(state.ttree))
    return state


def with_indexes(state: State, kinds: Sequence[int]) -> State:
    """The same join with these indexes on its windows; it has trees already."""
    streams, capacity = len(state.lanes), len(state.slots)
    state.lanes.index = kinds
    state = state._replace(
        btree=btree.empty(streams, capacity), ttree=ttree.empty(streams, capacity)
    )
    indexes.reindex(state)
    return state


def with_tidy_arena(state: State, items: int) -> State:
    """The same join, its sets without gaps, and room for `items` more (and as many again)."""
    streams = len(state.lanes)
    alive = int(sum(state.spans[slot, :, 1].sum() for slot in alive_slots(state)))
    room = max(len(state.arena), 2 * (alive + items))
    arena = records(inverted.POSTING, room)
    used = np.zeros(1, np.int64)
    for slot in alive_slots(state):
        for term in range(state.spans.shape[1]):
            begin, length = (int(number) for number in state.spans[slot, term])
            end = int(used[0])
            arena[end : end + length] = state.arena[begin : begin + length]
            state.spans[slot, term, 0] = end
            used[0] += length
    lists = hash_table.empty(streams, room if INVERTED in state.lanes.index else 1)
    state = state._replace(arena=arena, arena_used=used, lists=lists)
    if INVERTED in state.lanes.index:
        indexes.reindex(state, INVERTED)
    return state


def start_tracking(state: State) -> None:
    """Keep notes from now on, and write those of the tuples retained so far.

    Until now tuples left only at the head of their line, so a tuple's number is not known to its
    note; its order is enough, and the lines give it.
    """
    state.pool[0].tracked = 1
    line = alive_slots(state)
    notes = state.notes
    notes[:] = np.zeros(1, notes.dtype)
    for stream in range(len(state.lanes)):
        notes.stream[line_of(state, stream)] = stream
    by_arrival = line[np.lexsort((notes.stream[line], state.slots.time[line]))]
    notes.order[by_arrival] = np.arange(len(line)) + state.gate[0].order - len(line)
    notes.monitor = lifetime.NOT_CHARGED
    for lane in state.lanes:
        positions = np.arange(lane.begin, lane.end)
        slots = state.lines[positions]
        notes.place[slots[slots >= 0]] = positions[slots >= 0]


def renumber(state: State) -> None:
    """Give the retained tuples the lowest orders, as they came.

    An order has 32 bits, so the next tuples would have none left after some billions.
    """
    alive = int(state.pool[0].alive)
    if state.pool[0].tracked:
        line = alive_slots(state)
        line = line[np.argsort(state.notes.order[line])]
        state.notes.order[line] = np.arange(alive)
    state.pool[0].closed_until = max(0, state.pool[0].closed_until - state.gate[0].order + alive)
    state.gate[0].order = alive
    if numbered.is_table_of(state.buckets):
        indexes.reindex(state, HASH)  # no number stays in it that comes again before the next time


@kernel
def queue_late(state, line):
    """Put the retained tuples in `line`, which came out of order, into the heap of late tuples."""
    for k in range(len(line)):
        late_heap.push(state, line[k])


@kernel
def store_sets(state, arrivals, line):
    """Write the sets of arrivals into the arena, for the slots that stand for them in `line`."""
    for row in range(len(line)):
        for term in range(arrivals.spans.shape[1]):
            length = arrivals.spans[row, term, 1]
            state.spans[line[row], term, 1] = length
            state.spans[line[row], term, 0] = inverted.store(
                state.arena, state.arena_used, arrivals.items, arrivals.weights,
                arrivals.spans[row, term, 0], length, line[row],
            )  # fmt: skip


def nbytes(state: State) -> int:
    """Memory of all arrays of a join."""
    total = layout.held(state)
    return total if state.pool[0].tracked else total - state.notes.nbytes  # never touched
