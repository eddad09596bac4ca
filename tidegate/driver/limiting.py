"""A probe under a budget of CPU time looks at some basic windows only.

Law: the index still proposes candidates in its own order; those of basic windows that are not taken
are left out, and only those that are looked at are charged. What is charged does not depend on how
an index is laid out in memory, so that results do not depend on when arrays grew:

| index | a comparison is |
|---|---|
| hash | a retained tuple with the key of the arrival |
| nested loop | a retained tuple |
| inverted | an item of a retained tuple that the arrival has too |

Without a budget (`throttle` is None) nothing of this is compiled.
"""

from __future__ import annotations

import numpy as np

from tidegate.binding.spec_records import INVERTED, NESTED_LOOP
from tidegate.compiled.kernel import part, step
from tidegate.estimators.importance import combined
from tidegate.index import hash_table
from tidegate.shed.worth import chance
from tidegate.state.indexes import candidates
from tidegate.state.join_state import MATCHES
from tidegate.throttle import fuel, ring, selection, shares
from tidegate.throttle.throttle_records import NOT_TAKEN
from tidegate.windows.lifetime import NOT_INDEXED

_SAMPLING = np.uint64(0xA0761D6478BD642F)  # draws of their own, not those of the policy `random`


@step
def looked_at(state, throttle, arrivals, work, stream, arrival):
    """The candidates that an arrival is compared with, in `work.found`.

    Returns how many, how many comparisons were made, and how many index nodes visited.
    """
    if throttle is None:
        count, comparisons, visits = candidates(state, arrivals, work, stream, arrival)
    else:
        count, comparisons, visits = within_budget(state, throttle, arrivals, work, stream, arrival)
    return count, comparisons, visits


@part
def within_budget(state, throttle, arrivals, work, stream, arrival):
    """The same under a budget of CPU time."""
    side = 1 - stream
    time = arrivals.time[arrival]
    tank = throttle.tank
    if fuel.grant(tank, state.gate[0].clock):
        fuel.adapt_fraction(tank)
        shares.plan(throttle)
    drawn = chance(state.gate[0].seed ^ _SAMPLING, stream, state.lanes[stream].taken)
    sampled = drawn < tank[0].sample * tank[0].fraction
    spare = fuel.is_spare(tank)
    planned = tank[0].fraction if spare and not sampled else 1.0
    weight = 0.0
    if sampled and not spare:
        likely = tank[0].sample * tank[0].fraction
        weight = (1.0 - likely) / likely
    selection.begin(throttle, side, time, sampled or spare, weight)
    if state.lanes[side].index == INVERTED:
        see_postings(state, throttle, arrivals, side, arrival)
        made = selection.choose(throttle, side, planned)
        count = meet_postings(state, throttle, arrivals, work, side, arrival)
        visits = arrivals.spans[arrival, 0, 1]
    elif state.lanes[side].index == NESTED_LOOP and not state.gate[0].takes_late:
        see_stretches(state, throttle, side, time)
        made = selection.choose(throttle, side, planned)
        count = meet_stretches(state, throttle, work, side, time)
        visits = 0
    else:
        count, _, visits = candidates(state, arrivals, work, stream, arrival)
        for k in range(count):
            selection.see(throttle, side, time, state.slots[work.found[k]].time)
        made = selection.choose(throttle, side, planned)
        count = keep_taken(state, throttle, work, side, time, count)
    return count, made, visits


@part
def keep_taken(state, throttle, work, side, time, count):
    """Leave out the candidates of basic windows that are not taken; returns how many stay."""
    kept = 0
    for k in range(count):
        slot = work.found[k]
        if selection.is_taken(throttle, side, time, state.slots[slot].time):
            work.found[kept] = slot
            kept += 1
    return kept


# --- the nested loop ---------------------------------------------------------------------

# A line without late tuples is in order of time: a basic window is a stretch of it, whose tuples
# are counted already (`ring`). What is not looked at is not touched.


@part
def see_stretches(state, throttle, side, time):
    """Count the tuples of each basic window."""
    basic = throttle.tank[0].basic
    segment = time // basic
    for window in range(throttle.sides[side].windows):
        look = throttle.looks[window]
        number = throttle.held[side, ring.place_of(throttle, segment - window)]
        if look.first == selection.FROM_ALL:
            look.asked = number
        elif look.first >= basic or number == 0:
            look.passed = number
        else:
            start = (segment - window) * basic
            position = first_from(state, side, start + look.first)
            look.asked = count_until(state, side, position, start + basic)
            look.passed = number - look.asked


@part
def meet_stretches(state, throttle, work, side, time):
    """Write the tuples of the basic windows that are taken, the oldest first; returns how many."""
    lane = state.lanes[side]
    basic = throttle.tank[0].basic
    position = np.int64(-1)  # where the next basic window begins, if that is known
    count = 0
    for window in range(throttle.sides[side].windows - 1, -1, -1):
        look = throttle.looks[window]
        if look.taken == NOT_TAKEN or look.asked == 0:
            position = np.int64(-1)
            continue
        start = (time // basic - window) * basic
        if position < 0 or look.first > 0:
            position = first_from(state, side, start + max(0, look.first))
        while position < lane.end:
            slot = state.lines[position]
            if slot >= 0:
                if state.slots[slot].time >= start + basic:
                    break
                if state.slots[slot].older != NOT_INDEXED:
                    work.found[count] = slot
                    count += 1
            position += 1
    return count


@part
def first_from(state, side, time):
    """The first position in the line of a stream from which on tuples are not before `time`."""
    low, high = state.lanes[side].begin, state.lanes[side].end
    while low < high:
        middle = (low + high) // 2
        at = middle
        while at < high and state.lines[at] < 0:
            at += 1
        if at < high and state.slots[state.lines[at]].time < time:
            low = at + 1
        else:
            high = middle
    return low


@part
def count_until(state, side, position, time):
    """How many tuples that can match stand from a position on, before `time`."""
    count = 0
    while position < state.lanes[side].end:
        slot = state.lines[position]
        if slot >= 0:
            if state.slots[slot].time >= time:
                break
            if state.slots[slot].older != NOT_INDEXED:
                count += 1
        position += 1
    return count


# --- the inverted index ------------------------------------------------------------------


@part
def see_postings(state, throttle, arrivals, side, arrival):
    """Count the postings of the arrival's items, by basic window."""
    lists, arena, time = state.lists, state.arena, arrivals.time[arrival]
    first = arrivals.spans[arrival, 0, 0]
    for at in range(first, first + arrivals.spans[arrival, 0, 1]):
        item = arrivals.items[at]
        place = lists[hash_table.bucket_of(lists, item), side, hash_table.OLDEST]
        while place >= 0:
            if arena[place].member == item:
                selection.see(throttle, side, time, state.slots[arena[place].owner].time)
            place = arena[place].newer


@part
def meet_postings(state, throttle, arrivals, work, side, arrival):
    """As `inverted.probe`, on the basic windows that are taken; returns how many slots reach it."""
    lists, arena, totals, found = state.lists, state.arena, work.totals, work.found
    time = arrivals.time[arrival]
    first = arrivals.spans[arrival, 0, 0]
    met = 0
    for at in range(first, first + arrivals.spans[arrival, 0, 1]):
        item = arrivals.items[at]
        place = lists[hash_table.bucket_of(lists, item), side, hash_table.OLDEST]
        while place >= 0:
            posting = arena[place]
            slot = posting.owner
            if posting.member == item and selection.is_taken(
                throttle, side, time, state.slots[slot].time
            ):
                if totals[slot, 0] == 0.0:
                    found[met] = slot
                    met += 1
                totals[slot, 0] += 1.0
                totals[slot, 1] += posting.weight * arrivals.weights[at]
            place = posting.newer
    count = 0
    measure = 1 if state.set_terms[0].weighted else 0
    for k in range(met):
        slot = found[k]
        if totals[slot, measure] >= state.set_terms[0].at_least:
            found[count] = slot
            count += 1
        totals[slot, 0] = 0.0
        totals[slot, 1] = 0.0
    return count


# --- after the results -------------------------------------------------------------------


@step
def learn(state, throttle, arrivals, work, stream, arrival):
    """The results of an arrival say which basic windows pay."""
    if throttle is not None:
        credit(state, throttle, arrivals, work, stream, arrival)


@part
def credit(state, throttle, arrivals, work, stream, arrival):
    time = arrivals.time[arrival]
    weighed = state.gate[0].has_importance
    for k in range(work.progress[MATCHES]):
        slot = work.found[k]
        worth = 1.0
        if weighed:
            worth = combined(
                state.gate[0].combine, arrivals.importance[arrival], state.importance[slot]
            )
        selection.learn(throttle, 1 - stream, time, state.slots[slot].time, worth)
