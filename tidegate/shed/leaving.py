"""Queues of the members of each stream: who would go first, and what a change of worth moves.

Law: an entry of a queue never says more than its holder is worth. A rise is put right when the
entry comes to the top; a fall is queued at once, beside the old entry, which is dead from then on.
So the first live entry is always the first to go.
"""

from __future__ import annotations

import numpy as np

from tidegate.kernel import inlined, kernel
from tidegate.shed import queue, worth

NOBODY = -1
_SMALLEST_SCALE = 1e-280  # stored priorities grow as the scale falls; before they overflow: anew


@kernel
def rebuild_by_tuple(queues, heaps, members, stream):
    """A heap with one entry for each member of the stream."""
    heap = heaps[stream]
    count = 0
    for slot in range(len(members)):
        member = members[slot]
        if member.order >= 0 and member.stream == stream and member.monitor < 0:
            heap[count].priority = member.priority
            heap[count].basis = member.basis
            heap[count].order = member.order
            heap[count].holder = slot
            count += 1
    queues[stream].count = count
    queue.heapify(heap, count)


@kernel
def rebuild_by_key(rule, queues, heaps, members, groups_, counts, stream):
    """A heap with one entry for each key that has members in the stream."""
    heap = heaps[stream]
    count = 0
    for key in range(len(groups_)):
        group = groups_[key, stream]
        if group.root >= 0:
            first = members[group.root]
            part = worth.key_worth(rule, counts, key, stream)
            group.queued = worth.group_priority(rule, part, first.basis)
            group.queued_order = first.order
            heap[count].priority = group.queued
            heap[count].basis = first.basis
            heap[count].order = first.order
            heap[count].holder = key
            count += 1
    queues[stream].count = count
    queue.heapify(heap, count)


@kernel
def first_by_tuple(queues, heaps, members, stream):
    """The slot with the smallest stored priority, or NOBODY."""
    heap = heaps[stream]
    count = queues[stream].count
    found = np.int64(NOBODY)
    while count > 0:
        top = heap[0]
        member = members[top.holder]
        if member.order != top.order or top.priority > member.priority:
            count = queue.pop(heap, count)
        elif top.priority < member.priority:
            queue.replace_top(heap, count, member.priority, member.basis, member.order)
        else:
            found = np.int64(top.holder)
            break
    queues[stream].count = count
    return found


@kernel
def first_by_key(rule, queues, heaps, members, groups_, counts, stream):
    """The slot with the smallest present priority, or NOBODY; its priority is in its group."""
    heap = heaps[stream]
    count = queues[stream].count
    found = np.int64(NOBODY)
    while count > 0:
        top = heap[0]
        group = groups_[top.holder, stream]
        if group.root < 0 or top.priority != group.queued or top.order != group.queued_order:
            count = queue.pop(heap, count)
            continue
        first = members[group.root]
        part = worth.key_worth(rule, counts, top.holder, stream)
        priority = worth.group_priority(rule, part, first.basis)
        if priority == top.priority and first.order == top.order:
            found = np.int64(group.root)
            break
        group.queued = priority
        group.queued_order = first.order
        queue.replace_top(heap, count, priority, first.basis, first.order)
    queues[stream].count = count
    return found


@kernel
def reweigh(rule, queues, heaps, members, groups_, counts, key, stream):
    """The worth of a key has changed for the members of `stream`.

    A rise is noticed when the group comes to the top; a fall must be queued at once.
    """
    group = groups_[key, stream]
    if group.root < 0:
        return
    first = members[group.root]
    part = worth.key_worth(rule, counts, key, stream)
    priority = worth.group_priority(rule, part, first.basis)
    if priority < group.queued or (priority == group.queued and first.order != group.queued_order):
        if queues[stream].count == heaps.shape[1]:
            rebuild_by_key(rule, queues, heaps, members, groups_, counts, stream)
        else:
            group.queued = priority
            group.queued_order = first.order
            queues[stream].count = queue.push(
                heaps[stream], queues[stream].count, priority, first.basis, first.order, key
            )


@kernel
def store(queues, heaps, members, slot, priority):
    """Give a member another priority; see `reweigh`."""
    member = members[slot]
    falls = priority < member.priority
    member.priority = priority
    if falls:
        stream = member.stream
        if queues[stream].count == heaps.shape[1]:
            rebuild_by_tuple(queues, heaps, members, stream)
        else:
            queues[stream].count = queue.push(
                heaps[stream], queues[stream].count, priority, member.basis, member.order, slot
            )


@kernel
def rescale(queues, heaps, members, stream):
    """Write the present priorities down, so that the scale is 1 again. The order stays."""
    for slot in range(len(members)):
        if members[slot].order >= 0 and members[slot].stream == stream:
            members[slot].priority *= queues[stream].scale
    queues[stream].scale = 1.0
    rebuild_by_tuple(queues, heaps, members, stream)


@inlined
def decay(shed, stream):
    """One arrival that the members of `stream` did not meet; those it met get it back."""
    queues = shed.queues
    queues[stream].scale *= shed.rule[0].delta
    if queues[stream].scale < _SMALLEST_SCALE:
        rescale(queues, shed.heaps, shed.members, stream)
