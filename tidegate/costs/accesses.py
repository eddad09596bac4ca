"""How many tuples an operation touches in each structure (kang2003, equations 3 to 6).

Law: a count depends on the size of the window and the shape of the structure alone, never on the
structure of the opposite window: that is what makes the two join directions independent.

With B tuples in the window, nodes of N entries and buckets of b tuples, a search touches

    nested loop   B                                                     (3)
    hash          b                                                     (4)
    B+tree        (ceil(log_{N+1} ceil(B/N)) + 1) * ceil(log2 N)        (5)
    T-tree        1.5 * (ceil(log2 ceil(B/N)) - 1) + ceil(log2 N)       (6)

and an update, which is an insertion and an invalidation, 2 in (3) and (4) and twice a search in (5)
and (6). Equation 6 as printed has lost the bracket around the update; Table 3 needs it.
"""

from __future__ import annotations

from typing import NamedTuple


class Accesses(NamedTuple):
    """Tuples touched by one search, and by one insertion with the invalidation it causes.

    `matches` are those of a search that become results, where they are told apart.
    """

    search: float
    update: float
    matches: float = 0.0


def ceil_log(base: int, number: int) -> int:
    """The smallest k with base ** k >= number; whole numbers only, so no rounding.

    >>> ceil_log(2, 1), ceil_log(2, 95), ceil_log(101, 101), ceil_log(101, 102)
    (0, 7, 1, 2)
    """
    power, k = 1, 0
    while power < number:
        power *= base
        k += 1
    return k


def paper_accesses(letter: str, tuples: float, bucket_size: float, node_size: int) -> Accesses:
    """Equations 3 to 6 for a window of `tuples`."""
    if letter == "N":
        return Accesses(tuples, 2.0)
    if letter == "H":
        return Accesses(min(bucket_size, tuples), 2.0)
    nodes = max(1, -int(-tuples // node_size))
    inside = ceil_log(2, node_size)
    if letter == "B":
        search = float((ceil_log(node_size + 1, nodes) + 1) * inside)
    else:
        # A tree of one node has no level above the one that is searched.
        search = 1.5 * max(0, ceil_log(2, nodes) - 1) + inside
    return Accesses(search, 2.0 * search)
