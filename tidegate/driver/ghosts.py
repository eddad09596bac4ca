"""Tuples of an instant that did not stay, and still take part in its results (n > 2 streams).

Law: after the last admission of an instant every new tuple is in the index, retained or not; after
the last has met the survivors, only those that are retained. A ghost is one that is not: it is in
no window, charged to no account and counted as gone. It keeps its slot, so nothing is written anew.
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled.kernel import part
from tidegate.state.indexes import enter_index, leave_index
from tidegate.state.join_state import GROUP_ORDER, GROUP_SIZE, SLOT, STREAM, UNUSED
from tidegate.windows import lifetime


@part
def call_back(state, work):
    """Take the slots of new tuples that are gone out of the chain of unused slots, into the index.

    Slots that became unused since admissions began stand at the head of the chain.
    """
    pool = state.pool
    previous = np.int64(-1)
    slot = np.int64(pool[0].first_unused)
    for _ in range(pool[0].unused - work.progress[UNUSED]):
        following = np.int64(state.slots[slot].newer)
        is_new = state.notes[slot].order >= work.progress[GROUP_ORDER]
        if is_new and state.slots[slot].older != lifetime.NOT_INDEXED:
            if previous < 0:
                pool[0].first_unused = following
            else:
                state.slots[previous].newer = following
            pool[0].unused -= 1
            enter_index(state, np.int64(state.notes[slot].stream), slot)
        else:
            previous = slot
        slot = following


@part
def dismiss(state, work):
    """The ghosts of the instant are gone for good."""
    for place in range(work.progress[GROUP_SIZE]):
        slot = work.group[place, SLOT]
        is_retained = state.lines[state.notes[slot].place] == slot
        if not is_retained and state.slots[slot].older != lifetime.NOT_INDEXED:
            leave_index(state, work.group[place, STREAM], slot)
            state.slots[slot].newer = state.pool[0].first_unused
            state.pool[0].first_unused = slot
            state.pool[0].unused += 1
