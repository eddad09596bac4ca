"""The queue of victims: a heap of entries that carry what they are compared by.

Law: the top is the entry with the smallest (priority, basis, order of arrival), and no two entries
of different tuples share an order. Entries are never searched for: one that no longer says what its
holder says is *dead*, and is dropped when it comes to the top. So which entry is the first live
one depends on what the holders say alone, never on how the heap was built.

Four children to a node and the keys inside the entries: going down one level reads 64 adjacent
bytes, where a binary heap of slot numbers jumps to a record elsewhere for every comparison. A heap
is a stretch of the array of all queues: it begins at `start`, and places are counted from there.
Places are read as unsigned numbers: of signed ones numba asks each time whether they count from the
end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.compiled.frames import frame
from tidegate.compiled.kernel import part, step
from tidegate.compiled.layout import records

ENTRY = np.dtype(
    [
        ("priority", np.float64),
        ("order", np.int32),  # of equals the oldest goes first
        ("holder", np.int32),  # a slot, or a key
    ]
)


@frame
class Heaps(NamedTuple):
    """The queues of all streams."""

    entries: Any
    # Ties: the lower basis goes first (ojewole2006, section 4.3.2). One number where all tuples
    # have the same basis.
    bases: NDArray[np.float64]


def empty(length: int, has_bases: bool) -> Heaps:
    """Room for so many entries."""
    return Heaps(records(ENTRY, length), np.zeros(length if has_bases else 1, np.float64))


@step
def basis_in(heaps, at):
    return heaps.bases[np.uint64(at) if len(heaps.bases) > 1 else np.uint64(0)]


@part
def write(heaps, at, priority, basis, order, holder):
    """Put an entry into a place of the array."""
    entry = heaps.entries[np.uint64(at)]
    entry.priority = priority
    entry.order = order
    entry.holder = holder
    heaps.bases[np.uint64(at) if len(heaps.bases) > 1 else np.uint64(0)] = basis


@part
def copy(heaps, target, source):
    entry, other = heaps.entries[np.uint64(target)], heaps.entries[np.uint64(source)]
    entry.priority = other.priority
    entry.order = other.order
    entry.holder = other.holder
    if len(heaps.bases) > 1:
        heaps.bases[np.uint64(target)] = heaps.bases[np.uint64(source)]


@part
def is_before(heaps, at, priority, basis, order):
    """Does the entry in a place of the array leave before one that says this?"""
    its_priority = heaps.entries[np.uint64(at)].priority
    leaves = its_priority < priority  # no branch: nobody could predict it
    if its_priority == priority:
        its_basis = basis_in(heaps, at)
        leaves = its_basis < basis
        if its_basis == basis:
            leaves = np.int64(heaps.entries[np.uint64(at)].order) < order
    return leaves


@part
def before(heaps, one, other):
    """Does the entry in one place leave before that in another?"""
    entry = heaps.entries[np.uint64(other)]
    basis, order = basis_in(heaps, other), np.int64(entry.order)
    return is_before(heaps, one, entry.priority, basis, order)


@part
def push(heaps, start, count, priority, basis, order, holder):
    """Add an entry to a heap of `count` entries; returns how many there are after."""
    at = count
    while at > 0:
        parent = (at - 1) >> 2
        if is_before(heaps, start + parent, priority, basis, order):
            break
        copy(heaps, start + at, start + parent)
        at = parent
    write(heaps, start + at, priority, basis, order, holder)
    return count + 1


@step
def _first_of(heaps, start, begin, end):
    """Which of up to four entries leaves first."""
    if end == begin + 4 and len(heaps.bases) == 1:
        # As in a cup, so that the CPU looks at both pairs at once.
        entries = heaps.entries
        one, two = entries[np.uint64(start + begin)], entries[np.uint64(start + begin + 1)]
        three, four = entries[np.uint64(start + begin + 2)], entries[np.uint64(start + begin + 3)]
        first, second = one.priority, two.priority
        third, fourth = three.priority, four.priority
        left = (second < first) | ((second == first) & (two.order < one.order))
        right = (fourth < third) | ((fourth == third) & (four.order < three.order))
        least, order = (second, two.order) if left else (first, one.order)
        other, its_order = (fourth, four.order) if right else (third, three.order)
        if (other < least) | ((other == least) & (its_order < order)):
            return begin + 2 + np.int64(right)
        return begin + np.int64(left)
    best = begin
    least = heaps.entries[np.uint64(start + begin)].priority
    oldest = np.int64(heaps.entries[np.uint64(start + begin)].order)
    for at in range(begin + 1, end):
        priority = heaps.entries[np.uint64(start + at)].priority
        order = np.int64(heaps.entries[np.uint64(start + at)].order)
        leaves = (priority < least) | ((priority == least) & (order < oldest))
        if len(heaps.bases) > 1:
            leaves = before(heaps, start + at, start + best)
        best = at if leaves else best
        least = priority if leaves else least
        oldest = order if leaves else oldest
    return best


@part
def _sink(heaps, start, count, hole, priority, basis, order, holder):
    """Fill the hole from below until the given entry fits into it."""
    at = hole
    while True:
        first = 4 * at + 1
        if first >= count:
            break
        best = _first_of(heaps, start, first, min(first + 4, count))
        if not is_before(heaps, start + best, priority, basis, order):
            break
        copy(heaps, start + at, start + best)
        at = best
    write(heaps, start + at, priority, basis, order, holder)


@part
def _sink_own(heaps, start, count, hole, source):
    """Fill the hole from below until the entry that stands at `source` fits into it."""
    entry = heaps.entries[start + source]
    priority, order, holder = entry.priority, np.int64(entry.order), np.int64(entry.holder)
    basis = basis_in(heaps, start + source)
    _sink(heaps, start, count, hole, priority, basis, order, holder)


@part
def pop(heaps, start, count):
    """Drop the top; returns how many entries are left.

    The hole sinks to the bottom, and the last entry rises from there: it belongs near the bottom,
    so asking on each level whether it fits would be in vain.
    """
    count -= 1
    at = np.int64(0)
    while 4 * at + 1 < count:
        first = 4 * at + 1
        best = _first_of(heaps, start, first, min(first + 4, count))
        copy(heaps, start + at, start + best)
        at = best
    if count > 0:
        entry = heaps.entries[np.uint64(start + count)]
        priority, order, holder = entry.priority, np.int64(entry.order), np.int64(entry.holder)
        basis = basis_in(heaps, start + count)
        push(heaps, start, at, priority, basis, order, holder)
    return count


@part
def replace_top(heaps, start, count, priority, basis, order):
    """The holder of the top says something higher now: let it sink to where it belongs."""
    holder = np.int64(heaps.entries[start].holder)
    _sink(heaps, start, count, 0, priority, basis, order, holder)


@part
def heapify(heaps, start, count):
    """Put `count` entries, written in any order, into the order of a heap: O(count)."""
    for at in range((count - 2) >> 2, -1, -1):
        _sink_own(heaps, start, count, at, at)
