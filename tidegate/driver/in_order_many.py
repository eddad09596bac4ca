"""The common case of a join of n streams: time windows, no budget, all in order, looking first.

Law: as `in_order`, with its steps, for more than two streams; either loop can go on where the other
stopped. Most arrivals lack a partner somewhere: they cost one look at the row of their bucket and a
place in their window. Heads of lines are looked at only when one of them can be dead: `due` is the
first moment at which that is so.
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled.kernel import kernel, step
from tidegate.driver import in_order, probing_many
from tidegate.driver.admission import DONE, NEED_OUTPUT, NEED_PLACES, NEED_SLOTS
from tidegate.driver.prefetching import FAR, NEAR
from tidegate.driver.probing import ANYBODY
from tidegate.index import hash_table
from tidegate.state.join_state import FOUND, MATCHES, NEXT_FOUND, NOTHING_FOUND, State
from tidegate.windows import lifetime

_NEVER = 2**62 + 2**61


def serves(state: State, way: int) -> bool:
    """Can this driver take the next arrivals? `way` is how they probe (`probing_many`)."""
    looks_first = len(state.lanes) > 2 and way == probing_many.LOOK_FIRST
    return looks_first and in_order.is_plain(state)


@step
def first_due(state):
    """From when on the head of a line is dead."""
    due = np.int64(_NEVER)
    for stream in range(len(state.lanes)):
        lane = state.lanes[stream]
        if lane.begin < lane.end:
            slot = state.lines[np.uint64(lane.begin)]
            due = min(due, state.slots[slot].time + lane.window + 1)
    return due


@step
def look_ahead(state, work, stream, arrival):
    """Bring near what the next arrivals of the stream, and its next expiries, will touch."""
    hash_table.warm_row(state.buckets, work.bucket[np.uint64(arrival + FAR)])
    bucket = work.bucket[np.uint64(arrival + NEAR)]
    hash_table.warm_chain(state.buckets, state.slots, stream, hash_table.NEWEST, bucket)
    if probing_many.has_all(state.buckets, np.int64(bucket), stream):
        for other in range(len(state.lanes)):
            if other != stream:
                hash_table.warm_chain(state.buckets, state.slots, other, hash_table.OLDEST, bucket)
    lane = state.lanes[stream]
    if lane.begin + NEAR < lane.end:
        slot = state.lines[np.uint64(lane.begin + NEAR)]
        hash_table.warm_row(
            state.buckets, hash_table.bucket_of(state.buckets, state.slots[slot].code)
        )


@step
def find(state, arrivals, work, many, stream, bucket, arrival):
    """Collect the tuples with the key of the arrival; none if a stream has none."""
    progress = work.progress
    progress[FOUND] = progress[NEXT_FOUND] = progress[MATCHES] = 0
    if arrivals.matchable[arrival] and probing_many.has_all(state.buckets, bucket, stream):
        progress[FOUND], comparisons = probing_many.walk(
            state, work, many, stream, bucket, arrivals.code[arrival], ANYBODY
        )
        state.lanes[stream].comparisons += comparisons
        if progress[FOUND] > 0:
            progress[MATCHES] = probing_many.number_of_results(
                state, work, many, stream, arrivals.time[arrival], ANYBODY
            )
            probing_many.begin_blocks(many)


@step
def missing_room(state, stream):
    need = DONE
    lane = state.lanes[stream]
    if state.pool[0].unused == 0:
        need = NEED_SLOTS
    elif lifetime.is_cramped(lane, lane.end - lane.begin):
        need = NEED_PLACES
    return need


@step
def take(state, stream):
    state.lanes[stream].taken += 1
    state.lanes[stream].visits += 1
    state.gate[0].order += 1


@step
def write_counts(state, stream):
    """What follows from the line: everybody that was taken is in it, or has expired."""
    lane = state.lanes[stream]
    alive = lane.end - lane.begin
    lane.expired = lane.taken - alive
    state.pool[0].alive += alive - lane.alive
    lane.alive = alive


@step
def next_time(arrivals, work, stream):
    """When the next tuple of a stream comes."""
    cursor = work.cursor[stream]
    return arrivals.time[np.uint64(cursor)] if cursor < arrivals.end[stream] else np.int64(_NEVER)


@step
def go_on(arrivals, work, many, stream):
    """The next tuple of a stream is taken, or came too late."""
    work.cursor[stream] += 1
    many.next[stream] = next_time(arrivals, work, stream)


@step
def earliest(times):
    """The stream whose next tuple comes first; of equal times the lower stream."""
    best = np.int64(0)
    for stream in range(1, len(times)):
        if times[stream] < times[best]:
            best = np.int64(stream)
    return best


@step
def begin_next(state, arrivals, work, many, stream, bucket, arrival, due):
    """Move the clock, and find whom the next arrival meets; returns what is missing, and `due`."""
    time = arrivals.time[arrival]
    state.gate[0].clock = time
    state.gate[0].watermark = time
    look_ahead(state, work, stream, work.cursor[stream])
    if time >= due:
        for lane in range(len(state.lanes)):
            in_order.expire(state, lane, time)
        due = first_due(state)
    need = missing_room(state, stream)
    if need == DONE:
        find(state, arrivals, work, many, stream, bucket, arrival)
        due = min(due, time + state.lanes[stream].window + 1)
    return need, due


@kernel
def run(state, shed, arrivals, work, many, output):
    """Take arrivals one by one until all are taken or something is needed; `shed` is None here."""
    in_order.find_buckets(state, arrivals, work)
    for stream in range(len(state.lanes)):
        many.next[stream] = next_time(arrivals, work, stream)
    due = first_due(state)
    need = DONE
    while need == DONE:
        stream = earliest(many.next)
        if many.next[stream] == _NEVER:
            break
        arrival = np.uint64(work.cursor[stream])
        if many.next[stream] < state.gate[0].clock:
            state.lanes[stream].too_late += 1
            go_on(arrivals, work, many, stream)
            continue
        bucket = np.int64(work.bucket[arrival])
        if work.progress[FOUND] == NOTHING_FOUND:
            need, due = begin_next(state, arrivals, work, many, stream, bucket, arrival, due)
        if need == DONE and work.progress[MATCHES] > 0:
            if not probing_many.emit(
                state, shed, arrivals, work, many, output, stream, arrival, ANYBODY
            ):
                need = NEED_OUTPUT
        if need == DONE:
            in_order.settle(state, arrivals, stream, bucket, arrival)
            take(state, stream)
            work.progress[FOUND] = NOTHING_FOUND
            go_on(arrivals, work, many, stream)
    for stream in range(len(state.lanes)):
        write_counts(state, stream)
    return need
