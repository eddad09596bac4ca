"""The budget: how much may be retained, and who goes when it is too much.

Law: after each tuple, what an account retains never exceeds its capacity, not by one tuple. The
tuple with the smallest (priority, basis, order of arrival) goes, the new one included; so of equal
priorities the oldest goes (ojewole2006, section 4.3.1).

An *account* is one share of the memory: one per stream, or a single one for all. Each stream has a
queue of its own; where streams share an account, the firsts of their queues are compared. Choosing
a victim (here) is separate from removing it (the driver, which also knows the index).
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled.kernel import step
from tidegate.estimators import age_curve, frequency
from tidegate.shed import ages, exposure, groups, standing_prospects, victims, worth
from tidegate.shed.members import basis_at, cost_at, stage_of
from tidegate.shed.shed_records import BY_AGE, BY_KEY, CUMULATIVE, VALUE
from tidegate.windows.lifetime import NOT_CHARGED, ORDINARY

ACCOUNT = np.dtype(
    [
        ("capacity", np.int64),  # tuples, or bytes of payload
        ("used", np.int64),
        ("peak", np.int64),
        ("slots", np.int64),  # budget in bytes: its share of the slots, where these are scarce
        ("held", np.int64),
    ]
)

REFUSED = -2
RISEN = 1.05  # of a score: by less the next victim goes all the same, since scores are estimates


@step
def goes_first(priority, basis, order, its_priority, its_basis, its_order):
    """Does one tuple go before another?"""
    if priority != its_priority:
        first = priority < its_priority
    elif basis != its_basis:
        first = basis < its_basis
    else:
        first = order < its_order
    return first


# --- victims -----------------------------------------------------------------------------


@step
def first_to_go(shed, stream, combine, weighed):
    """The member of a stream that would go, with priority and basis; NOBODY if there is none."""
    standing = shed.rule[0].standing
    members = shed.members
    now = shed.queues[stream].now
    priority = basis = 0.0
    if standing == BY_AGE:
        ages.grow_older(shed.stages, members, stream, now)
        slot = ages.candidate(shed.stages, members, stream)
        if slot >= 0:
            priority, basis = ages.rank(
                shed.stages, stream, stage_of(members, slot),
                np.int64(members.notes[slot].order),
            )  # fmt: skip
    elif standing == BY_KEY:
        slot = victims.first_by_key(
            shed.rule, shed.queues, shed.heaps, members, shed.groups, shed.worths, stream
        )
        if slot >= 0:
            priority = shed.heaps.entries[shed.queues[stream].start].priority
            basis = basis_at(members, slot)
    else:
        slot = victims.first_by_tuple(shed.queues, shed.heaps, members, stream)
        while slot >= 0 and shed.rule[0].kind == VALUE:
            priority = worth.score_of(shed, slot, combine, weighed)
            if not priority > RISEN * members.priority[slot]:
                break
            members.priority[slot] = priority
            slot = victims.first_by_tuple(shed.queues, shed.heaps, members, stream)
        if slot >= 0:
            if shed.rule[0].kind != VALUE:  # VALUE is compared by what it is worth now
                priority = members.priority[slot]
            basis = basis_at(members, slot)
            if shed.rule[0].kind == CUMULATIVE:
                priority *= shed.queues[stream].scale
    return slot, priority, basis


# --- accounts ----------------------------------------------------------------------------


@step
def stand(shed, slot):
    """Take a place in the queue."""
    members = shed.members
    stream = np.int64(members.notes[slot].stream)
    standing = shed.rule[0].standing
    if standing == BY_AGE:
        ages.append(shed.stages, members, stream, slot)
    elif standing == BY_KEY:
        key = np.int64(members.key[slot])
        group = shed.groups[key, stream]
        if group.root < 0:
            group.queued = np.inf
        group.root = groups.insert(members, np.int64(group.root), slot)
        if group.root == slot:
            victims.reweigh(
                shed.rule, shed.queues, shed.heaps, members, shed.groups, shed.worths, key, stream
            )
    else:
        priority = members.priority[slot]
        members.priority[slot] = np.inf
        victims.store(shed.queues, shed.heaps, members, slot, priority)


@step
def enter(shed, account, accounts, slot):
    """A member whose record is written joins the queue of its stream, and is charged."""
    members = shed.members
    stream = np.int64(members.notes[slot].stream)
    accounts[account].used += cost_at(members, slot)
    accounts[account].held += 1
    accounts[account].peak = max(accounts[account].peak, accounts[account].used)
    if shed.rule[0].keyed:
        key = np.int64(members.key[slot])
        frequency.hold(shed.frequency.keys, key)
        if key != frequency.NO_KEY:
            book = shed.frequency
            if shed.rule[0].statistics == frequency.RETAINED:
                book.counts[key, stream] += 1.0
            elif shed.rule[0].kind == VALUE:
                exposure.begin(shed, slot)
            standing_prospects.hold(shed.prospects, key, stream)
    if members.notes[slot].monitor == ORDINARY:
        shed.queues[stream].members += 1
        stand(shed, slot)


@step
def leave(shed, account, accounts, slot, complete):
    """A member is retained no longer: its account gets the memory back."""
    members = shed.members
    note = members.notes[slot]
    stream = np.int64(note.stream)
    accounts[account].used -= cost_at(members, slot)
    accounts[account].held -= 1
    if shed.rule[0].kind == VALUE:
        exposure.account(shed, slot, 0)
    if note.monitor != ORDINARY:
        age_curve.end(shed.curve, stream, np.int64(note.monitor), complete)
    else:
        shed.queues[stream].members -= 1
        standing = shed.rule[0].standing
        if standing == BY_AGE:
            ages.remove(shed.stages, members, stream, slot)
        elif standing == BY_KEY:
            group = shed.groups[members.key[slot], stream]
            group.root = groups.remove(members, np.int64(group.root), slot)
    note.monitor = NOT_CHARGED
    if shed.rule[0].keyed:
        book = shed.frequency
        key = np.int64(members.key[slot])
        if shed.rule[0].statistics == frequency.RETAINED and key != frequency.NO_KEY:
            book.counts[key, stream] -= 1.0
            if shed.rule[0].standing == BY_KEY:
                victims.reweigh_others(shed, key, stream)
        standing_prospects.release(shed, shed.prospects, key, stream)
        frequency.let_go(book, key)
