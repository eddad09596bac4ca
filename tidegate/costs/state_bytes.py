"""How many bytes an exact join takes for its windows, by the structures it has.

Law: the constants are what the engine counts as `memory_bytes` after small pushes; a test runs the
engine and holds the estimate to within 10 % of it (`tests/test_planner_plan.py`). Larger pushes
make the engine reserve more, up to four times the slots; a budget adds what its policy keeps.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.costs.engine_accesses import FIRST_SLOTS

SLOT_BYTES = 40  # time, key, address, links, places in the lines
HASH_SLOT_BYTES = 8  # ends of buckets, if either window is hashed
TREE_ROW_BYTES = {"B": 64, "T": 28}
PAYLOAD_FACTOR = 1.1  # rows that have died and were not moved yet
KEY_AND_TIME_BYTES = 16
MEASURED = "measured: what the engine counts for each slot, tree entry and payload byte"


def slots_of(rows: float) -> int:
    """Slots double as they are needed."""
    slots = FIRST_SLOTS
    while slots < rows:
        slots *= 2
    return slots


def state_bytes(pair: str, windows: Sequence[float], row_bytes: float = KEY_AND_TIME_BYTES) -> int:
    """Bytes of both windows under a pair of structures, for rows of `row_bytes`."""
    rows = sum(windows)
    slot = SLOT_BYTES + (HASH_SLOT_BYTES if "H" in pair else 0)
    trees = sum(TREE_ROW_BYTES.get(letter, 0) * w for letter, w in zip(pair, windows, strict=True))
    return round(slots_of(rows) * slot + trees + rows * row_bytes * PAYLOAD_FACTOR)
