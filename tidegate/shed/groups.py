"""Tuples of one key in the order in which they would go.

Law: within a group the tuple with the smallest (basis, order of arrival) stands at the root,
whatever the key is worth now; so a change of a key's worth moves one group and no tuple.

A group is a pairing heap threaded through the members (`child`, `next`, `prev`): insertion is one
comparison, removal of any member O(log) amortised. Without importances the basis is the
same for all, and a group is a queue by age.
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled.kernel import inlined, part
from tidegate.shed.members import basis_at

NOBODY = -1

GROUP = np.dtype(
    [
        ("queued", np.float64),  # priority and order of its entry in the queue that counts, an
        ("queued_order", np.int32),  # order as `short`; an entry that says anything else is dead
        ("root", np.int32),  # slot, or NOBODY
    ]
)


@inlined
def short(order):
    """The end of an order: enough to tell the entries of one key apart that are worth the same.

    Should two agree, both count as live, and the one that comes to the top first is corrected.
    """
    return np.int32(order & np.int64(0x7FFFFFFF))


@part
def _link(members, one, other):
    """Two roots become one: the later becomes the first child of the earlier."""
    first, second = one, other
    its_basis, our_basis = basis_at(members, other), basis_at(members, one)
    if its_basis < our_basis or (
        its_basis == our_basis and members.notes[other].order < members.notes[one].order
    ):
        first, second = other, one
    child = members.links[first].child
    members.links[second].next = child
    if child >= 0:
        members.links[child].prev = second
    members.links[second].prev = first
    members.links[first].child = second
    return first


@part
def insert(members, root, slot):
    """Add a slot; returns the root."""
    members.links[slot].child = NOBODY
    members.links[slot].next = NOBODY
    members.links[slot].prev = NOBODY
    return np.int64(slot) if root < 0 else np.int64(_link(members, root, slot))


@part
def _meld(members, first):
    """The root of a list of siblings: linked in pairs, then pair by pair from the last on."""
    pairs = np.int64(NOBODY)
    while first >= 0:
        one = np.int64(first)
        other = np.int64(members.links[one].next)
        first = np.int64(NOBODY)
        members.links[one].next = NOBODY
        members.links[one].prev = NOBODY
        if other >= 0:
            first = np.int64(members.links[other].next)
            members.links[other].next = NOBODY
            members.links[other].prev = NOBODY
            one = np.int64(_link(members, one, other))
        members.links[one].next = pairs
        pairs = one
    if pairs < 0:
        return pairs
    root = pairs
    pairs = np.int64(members.links[root].next)
    members.links[root].next = NOBODY
    while pairs >= 0:
        following = np.int64(members.links[pairs].next)
        members.links[pairs].next = NOBODY
        root = np.int64(_link(members, root, pairs))
        pairs = following
    return root


@part
def remove(members, root, slot):
    """Take a slot out; returns the root."""
    children = np.int64(members.links[slot].child)
    if slot == root:
        return _meld(members, children)
    prev, following = members.links[slot].prev, members.links[slot].next
    if members.links[prev].child == slot:
        members.links[prev].child = following
    else:
        members.links[prev].next = following
    if following >= 0:
        members.links[following].prev = prev
    rest = _meld(members, children)
    return np.int64(root) if rest < 0 else np.int64(_link(members, root, rest))
