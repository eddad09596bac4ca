"""A tuple leaves: expired, evicted or refused.

Law: what leaves a window leaves its index, its queue of victims and its account in the same step,
and is counted once, by the reason why it left. Where the join reports departures, the same step
writes the payload address to `output.left`; the driver makes sure of room before each arrival.
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled.kernel import kernel, part, step
from tidegate.shed import budget, learning, members, sampling
from tidegate.shed.shed_records import AGE, UNIFORM
from tidegate.state.indexes import leave_index
from tidegate.state.join_state import (
    ADDRESS,
    CLOCK,
    DEPARTURES,
    NEXT_ORDER,
    OWN_ORDER,
    STREAM_LEFT,
    WHY,
)
from tidegate.throttle import ring
from tidegate.windows import lifetime

EXPIRED, EVICTED, REFUSED = range(3)


@step
def count(state, output, stream, row, order, why):
    """Count a departure and report it, if the join reports departures."""
    lane = state.lanes[stream]
    if why == EXPIRED:
        lane.expired += 1
    elif why == EVICTED:
        lane.evicted += 1
    else:
        lane.refused += 1
    if state.gate[0].reports_left:
        at = output.filled[DEPARTURES]
        output.left[at, STREAM_LEFT] = stream
        output.left[at, ADDRESS] = row
        output.left[at, WHY] = why
        output.left[at, OWN_ORDER] = order
        output.left[at, NEXT_ORDER] = state.gate[0].order
        output.left[at, CLOCK] = state.gate[0].clock
        output.worth[at] = state.gate[0].worth if why != EXPIRED else 0.0
        output.filled[DEPARTURES] = at + 1


@part
def leave(state, shed, output, stream, slot, why):
    """Remove a tuple of `stream` from budget, index and window alike."""
    if shed is not None:
        if members.is_one(shed.members, slot):
            complete = why == EXPIRED
            budget.leave(shed, state.lanes[stream].account, state.accounts, slot, complete)
            if complete and shed.rule[0].kind == AGE and shed.rule[0].watched:
                learning.learn_curve(shed, stream)
    order = np.int64(0)
    if state.pool[0].tracked:
        order = np.int64(state.notes[slot].order)
    count(state, output, stream, state.slots[slot].row, order, why)
    if state.slots[slot].older != lifetime.NOT_INDEXED:
        leave_index(state, stream, slot)
        ring.leave(state.throttle, state.slots, stream, slot)
    place = state.lanes[stream].begin  # where nothing is noted, only heads of lines leave
    if state.pool[0].tracked:
        place = np.int64(state.notes[slot].place)
        lifetime.drop_note(state, slot)
    lifetime.vacate(state.slots, state.pool, state.lanes, state.lines, stream, place, slot)


@step
def expire(state, shed, output):
    """Remove all that is dead at the watermark."""
    watermark = state.gate[0].watermark
    line = -1  # first the late tuples of all streams, then line by line
    while line < len(state.lanes):
        if line < 0:
            slot = lifetime.expired_late(state)
        else:
            slot = lifetime.expired_head(state, line, watermark)
        if slot < 0:
            line += 1
        else:
            stream = np.int64(state.notes[slot].stream) if line < 0 else np.int64(line)
            leave(state, shed, output, stream, slot, EXPIRED)


@step
def expire_by_count(state, shed, output, stream):
    """The oldest of a full count window dies by the arrival that was just taken."""
    if not state.lanes[stream].is_time_window:
        slot = lifetime.expired_head(state, stream, 0)
        while slot >= 0:
            leave(state, shed, output, stream, slot, EXPIRED)
            slot = lifetime.expired_head(state, stream, 0)


@kernel
def expire_now(state, shed, output):
    """Remove what is dead at the watermark, without an arrival."""
    expire(state, shed, output)


@step
def want_again(state, shed, samples, work, output, stream, count):
    """The members in `work.found` have given results to a uniform sample; who wants none goes."""
    if samples is not None:
        if shed.rule[0].kind == UNIFORM:
            for k in range(count):
                slot = work.found[k]
                if not sampling.wants_another(shed, state.lanes, state.gate[0].seed, slot):
                    state.gate[0].worth = 0.0
                    leave(state, shed, output, stream, slot, EVICTED)
