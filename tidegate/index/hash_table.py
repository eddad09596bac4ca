"""Hash index: buckets that keep their order of arrival (kang2003, section 4.2).

Law: a bucket is a doubly linked chain from the oldest node to the newest, so insertion, expiry and
eviction are one access each. Serves equality only. The oldest node's link to an older one is never
read, so that expiry need not touch the second node.

A node is a record with the fields `newer` and `older`: a slot, or a posting of the inverted index.
The ends of a bucket's chains stand side by side for all streams (`bounds[bucket, stream]`): a tuple
probes the opposite chain and joins its own, and both stand in one cache line.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidegate.compiled.kernel import prefetch, step

OLDEST, NEWEST = 0, 1
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: spreads consecutive keys
_HALF = np.uint64(32)


def empty(streams: int, capacity: int) -> NDArray[np.int32]:
    """Buckets for `capacity` nodes of all streams together.

    Half as many buckets as nodes: a chain then holds about one node of each of two streams, and
    the buckets stay small enough for the CPU's caches (twice as many measured slower). With three
    or four streams more: an arrival looks first whether all other chains have a node, and nodes of
    other keys make it look in vain.
    """
    buckets = capacity // 2
    if streams > 2:
        buckets = max(buckets, 5 * capacity // (2 * streams))
    buckets = max(16, buckets)
    return np.full((buckets, streams, 2), -1, np.int32)


@step
def bucket_of(bounds, code):
    # The high half of the product is well mixed; it is scaled to the number of buckets.
    mixed = (np.uint64(code) * _MULTIPLIER) >> _HALF
    return (mixed * np.uint64(bounds.shape[0])) >> _HALF


@step
def insert(bounds, nodes, stream, bucket, node):
    newest = bounds[bucket, stream, NEWEST]
    nodes[node].older = newest
    nodes[node].newer = -1
    if newest >= 0:
        nodes[newest].newer = node
    else:
        bounds[bucket, stream, OLDEST] = node
    bounds[bucket, stream, NEWEST] = node


@step
def remove(bounds, nodes, stream, bucket, node):
    newer = nodes[node].newer
    if bounds[bucket, stream, OLDEST] == node:
        bounds[bucket, stream, OLDEST] = newer
        if newer < 0:
            bounds[bucket, stream, NEWEST] = -1
    else:
        older = nodes[node].older
        nodes[older].newer = newer
        if newer >= 0:
            nodes[newer].older = older
        else:
            bounds[bucket, stream, NEWEST] = older


@step
def probe(bounds, slots, stream, code, found):
    """Write the slots of `stream` with this code into `found`, oldest first.

    Returns how many, and how many slots were compared.
    """
    count = 0
    comparisons = 0
    slot = bounds[bucket_of(bounds, code), stream, OLDEST]
    while slot >= 0:
        comparisons += 1
        if slots[slot].code == code:
            found[count] = slot
            count += 1
        slot = slots[slot].newer
    return count, comparisons


@step
def warm_bucket(bounds, bucket):
    """Bring a bucket near that will be probed soon."""
    prefetch(bounds.ctypes.data + np.int64(bucket) * bounds.shape[1] * 8)


@step
def warm_second(bounds, nodes, stream, bucket):
    """Bring the second node of a chain near, whose first is near already.

    Whether there is one is not asked: a branch that nobody can predict costs more than a fetch in
    vain, of whatever lies before the nodes.
    """
    node = max(np.int64(0), np.int64(bounds[bucket, stream, OLDEST]))
    prefetch(nodes.ctypes.data + np.int64(nodes[np.uint64(node)].newer) * nodes.itemsize)


@step
def warm_chain(bounds, nodes, stream, end, bucket):
    """Bring one end of a chain near, whose bucket is near already."""
    prefetch(nodes.ctypes.data + np.int64(bounds[bucket, stream, end]) * nodes.itemsize)
