"""An arrival meets the tuples of all other windows on a common key: the probe of n streams.

Law: every combination of one tuple per stream that holds the key and fits the windows is written
once, when the last of its tuples is taken. Nothing is joined pair by pair, and nothing is kept
between two arrivals. What was done stands in `many` and `work.progress`, so the driver can stop
inside the results of one arrival and go on there.

Looking first. The ends of a bucket's chains stand side by side for all streams, and a chain that is
empty says so: the row of a bucket is the entry of kwon2011's bit-vector hash table (BiHT, section
2.2), its bits exact also when tuples leave. So one look, at memory that the arrival touches anyway,
tells most joins that must fail. What remains are tuples of other keys in the same bucket: their
codes are compared, and nothing wrong comes out. Without that look (`probe="selectivity"`, or an
order of streams) chains are walked one after the other until one has no partner, as MJoin does.

Segments and blocks. The tuples found stand in `work.found`, one *segment* per stream, in order of
time. The windows are judged at the latest tuple of a combination. In order that is the arrival, and
all of a segment fits. Otherwise tuples of a segment may be later than the arrival: so combinations
are made *block* by block, one for each tuple that can be the latest. Of the others a range of each
segment fits, and all combinations of a block are results, so that their number is a product and
nobody enumerates in vain. Of tuples that are equally late the arrival counts as the latest, then
the one of the first stream.
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled.kernel import part, step
from tidegate.driver import limiting_many, weighing_many
from tidegate.driver.probing import EARLIER, NEWCOMERS
from tidegate.estimators.importance import MEAN, SUM, combined
from tidegate.index import hash_table
from tidegate.state.join_state import (
    BEGIN,
    END,
    FOUND,
    GROUP_ORDER,
    LAST,
    MATCHES,
    NEXT_FOUND,
    PLACE,
    POSITION,
    RESULTS,
)
from tidegate.windows.arrivals import WAITS

LOOK_FIRST, BY_SELECTIVITY, GIVEN_ORDER = range(3)  # of `many.way`: how a probe goes
ITSELF = -1  # of `many.block`: the arrival is the latest of its combinations
CLOSED, OPEN = range(2)  # of `progress[NEXT_FOUND]`: is a block under way?
NOT_WALKED = -1
MOST = 2**61  # results that are counted, at most; two of these still fit 64 bits
_REMEMBERED = 1024  # walks of a stream, after which old ones count half


# --- finding -----------------------------------------------------------------------------


@step
def find(state, arrivals, work, many, stream, arrival, whom):
    """Collect the tuples with the key of the arrival; none if a stream has none."""
    progress = work.progress
    progress[FOUND] = progress[NEXT_FOUND] = progress[MATCHES] = 0
    flag = arrivals.matchable[arrival]
    if flag and flag != WAITS:
        limiting_many.prepare(state, state.throttle, stream)
        code = arrivals.code[arrival]
        bucket = np.int64(hash_table.bucket_of(state.buckets, code))
        looks_first = many.way[0] == LOOK_FIRST
        if looks_first:
            state.lanes[stream].visits += 1
        if not looks_first or has_all(state.buckets, bucket, stream):
            found, comparisons = walk(state, work, many, stream, bucket, code, whom)
            if state.throttle is None:
                state.lanes[stream].comparisons += comparisons
            if found > 0:
                found = limiting_many.limit(
                    state, state.throttle, arrivals, work, many, stream, arrival, found
                )
            progress[FOUND] = found
    if progress[FOUND] > 0:
        if state.gate[0].takes_late:
            sort_segments(state, work, many, stream)
        progress[MATCHES] = number_of_results(
            state, work, many, stream, arrivals.time[arrival], whom
        )
        begin_blocks(many)


@step
def has_all(buckets, bucket, stream):
    """Does every other stream have a tuple in this bucket?"""
    present = True
    for other in range(buckets.shape[1]):
        if other != stream and buckets[bucket, other, hash_table.OLDEST] < 0:
            present = False
    return present


@step
def walk(state, work, many, stream, bucket, code, whom):
    """Write the segments of all other streams; returns their length, 0 if one is empty.

    Also returns how many tuples were compared.
    """
    streams = len(state.lanes)
    for other in range(streams):
        many.reach[other, BEGIN] = NOT_WALKED
    end = 0
    comparisons = 0
    for turn in range(streams - 1):
        other = next_stream(state, many, stream, turn)
        many.reach[other, BEGIN] = end
        slot = np.int64(state.buckets[bucket, other, hash_table.OLDEST])
        while slot >= 0:
            comparisons += 1
            if state.slots[slot].code == code and takes_part(state, work, slot, whom):
                work.found[end] = slot
                end += 1
            slot = np.int64(state.slots[slot].newer)
        many.reach[other, END] = end
        is_empty = end == many.reach[other, BEGIN]
        if many.way[0] != LOOK_FIRST:
            state.lanes[stream].visits += 1
            note_walk(state.lanes[other], is_empty)
        if is_empty:
            end = 0
            break
    return end, comparisons


@step
def takes_part(state, work, slot, whom):
    """In an instant: newcomers that came before the arrival, or these and all earlier tuples."""
    fits = True
    if whom == NEWCOMERS:
        fits = state.notes[slot].order >= work.progress[GROUP_ORDER]
    elif whom == EARLIER:
        fits = state.notes[slot].order < work.progress[GROUP_ORDER] + work.progress[PLACE]
    return fits


@step
def next_stream(state, many, stream, turn):
    """The stream to walk next: as given, or the one that most often had no partner."""
    chosen = np.int64(-1)
    if many.way[0] == BY_SELECTIVITY:
        most = -1.0
        for other in range(len(state.lanes)):
            if other != stream and many.reach[other, BEGIN] == NOT_WALKED:
                lane = state.lanes[other]
                share = (lane.misses + 1.0) / (lane.walks + 2.0)
                if share > most:
                    chosen, most = np.int64(other), share
    else:
        at = 0
        for k in range(len(many.order)):
            if many.order[k] != stream:
                if at == turn:
                    chosen = np.int64(many.order[k])
                at += 1
    return chosen


@step
def note_walk(lane, is_empty):
    lane.walks += 1.0
    if is_empty:
        lane.misses += 1.0
    if lane.walks >= _REMEMBERED:
        lane.walks /= 2.0
        lane.misses /= 2.0


@part
def sort_segments(state, work, many, stream):
    """By time; chains are in order of arrival, so that little has to move. Stable."""
    found = work.found
    for other in range(len(state.lanes)):
        if other != stream:
            for at in range(many.reach[other, BEGIN] + 1, many.reach[other, END]):
                slot = found[at]
                time = state.slots[slot].time
                to = at
                while to > many.reach[other, BEGIN] and state.slots[found[to - 1]].time > time:
                    found[to] = found[to - 1]
                    to -= 1
                found[to] = slot


# --- blocks ------------------------------------------------------------------------------


@step
def begin_blocks(many):
    many.block[LAST] = ITSELF
    many.block[POSITION] = -1


@part
def next_block(state, work, many, stream, time, whom):
    """Go on to the next block that has results, and write its ranges; False after the last."""
    block = many.block
    streams = len(state.lanes)
    found = False
    while not found and block[LAST] < streams:
        block[POSITION] += 1
        if block[LAST] == ITSELF:
            # Of an instant's tuples with survivors: by the first stream that gives a survivor.
            if block[POSITION] >= (streams if whom == EARLIER else 1):
                block[LAST] = 0 if state.gate[0].takes_late else streams
                block[POSITION] = many.reach[0, BEGIN] - 1
            elif whom != EARLIER or block[POSITION] != stream:
                found = range_up_to_arrival(state, work, many, stream, time, whom)
        elif block[LAST] == stream or block[POSITION] >= many.reach[block[LAST], END]:
            block[LAST] += 1
            if block[LAST] < streams:
                block[POSITION] = many.reach[block[LAST], BEGIN] - 1
        else:
            found = range_up_to_later(state, work, many, stream, time)
    return found


@part
def range_up_to_arrival(state, work, many, stream, time, whom):
    """Whom the arrival meets as the latest; False if a stream has nobody."""
    has_results = True
    for other in range(len(state.lanes)):
        if other != stream:
            low, high = many.reach[other, BEGIN], many.reach[other, END]
            if state.gate[0].takes_late:
                low, high = within(state, work, other, low, high, time, True)
            if whom == EARLIER and other <= many.block[POSITION]:
                # Newcomers stand behind the survivors.
                fresh = first_newcomer(state, work, low, high)
                if other == many.block[POSITION]:
                    high = fresh
                else:
                    low = fresh
            many.ranges[other, BEGIN], many.ranges[other, END] = low, high
            has_results = has_results and low < high
    return has_results


@part
def range_up_to_later(state, work, many, stream, time):
    """Whom a tuple that is later than the arrival meets as the latest; False if somebody lacks."""
    last, position = many.block[LAST], many.block[POSITION]
    latest = state.slots[work.found[position]].time
    lane = state.lanes[stream]
    has_results = latest > time and (not lane.is_time_window or latest - time <= lane.window)
    if has_results:
        for other in range(len(state.lanes)):
            if other != stream:
                low, high = many.reach[other, BEGIN], many.reach[other, END]
                low, high = within(state, work, other, low, high, latest, other > last)
                if other == last:
                    low, high = position, position + 1
                many.ranges[other, BEGIN], many.ranges[other, END] = low, high
                has_results = has_results and low < high
    return has_results


@step
def within(state, work, other, low, high, latest, inclusive):
    """The part of a segment whose windows reach `latest`, and who is not later itself."""
    bottom = low
    if state.lanes[other].is_time_window:
        bottom = first_at(state, work, low, high, latest - state.lanes[other].window)
    return bottom, first_at(state, work, low, high, latest + inclusive)


@part
def first_at(state, work, low, high, time):
    """The first position of a segment whose tuple is not before `time`."""
    while low < high:
        middle = (low + high) >> 1
        if state.slots[work.found[middle]].time < time:
            low = middle + 1
        else:
            high = middle
    return low


@part
def first_newcomer(state, work, low, high):
    """The first position of a range whose tuple came in this instant."""
    while low < high:
        middle = (low + high) >> 1
        if state.notes[work.found[middle]].order < work.progress[GROUP_ORDER]:
            low = middle + 1
        else:
            high = middle
    return low


# --- counting ----------------------------------------------------------------------------


@step
def size_of(many, other):
    return many.ranges[other, END] - many.ranges[other, BEGIN]


@part
def block_size(many, stream):
    """The number of results of a block, MOST if there are more."""
    product = np.int64(1)
    for other in range(len(many.ranges)):
        if other != stream:
            size = size_of(many, other)
            product = MOST if product > MOST // size else product * size
    return product


@part
def number_of_results(state, work, many, stream, time, whom):
    """How many results the arrival completes; nothing is enumerated."""
    total = np.int64(0)
    begin_blocks(many)
    while next_block(state, work, many, stream, time, whom):
        total = min(np.int64(MOST), total + block_size(many, stream))
    return total


# --- writing -----------------------------------------------------------------------------


@step
def emit(state, shed, arrivals, work, many, output, stream, arrival, whom):
    """Write the results; False if the output is full before the last."""
    progress = work.progress
    time = arrivals.time[arrival]
    begun = output.filled[RESULTS]
    done = progress[MATCHES] == 0
    while not done and output.filled[RESULTS] < len(output.importance):
        if progress[NEXT_FOUND] == OPEN:
            write_run(state, shed, arrivals, work, many, output, stream, arrival, whom)
        elif next_block(state, work, many, stream, time, whom):
            progress[NEXT_FOUND] = OPEN
            for other in range(len(state.lanes)):
                many.digit[other] = many.ranges[other, BEGIN]
        else:
            done = True
    state.gate[0].results += output.filled[RESULTS] - begun
    return done


@step
def innermost(state, stream):
    """The stream whose tuples change fastest from one result to the next."""
    last = len(state.lanes) - 1
    return last if last != stream else last - 1


@part
def write_run(state, shed, arrivals, work, many, output, stream, arrival, whom):
    """Write the results that differ in the innermost stream only, as far as there is room."""
    inner = innermost(state, stream)
    begun = output.filled[RESULTS]
    begin = many.digit[inner]
    count = min(many.ranges[inner, END] - begin, len(output.importance) - begun)
    for other in range(len(state.lanes)):
        if other == inner:
            for k in range(count):
                output.rows[other, begun + k] = state.slots[work.found[begin + k]].row
        else:
            row = arrivals.row[arrival]
            if other != stream:
                row = state.slots[work.found[many.digit[other]]].row
            for k in range(count):
                output.rows[other, begun + k] = row
    if state.gate[0].has_importance:
        weigh_run(state, arrivals, work, many, output, stream, arrival, count)
    if shed is not None:
        weighing_many.weigh(
            state, shed, shed.samples, work, many, output, stream, inner, count, whom
        )
    output.filled[RESULTS] = begun + count
    many.digit[inner] = begin + count
    if many.digit[inner] == many.ranges[inner, END]:
        carry(work, many, stream, inner)


@step
def carry(work, many, stream, inner):
    """Go on to the next tuples of the other streams; close the block after the last."""
    at = inner
    while at >= 0 and (at == stream or many.digit[at] >= many.ranges[at, END]):
        many.digit[at] = many.ranges[at, BEGIN]
        at -= 1
        if at >= 0 and at != stream:
            many.digit[at] += 1
    if at < 0:
        work.progress[NEXT_FOUND] = CLOSED


@part
def weigh_run(state, arrivals, work, many, output, stream, arrival, count):
    """The importance of such results, folded in the order of the streams."""
    combine = state.gate[0].combine
    fold = SUM if combine == MEAN else combine
    shrink = np.float64(len(state.lanes)) if combine == MEAN else 1.0
    inner = innermost(state, stream)
    own = arrivals.importance[arrival]
    before = own
    for other in range(inner):
        its = own if other == stream else state.importance[work.found[many.digit[other]]]
        before = its if other == 0 else combined(fold, before, its)
    begun, begin = output.filled[RESULTS], many.digit[inner]
    gained = 0.0
    for k in range(count):
        worth = combined(fold, before, state.importance[work.found[begin + k]])
        if stream > inner:
            worth = combined(fold, worth, own)
        worth /= shrink
        output.importance[begun + k] = worth
        gained += worth
    state.gate[0].importance_out += gained
