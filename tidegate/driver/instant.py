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

import numpy as np

from tidegate.compiled.kernel import inlined, kernel
from tidegate.driver import limited
from tidegate.driver.two_way import (
    DONE,
    EARLIER,
    NEED_OUTPUT,
    NEWCOMERS,
    expire,
    forget,
    in_time,
    missing_room,
    probe,
    settle,
    take,
)
from tidegate.estimate import age_curve
from tidegate.windows import lifetime
from tidegate.windows.arrivals import earliest

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
def number_visitor(state, stream, slot):
    """A visitor was taken: it gets its number among all, and in a count window in its stream."""
    if not state.lanes[stream].is_time_window:
        state.notes[slot].mark = state.lanes[stream].taken - 1
    state.notes[slot].order = state.gate[0].order - 1


@inlined
def admit_visitor(state, stream, slot):
    """Take a visitor of an exact join."""
    take(state, stream)
    number_visitor(state, stream, slot)
    if not state.lanes[stream].is_time_window and state.lanes[stream].window == 0:
        state.lanes[stream].expired += 1
        forget(state, stream, slot)


@inlined
def admit_under_budget(state, shed, arrivals, stream, arrival, slot):
    """Take a visitor, and retain it if its window and the budget let it live."""
    limited.count_taken(state, stream)
    number_visitor(state, stream, slot)
    key = limited.key_of(state, shed, arrivals, arrival)
    if not state.lanes[stream].is_time_window and state.lanes[stream].window == 0:
        state.lanes[stream].expired += 1
        limited.forget(state, shed, stream, slot, False)
    else:
        size = arrivals.size[arrival] if state.gate[0].by_bytes else 1
        priority, base = limited.appraise(state, shed, arrivals, stream, arrival, key, size)
        monitor = limited.monitor_for(state, shed, stream)
        asked = np.inf if monitor >= 0 else priority
        if limited.make_room(state, shed, stream, size, asked, base):
            limited.charge(state, shed, stream, slot, key, size, priority, base, monitor)
        else:
            state.lanes[stream].refused += 1
            limited.forget(state, shed, stream, slot, False)
            if monitor >= 0:
                age_curve.end(shed.curve, stream, monitor, False)
    limited.settle_key(shed, key)


@kernel
def run(state, shed, arrivals, work, output):
    """Take instants one by one until all are taken or something is needed.

    `shed` is None for an exact join, and the branches for the other kind are not compiled.
    """
    gate = state.gate
    while True:
        phase = gate[0].phase
        if phase == GATHER:
            stream = earliest(arrivals.time, work.cursor, arrivals.end)
            if stream < 0:
                return DONE
            if in_time(gate, arrivals.time[work.cursor[stream]]):
                if shed is None:
                    expire(state)
                else:
                    limited.expire(state, shed)
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
                    lifetime.note_peak(state.pool, state.lanes[lane])
            continue
        stream = work.group[gate[0].step, STREAM]
        arrival = work.group[gate[0].step, ARRIVAL]
        if phase == PAIRS:
            missing = missing_room(state, arrivals, stream, arrival)
            if missing != DONE:
                return missing
        count = 0
        if phase != ADMIT:
            whom = NEWCOMERS if phase == PAIRS else EARLIER
            count = probe(state, arrivals, work, output, stream, arrival, whom)
            if count < 0:
                return NEED_OUTPUT
            if shed is not None:
                # Newcomers that meet inside the instant are no members yet.
                if phase == MEET:
                    limited.produced(state, shed, arrivals, arrival, count)
                    limited.matched(state, shed, arrivals, arrival, work, stream, count)
        if phase == PAIRS:
            slot = settle(state, arrivals, stream, arrival, gate[0].order)
            if not state.lanes[stream].is_time_window:
                state.notes[slot].mark = NOT_TAKEN
            work.group[gate[0].step, SLOT] = slot
            if shed is not None:
                limited.see(state, shed, arrivals, stream, arrival)
                limited.produced(state, shed, arrivals, arrival, count)
        elif phase == ADMIT:
            slot = work.group[gate[0].step, SLOT]
            if shed is None:
                admit_visitor(state, stream, slot)
            else:
                admit_under_budget(state, shed, arrivals, stream, arrival, slot)
        gate[0].step += 1
