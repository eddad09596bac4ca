"""The budget: how much may be retained, and who goes when it is too much.

Law: after each tuple, what an account retains never exceeds its capacity, not by one tuple. The
tuple with the smallest (priority, order of arrival) goes, the new one included; so of equal
priorities the oldest goes (ojewole2006, section 4.3.1).

An *account* is one share of the memory: one per stream, or a single one for all (`split="shared"`).
Its slots stand in a heap by priority. Choosing a victim (here) is separate from removing it (the
driver, which also knows the index).
"""

from __future__ import annotations

import numpy as np

from tidegate import heap
from tidegate.kernel import kernel

ACCOUNT = np.dtype(
    [
        ("capacity", np.int64),  # tuples or bytes
        ("used", np.int64),
        ("peak", np.int64),
        ("count", np.int64),  # slots in its heap
    ]
)

NOBODY = -1
REFUSED = -2


@kernel
def victim(accounts, queues, notes, account, size, priority):
    """Who must go so that a tuple of this size and priority can stay.

    NOBODY if there is room, REFUSED if the new tuple is the one to go, otherwise a slot; ask again
    after removing it.
    """
    share = accounts[account]
    if share.used + size <= share.capacity:
        return np.int64(NOBODY)
    if share.count == 0:
        return np.int64(REFUSED)
    lowest = np.int64(queues[account, 0])
    return np.int64(REFUSED) if priority < notes[lowest].priority else lowest


@kernel
def charge(accounts, queues, notes, account, slot, size, priority):
    """The slot is retained from now on."""
    notes[slot].size = size
    notes[slot].priority = priority
    share = accounts[account]
    share.used += size
    share.peak = max(share.peak, share.used)
    share.count = heap.push(queues[account], notes, heap.PRIORITY, share.count, slot)


@kernel
def release(accounts, queues, notes, account, slot):
    """The slot is retained no longer: its account gets the memory back."""
    share = accounts[account]
    share.used -= notes[slot].size
    share.count = heap.remove(
        queues[account], notes, heap.PRIORITY, share.count, notes[slot].queue_place
    )
