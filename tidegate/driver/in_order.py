"""The common case of a two-way join: equal keys, time windows, no budget, all in order.

Law: the same steps on the same state as `arrival`, so either loop can go on where the other
stopped. What is left out is only what cannot happen here: everybody leaves at the head of its line,
what is retained after expiry is in the window of the arrival, and no predicate is left to check
after the key.

It is a loop of its own because it is worth it: see `python -m benchmarks equi_join`. A line without
budget or disorder has no gaps, so the counts of a stream (alive, taken, expired, results) follow
from where its cursor and its line stand; they are written once, when the loop is left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidegate.binding.spec_records import HASH
from tidegate.compiled.kernel import kernel, step
from tidegate.compiled.scratch import Scratch
from tidegate.driver.admission import DONE, NEED_OUTPUT, NEED_PLACES, NEED_SLOTS
from tidegate.driver.prefetching import FAR, NEAR, NEXT
from tidegate.estimators.importance import combined
from tidegate.index import hash_table
from tidegate.state.join_state import FOUND, NOTHING_FOUND, RESULTS, State
from tidegate.windows import lifetime


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
def expire(state, stream, watermark):
    """Forget the head of the line of a stream as long as it is dead at the watermark."""
    lane = state.lanes[stream]
    while lane.begin < lane.end:
        slot = state.lines[np.uint64(lane.begin)]
        if state.slots[slot].time + lane.window >= watermark:
            break
        if state.slots[slot].older != lifetime.NOT_INDEXED:
            bucket = hash_table.bucket_of(state.buckets, state.slots[slot].code)
            hash_table.remove(state.buckets, state.slots, stream, bucket, slot)
        state.slots[slot].newer = state.pool[0].first_unused
        state.pool[0].first_unused = slot
        state.pool[0].unused += 1
        lane.begin += 1


@step
def meet(state, arrivals, work, output, stream, bucket, arrival):
    """Write the matches; False if the output is full before the last, and then to be called again.

    `progress[FOUND]` is the node of the chain to go on with.
    """
    other = 1 - stream
    code = arrivals.code[arrival]
    row = arrivals.row[arrival]
    weighed = state.gate[0].has_importance
    room = len(output.importance)
    results = output.filled[RESULTS]
    comparisons = 0
    gained = 0.0
    node = np.int64(work.progress[FOUND])
    if node < 0:
        node = np.int64(state.buckets[bucket, other, hash_table.OLDEST])
    while node >= 0:
        if state.slots[node].code == code:
            if results == room:
                break
            output.rows[stream, results] = row
            output.rows[other, results] = state.slots[node].row
            if weighed:
                worth = combined(
                    state.gate[0].combine, arrivals.importance[arrival], state.importance[node]
                )
                output.importance[results] = worth
                gained += worth
            results += 1
        comparisons += 1
        node = np.int64(state.slots[node].newer)
    if weighed:
        state.gate[0].importance_out += gained
    state.lanes[stream].comparisons += comparisons
    output.filled[RESULTS] = results
    work.progress[FOUND] = node
    return node < 0


@step
def enter_line(state, arrivals, stream, arrival):
    """Give the arrival a slot, and the place at the end of its line."""
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
    return slot


@step
def settle(state, arrivals, stream, bucket, arrival):
    """Give the arrival a slot, in its window and in its index."""
    pool = state.pool
    lane = state.lanes[stream]
    if lane.end == lane.stop:
        lifetime.close_gaps(state.notes, 0, lane, state.lines)
    slot = enter_line(state, arrivals, stream, arrival)
    if arrivals.matchable[arrival]:
        hash_table.insert(state.buckets, state.slots, stream, bucket, slot)
    else:
        state.slots[slot].older = lifetime.NOT_INDEXED
        lane.visits -= 1  # `write_counts` takes it that every arrival probed
    lane.peak = max(lane.peak, lane.end - lane.begin)
    pool[0].peak = max(pool[0].peak, len(state.slots) - pool[0].unused)


@step
def look_ahead(state, work, stream, arrival):
    """Bring near what the next arrivals of the stream, and its next expiries, will touch."""
    other = 1 - stream
    hash_table.warm_bucket(state.buckets, work.bucket[np.uint64(arrival + FAR)])
    bucket = work.bucket[np.uint64(arrival + NEAR)]
    hash_table.warm_chain(state.buckets, state.slots, other, hash_table.OLDEST, bucket)
    hash_table.warm_chain(state.buckets, state.slots, stream, hash_table.NEWEST, bucket)
    bucket = work.bucket[np.uint64(arrival + NEXT)]
    hash_table.warm_second(state.buckets, state.slots, other, bucket)
    lane = state.lanes[stream]
    if lane.begin + NEAR < lane.end:
        slot = state.lines[lane.begin + NEAR]
        hash_table.warm_bucket(
            state.buckets, hash_table.bucket_of(state.buckets, state.slots[slot].code)
        )


@step
def take_next(state, arrivals, work, output, stream):
    """Take the next arrival of a stream; returns what is missing to do that, or DONE."""
    arrival = np.uint64(work.cursor[stream])
    time = arrivals.time[arrival]
    gate = state.gate
    need = DONE
    if time < gate[0].clock:
        state.lanes[stream].too_late += 1
    else:
        bucket = work.bucket[arrival]
        if work.progress[FOUND] == NOTHING_FOUND:
            gate[0].clock = time
            gate[0].watermark = time
            look_ahead(state, work, stream, work.cursor[stream])
            expire(state, 0, time)
            expire(state, 1, time)
            lane = state.lanes[stream]
            if state.pool[0].unused == 0:
                need = NEED_SLOTS
            elif lifetime.is_cramped(lane, lane.end - lane.begin):
                need = NEED_PLACES
        if need == DONE and arrivals.matchable[arrival]:
            if not meet(state, arrivals, work, output, stream, bucket, arrival):
                need = NEED_OUTPUT
        if need == DONE:
            settle(state, arrivals, stream, bucket, arrival)
    if need == DONE:
        work.cursor[stream] += 1
    return need


@step
def write_counts(state, stream, done, too_late):
    """What follows from the arrivals `done`, of which some came too late, and from the line."""
    lane = state.lanes[stream]
    taken = done - too_late
    alive = lane.end - lane.begin
    lane.expired += lane.alive + taken - alive
    lane.taken += taken
    lane.visits += taken
    state.gate[0].order += taken
    state.pool[0].alive += alive - lane.alive
    lane.alive = alive


@step
def find_buckets(state, arrivals, work):
    """The bucket of each arrival, if they are not known for the present table."""
    if work.hashed[0] != len(state.buckets):
        work.hashed[0] = len(state.buckets)
        for arrival in range(len(arrivals.code)):
            work.bucket[arrival] = hash_table.bucket_of(state.buckets, arrivals.code[arrival])


@kernel
def run(state, shed, arrivals, work, many, output):
    """Take arrivals one by one until all are taken or something is needed; `shed` is None here."""
    find_buckets(state, arrivals, work)
    ends_one, ends_other = np.uint64(arrivals.end[0]), np.uint64(arrivals.end[1])
    began_one, began_other = work.cursor[0], work.cursor[1]
    late_one, late_other = state.lanes[0].too_late, state.lanes[1].too_late
    results = output.filled[RESULTS]
    need = DONE
    while need == DONE:
        # Written out for both streams: the compiler then knows the stream of each step.
        one, other = np.uint64(work.cursor[0]), np.uint64(work.cursor[1])
        if one < ends_one and (other == ends_other or arrivals.time[one] <= arrivals.time[other]):
            need = take_next(state, arrivals, work, output, 0)
        elif other < ends_other:
            need = take_next(state, arrivals, work, output, 1)
        else:
            break
    state.gate[0].results += output.filled[RESULTS] - results
    write_counts(state, 0, work.cursor[0] - began_one, state.lanes[0].too_late - late_one)
    write_counts(state, 1, work.cursor[1] - began_other, state.lanes[1].too_late - late_other)
    return need
