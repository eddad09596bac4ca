"""How many comparisons the engine's own structures make (`tidegate/index`), in the mean.

Law: a mean over windows that slide, with keys drawn at random, is within 10 % of what the engine
counts in `stats()` (`tests/test_planner_counts.py`). The equations of the paper round every level
up, which is as much as a quarter off.

For windows of B tuples in which a search finds m matches and a key occurs d times:

    nested loop   B
    hash          m, and of each other tuple its chance to share the bucket
    B+tree        log2 B + 1.8 + m: the halving of all levels together, and an end of the range
    T-tree        1.25 log2 B + 0.4 + m: a step down takes one comparison or two, so a level costs
                  more than in a B+tree; log2 B + 3 + m while the tree is a single node

An insertion and an invalidation search twice, without reading the range to its end; equal keys are
told apart by their slots, which takes more comparisons the more there are. The constants were
fitted to counts for B = 50 to 30,000 with nodes of 64 entries, which is the engine's size.
"""

from __future__ import annotations

import math

from tidegate.costs.accesses import Accesses
from tidegate.costs.workload import Workload

NODE_SIZE = 64
FIRST_SLOTS = 1024


def hash_buckets(rows: float) -> int:
    """Buckets of an engine with so many rows: slots double, and buckets are half of them."""
    slots = FIRST_SLOTS
    while slots < rows:
        slots *= 2
    return slots // 2


def engine_accesses(letter: str, tuples: float, workload: Workload, stream: int) -> Accesses:
    """Mean comparisons of one search, and of one insertion with an invalidation."""
    sigma = workload.sigma or 0.0
    matches = sigma * tuples
    if letter == "N":
        return Accesses(tuples, 2.0, matches)
    if letter == "H":
        others = (tuples - matches) / hash_buckets(workload.rows)
        return Accesses(matches + others, 2.0, matches)
    doublings = math.log2(max(tuples, 1.0))
    if letter == "B":
        search = doublings + 1.8
        update = 2.0 * search - 1.0
    else:
        search = doublings + 3.0 if tuples <= NODE_SIZE else 1.25 * doublings + 0.4
        update = 2.0 * search - 0.7
    repeated = tuples / workload.keys[stream] if workload.keys else matches
    return Accesses(search + matches, update + _telling_apart(letter, repeated), matches)


def _telling_apart(letter: str, repeated: float) -> float:
    """Comparisons of slots under one key that occurs `repeated` times, for both operations."""
    more = 1.5 * math.log2(max(1.0, repeated / 3.0)) if letter == "B" else 0.0
    return 9.0 * (1.0 - math.exp(-0.6 * repeated)) + more
