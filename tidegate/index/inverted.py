"""Inverted index for set predicates: item -> the tuples that hold it (gedik2005, section 4.2).

Law: the list of an item keeps its tuples in order of arrival, so that insertion and expiry cost
one access per item, and a part of the window by time can be processed alone. Serves set overlap and
inner products.

All sets, indexed or not, live in the *arena*: the items of a retained tuple stand side by side,
sorted. A place in the arena is at once the posting of that item: the lists are links between
places (a hash index over postings), and need no storage of their own. For tuples of one item this
is the hash index.
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled.kernel import kernel, routine
from tidegate.index import hash_table

POSTING = np.dtype(
    [
        ("member", np.int64),
        ("weight", np.float64),
        ("owner", np.int32),  # the slot
        ("newer", np.int32),
        ("older", np.int32),
        ("spare", np.int32),
    ]
)


@kernel
def store(arena, used, items, weights, begin, length, slot):
    """Copy a set to the end of the arena; returns where it stands. There must be room."""
    place = used[0]
    for offset in range(length):
        posting = arena[place + offset]
        posting.member = items[begin + offset]
        posting.weight = weights[begin + offset]
        posting.owner = slot
    used[0] = place + length
    return place


@routine
def insert(lists, arena, stream, begin, length):
    for place in range(begin, begin + length):
        bucket = hash_table.bucket_of(lists, arena[place].member)
        hash_table.insert(lists, arena, stream, bucket, place)


@routine
def remove(lists, arena, stream, begin, length):
    for place in range(begin, begin + length):
        bucket = hash_table.bucket_of(lists, arena[place].member)
        hash_table.remove(lists, arena, stream, bucket, place)


@routine
def probe(lists, arena, totals, stream, items, weights, begin, length, weighted, at_least, found):
    """Write the slots of `stream` whose set reaches `at_least` with the given one into `found`.

    The measure is the number of common items, or the inner product if `weighted`. `totals[slot]`
    is scratch: (times met, total so far), zero between probes. Returns how many slots, and how
    many postings were compared.
    """
    met = 0
    comparisons = 0
    for offset in range(begin, begin + length):
        item = items[offset]
        place = lists[hash_table.bucket_of(lists, item), stream, hash_table.OLDEST]
        while place >= 0:
            comparisons += 1
            posting = arena[place]
            if posting.member == item:
                slot = posting.owner
                if totals[slot, 0] == 0.0:
                    found[met] = slot
                    met += 1
                totals[slot, 0] += 1.0
                totals[slot, 1] += posting.weight * weights[offset]
            place = posting.newer
    count = 0
    for candidate in range(met):
        slot = found[candidate]
        if totals[slot, 1 if weighted else 0] >= at_least:
            found[count] = slot
            count += 1
        totals[slot, 0] = 0.0
        totals[slot, 1] = 0.0
    return count, comparisons


@routine
def common(arena, begin, length, items, weights, other_begin, other_length, weighted):
    """The same measure of two sorted sets, without the index: by merging."""
    total = 0.0
    one, other = begin, other_begin
    one_end, other_end = begin + length, other_begin + other_length
    while one < one_end and other < other_end:
        if arena[one].member == items[other]:
            total += arena[one].weight * weights[other] if weighted else 1.0
            one += 1
            other += 1
        elif arena[one].member < items[other]:
            one += 1
        else:
            other += 1
    return total
