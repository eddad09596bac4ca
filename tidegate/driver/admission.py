"""An arrival that has probed is retained, or refused.

Law: one `admit` for both ways of ties. The arrival is numbered, a full count window loses its
oldest tuple, then the budget names victims until there is room; if the arrival itself is worth
least, it is refused. Under `ties="instant"` the arrival stands in its window already, as a visitor
that is charged to no account, and is taken out again if it is refused.
"""

from __future__ import annotations

import numpy as np

from tidegate.binding.spec_records import BTREE, TTREE
from tidegate.compiled.kernel import kernel, part, step
from tidegate.driver.existence import lacks_rows, pattern_of
from tidegate.driver.leaving import EVICTED, EXPIRED, REFUSED, count, expire_by_count, leave
from tidegate.driver.observing import importance_of, settle_key
from tidegate.driver.prefetching import warm_victim
from tidegate.estimators import age_curve, key_lines, match_rate
from tidegate.index import inverted, trees
from tidegate.shed import (
    ages,
    budget,
    members,
    sampling,
    standing_patterns,
    standing_prospects,
    tiers,
    victims,
    worth,
)
from tidegate.shed.shed_records import (
    BY_AGE,
    BY_KEY,
    CUMULATIVE,
    RANDOM,
    UNIFORM,
    VALUE,
)
from tidegate.state.indexes import enter_index
from tidegate.state.join_state import DEPARTURES
from tidegate.throttle import ring
from tidegate.windows import lifetime
from tidegate.windows.arrivals import PASSES

DONE, NEED_SLOTS, NEED_NODES, NEED_ARENA, NEED_OUTPUT, NEED_RARE, NEED_PLACES = range(7)
NO_VISITOR = -1
SPARED = -3  # a victim that a sample needs after all
LAST = 2  # precedence of a monitor: it goes after all others


@step
def missing_room(state, shed, arrivals, output, stream, arrival):
    """What must grow or be drained before this arrival can be taken; DONE if nothing."""
    missing = DONE
    kind = state.lanes[stream].index
    if state.pool[0].unused == 0 and state.gate[0].order >= state.pool[0].closed_until:
        missing = NEED_SLOTS
    elif kind == BTREE and not trees.room(state.btree):
        missing = NEED_NODES
    elif kind == TTREE and not trees.room(state.ttree):
        missing = NEED_NODES
    elif len(state.set_terms) > 0:
        items = 0
        for term in range(len(state.set_terms)):
            items += arrivals.spans[arrival, term, 1]
        if state.arena_used[0] + items > len(state.arena):
            missing = NEED_ARENA
    if missing == DONE:
        if lifetime.is_cramped(state.lanes[stream], state.lanes[stream].alive):
            missing = NEED_PLACES
        elif shed is not None:
            if key_lines.needs_lines(shed.frequency) or lacks_rows(shed.patterns):
                missing = NEED_RARE
            elif is_crowded(shed, stream):
                missing = NEED_PLACES
    if state.gate[0].reports_left:
        # One arrival can make all retained tuples leave, and itself.
        if len(output.left) - output.filled[DEPARTURES] <= state.pool[0].alive:
            missing = NEED_OUTPUT
    return missing


@step
def is_crowded(shed, stream):
    """Has the queue of a stream too little room for one member more?"""
    return shed.rule[0].standing != BY_AGE and tiers.is_crowded(shed.queues, stream)


@step
def settle(state, arrivals, stream, arrival, order):
    """Give the arrival a slot, in its window and in its index. Returns the slot."""
    time = arrivals.time[arrival]
    in_order = time >= state.lanes[stream].newest
    slot = lifetime.occupy(
        state.slots, state.notes, state.pool, state.lanes, state.lines, stream, time
    )
    if state.pool[0].tracked:
        lifetime.write_note(state, stream, slot, order, in_order)
    state.slots[slot].code = arrivals.code[arrival]
    state.slots[slot].row = arrivals.row[arrival]
    if state.gate[0].has_importance:
        state.importance[slot] = arrivals.importance[arrival]
    for column in range(state.values.shape[1]):
        state.values[slot, column] = arrivals.values[arrival, column]
    for term in range(state.spans.shape[1]):
        length = arrivals.spans[arrival, term, 1]
        state.spans[slot, term, 1] = length
        state.spans[slot, term, 0] = inverted.store(
            state.arena, state.arena_used, arrivals.items, arrivals.weights,
            arrivals.spans[arrival, term, 0], length, slot,
        )  # fmt: skip
    if arrivals.matchable[arrival]:
        state.slots[slot].older = -1
        enter_index(state, stream, slot)
        ring.enter(state.throttle, state.slots, stream, slot)
    else:
        state.slots[slot].older = lifetime.NOT_INDEXED
    return slot


@step
def take(state, stream):
    """Count an arrival as taken: it has a number among all, and among those of its stream."""
    state.lanes[stream].taken += 1
    state.gate[0].order += 1


@step
def number_visitor(state, stream, slot):
    """A visitor was taken: it gets its numbers."""
    if not state.lanes[stream].is_time_window:
        state.numbers[slot] = state.lanes[stream].taken - 1
    state.notes[slot].order = state.gate[0].order - 1


@part
def admit(state, shed, arrivals, output, stream, arrival, visitor, key, met):
    """Retain an arrival that was taken and has met so many partners, if its window and the budget
    let it live. `key`: as `observing.see` has returned it."""
    if visitor >= 0:
        number_visitor(state, stream, visitor)
    lane = state.lanes[stream]
    lives = lane.is_time_window or lane.window > 0
    if lives and arrivals.matchable[arrival] != PASSES:
        if shed is None:
            expire_by_count(state, shed, output, stream)
            if visitor < 0:
                settle(state, arrivals, stream, arrival, state.gate[0].order - 1)
        else:
            admit_under_budget(
                state, shed, shed.samples, shed.patterns, arrivals, output, stream, arrival,
                visitor, key, met,
            )  # fmt: skip
    else:
        turn_away(state, shed, arrivals, output, stream, arrival, visitor, EXPIRED)
    if shed is not None:
        settle_key(shed, key)


@step
def turn_away(state, shed, arrivals, output, stream, arrival, visitor, why):
    """The arrival is not retained."""
    if visitor < 0:
        count(state, output, stream, arrivals.row[arrival], state.gate[0].order - 1, why)
    else:
        leave(state, shed, output, stream, visitor, why)


# --- under a budget ----------------------------------------------------------------------


@step
def admit_under_budget(
    state, shed, samples, patterns, arrivals, output, stream, arrival, visitor, key, met
):  # fmt: skip
    """`samples` and `patterns` are those of `shed`, None unless the policy has them."""
    size = arrivals.size[arrival] if state.gate[0].by_bytes else 1
    priority, basis = appraise(state, shed, samples, arrivals, stream, arrival, key, size, met)
    monitor = monitor_for(shed, stream)
    asked = np.inf if monitor >= 0 else priority
    if patterns is not None:
        # The new tuple stays (kwon2011, section 3.2); it remembers how old its evidence is.
        asked = np.inf
        key = pattern_of(state, shed, arrivals, stream, arrival)
        priority = patterns.halved[key, stream]
    expire_by_count(state, shed, output, stream)
    if make_room(state, shed, samples, output, stream, size, asked, basis, visitor < 0):
        slot = visitor
        if visitor < 0:
            slot = settle(state, arrivals, stream, arrival, state.gate[0].order - 1)
        if samples is not None:
            if shed.rule[0].kind == UNIFORM:  # to make room, it may have given up a result
                priority = samples.levels[state.lanes[stream].account].priority
        charge(state, shed, patterns, stream, slot, key, size, priority, basis, met, monitor)
        if samples is not None:
            account = state.lanes[stream].account
            sampling.settle(shed, state.lanes, state.accounts, account, slot)
    else:
        turn_away(state, shed, arrivals, output, stream, arrival, visitor, REFUSED)
        if monitor >= 0:
            age_curve.end(shed.curve, stream, monitor, False)


@step
def appraise(state, shed, samples, arrivals, stream, arrival, key, size, met):
    """Priority and basis of an arrival that was just taken."""
    if samples is not None:
        is_timed = False
        for lane in range(len(state.lanes)):
            is_timed = is_timed or state.lanes[lane].is_time_window == 1
        taken = sampling.taken_in_all(state.lanes)
        priority, basis = sampling.appraise(
            shed, state.lanes, state.accounts, state.gate[0].seed, stream, taken - 1, key,
            state.gate[0].clock if is_timed else taken,
        )  # fmt: skip
    else:
        priority, basis = worth_of_arrival(state, shed, arrivals, stream, arrival, key, size, met)
    return priority, basis


@step
def worth_of_arrival(state, shed, arrivals, stream, arrival, key, size, met):
    """The same for a policy that does not sample."""
    rule = shed.rule
    own = importance_of(state, arrivals, arrival)
    order = state.gate[0].order - 1
    moment = shed.queues[stream].now
    born = birth(state, shed, stream, arrivals.time[arrival])
    if rule[0].standing == BY_AGE:
        stage = ages.stage_of(shed.stages, stream, born, moment)
        priority, basis = ages.rank(shed.stages, stream, stage, order)
    else:
        own = standing_prospects.own_part(
            shed, shed.prospects, stream, own, size, state.gate[0].combine,
            state.gate[0].has_importance,
        )  # fmt: skip
        first = rule[0].first if state.lanes[stream].is_time_window else 0
        time = worth.windows_since(first, moment, state.lanes[stream].window)
        basis = worth.basis_of(rule, own, time)
        counts = shed.frequency.counts
        if rule[0].standing == BY_KEY:
            part = standing_prospects.key_worth(shed, shed.prospects, key, stream)
            priority = worth.group_priority(rule, part, basis)
        elif rule[0].kind == VALUE:
            priority = worth.score(
                rule, shed.stages, shed.importances, shed.rates, counts, state.gate[0].combine,
                state.gate[0].has_importance, stream, key, own, born, moment, size, met,
                match_rate.short_now(shed.rates),
            )  # fmt: skip
        else:
            random = 0.0
            if rule[0].kind == RANDOM:
                random = worth.chance(state.gate[0].seed, stream, state.lanes[stream].taken - 1)
            priority = worth.at_arrival(rule, counts, key, stream, own, random)
    return priority, basis


@step
def birth(state, shed, stream, time):
    """From when on a tuple that was just taken has an age, by the clock of its window."""
    born = time
    if not state.lanes[stream].is_time_window:
        # Of an instant's tuples in a count window, only the last is as young as the window.
        born = state.lanes[stream].taken - 1
    elif shed.rule[0].standing == BY_AGE:
        born = shed.queues[stream].now  # these stand in order of arrival
    return born


@step
def victim_for(state, shed, stream, priority, basis):
    """Who goes so that a tuple of this worth can stay; REFUSED if it is the tuple itself."""
    account = state.lanes[stream].account
    queues = shed.queues
    victim = np.int64(budget.REFUSED)
    precedence = queues[stream].precedence if priority < np.inf else LAST
    least, lowest, order = priority * queues[stream].factor, basis, state.gate[0].order
    for lane in range(len(state.lanes)):
        if state.lanes[lane].account == account:
            slot, its_priority, its_basis = budget.first_to_go(
                shed, lane, state.gate[0].combine, state.gate[0].has_importance
            )
            its_priority *= queues[lane].factor
            if slot >= 0 and (
                queues[lane].precedence < precedence
                or (
                    queues[lane].precedence == precedence
                    and budget.goes_first(
                        its_priority,
                        its_basis,
                        np.int64(state.notes[slot].order),
                        least,
                        lowest,
                        order,
                    )
                )
            ):
                victim, precedence = slot, queues[lane].precedence
                least, lowest, order = its_priority, its_basis, np.int64(state.notes[slot].order)
    state.gate[0].worth = least / queues[stream].factor
    return victim


@step
def crowded(state, stream):
    """Where slots are scarce, whose account has to give one up for a tuple of `stream`."""
    lane = np.int64(stream)
    if (
        state.accounts[state.lanes[stream].account].held
        < state.accounts[state.lanes[stream].account].slots
    ):
        for other in range(len(state.lanes)):
            account = state.accounts[state.lanes[other].account]
            if account.held > account.slots:
                lane = np.int64(other)
    return lane


@step
def evict(state, shed, output, slot):
    """Let a victim go."""
    loser = np.int64(state.notes[slot].stream)
    leave(state, shed, output, loser, slot, EVICTED)
    if shed.rule[0].standing != BY_AGE:
        victims.drop_top(shed, loser, slot)
        warm_victim(state, shed, loser)


@step
def make_room(state, shed, samples, output, stream, size, priority, basis, needs_slot):
    """Evict victims until the arrival fits; False if the arrival is refused instead."""
    account = state.accounts[state.lanes[stream].account]
    stays = size <= account.capacity
    state.gate[0].worth = priority
    if samples is not None:
        stays = stays and priority != sampling.NOT_WANTED
    while stays and account.used + size > account.capacity:
        slot = victim_for(state, shed, stream, priority, basis)
        if samples is not None:
            slot, priority = thin(state, shed, stream, stream, slot, priority)
        stays = slot != budget.REFUSED
        if stays and slot != SPARED:
            evict(state, shed, output, slot)
    while stays and needs_slot and state.pool[0].unused == 0:
        lane = crowded(state, stream)
        asked = priority if lane == stream else np.inf
        slot = victim_for(state, shed, lane, asked, basis)
        if samples is not None:
            slot, asked = thin(state, shed, stream, lane, slot, asked)
            priority = asked if lane == stream else priority
        stays = slot != budget.REFUSED
        if stays and slot != SPARED:
            evict(state, shed, output, slot)
    return stays


@part
def thin(state, shed, stream, lane, slot, priority):
    """A sample gets smaller: the priority of its victim becomes a threshold for all others.

    Under `uniform` the victim gives up the result that it wants; it stays (SPARED) if it wants a
    later one. Returns who goes, and the priority of the arrival.
    """
    seed, order = state.gate[0].seed, state.gate[0].order - 1
    account = state.lanes[lane].account
    threshold = priority if slot == budget.REFUSED else shed.members.priority[slot]
    if threshold < np.inf:
        sampling.raise_to(shed, state.lanes, account, order, threshold)
        if shed.rule[0].kind == UNIFORM and threshold > sampling.CERTAIN:
            if slot != budget.REFUSED:
                note = shed.members.notes[slot]
                again = sampling.next_want(shed, seed, np.int64(note.stream), slot, threshold)
                if again != sampling.NOT_WANTED:
                    shed.members.priority[slot] = again
                    slot = np.int64(SPARED)
            else:
                number = sampling.taken_in_all(state.lanes) - 1
                again = sampling.arrival_wants(
                    shed, seed, stream, number, state.lanes[stream].account, threshold
                )
                if again != sampling.NOT_WANTED:
                    priority = again
                    slot = np.int64(SPARED)
    return slot, priority


@kernel
def trim(state, shed, output):
    """Evict victims until no account exceeds its capacity, without an arrival."""
    for stream in range(len(state.lanes)):
        make_room(state, shed, shed.samples, output, stream, 0, np.inf, 0.0, False)


@step
def charge(state, shed, patterns, stream, slot, key, size, priority, basis, met, monitor):
    """The tuple in `slot` is retained from now on."""
    if shed.rule[0].kind == CUMULATIVE:
        priority = worth.bounded(priority / shed.queues[stream].scale)
    born = birth(state, shed, stream, state.slots[slot].time)
    now = match_rate.short_now(shed.rates)
    members.write(shed.members, slot, priority, basis, born, size, key, met, now, monitor)
    budget.enter(shed, state.lanes[stream].account, state.accounts, slot)
    if patterns is not None:
        standing_patterns.admit(shed, key, stream)


@step
def monitor_for(shed, stream):
    """Whether the tuple just taken is one of those that are kept for their whole life."""
    monitor = np.int64(age_curve.NO_MONITOR)
    if shed.rule[0].watched:
        monitor = age_curve.begin(shed.curve, stream, shed.queues[stream].pace)
    return monitor
