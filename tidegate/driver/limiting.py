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

from tidegate.binding.spec_records import INVERTED
from tidegate.compiled.kernel import part, step
from tidegate.estimate.importance import combined
from tidegate.index import hash_table
from tidegate.shed.worth import chance
from tidegate.state.indexes import candidates
from tidegate.state.join_state import MATCHES
from tidegate.throttle import fuel, selection, shares

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
    selection.begin(throttle, side, time, drawn < tank[0].sample * tank[0].fraction)
    if state.lanes[side].index == INVERTED:
        see_postings(state, throttle, arrivals, side, arrival)
        made = selection.choose(throttle, side)
        count = meet_postings(state, throttle, arrivals, work, side, arrival)
        visits = arrivals.spans[arrival, 0, 1]
    else:
        count, _, visits = candidates(state, arrivals, work, stream, arrival)
        for k in range(count):
            selection.see(throttle, side, time, state.slots[work.found[k]].time)
        made = selection.choose(throttle, side)
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
