"""The common case of a two-way join: equal keys, time windows, no budget, all in order.

Law: the rows and counts of `arrival`, which can go on where this loop stopped, and the other way
round, once the index is of the other kind (`state.arrays.with_index_for`). What is left out is only
what cannot happen here: everybody leaves in the order in which they came, what is retained after
expiry is in the window of the arrival, and no predicate is left to check after the key.

It is a loop of its own because it is worth it: see `python -m benchmarks equi_join`. The index is
one from which nobody is taken out (`index.numbered`). Heads of lines are looked at only when one of
them can be dead: `due` is the first moment at which that is so. Whom a stream holds stands in
`work.since` and `work.held` while the loop runs. The counts of a lane follow from these and are
written when the loop is left. Steps that do not depend on the number of streams serve
`in_order_many` too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidegate.binding.spec_records import HASH
from tidegate.compiled import layout
from tidegate.compiled.kernel import kernel, step
from tidegate.compiled.scratch import Scratch
from tidegate.driver.admission import DONE, NEED_OUTPUT, NEED_PLACES, NEED_SLOTS
from tidegate.driver.prefetching import FAR, NEAR, NEXT
from tidegate.estimators.importance import combined
from tidegate.index import hash_table, numbered
from tidegate.state.join_state import FOUND, NOTHING_FOUND, RESULTS, State
from tidegate.windows import lifetime

NEVER = 2**62 + 2**61


def serves(state: State) -> bool:
    """Can this driver take the next arrivals?"""
    return len(state.lanes) == 2 and is_plain(state)


def is_plain(state: State) -> bool:
    """Equal keys, time windows, no budget, nothing late?"""
    extras = len(state.bands) + len(state.set_terms) + len(state.thetas)
    gate = state.gate[0]
    special = state.pool[0].tracked or gate.only_counts or gate.reports_left
    special = special or state.throttle is not None
    return not special and extras == 0 and bool((state.lanes.index == HASH).all())


def room_for_buckets(scratch: Scratch, arrivals: int) -> NDArray[np.uint32]:
    """Room for the bucket of each arrival, and of some that are only looked at ahead."""
    buckets = scratch.array("bucket", arrivals + FAR, np.uint32)
    buckets[arrivals:] = 0
    return buckets


@step
def find_buckets(state, arrivals, work):
    """The bucket of each arrival, if they are not known for the present table."""
    if work.hashed[0] != len(state.buckets):
        work.hashed[0] = len(state.buckets)
        for arrival in range(len(arrivals.code)):
            work.bucket[arrival] = hash_table.bucket_of(state.buckets, arrivals.code[arrival])


# --- who is there ------------------------------------------------------------------------


@step
def open_streams(state, arrivals, work):
    """Write down whom each stream holds, and when its next tuple comes."""
    for stream in range(len(state.lanes)):
        lane = state.lanes[stream]
        work.next[stream] = next_time(arrivals, work, stream)
        work.held[stream] = lane.end - lane.begin
        work.since[stream] = lane.taken - work.held[stream]


@step
def close_streams(state, work, looks):
    """What follows from that: everybody that was taken is in the line, or has expired.

    `looks`: every arrival has visited its bucket once.
    """
    note_peaks(state, work)
    for stream in range(len(state.lanes)):
        lane = state.lanes[stream]
        taken = work.since[stream] + work.held[stream]
        if looks:
            lane.visits += taken - lane.taken
        state.gate[0].order += taken - lane.taken
        state.pool[0].alive += work.held[stream] - lane.alive
        lane.taken, lane.alive = taken, work.held[stream]
        lane.expired = work.since[stream]


@step
def note_peaks(state, work):
    """Asked before somebody leaves, and at the end: in between streams only grow."""
    total = np.int64(0)
    for stream in range(len(state.lanes)):
        lane = state.lanes[stream]
        lane.peak = max(lane.peak, work.held[stream])
        total += work.held[stream]
    state.pool[0].peak = max(state.pool[0].peak, total)


@step
def expire(state, work, watermark):
    """Forget the heads of all lines that are dead; returns from when on another one is."""
    note_peaks(state, work)
    due = np.int64(NEVER)
    for stream in range(len(state.lanes)):
        lane = state.lanes[stream]
        position, end = np.uint64(lane.begin), np.uint64(lane.end)
        while position < end:
            slot = np.uint64(state.lines[position])
            dead_from = state.slots[slot].time + lane.window + 1
            if dead_from > watermark:
                due = min(due, dead_from)
                break
            state.slots[slot].newer = state.pool[0].first_unused
            state.pool[0].first_unused = slot
            position += np.uint64(1)
        gone = np.int64(position) - lane.begin
        lane.begin += gone
        work.since[stream] += gone
        work.held[stream] -= gone
        state.pool[0].unused += gone
    return due


@step
def missing_room(state, lane):
    need = DONE
    if state.pool[0].unused == 0:
        need = NEED_SLOTS
    elif lane.end == lane.stop:
        if lifetime.is_cramped(lane, lane.end - lane.begin):
            need = NEED_PLACES
        else:
            lifetime.close_gaps(state.notes, 0, lane, state.lines)
    return need


@step
def settle(state, arrivals, work, stream, bucket, arrival):
    """Give the arrival a slot, in its window and in its index."""
    lane = state.lanes[stream]
    slot = np.int64(state.pool[0].first_unused)
    state.pool[0].first_unused = state.slots[slot].newer
    state.pool[0].unused -= 1
    state.lines[np.uint64(lane.end)] = slot
    lane.end += 1
    lane.newest = arrivals.time[arrival]
    state.slots[slot].time = arrivals.time[arrival]
    state.slots[slot].code = arrivals.code[arrival]
    state.slots[slot].row = arrivals.row[arrival]
    if state.gate[0].has_importance:
        state.importance[slot] = arrivals.importance[arrival]
    if arrivals.matchable[arrival]:
        number = work.since[stream] + work.held[stream]
        numbered.insert(state.buckets, state.slots, stream, bucket, slot, number)
    else:
        state.slots[slot].older = lifetime.NOT_INDEXED
    work.held[stream] += 1


@step
def next_time(arrivals, work, stream):
    """When the next tuple of a stream comes."""
    cursor = work.cursor[stream]
    return arrivals.time[np.uint64(cursor)] if cursor < arrivals.end[stream] else np.int64(NEVER)


@step
def go_on(arrivals, work, stream):
    """The next tuple of a stream is taken, or came too late."""
    work.cursor[stream] += 1
    work.next[stream] = next_time(arrivals, work, stream)


# --- two streams -------------------------------------------------------------------------


@step
def find(state, arrivals, work, stream, bucket, arrival):
    """Collect the tuples of the other stream that have the key of the arrival, newest first."""
    other = 1 - stream
    found, comparisons = numbered.chain(
        state.buckets, state.slots, bucket, other, work.since[other], work.held[other],
        arrivals.code[arrival], work.found, np.int64(0),
    )  # fmt: skip
    state.lanes[stream].comparisons += comparisons
    return found


@step
def emit(state, arrivals, work, output, stream, arrival, found):
    """Write the matches, oldest first; returns how many are left when the output is full."""
    other = 1 - stream
    row = arrivals.row[arrival]
    weighed = state.gate[0].has_importance
    begin = output.filled[RESULTS]
    count = min(found, len(output.importance) - begin)
    gained = 0.0
    for k in range(np.uint64(count)):
        slot = np.uint64(work.found[np.uint64(found) - np.uint64(1) - k])
        result = np.uint64(begin) + k
        output.rows[stream, result] = row
        output.rows[other, result] = state.slots[slot].row
        if weighed:
            worth = combined(
                state.gate[0].combine, arrivals.importance[arrival], state.importance[slot]
            )
            output.importance[result] = worth
            gained += worth
    if weighed:
        state.gate[0].importance_out += gained
    output.filled[RESULTS] = begin + count
    state.gate[0].results += count
    return found - count


@step
def look_ahead(state, work, stream, arrival):
    """Bring near what the next arrivals of the stream, and its next expiries, will touch."""
    other = 1 - stream
    numbered.warm_row(state.buckets, work.bucket[np.uint64(arrival + FAR)])
    bucket = np.uint64(work.bucket[np.uint64(arrival + NEAR)])
    layout.warm(state.slots, numbered.newest_slot(state.buckets, bucket, other))
    bucket = np.uint64(work.bucket[np.uint64(arrival + NEXT)])
    slot = max(np.int64(0), numbered.newest_slot(state.buckets, bucket, other))
    layout.warm(state.slots, np.int64(state.slots[np.uint64(slot)].older))
    lane = state.lanes[stream]
    if lane.begin + NEAR < lane.end:
        layout.warm(state.slots, np.int64(state.lines[np.uint64(lane.begin + NEAR)]))


@step
def take_next(state, arrivals, work, output, stream, due):
    """Take the next arrival of a stream; returns what is missing to do that, or DONE, and `due`."""
    arrival = np.uint64(work.cursor[stream])
    time = arrivals.time[arrival]
    if time < state.gate[0].clock:
        state.lanes[stream].too_late += 1
        go_on(arrivals, work, stream)
        return DONE, due
    need = DONE
    bucket = np.uint64(work.bucket[arrival])
    found = work.progress[FOUND]
    if found == NOTHING_FOUND:
        found = np.int64(0)
        state.gate[0].clock = time
        look_ahead(state, work, stream, work.cursor[stream])
        if time >= due:
            due = expire(state, work, time)
        need = missing_room(state, state.lanes[stream])
        if need == DONE:
            due = min(due, time + state.lanes[stream].window + 1)
            if arrivals.matchable[arrival]:
                found = find(state, arrivals, work, stream, bucket, arrival)
            else:
                state.lanes[stream].visits -= 1  # `close_streams` takes it that all looked
    if need == DONE:
        if found > 0:
            found = emit(state, arrivals, work, output, stream, arrival, found)
        if found > 0:
            work.progress[FOUND] = found
            need = NEED_OUTPUT
        else:
            work.progress[FOUND] = NOTHING_FOUND
            settle(state, arrivals, work, stream, bucket, arrival)
            go_on(arrivals, work, stream)
    return need, due


@kernel
def run(state, shed, arrivals, work, many, output):
    """Take arrivals one by one until all are taken or something is needed; `shed` is None here."""
    find_buckets(state, arrivals, work)
    open_streams(state, arrivals, work)
    due = state.gate[0].clock
    need = DONE
    while need == DONE:
        # Written out for both streams: the compiler then knows the stream of each step.
        if work.next[0] <= work.next[1]:
            if work.next[0] == NEVER:
                break
            need, due = take_next(state, arrivals, work, output, 0, due)
        else:
            need, due = take_next(state, arrivals, work, output, 1, due)
    state.gate[0].watermark = state.gate[0].clock
    close_streams(state, work, True)
    return need
