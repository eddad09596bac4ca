"""A binary heap of slots by the moment they expire, for tuples that came out of order.

Law: the top is the slot with the smallest (deadline, order of arrival), and each slot knows where
it stands (-1: nowhere), so that one that is evicted can be taken out of the middle. No two slots
share an order of arrival, so the order in which slots leave does not depend on how the heap was
built.
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled.kernel import part


@part
def deadline(state, slot):
    """The last moment at which a tuple of a time window is alive."""
    return state.slots[slot].time + state.lanes[state.notes[slot].stream].window


@part
def _before(state, one, other):
    first, second = deadline(state, one), deadline(state, other)
    if first != second:
        return first < second
    return state.notes[one].order < state.notes[other].order


@part
def _put(state, at, slot):
    state.late[at] = slot
    state.late_place[slot] = at


@part
def _rise(state, at):
    slot = state.late[at]
    while at > 0:
        parent = (at - 1) >> 1
        if not _before(state, slot, state.late[parent]):
            break
        _put(state, at, state.late[parent])
        at = parent
    _put(state, at, slot)


@part
def _sink(state, at, count):
    slot = state.late[at]
    while True:
        child = 2 * at + 1
        if child >= count:
            break
        if child + 1 < count and _before(state, state.late[child + 1], state.late[child]):
            child += 1
        if not _before(state, state.late[child], slot):
            break
        _put(state, at, state.late[child])
        at = child
    _put(state, at, slot)
    return at


@part
def push(state, slot):
    """Add a slot to the heap."""
    count = state.pool[0].late
    state.late[count] = slot
    _rise(state, count)
    state.pool[0].late = count + 1


@part
def remove(state, slot):
    """Take a slot out of the heap."""
    at = np.int64(state.late_place[slot])
    count = state.pool[0].late - 1
    if at < count:
        state.late[at] = state.late[count]
        _rise(state, _sink(state, at, count))
    state.late_place[slot] = -1
    state.pool[0].late = count
