"""No index: scan the window (kang2003, section 4.2).

Law: the line of a stream is the window itself, so there is nothing to insert or to remove, and a
probe touches every retained tuple. Serves every predicate.
"""

from __future__ import annotations

from tidegate.compiled.kernel import step
from tidegate.windows.lifetime import NOT_INDEXED


@step
def probe(slots, lanes, lines, stream, found):
    """Write all slots of `stream` that can match into `found`, oldest first; returns how many."""
    count = 0
    for position in range(lanes[stream].begin, lanes[stream].end):
        slot = lines[position]
        if slot >= 0 and slots[slot].older != NOT_INDEXED:
            found[count] = slot
            count += 1
    return count
