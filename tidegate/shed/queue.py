"""The queue of victims: a heap of entries that carry what they are compared by.

Law: the top is the entry with the smallest (priority, basis, order of arrival), and no two entries
of different tuples share an order. Entries are never searched for: one that no longer says what its
holder says is *dead*, and is dropped when it comes to the top. So which entry is the first live
one depends on what the holders say alone, never on how the heap was built.

Four children to a node and the keys inside the entries: going down one level reads 128 adjacent
bytes, where a binary heap of slot numbers jumps to a record elsewhere for every comparison.
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled.kernel import part

ENTRY = np.dtype(  # 32 bytes: with 28, a tuple under `random` took 8 % longer
    [
        ("priority", np.float64),
        ("basis", np.float64),  # ties: the lower basis goes first (ojewole2006, section 4.3.2)
        ("order", np.int64),  # then the oldest
        ("holder", np.int32),  # a slot, or a key
        ("spare", np.int32),
    ]
)


@part
def before(one, other):
    """Does entry `one` leave before entry `other`?"""
    if one.priority != other.priority:
        return one.priority < other.priority
    if one.basis != other.basis:
        return one.basis < other.basis
    return one.order < other.order


@part
def copy(heap, target, source):
    heap[target].priority = heap[source].priority
    heap[target].basis = heap[source].basis
    heap[target].order = heap[source].order
    heap[target].holder = heap[source].holder


@part
def push(heap, count, priority, basis, order, holder):
    """Add an entry to a heap of `count` entries; returns how many there are after."""
    at = count
    while at > 0:
        parent = (at - 1) >> 2
        above = heap[parent]
        if above.priority < priority:
            break
        if above.priority == priority:
            if above.basis < basis or (above.basis == basis and above.order < order):
                break
        copy(heap, at, parent)
        at = parent
    heap[at].priority = priority
    heap[at].basis = basis
    heap[at].order = order
    heap[at].holder = holder
    return count + 1


@part
def _sink(heap, count, hole, priority, basis, order, holder):
    """Fill the hole from below until the given entry fits into it."""
    at = hole
    while True:
        first = 4 * at + 1
        if first >= count:
            break
        best = first
        for child in range(first + 1, min(first + 4, count)):
            if before(heap[child], heap[best]):
                best = child
        below = heap[best]
        if priority < below.priority:
            break
        if priority == below.priority:
            if basis < below.basis or (basis == below.basis and order < below.order):
                break
        copy(heap, at, best)
        at = best
    heap[at].priority = priority
    heap[at].basis = basis
    heap[at].order = order
    heap[at].holder = holder


@part
def pop(heap, count):
    """Drop the top; returns how many entries are left."""
    count -= 1
    if count > 0:
        last = heap[count]
        _sink(heap, count, 0, last.priority, last.basis, last.order, last.holder)
    return count


@part
def replace_top(heap, count, priority, basis, order):
    """The holder of the top says something higher now: let it sink to where it belongs."""
    _sink(heap, count, 0, priority, basis, order, heap[0].holder)


@part
def heapify(heap, count):
    """Put `count` entries, written in any order, into the order of a heap: O(count)."""
    for at in range((count - 2) >> 2, -1, -1):
        here = heap[at]
        _sink(heap, count, at, here.priority, here.basis, here.order, here.holder)
