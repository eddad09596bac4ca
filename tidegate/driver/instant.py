"""The loop of `ties="instant"`: tuples of equal time arrive together (ojewole2006, section 3.1).

Law, per instant: what is dead expires; the pairs inside the instant are produced; then each new
tuple is admitted or refused and victims are evicted; then the survivors from earlier instants meet
all new tuples, the refused ones too.

    instant t    new: r, s      1. r with s          2. admit r, admit s (someone may go)
                 kept: a, b     3. r and s with what is left of a, b

While the pairs are produced, all new tuples stand in their windows as visitors: they are in the
index but charged to no account. Admission then charges each of them or takes it out again.

With n > 2 streams results can have several new tuples and several kept ones. All new ones take part
in the results of their instant, so those that were refused or evicted are called back into the
index, as ghosts, until the last of them has met the survivors (`ghosts`).
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled.kernel import kernel, step
from tidegate.driver.admission import (
    DONE,
    NEED_OUTPUT,
    NEED_PLACES,
    NEED_RARE,
    admit,
    is_crowded,
    missing_room,
    settle,
    take,
)
from tidegate.driver.arrival import in_time
from tidegate.driver.existence import lacks_rows, note_pairs, tell_pairs
from tidegate.driver.ghosts import call_back, dismiss
from tidegate.driver.leaving import expire, want_again
from tidegate.driver.meeting import emit, find, matched
from tidegate.driver.observing import key_of, produced, see
from tidegate.driver.probing import EARLIER, NEWCOMERS
from tidegate.estimators.frequency import NO_KEY
from tidegate.state.join_state import (
    ARRIVAL,
    FOUND,
    GROUP_ORDER,
    GROUP_SIZE,
    MATCHES,
    NOTHING_FOUND,
    PHASE,
    PLACE,
    SLOT,
    STREAM,
    UNUSED,
)
from tidegate.windows import lifetime
from tidegate.windows.arrivals import earliest

GATHER, PAIRS, ADMIT, MEET = range(4)
NOT_TAKEN = 2**62  # number of a visitor: it is not among the tuples taken yet


@step
def gather(state, arrivals, work, stream):
    """Note all arrivals that have the time of the next one of `stream`."""
    time = arrivals.time[work.cursor[stream]]
    size = 0
    for lane in range(len(state.lanes)):
        while work.cursor[lane] < arrivals.end[lane] and arrivals.time[work.cursor[lane]] == time:
            work.group[size, STREAM] = lane
            work.group[size, ARRIVAL] = work.cursor[lane]
            work.cursor[lane] += 1
            size += 1
    work.progress[GROUP_SIZE] = size
    work.progress[GROUP_ORDER] = state.gate[0].order
    work.progress[PLACE] = 0
    work.progress[PHASE] = PAIRS


@step
def visit(state, arrivals, stream, arrival):
    """Let an arrival stand in its window before it is taken. Returns its slot."""
    slot = settle(state, arrivals, stream, arrival, state.gate[0].order)
    if not state.lanes[stream].is_time_window:
        state.numbers[slot] = NOT_TAKEN
    return slot


@kernel
def run(state, shed, arrivals, work, many, output):
    """Take instants one by one until all are taken or something is needed."""
    progress = work.progress
    while True:
        phase = progress[PHASE]
        if phase == GATHER:
            stream = earliest(arrivals.time, work.cursor, arrivals.end)
            if stream < 0:
                return DONE
            if in_time(state.gate, arrivals.time[work.cursor[stream]]):
                expire(state, shed, output)
                gather(state, arrivals, work, stream)
            else:
                state.lanes[stream].too_late += 1
                work.cursor[stream] += 1
            continue
        if progress[PLACE] == progress[GROUP_SIZE]:
            progress[PLACE] = 0
            progress[PHASE] = (phase + 1) % 4
            if phase == ADMIT:
                for lane in range(len(state.lanes)):
                    lifetime.note_peak(state.pool, state.lanes[lane])
            if shed is not None:
                if phase == PAIRS:
                    note_pairs(state, shed.patterns, arrivals, work)
            if many is not None:
                if phase == PAIRS:
                    progress[UNUSED] = state.pool[0].unused
                elif phase == ADMIT:
                    call_back(state, work)
                elif phase == MEET:
                    dismiss(state, work)
            continue
        stream = work.group[progress[PLACE], STREAM]
        arrival = work.group[progress[PLACE], ARRIVAL]
        if phase == ADMIT:
            missing = missing_room(state, shed, arrivals, output, stream, arrival)
            if missing == NEED_OUTPUT:
                return missing
            if shed is not None:
                if is_crowded(shed, stream):
                    return NEED_PLACES
                if lacks_rows(shed.patterns):
                    return NEED_RARE
                tell_pairs(shed.patterns, work)
            take(state, stream)
            slot = work.group[progress[PLACE], SLOT]
            key = np.int64(NO_KEY)
            if shed is not None:
                key = key_of(shed, arrivals, arrival)
            admit(state, shed, arrivals, output, stream, arrival, slot, key, 0)
        else:
            whom = NEWCOMERS if phase == PAIRS else EARLIER
            if progress[FOUND] == NOTHING_FOUND:
                if phase == PAIRS:
                    missing = missing_room(state, shed, arrivals, output, stream, arrival)
                    if missing != DONE:
                        return missing
                find(state, arrivals, work, many, stream, arrival, whom)
            if not emit(state, shed, arrivals, work, many, output, stream, arrival, whom):
                return NEED_OUTPUT
            if phase == PAIRS:
                slot = visit(state, arrivals, stream, arrival)
                work.group[progress[PLACE], SLOT] = slot
                if shed is not None:
                    see(state, shed, arrivals, stream, arrival)
            if shed is not None:
                key = key_of(shed, arrivals, arrival)
                produced(shed, shed.prospects, key, progress[MATCHES])
                if phase == MEET:  # newcomers that meet inside the instant are no members yet
                    matched(state, shed, arrivals, arrival, work, many, stream, whom)
                    want_again(
                        state, shed, shed.samples, work, output, 1 - stream, progress[MATCHES]
                    )
            progress[FOUND] = NOTHING_FOUND
        progress[PLACE] += 1
