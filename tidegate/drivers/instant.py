"""The driver of `ties="instant"`: tuples of equal time arrive together (ojewole2006, section 3.1).

Law, per instant: what is dead expires; the pairs inside the instant are produced; then each new
tuple is admitted or refused and victims are evicted; then the survivors from earlier instants meet
all new tuples, the refused ones too.

    instant t    new: r, s      1. r with s          2. admit r, admit s (someone may go)
                 kept: a, b     3. r and s with what is left of a, b

While the pairs are produced, all new tuples stand in their windows as visitors: they are in the
index but charged to no account. Admission then charges each of them or takes it out again.
"""

from __future__ import annotations

from tidegate import windows
from tidegate.drivers.two_way import (
    DONE,
    EARLIER,
    NEED_OUTPUT,
    NEWCOMERS,
    expire,
    forget,
    in_time,
    make_room,
    missing_room,
    priority_of,
    probe,
    settle,
    take,
)
from tidegate.kernel import inlined, kernel
from tidegate.shed import budget
from tidegate.streams import earliest

GATHER, PAIRS, ADMIT, MEET = range(4)
STREAM, ARRIVAL, SLOT = range(3)
NOT_TAKEN = 2**62  # number of a visitor: it is not among the tuples taken yet


@inlined
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
    state.gate[0].group_size = size
    state.gate[0].group_order = state.gate[0].order
    state.gate[0].step = 0
    state.gate[0].phase = PAIRS


@inlined
def admit_visitor(state, arrivals, stream, arrival, slot):
    """Take a visitor, and retain it if its window and the budget let it live."""
    take(state, stream)
    state.notes[slot].number = state.lanes[stream].taken - 1
    state.notes[slot].order = state.gate[0].order - 1
    if not state.lanes[stream].is_time_window and state.lanes[stream].window == 0:
        state.lanes[stream].expired += 1
        forget(state, stream, slot)
    elif state.gate[0].limited:
        size = arrivals.size[arrival] if state.gate[0].by_bytes else 1
        priority = priority_of(state, arrivals, stream, arrival)
        if make_room(state, stream, size, priority):
            budget.charge(
                state.accounts, state.queues, state.notes, state.lanes[stream].account,
                slot, size, priority,
            )  # fmt: skip
        else:
            state.lanes[stream].refused += 1
            forget(state, stream, slot)


@kernel
def run(state, arrivals, work, output):
    """Take instants one by one until all are taken or something is needed."""
    gate = state.gate
    while True:
        phase = gate[0].phase
        if phase == GATHER:
            stream = earliest(arrivals.time, work.cursor, arrivals.end)
            if stream < 0:
                return DONE
            if in_time(gate, arrivals.time[work.cursor[stream]]):
                expire(state)
                gather(state, arrivals, work, stream)
            else:
                state.lanes[stream].too_late += 1
                work.cursor[stream] += 1
            continue
        if gate[0].step == gate[0].group_size:
            gate[0].step = 0
            gate[0].phase = (phase + 1) % 4
            if phase == ADMIT:
                for lane in range(len(state.lanes)):
                    windows.note_peak(state.pool, state.lanes[lane])
            continue
        stream = work.group[gate[0].step, STREAM]
        arrival = work.group[gate[0].step, ARRIVAL]
        if phase == PAIRS:
            missing = missing_room(state, arrivals, stream, arrival)
            if missing != DONE:
                return missing
        if phase != ADMIT:
            whom = NEWCOMERS if phase == PAIRS else EARLIER
            if not probe(state, arrivals, work, output, stream, arrival, whom):
                return NEED_OUTPUT
        if phase == PAIRS:
            slot = settle(state, arrivals, stream, arrival, gate[0].order)
            state.notes[slot].number = NOT_TAKEN
            work.group[gate[0].step, SLOT] = slot
        elif phase == ADMIT:
            admit_visitor(state, arrivals, stream, arrival, work.group[gate[0].step, SLOT])
        gate[0].step += 1
