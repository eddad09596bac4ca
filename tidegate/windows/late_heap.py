"""A binary heap of slots by the moment they expire, for tuples that came out of order.

Law: the top is the slot with the smallest (deadline, order of arrival), and each slot knows where
it stands (-1: nowhere), so that one that is evicted can be taken out of the middle. No two slots
share an order of arrival, so the order in which slots leave does not depend on how the heap was
built.
"""

from __future__ import annotations

from tidegate.compiled.kernel import part


@part
def _before(notes, one, other):
    if notes[one].mark != notes[other].mark:
        return notes[one].mark < notes[other].mark
    return notes[one].order < notes[other].order


@part
def _put(heap, notes, at, slot):
    heap[at] = slot
    notes[slot].late_place = at


@part
def _rise(heap, notes, at):
    slot = heap[at]
    while at > 0:
        parent = (at - 1) >> 1
        if not _before(notes, slot, heap[parent]):
            break
        _put(heap, notes, at, heap[parent])
        at = parent
    _put(heap, notes, at, slot)


@part
def _sink(heap, notes, at, count):
    slot = heap[at]
    while True:
        child = 2 * at + 1
        if child >= count:
            break
        if child + 1 < count and _before(notes, heap[child + 1], heap[child]):
            child += 1
        if not _before(notes, heap[child], slot):
            break
        _put(heap, notes, at, heap[child])
        at = child
    _put(heap, notes, at, slot)
    return at


@part
def push(heap, notes, count, slot):
    """Add `slot` to a heap of `count` slots; returns the number of slots after."""
    heap[count] = slot
    _rise(heap, notes, count)
    return count + 1


@part
def remove(heap, notes, count, at):
    """Take out the slot that stands `at`; returns the number of slots left."""
    slot = heap[at]
    count -= 1
    if at < count:
        heap[at] = heap[count]
        _rise(heap, notes, _sink(heap, notes, at, count))
    notes[slot].late_place = -1
    return count
