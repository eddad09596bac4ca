"""The driver of exact two-way joins: expire -> probe -> emit -> admit, for each arrival.

Law: a tuple first probes, then is admitted; what leaves a window leaves its index in the same
step. The driver owns the order of things and all counting; matching belongs to `predicates`,
finding candidates to `index`. The same steps under a budget: `limited`.

It stops at any arrival when it needs something that only Python can give (room for more slots, or
a drained output), returns what it needs, and goes on from there when it is called again: all that
an arrival did before the stop can be done twice without harm.
"""

from __future__ import annotations

import numpy as np

from tidegate.binding import matching
from tidegate.binding.spec_records import BTREE, HASH, INVERTED, TTREE
from tidegate.compiled.kernel import inlined, kernel
from tidegate.index import hash_table, inverted, trees
from tidegate.state.indexes import candidates, enter_index, leave_index
from tidegate.windows import lifetime
from tidegate.windows.arrivals import earliest

DONE, NEED_SLOTS, NEED_NODES, NEED_ARENA, NEED_OUTPUT = range(5)

ANYBODY, NEWCOMERS, EARLIER = range(3)  # whom an arrival meets: see `instant`
AHEAD = 8  # tuples of a stream: far enough to hide a cache miss, near enough to stay cached


@inlined
def emit(state, arrivals, work, output, stream, arrival, count, whom):
    """Turn the candidates that match into results; they are moved to the front of `work.found`.

    Returns how many they are.
    """
    other = 1 - stream
    time = arrivals.time[arrival]
    kind = state.lanes[other].index
    check_code = state.gate[0].has_equality and kind != HASH
    first_set = 1 if kind == INVERTED else 0
    check_bands = len(state.bands) > 0
    check_sets = len(state.set_terms) > first_set
    check_thetas = len(state.thetas) > 0
    weighed = state.gate[0].has_importance
    results = output.filled[0]
    before = results
    gained = 0.0
    for k in range(count):
        slot = work.found[k]
        if not matching.meet_in_time(state.slots, state.lanes, slot, other, stream, time):
            continue
        if whom != ANYBODY:
            is_new = state.notes[slot].order >= state.gate[0].group_order
            if is_new != (whom == NEWCOMERS):
                continue
        if check_code and state.slots[slot].code != arrivals.code[arrival]:
            continue
        if check_bands and not matching.in_bands(
            state.bands, state.values, state.reals, slot,
            arrivals.values, arrivals.reals, arrival, stream == 0,
        ):  # fmt: skip
            continue
        if check_sets and not matching.share_enough(
            state.set_terms, first_set, state.arena, state.spans, slot,
            arrivals.items, arrivals.weights, arrivals.spans, arrival,
        ):  # fmt: skip
            continue
        if check_thetas and not matching.thetas_hold(
            state.thetas, state.values, slot, arrivals.values, arrival, stream == 0
        ):
            continue
        work.found[results - before] = slot
        output.rows[stream, results] = arrivals.row[arrival]
        output.rows[other, results] = state.slots[slot].row
        if weighed:
            importance = matching.combined(
                state.gate[0].combine, arrivals.importance[arrival], state.importance[slot]
            )
            output.importance[results] = importance
            gained += importance
        results += 1
    state.gate[0].importance_out += gained
    state.gate[0].results += results - before
    output.filled[0] = results
    return results - before


@inlined
def probe(state, arrivals, work, output, stream, arrival, whom):
    """Meet the opposite window: how many match; -1, with nothing done, if the output is full."""
    matches = 0
    if arrivals.matchable[arrival]:
        count, comparisons, visits = candidates(state, arrivals, work, stream, arrival)
        if output.filled[0] + count > len(output.importance):
            output.filled[1] = count
            matches = -1
        else:
            state.lanes[stream].comparisons += comparisons
            state.lanes[stream].visits += visits
            matches = emit(state, arrivals, work, output, stream, arrival, count, whom)
    return matches


@inlined
def forget(state, stream, slot):
    """Remove a tuple of `stream` from index and window alike."""
    if state.slots[slot].older != lifetime.NOT_INDEXED:
        leave_index(state, stream, slot)
    place = state.lanes[stream].begin  # where nothing is noted, only heads of lines leave
    if state.pool[0].tracked:
        place = np.int64(state.notes[slot].place)
        lifetime.drop_note(state.notes, state.pool, state.late, slot)
    lifetime.vacate(state.slots, state.pool, state.lanes, state.lines, stream, place, slot)


@inlined
def expire(state):
    """Forget all that is dead at the watermark."""
    watermark = state.gate[0].watermark
    line = -1  # first the late tuples of all streams, then line by line
    while line < len(state.lanes):
        if line < 0:
            slot = lifetime.expired_late(state.notes, state.pool, state.late, watermark)
        else:
            slot = lifetime.expired_head(
                state.slots, state.notes, state.lanes, state.lines, line, watermark
            )
        if slot < 0:
            line += 1
        else:
            stream = np.int64(state.notes[slot].stream) if line < 0 else line
            state.lanes[stream].expired += 1
            forget(state, stream, slot)


@inlined
def missing_room(state, arrivals, stream, arrival):
    """What must grow before this arrival can be given a slot; DONE if nothing."""
    missing = DONE
    kind = state.lanes[stream].index
    if state.pool[0].unused == 0:
        missing = NEED_SLOTS
    elif kind == BTREE and not trees.room(state.btree):
        missing = NEED_NODES
    elif kind == TTREE and not trees.room(state.ttree):
        missing = NEED_NODES
    elif len(state.set_terms) > 0:
        items = 0
        for term in range(len(state.set_terms)):
            items += arrivals.spans[arrival, term, 1]
        if state.arena_used[0] + items > len(state.arena):
            missing = NEED_ARENA
    return missing


@inlined
def settle(state, arrivals, stream, arrival, order):
    """Give the arrival a slot, in its window and in its index. Returns the slot."""
    time = arrivals.time[arrival]
    in_order = time >= state.lanes[stream].newest
    slot = lifetime.occupy(
        state.slots, state.notes, state.pool, state.lanes, state.lines, stream, time
    )
    if state.pool[0].tracked:
        lifetime.write_note(
            state.notes, state.pool, state.lanes, state.late, stream, slot, time, order, in_order
        )
    state.slots[slot].code = arrivals.code[arrival]
    state.slots[slot].row = arrivals.row[arrival]
    if state.gate[0].has_importance:
        state.importance[slot] = arrivals.importance[arrival]
    for column in range(state.values.shape[1]):
        state.values[slot, column] = arrivals.values[arrival, column]
    for term in range(state.spans.shape[1]):
        length = arrivals.spans[arrival, term, 1]
        state.spans[slot, term, 1] = length
        state.spans[slot, term, 0] = inverted.store(
            state.arena, state.arena_used, arrivals.items, arrivals.weights,
            arrivals.spans[arrival, term, 0], length, slot,
        )  # fmt: skip
    if arrivals.matchable[arrival]:
        state.slots[slot].older = -1
        enter_index(state, stream, slot)
    else:
        state.slots[slot].older = lifetime.NOT_INDEXED
    return slot


@inlined
def take(state, stream):
    """Count an arrival as taken; the oldest of a full count window dies by that."""
    state.lanes[stream].taken += 1
    state.gate[0].order += 1
    if not state.lanes[stream].is_time_window:
        slot = lifetime.expired_head(state.slots, state.notes, state.lanes, state.lines, stream, 0)
        if slot >= 0:
            state.lanes[stream].expired += 1
            forget(state, stream, slot)


@inlined
def admit(state, arrivals, stream, arrival):
    """Retain the arrival if its window lets it live."""
    if not state.lanes[stream].is_time_window and state.lanes[stream].window == 0:
        state.lanes[stream].expired += 1
    else:
        settle(state, arrivals, stream, arrival, state.gate[0].order - 1)


@inlined
def in_time(gate, time):
    """Move the clock to `time`; False if `time` is too late to be taken at all."""
    if time < gate[0].watermark:
        return False
    if time > gate[0].clock:
        gate[0].clock = time
        if not gate[0].external:
            gate[0].watermark = time - gate[0].lateness
    return True


@inlined
def look_ahead(state, arrivals, stream, arrival):
    """Bring near what arrivals and expiries will touch soon (hash index only)."""
    other = 1 - stream
    lane = state.lanes[stream]
    if lane.index == HASH or state.lanes[other].index == HASH:
        last = arrivals.end[stream] - 1
        code = arrivals.code[min(arrival + 2 * AHEAD, last)]
        hash_table.warm_bucket(state.buckets, hash_table.bucket_of(state.buckets, code))
        bucket = hash_table.bucket_of(state.buckets, arrivals.code[min(arrival + AHEAD, last)])
        hash_table.warm_chain(state.buckets, state.slots, other, hash_table.OLDEST, bucket)
        hash_table.warm_chain(state.buckets, state.slots, stream, hash_table.NEWEST, bucket)
        bucket = hash_table.bucket_of(state.buckets, arrivals.code[min(arrival + AHEAD // 2, last)])
        hash_table.warm_second(state.buckets, state.slots, other, bucket)
        if lane.begin + AHEAD < lane.end:
            slot = state.lines[stream, lane.begin + AHEAD]
            if slot >= 0:
                bucket = hash_table.bucket_of(state.buckets, state.slots[slot].code)
                hash_table.warm_bucket(state.buckets, bucket)


@kernel
def run(state, arrivals, work, output):
    """Take arrivals one by one until all are taken or something is needed."""
    cursor = work.cursor
    while True:
        stream = earliest(arrivals.time, cursor, arrivals.end)
        if stream < 0:
            return DONE
        arrival = cursor[stream]
        if not in_time(state.gate, arrivals.time[arrival]):
            state.lanes[stream].too_late += 1
            cursor[stream] += 1
            continue
        look_ahead(state, arrivals, stream, arrival)
        expire(state)
        missing = missing_room(state, arrivals, stream, arrival)
        if missing != DONE:
            return missing
        if probe(state, arrivals, work, output, stream, arrival, ANYBODY) < 0:
            return NEED_OUTPUT
        take(state, stream)
        admit(state, arrivals, stream, arrival)
        lifetime.note_peak(state.pool, state.lanes[stream])
        cursor[stream] += 1


@kernel
def expire_now(state):
    """Forget what is dead at the watermark, without an arrival."""
    expire(state)
