"""The common case of a join of n streams: time windows, no budget, all in order.

Law: the rows and counts of `arrival`, which can go on where this loop stopped, and the other way
round, once the index is of the other kind (`state.arrays.with_index_for`). Everybody leaves in the
order in which they came, so the index is one from which nobody is taken out (`index.numbered`):
most arrivals lack a partner somewhere, and cost one look at the row of their bucket, a number in
it, and a place in their window. Heads of lines are looked at only when one of them can be dead:
`due` is the first moment at which that is so.

Whom a stream holds stands in `many.since` and `many.held` while the loop runs. The counts of a lane
follow from these and are written when the loop is left.
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled import layout
from tidegate.compiled.kernel import kernel, step
from tidegate.driver import in_order, probing_many
from tidegate.driver.admission import DONE, NEED_OUTPUT, NEED_PLACES, NEED_SLOTS
from tidegate.driver.prefetching import FAR, NEAR
from tidegate.driver.probing import ANYBODY
from tidegate.index import numbered
from tidegate.state.join_state import (
    BEGIN,
    END,
    FOUND,
    MATCHES,
    NEXT_FOUND,
    NOTHING_FOUND,
    State,
)
from tidegate.windows import lifetime

AHEAD = 32  # arrivals of a stream: four lines of the CPU's cache where they have 8 bytes each
_NEVER = 2**62 + 2**61


def serves(state: State) -> bool:
    """Can this driver take the next arrivals?"""
    return len(state.lanes) > 2 and in_order.is_plain(state)


# --- who is there ------------------------------------------------------------------------


@step
def open_streams(state, arrivals, work, many):
    """Write down whom each stream holds, and when its next tuple comes."""
    for stream in range(len(state.lanes)):
        lane = state.lanes[stream]
        many.next[stream] = next_time(arrivals, work, stream)
        many.held[stream] = lane.end - lane.begin
        many.since[stream] = lane.taken - many.held[stream]


@step
def close_streams(state, many):
    """What follows from that: everybody that was taken is in the line, or has expired."""
    note_peaks(state, many)
    for stream in range(len(state.lanes)):
        lane = state.lanes[stream]
        taken = many.since[stream] + many.held[stream]
        if many.way[0] == probing_many.LOOK_FIRST:
            lane.visits += taken - lane.taken
        state.gate[0].order += taken - lane.taken
        state.pool[0].alive += many.held[stream] - lane.alive
        lane.taken, lane.alive = taken, many.held[stream]
        lane.expired = many.since[stream]


@step
def note_peaks(state, many):
    """Asked before somebody leaves, and at the end: in between streams only grow."""
    total = np.int64(0)
    for stream in range(len(state.lanes)):
        lane = state.lanes[stream]
        lane.peak = max(lane.peak, many.held[stream])
        total += many.held[stream]
    state.pool[0].peak = max(state.pool[0].peak, total)


@step
def expire(state, many, watermark):
    """Forget the heads of all lines that are dead; returns from when on another one is."""
    note_peaks(state, many)
    due = np.int64(_NEVER)
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
        many.since[stream] += gone
        many.held[stream] -= gone
        state.pool[0].unused += gone
    return due


# --- whom an arrival meets ---------------------------------------------------------------


@step
def find(state, arrivals, work, many, stream, bucket, arrival):
    """Collect the tuples with the key of the arrival, if every other stream has one."""
    looks_first = many.way[0] == probing_many.LOOK_FIRST
    if arrivals.matchable[arrival]:
        if not looks_first or not numbered.lacks_somebody(
            state.buckets, bucket, stream, many.since, many.held
        ):
            found = walk(state, work, many, stream, bucket, arrivals.code[arrival])
            if found > 0:
                work.progress[FOUND] = found
                work.progress[NEXT_FOUND] = probing_many.CLOSED
                work.progress[MATCHES] = probing_many.number_of_results(
                    state, work, many, stream, arrivals.time[arrival], ANYBODY
                )
                probing_many.begin_blocks(many)
    elif looks_first:
        state.lanes[stream].visits -= 1  # `close_streams` takes it that every arrival looked


@step
def walk(state, work, many, stream, bucket, code):
    """As `probing_many.walk`: the segments of all other streams; 0 if one of them has nobody."""
    for other in range(len(state.lanes)):
        many.reach[other, BEGIN] = probing_many.NOT_WALKED
    end = 0
    for turn in range(len(state.lanes) - 1):
        other = probing_many.next_stream(state, many, stream, turn)
        begin = end
        end = segment(state, work, many, stream, other, bucket, code, begin)
        many.reach[other, BEGIN], many.reach[other, END] = begin, end
        if many.way[0] != probing_many.LOOK_FIRST:
            state.lanes[stream].visits += 1
            probing_many.note_walk(state.lanes[other], begin == end)
        if begin == end:
            end = 0
            break
    return end


@step
def segment(state, work, many, stream, other, bucket, code, begin):
    """Write the tuples of a stream that have this key, from the oldest on; returns their end."""
    first = state.lanes[other].begin
    end, comparisons = begin, 0
    newer = many.held[other]
    place = numbered.place_of(state.buckets[bucket, other, 0], many.since[other])
    while place < newer:  # a link leads to a tuple that came before, or to nobody
        slot = np.uint64(state.lines[np.uint64(first + place)])
        if state.slots[slot].code == code:
            work.found[np.uint64(end)] = slot
            end += 1
        comparisons += 1
        newer = place
        place = numbered.place_of(state.slots[slot].older, many.since[other])
    state.lanes[stream].comparisons += comparisons
    low, high = begin, end - 1
    while low < high:
        work.found[low], work.found[high] = work.found[high], work.found[low]
        low += 1
        high -= 1
    return end


# --- one arrival -------------------------------------------------------------------------


@step
def look_ahead(state, arrivals, work, many, stream, arrival):
    """Bring near what the next arrivals of the stream, and its next expiries, will touch.

    Also what is read from one end to the other: n streams are more such arrays than the CPU follows
    by itself.
    """
    for column in (arrivals.time, arrivals.code, arrivals.row):
        layout.warm(column, arrival + AHEAD)
    layout.warm(work.bucket, arrival + 2 * AHEAD)
    numbered.warm_row(state.buckets, work.bucket[np.uint64(arrival + FAR)])
    bucket = np.uint64(work.bucket[np.uint64(arrival + NEAR)])
    if not numbered.lacks_somebody(state.buckets, bucket, stream, many.since, many.held):
        for other in range(len(state.lanes)):
            place = numbered.place_of(state.buckets[bucket, other, 0], many.since[other])
            if place < many.held[other]:
                place += state.lanes[other].begin
                layout.warm(state.slots, np.int64(state.lines[np.uint64(place)]))
    lane = state.lanes[stream]
    layout.warm(state.lines, lane.begin + 2 * AHEAD)
    if lane.begin + NEAR < lane.end:
        layout.warm(state.slots, np.int64(state.lines[np.uint64(lane.begin + NEAR)]))


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
def settle(state, arrivals, many, stream, bucket, arrival):
    """Give the arrival a slot, in its window and in its index."""
    slot = in_order.enter_line(state, arrivals, stream, arrival)
    if arrivals.matchable[arrival]:
        number = many.since[stream] + many.held[stream]
        numbered.insert(state.buckets, state.slots, stream, bucket, slot, number)
    else:
        state.slots[slot].older = lifetime.NOT_INDEXED
    many.held[stream] += 1


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
    first = times[0]
    for stream in range(1, len(times)):
        if times[stream] < first:
            best = np.int64(stream)
            first = times[stream]
    return best


@kernel
def run(state, shed, arrivals, work, many, output):
    """Take arrivals one by one until all are taken or something is needed; `shed` is None here."""
    in_order.find_buckets(state, arrivals, work)
    open_streams(state, arrivals, work, many)
    clock, due = state.gate[0].clock, state.gate[0].clock
    need = DONE
    while need == DONE:
        stream = earliest(many.next)
        time = many.next[stream]
        if time == _NEVER:
            break
        if time < clock:
            state.lanes[stream].too_late += 1
            go_on(arrivals, work, many, stream)
            continue
        clock = time
        arrival = np.uint64(work.cursor[stream])
        bucket = np.uint64(work.bucket[arrival])
        if work.progress[FOUND] == NOTHING_FOUND:
            look_ahead(state, arrivals, work, many, stream, work.cursor[stream])
            if time >= due:
                due = expire(state, many, time)
            need = missing_room(state, state.lanes[stream])
            if need == DONE:
                find(state, arrivals, work, many, stream, bucket, arrival)
                due = min(due, time + state.lanes[stream].window + 1)
        if need == DONE and work.progress[FOUND] != NOTHING_FOUND:
            if probing_many.emit(
                state, shed, arrivals, work, many, output, stream, arrival, ANYBODY
            ):
                work.progress[FOUND] = NOTHING_FOUND
            else:
                need = NEED_OUTPUT
        if need == DONE:
            settle(state, arrivals, many, stream, bucket, arrival)
            go_on(arrivals, work, many, stream)
    state.gate[0].clock = state.gate[0].watermark = clock
    close_streams(state, many)
    return need
