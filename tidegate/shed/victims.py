"""Queues of the members of each stream: who would go first, and what a change of worth moves.

Law: an entry of a queue never says more than its holder is worth. A rise is put right when the
entry comes to the top; a fall is queued at once, beside the old entry, which is dead from then on.
So the first live entry is always the first to go.
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled import layout
from tidegate.compiled.kernel import kernel, part, step
from tidegate.shed import groups, queue, tiers, worth
from tidegate.shed.members import basis_at, is_one
from tidegate.shed.shed_records import BY_KEY
from tidegate.windows.lifetime import ORDINARY

NOBODY = -1
AHEAD = 8  # entries: far enough to hide a cache miss
# Stored priorities grow as the scale falls; before they overflow it starts at 1 again.
_SMALLEST_SCALE = 1e-280


@part
def rebuild_by_tuple(queues, heaps, members, stream):
    """A queue with one entry for each member of the stream."""
    tiers.clear(queues, stream)
    for slot in range(len(members.notes)):
        note = members.notes[slot]
        if note.monitor == ORDINARY and note.stream == stream:
            tiers.append(
                queues, heaps, stream, members.priority[slot], basis_at(members, slot),
                np.int64(note.order), slot,
            )  # fmt: skip


@part
def rebuild_by_key(rule, queues, heaps, members, groups_, counts, stream):
    """A queue with one entry for each key that has members in the stream."""
    tiers.clear(queues, stream)
    for key in range(len(groups_)):
        group = groups_[key, stream]
        if group.root >= 0:
            basis, order = _first_of(members, group)
            part = worth.key_worth(rule, counts, key, stream)
            priority = worth.group_priority(rule, part, basis)
            group.queued = groups.rough(priority)
            tiers.append(queues, heaps, stream, priority, basis, order, key)


@kernel
def drop_dead(shed, stream):
    """The same queue without its dead entries."""
    if shed.rule[0].standing == BY_KEY:
        rebuild_by_key(
            shed.rule, shed.queues, shed.heaps, shed.members, shed.groups, shed.worths, stream
        )
    else:
        rebuild_by_tuple(shed.queues, shed.heaps, shed.members, stream)


@step
def _first_of(members, group):
    """Basis and order of the first to go of a group."""
    return basis_at(members, group.root), np.int64(members.notes[group.root].order)


@step
def _is_alive(members, entry):
    """Is the tuple that an entry was written for still the one in its slot?"""
    note = members.notes[entry.holder]
    return note.order == entry.order and note.monitor == ORDINARY


@part
def _come_near_by_tuple(queues, heaps, members, stream):
    """Bring the next entries to the near tier, without the dead, and each with what it is worth."""
    start = queues[stream].start
    found = tiers.refill(queues, heaps, stream)
    for at in range(found):
        soon = np.int64(heaps.entries[start + min(at + AHEAD, found - 1)].holder)
        layout.warm(members.notes, soon)
        layout.warm(members.priority, soon)
        entry = heaps.entries[start + at]
        holder, order = np.int64(entry.holder), np.int64(entry.order)
        priority = members.priority[holder]
        if _is_alive(members, entry) and entry.priority <= priority:
            basis = queue.basis_in(heaps, start + at)
            tiers.keep(queues, heaps, stream, priority, basis, order, holder)
    tiers.end_refill(queues, heaps, stream)


@part
def first_by_tuple(queues, heaps, members, stream):
    """The slot with the smallest stored priority, or NOBODY."""
    found = np.int64(NOBODY)
    while queues[stream].count > 0:
        if queues[stream].near == 0:
            _come_near_by_tuple(queues, heaps, members, stream)
            continue
        start = queues[stream].start
        top = heaps.entries[start]
        priority = members.priority[top.holder]
        if not _is_alive(members, top) or top.priority > priority:
            tiers.pop(queues, heaps, stream)
        elif top.priority < priority:
            basis, order = queue.basis_in(heaps, start), np.int64(top.order)
            tiers.move_top(queues, heaps, stream, priority, basis, order)
        else:
            found = np.int64(top.holder)
            break
    return found


@step
def _speaks_for(group, entry):
    """Is this the entry of the group that counts?"""
    return group.root >= 0 and groups.rough(entry.priority) == group.queued


@part
def _come_near_by_key(rule, queues, heaps, members, groups_, counts, stream):
    """See `_come_near_by_tuple`."""
    start = queues[stream].start
    found = tiers.refill(queues, heaps, stream)
    for at in range(found):
        soon = np.int64(heaps.entries[start + min(at + 2 * AHEAD, found - 1)].holder)
        layout.warm(counts, soon)
        soon = np.int64(heaps.entries[start + min(at + AHEAD, found - 1)].holder)
        layout.warm(members.notes, max(np.int64(0), np.int64(groups_[soon, stream].root)))
        entry = heaps.entries[start + at]
        holder = np.int64(entry.holder)
        group = groups_[holder, stream]
        if _speaks_for(group, entry):
            basis, order = _first_of(members, group)
            part = worth.key_worth(rule, counts, holder, stream)
            priority = worth.group_priority(rule, part, basis)
            group.queued = groups.rough(priority)
            tiers.keep(queues, heaps, stream, priority, basis, order, holder)
    tiers.end_refill(queues, heaps, stream)


@part
def first_by_key(rule, queues, heaps, members, groups_, counts, stream):
    """The slot with the smallest present priority, or NOBODY; its priority is in the top entry."""
    found = np.int64(NOBODY)
    while queues[stream].count > 0:
        if queues[stream].near == 0:
            _come_near_by_key(rule, queues, heaps, members, groups_, counts, stream)
            continue
        top = heaps.entries[queues[stream].start]
        group = groups_[top.holder, stream]
        if not _speaks_for(group, top):
            tiers.pop(queues, heaps, stream)
            continue
        basis, order = _first_of(members, group)
        part = worth.key_worth(rule, counts, top.holder, stream)
        priority = worth.group_priority(rule, part, basis)
        if priority == top.priority and order == top.order:
            found = np.int64(group.root)
            break
        group.queued = groups.rough(priority)
        tiers.move_top(queues, heaps, stream, priority, basis, order)
    return found


@step
def drop_top(shed, stream, slot):
    """A victim has left: drop its entry now, so that the next victim is known early."""
    if shed.queues[stream].near > 0:
        holder = np.int64(shed.heaps.entries[shed.queues[stream].start].holder)
        if shed.rule[0].standing == BY_KEY:
            is_dead = shed.groups[holder, stream].root < 0
        else:
            is_dead = holder == slot
        if is_dead:
            tiers.pop(shed.queues, shed.heaps, stream)


@part
def reweigh(rule, queues, heaps, members, groups_, counts, key, stream):
    """The worth of a key has changed for the members of `stream`, or who is the first of them.

    A rise is noticed when the group comes to the top; a fall must be queued at once. At the same
    priority, in a heap the first may be another one than when the entry was written, with a lower
    basis; in a ring every later first came later.
    """
    group = groups_[key, stream]
    if group.root < 0:
        return
    basis, order = _first_of(members, group)
    part = worth.key_worth(rule, counts, key, stream)
    priority = worth.group_priority(rule, part, basis)
    queued = np.float64(group.queued)
    if priority < queued or (priority == queued and not groups.is_ring(members)):
        if queues[stream].count >= tiers.room(queues, stream):
            rebuild_by_key(rule, queues, heaps, members, groups_, counts, stream)
        else:
            group.queued = groups.rough(priority)
            tiers.push(queues, heaps, stream, priority, basis, order, key)


@step
def reweigh_others(shed, key, stream):
    """The count of a key on `stream` has changed: so has its worth on all other streams."""
    for other in range(len(shed.queues)):
        if other != stream:
            reweigh(
                shed.rule, shed.queues, shed.heaps, shed.members, shed.groups, shed.worths, key,
                other,
            )  # fmt: skip


@part
def store(queues, heaps, members, slot, priority):
    """Give a member another priority; see `reweigh`."""
    falls = priority < members.priority[slot]
    members.priority[slot] = priority
    if falls:
        note = members.notes[slot]
        stream = np.int64(note.stream)
        if queues[stream].count >= tiers.room(queues, stream):
            rebuild_by_tuple(queues, heaps, members, stream)
        else:
            basis, order = basis_at(members, slot), np.int64(note.order)
            tiers.push(queues, heaps, stream, priority, basis, order, slot)


@part
def rescale(queues, heaps, members, stream):
    """Write the present priorities down, so that the scale is 1 again. The order stays."""
    for slot in range(len(members.notes)):
        if is_one(members, slot) and members.notes[slot].stream == stream:
            members.priority[slot] *= queues[stream].scale
    queues[stream].scale = 1.0
    rebuild_by_tuple(queues, heaps, members, stream)


@step
def decay(shed, stream):
    """One arrival that the members of `stream` did not meet; those it met get it back."""
    queues = shed.queues
    queues[stream].scale *= shed.rule[0].delta
    if queues[stream].scale < _SMALLEST_SCALE:
        rescale(queues, shed.heaps, shed.members, stream)
