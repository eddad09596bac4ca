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

from tidegate.binding.spec_records import HASH, INVERTED
from tidegate.compiled.kernel import part, step
from tidegate.estimators.importance import combined
from tidegate.index import hash_table
from tidegate.shed.worth import chance
from tidegate.state.indexes import candidates
from tidegate.state.join_state import MATCHES
from tidegate.throttle import fuel, ring, selection, shares
from tidegate.throttle.throttle_records import NOT_TAKEN

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
    begin_probe(state, throttle, stream)
    selection.note_probe(throttle, side)
    selection.begin(throttle, side, time)
    if state.lanes[side].index == INVERTED:
        reach = reach_of(state, throttle, side)
        see_postings(state, throttle, arrivals, side, arrival, reach)
        made = selection.choose(throttle, side, stream, True)
        count = meet_postings(state, throttle, arrivals, work, side, arrival, reach)
        visits = arrivals.spans[arrival, 0, 1]
    elif throttle.sides[side].linked and not is_behind(state, throttle, side, time):
        see_chains(state, throttle, side, time)
        made = selection.choose(throttle, side, stream, True)
        count = meet_chains(state, throttle, work, side, time)
        visits = 0
    else:
        if state.lanes[side].index == HASH:
            reach = reach_of(state, throttle, side)
            visits = 1
            count = same_key(state, throttle, work, side, time, arrivals.code[arrival], reach)
        else:
            count, _, visits = candidates(state, arrivals, work, stream, arrival)
        for k in range(count):
            selection.see(throttle, side, time, state.slots[work.found[k]].time)
        made = selection.choose(throttle, side, stream, True)
        count = keep_taken(state, throttle, work, side, time, count)
    return count, made, visits


@part
def begin_probe(state, throttle, stream):
    """Grant the fuel of the time that has passed; decide whether the probe looks at everything."""
    tank = throttle.tank
    if fuel.grant(tank, state.gate[0].clock):
        fuel.adapt_fraction(tank)
        shares.plan(throttle)
    drawn = chance(state.gate[0].seed ^ _SAMPLING, stream, state.lanes[stream].taken)
    tank[0].probed += 1.0
    likely = fuel.chance_to_sample(tank)
    sampled = drawn < likely
    spare = fuel.is_spare(tank)
    fuel.allow(tank, sampled)
    tank[0].full = 1 if sampled or spare else 0
    tank[0].planned = tank[0].fraction if spare and not sampled else 1.0
    tank[0].weight = (1.0 - likely) / likely if sampled and not spare else 0.0


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

# The tuples of a basic window are counted and chained (`ring`), in order of arrival. What is not
# looked at is not touched. Candidates come in order of time, basic window by basic window.


@step
def is_behind(state, throttle, side, time):
    """Does an arrival come after tuples of the opposite stream that are a basic window younger?"""
    basic = throttle.tank[0].basic
    return time // basic < state.lanes[side].newest // basic


@part
def see_chains(state, throttle, side, time):
    """Count the tuples of each basic window, and those that are asked for."""
    basic = throttle.tank[0].basic
    for window in range(throttle.sides[side].windows):
        look = throttle.looks[window]
        segment = time // basic - window
        place = ring.place_of(throttle, segment)
        look.node = throttle.chains[place, side, hash_table.OLDEST]
        number = np.int64(throttle.held[side, place])
        if not throttle.tank[0].fits:
            number, _ = from_offset(state, throttle, side, segment, 0)
        if look.first <= 0:
            look.asked = number
        elif look.first < basic and number > 0:
            look.asked, look.node = from_offset(state, throttle, side, segment, look.first)
        look.passed = number - look.asked


@part
def from_offset(state, throttle, side, segment, offset):
    """How many tuples of a basic window are not before an offset, and the first to arrive of them.

    Where nobody came late a chain is in order of time, and its older part is not touched.
    """
    basic = throttle.tank[0].basic
    place = ring.place_of(throttle, segment)
    oldest = throttle.chains[place, side, hash_table.OLDEST]
    node = throttle.chains[place, side, hash_table.NEWEST]
    ordered = throttle.tank[0].fits and state.pool[0].late == 0
    count, first = 0, np.int64(-1)
    while node >= 0:
        time = state.slots[node].time
        if time // basic == segment and time % basic >= offset:
            count += 1
            first = np.int64(node)
        elif ordered:
            break
        node = np.int32(-1) if node == oldest else state.slots[node].older
    return count, first


@part
def meet_chains(state, throttle, work, side, time):
    """Write the tuples of the basic windows that are taken, the oldest first; returns how many."""
    basic = throttle.tank[0].basic
    count = 0
    for window in range(throttle.sides[side].windows - 1, -1, -1):
        look = throttle.looks[window]
        if look.taken == NOT_TAKEN or look.asked == 0:
            continue
        start = (time // basic - window) * basic
        node = look.node
        while node >= 0:
            offset = state.slots[node].time - start
            if max(0, look.first) <= offset < basic:
                work.found[count] = node
                count += 1
            node = np.int64(state.slots[node].newer)
    return count


# --- chains of an index ------------------------------------------------------------------


@part
def reach_of(state, throttle, side):
    """The oldest basic window that chains are walked to: all where tuples came out of order."""
    last = throttle.sides[side].windows
    reach = selection.oldest_asked(throttle, side)
    if state.pool[0].late > 0 or reach == last - 1:
        reach = last
    else:
        selection.pass_beyond(throttle, side, reach)
    return reach


@part
def same_key(state, throttle, work, side, now, code, reach):
    """Write the tuples with this key, oldest first, no older than `reach`; returns how many."""
    bucket = np.int64(hash_table.bucket_of(state.buckets, code))
    oldest = np.int64(state.buckets[bucket, side, hash_table.OLDEST])
    node = oldest
    if reach < throttle.sides[side].windows:
        node = np.int64(-1)
        before = np.int64(state.buckets[bucket, side, hash_table.NEWEST])
        while before >= 0:
            if selection.window_of(throttle, side, now, state.slots[before].time) > reach:
                break
            node = before
            before = np.int64(-1) if before == oldest else np.int64(state.slots[before].older)
    count = 0
    while node >= 0:
        if state.slots[node].code == code:
            work.found[count] = node
            count += 1
        node = np.int64(state.slots[node].newer)
    return count


@part
def first_posting(state, throttle, side, now, item, reach):
    """The posting from which on a list is read, -1 if nothing of it is."""
    bounds = hash_table.bucket_of(state.lists, item)
    oldest = np.int64(state.lists[bounds, side, hash_table.OLDEST])
    place = oldest
    if reach < throttle.sides[side].windows:
        place = np.int64(-1)
        before = np.int64(state.lists[bounds, side, hash_table.NEWEST])
        while before >= 0:
            owner = state.arena[before].owner
            if selection.window_of(throttle, side, now, state.slots[owner].time) > reach:
                break
            place = before
            before = np.int64(-1) if before == oldest else np.int64(state.arena[before].older)
    return place


# --- the inverted index ------------------------------------------------------------------


@part
def see_postings(state, throttle, arrivals, side, arrival, reach):
    """Count the postings of the arrival's items, by basic window."""
    arena, time = state.arena, arrivals.time[arrival]
    first = arrivals.spans[arrival, 0, 0]
    for at in range(first, first + arrivals.spans[arrival, 0, 1]):
        item = arrivals.items[at]
        place = first_posting(state, throttle, side, time, item, reach)
        while place >= 0:
            if arena[place].member == item:
                selection.see(throttle, side, time, state.slots[arena[place].owner].time)
            place = np.int64(arena[place].newer)


@part
def meet_postings(state, throttle, arrivals, work, side, arrival, reach):
    """As `inverted.probe`, on the basic windows that are taken; returns how many slots reach it."""
    arena, totals, found = state.arena, work.totals, work.found
    time = arrivals.time[arrival]
    first = arrivals.spans[arrival, 0, 0]
    met = 0
    for at in range(first, first + arrivals.spans[arrival, 0, 1]):
        item = arrivals.items[at]
        place = first_posting(state, throttle, side, time, item, reach)
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
            place = np.int64(posting.newer)
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


@part
def credit(state, throttle, arrivals, work, stream, arrival):
    """The results of an arrival say which basic windows pay."""
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
