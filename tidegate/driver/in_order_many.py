"""The common case of a join of n streams: time windows, no budget, all in order.

Law: the rows and counts of `arrival`, as `in_order` for two streams, whose steps these are. Most
arrivals lack a partner somewhere, and cost one look at the row of their bucket, a number in it, and
a place in their window.
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled import layout
from tidegate.compiled.kernel import kernel, step
from tidegate.driver import in_order, probing_many
from tidegate.driver.admission import DONE, NEED_OUTPUT
from tidegate.driver.prefetching import AHEAD, FAR, NEAR
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


def serves(state: State) -> bool:
    """Can this driver take the next arrivals?"""
    return len(state.lanes) > 2 and in_order.is_plain(state)


# --- whom an arrival meets ---------------------------------------------------------------


@step
def find(state, arrivals, work, many, stream, bucket, arrival):
    """Collect the tuples with the key of the arrival, if every other stream has one."""
    looks_first = many.way[0] == probing_many.LOOK_FIRST
    if arrivals.matchable[arrival]:
        if not looks_first or not numbered.lacks_somebody(
            state.buckets, bucket, stream, work.since, work.held
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
    end, comparisons = numbered.chain(
        state.buckets, state.slots, bucket, other, work.since[other], work.held[other],
        code, work.found, begin,
    )  # fmt: skip
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
    if not numbered.lacks_somebody(state.buckets, bucket, stream, work.since, work.held):
        for other in range(len(state.lanes)):
            layout.warm(state.slots, numbered.newest_slot(state.buckets, bucket, other))
    lane = state.lanes[stream]
    layout.warm(state.lines, lane.begin + 2 * AHEAD)
    if lane.begin + NEAR < lane.end:
        layout.warm(state.slots, np.int64(state.lines[np.uint64(lane.begin + NEAR)]))


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
    in_order.open_streams(state, arrivals, work)
    clock, due = state.gate[0].clock, state.gate[0].clock
    need = DONE
    while need == DONE:
        stream = earliest(work.next)
        time = work.next[stream]
        if time == in_order.NEVER:
            break
        if time < clock:
            state.lanes[stream].too_late += 1
            in_order.go_on(arrivals, work, stream)
            continue
        clock = time
        arrival = np.uint64(work.cursor[stream])
        bucket = np.uint64(work.bucket[arrival])
        if work.progress[FOUND] == NOTHING_FOUND:
            look_ahead(state, arrivals, work, many, stream, work.cursor[stream])
            if time >= due:
                due = in_order.expire(state, work, time)
            need = in_order.missing_room(state, state.lanes[stream])
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
            in_order.settle(state, arrivals, work, stream, bucket, arrival)
            in_order.go_on(arrivals, work, stream)
    state.gate[0].clock = state.gate[0].watermark = clock
    in_order.close_streams(state, work, many.way[0] == probing_many.LOOK_FIRST)
    return need
