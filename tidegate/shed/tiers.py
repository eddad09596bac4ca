"""A queue in three tiers: a small heap, and behind it two unsorted runs.

Law: every entry of the near tier stands before every entry of the middle tier, and these before
those of the far tier; only the near tier is in order. Where a tier ends is its *bound*, the last
entry (by the order of `queue`) that may stand in it. Which entry is the first does not depend on
where the bounds lie.

    queue of a stream   [ near (a heap) ... NEAR | far ....................... | middle ....... | ]

One heap of all entries would be read in many places at each step, and half of each step would be
spent waiting for memory once it outgrows the CPU's caches. Here most entries are written once, to
the end of the far tier, and read one after the other when the tiers before it are used up: a tier
is filled from the next by one pass that picks what lies below a bound estimated from a sample. With
n entries and a middle tier of the order of sqrt(NEAR n), an entry is passed sqrt(n / NEAR) times in
each tier per entry that leaves; at n = 500,000 that is some thirty times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tidegate.compiled.kernel import kernel, part, step
from tidegate.shed import queue

NEAR = 1024  # room of the near tier: 16 kB
_FEWEST = 16  # entries that any queue has room for
_FILL = NEAR // 2
_SAMPLE = 128
_LAST = 2**62  # an order after all others


def length_for(slots: int, streams: int) -> int:
    """The length of all queues together: an eighth of the entries may be dead before a queue is
    rebuilt without them, and an eighth is there to be shared out as the streams need it."""
    return streams * (NEAR + _FEWEST) + slots + slots // 4


def starts_for(members: Sequence[int], length: int) -> list[int]:
    """Where the queue of each stream begins, and the end of the last."""
    needed = [NEAR + _FEWEST + number + number // 8 for number in members]
    spare = (length - sum(needed)) // len(members)
    return [0, *np.cumsum([number + spare for number in needed]).tolist()]


@kernel
def move_all(queues, heaps, starts, more):
    """Write all queues into another array."""
    for stream in range(len(queues)):
        line = queues[stream]
        for at in range(line.count + NEAR if line.count > 0 else 0):
            source, target = line.start + at, starts[stream] + at
            entry = heaps.entries[source]
            queue.write(
                more, target, entry.priority, queue.basis_in(heaps, source),
                np.int64(entry.order), np.int64(entry.holder),
            )  # fmt: skip
        line.start, line.stop = starts[stream], starts[stream + 1]


@step
def room(queues, stream):
    """How many entries a stream may have, so that all fit behind the near tier."""
    return queues[stream].stop - queues[stream].start - NEAR


@step
def is_crowded(queues, stream):
    """Has the queue no room for one member more and an eighth of dead entries?"""
    members = queues[stream].members + 1
    return members + members // 8 >= room(queues, stream)


@part
def clear(queues, stream):
    """No entries, and the next ones go to the far tier."""
    line = queues[stream]
    line.count = line.near = line.middle = 0
    line.near_priority = line.middle_priority = -np.inf
    line.near_basis = line.middle_basis = -np.inf
    line.near_order = line.middle_order = -1


@part
def append(queues, heaps, stream, priority, basis, order, holder):
    """Write one of many entries; the queue was cleared before and is not in use yet."""
    line = queues[stream]
    queue.write(heaps, line.start + NEAR + line.count, priority, basis, order, holder)
    line.count += 1


@part
def _is_within(priority, basis, order, last_priority, last_basis, last_order):
    """Does an entry stand no later than a bound?"""
    if priority != last_priority:
        return priority < last_priority
    if basis != last_basis:
        return basis < last_basis
    return order <= last_order


@part
def push(queues, heaps, stream, priority, basis, order, holder):
    """Add an entry; the caller has made sure of `room`."""
    line = queues[stream]
    if line.count == 0:
        line.near = line.middle = 0
    if _is_within(priority, basis, order, line.near_priority, line.near_basis, line.near_order):
        if line.near == NEAR:
            _give_up_near(line, heaps)
    if _is_within(priority, basis, order, line.near_priority, line.near_basis, line.near_order):
        line.near = queue.push(heaps, line.start, line.near, priority, basis, order, holder)
    else:
        end = line.start + NEAR + line.count - line.near
        if not _is_within(
            priority, basis, order, line.middle_priority, line.middle_basis, line.middle_order
        ):
            if line.middle > 0:
                # The first of the middle tier makes place at the end of the far one.
                queue.copy(heaps, end, end - line.middle)
            end -= line.middle
        else:
            line.middle += 1
        queue.write(heaps, end, priority, basis, order, holder)
    line.count += 1


@part
def _give_up_near(line, heaps):
    """A full near tier goes to the middle one; it is filled again when it is needed."""
    end = line.start + NEAR + line.count - line.near
    for at in range(line.near):
        queue.copy(heaps, end + at, line.start + at)
    line.middle += line.near
    line.near = 0
    line.near_priority = line.near_basis = -np.inf
    line.near_order = -1


@part
def pop(queues, heaps, stream):
    """Drop the first entry."""
    line = queues[stream]
    line.near = queue.pop(heaps, line.start, line.near)
    line.count -= 1


@part
def move_top(queues, heaps, stream, priority, basis, order):
    """The holder of the first entry says something higher now: to where it belongs."""
    line = queues[stream]
    if _is_within(priority, basis, order, line.near_priority, line.near_basis, line.near_order):
        queue.replace_top(heaps, line.start, line.near, priority, basis, order)
    else:
        holder = np.int64(heaps.entries[line.start].holder)
        pop(queues, heaps, stream)
        push(queues, heaps, stream, priority, basis, order, holder)


@part
def refill(queues, heaps, stream):
    """Move the first entries to the near tier, which is empty; they are not in order yet.

    Returns how many. The caller looks at each, as all stand in one place, and calls `keep` for
    those that still say what their holders say; then `end_refill`.
    """
    line = queues[stream]
    found = _refill(line, heaps)
    line.count -= found
    return found


@part
def keep(queues, heaps, stream, priority, basis, order, holder):
    """One of the entries looked at goes on, perhaps saying something higher than before."""
    line = queues[stream]
    if _is_within(priority, basis, order, line.near_priority, line.near_basis, line.near_order):
        queue.write(heaps, line.start + line.near, priority, basis, order, holder)
        line.near += 1
        line.count += 1
    else:
        push(queues, heaps, stream, priority, basis, order, holder)


@part
def end_refill(queues, heaps, stream):
    queue.heapify(heaps, queues[stream].start, queues[stream].near)


@part
def _take_all(line, heaps):
    """So few entries that one heap is best."""
    for at in range(line.count):
        queue.copy(heaps, line.start + at, line.start + NEAR + at)
    line.middle = 0
    line.near_priority = line.near_basis = np.inf
    line.near_order = _LAST


@part
def _refill(line, heaps):
    """Fill the near tier, which is empty, and before it the middle one if that is empty too."""
    if line.count <= _FILL:
        _take_all(line, heaps)
        return line.count
    start = line.start
    wanted = max(1, min(line.count // 2, int(math.sqrt(np.float64(line.count) * _FILL))))
    # A middle tier that has grown far beyond what it should be is as bad as none.
    if line.middle == 0 or line.middle > 4 * wanted:
        found, priority, basis, order = _split(
            heaps, start, start + NEAR, start + NEAR + line.count, wanted
        )
        line.middle = found
        line.middle_priority, line.middle_basis, line.middle_order = priority, basis, order
    end = start + NEAR + line.count
    wanted = max(1, min(line.middle // 4, _FILL))
    found, priority, basis, order = _split(heaps, start, end - line.middle, end, wanted)
    while found > NEAR:
        before = found
        found, priority, basis, order = _split(heaps, start, end - found, end, wanted)
        if found == before:
            # The sample knew no better: take the first entry, and those that say the same.
            found, priority, basis, order = _split_first(heaps, start, end - found, end)
            if found > NEAR:
                # They are of one holder, and one of them is enough.
                line.count -= found - 1
                line.middle -= found - 1
                end -= found - 1
                found = 1
    line.near_priority, line.near_basis, line.near_order = priority, basis, order
    for at in range(found):
        queue.copy(heaps, start + at, end - found + at)
    line.middle -= found
    return found


@part
def _split_first(heaps, start, begin, end):
    """Bring the first entry of a stretch and all that say the same to its end; as `_split`."""
    first = begin
    for at in range(begin + 1, end):
        if queue.before(heaps, at, first):
            first = at
    return _gather_as(heaps, start, begin, end, first)


@part
def _split(heaps, start, begin, end, wanted):
    """Bring about `wanted` of the first entries of a stretch to its end.

    Returns how many, at least 1, and the bound. The near tier, which is empty, is the scratch.
    """
    length = end - begin
    sample = max(1, min(_SAMPLE, length // 8))
    for k in range(sample):
        queue.copy(heaps, start + k, begin + k * (length // sample))
    queue.heapify(heaps, start, sample)
    left = sample
    for _ in range((sample * wanted - 1) // length):
        left = queue.pop(heaps, start, left)
    return _gather_as(heaps, start, begin, end, start)


@part
def _gather_as(heaps, start, begin, end, bound):
    """Bring the entries that stand no later than that at `bound` to the end of their stretch;
    returns how many, and what it says."""
    priority, basis = heaps.entries[bound].priority, queue.basis_in(heaps, bound)
    order = np.int64(heaps.entries[bound].order)
    first = end
    for at in range(end - 1, begin - 1, -1):
        entry = heaps.entries[at]
        its_order = np.int64(entry.order)
        if _is_within(entry.priority, queue.basis_in(heaps, at), its_order, priority, basis, order):
            first -= 1
            if at != first:
                queue.copy(heaps, start, first)
                queue.copy(heaps, first, at)
                queue.copy(heaps, at, start)
    return end - first, priority, basis, order
