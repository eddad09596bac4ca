"""A binary heap of slots that can be changed in the middle.

Law: the top is the slot with the smallest (key, order of arrival), and each slot knows where it
stands (-1: nowhere). No two slots share an order of arrival, so the order in which slots leave
does not depend on how the heap was built.

One implementation serves both queues of the engine: `DEADLINE` (tuples that came out of order, by
the moment they expire) and `PRIORITY` (tuples under a budget, by what they are worth).
"""

from __future__ import annotations

from tidegate.kernel import kernel

DEADLINE = 0
PRIORITY = 1


@kernel
def _before(notes, queue, one, other):
    if queue == DEADLINE:
        if notes[one].deadline != notes[other].deadline:
            return notes[one].deadline < notes[other].deadline
    elif notes[one].priority != notes[other].priority:
        return notes[one].priority < notes[other].priority
    return notes[one].order < notes[other].order


@kernel
def _put(heap, notes, queue, at, slot):
    heap[at] = slot
    if queue == DEADLINE:
        notes[slot].late_place = at
    else:
        notes[slot].queue_place = at


@kernel
def _rise(heap, notes, queue, at):
    slot = heap[at]
    while at > 0:
        parent = (at - 1) >> 1
        if not _before(notes, queue, slot, heap[parent]):
            break
        _put(heap, notes, queue, at, heap[parent])
        at = parent
    _put(heap, notes, queue, at, slot)
    return at


@kernel
def _sink(heap, notes, queue, at, count):
    slot = heap[at]
    while True:
        child = 2 * at + 1
        if child >= count:
            break
        if child + 1 < count and _before(notes, queue, heap[child + 1], heap[child]):
            child += 1
        if not _before(notes, queue, heap[child], slot):
            break
        _put(heap, notes, queue, at, heap[child])
        at = child
    _put(heap, notes, queue, at, slot)
    return at


@kernel
def push(heap, notes, queue, count, slot):
    """Add `slot` to a heap of `count` slots; returns the number of slots after."""
    heap[count] = slot
    _rise(heap, notes, queue, count)
    return count + 1


@kernel
def remove(heap, notes, queue, count, at):
    """Take out the slot that stands `at`; returns the number of slots left."""
    slot = heap[at]
    count -= 1
    if at < count:
        heap[at] = heap[count]
        _rise(heap, notes, queue, _sink(heap, notes, queue, at, count))
    if queue == DEADLINE:
        notes[slot].late_place = -1
    else:
        notes[slot].queue_place = -1
    return count


@kernel
def changed(heap, notes, queue, count, at):
    """Restore the order after the key of the slot that stands `at` was changed."""
    _rise(heap, notes, queue, _sink(heap, notes, queue, at, count))
