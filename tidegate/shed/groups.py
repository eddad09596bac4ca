"""Tuples of one key in the order in which they would go.

Law: within a group the tuple with the smallest (basis, order of arrival) stands at the root,
whatever the key is worth now; so a change of a key's worth moves one group and no tuple.

A group is a pairing heap threaded through the members (`links`, and `below` for the first child):
insertion is one comparison, removal of any member O(log) amortised. Where the basis is the same for
all, there is no `below` and a group is a ring of `links` in order of arrival.
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled.kernel import part, step
from tidegate.shed.members import basis_at

NOBODY = -1

GROUP = np.dtype(
    [
        ("queued", np.float32),  # the priority that its entry says, as `rough`
        ("root", np.int32),  # slot, or NOBODY
    ]
)


@part
def rough(priority):
    """The least number of 32 bits that is not below a priority.

    An entry whose priority comes to another one is dead. Should two entries of a key agree, both
    count as live, and each is corrected when it comes to the top.
    """
    number = np.float32(priority)
    return np.nextafter(number, np.float32(np.inf)) if np.float64(number) < priority else number


@part
def _link(members, one, other):
    """Two roots become one: the later becomes the first child of the earlier."""
    first, second = one, other
    its_basis, our_basis = basis_at(members, other), basis_at(members, one)
    if its_basis < our_basis or (
        its_basis == our_basis and members.notes[other].order < members.notes[one].order
    ):
        first, second = other, one
    child = members.below[first]
    members.links[second].next = child
    if child >= 0:
        members.links[child].prev = second
    members.links[second].prev = first
    members.below[first] = second
    return first


@step
def is_ring(members):
    """Is the basis the same for all?"""
    return len(members.below) == 1


@part
def _enter_ring(members, root, slot):
    """Add the newest at the end of a ring, which stands before its root."""
    first = np.int64(slot) if root < 0 else np.int64(root)
    last = np.int64(slot) if root < 0 else np.int64(members.links[first].prev)
    members.links[slot].next = first
    members.links[slot].prev = last
    members.links[last].next = slot
    members.links[first].prev = slot
    return first


@part
def _leave_ring(members, root, slot):
    older, newer = np.int64(members.links[slot].prev), np.int64(members.links[slot].next)
    members.links[older].next = newer
    members.links[newer].prev = older
    if slot != root:
        newer = np.int64(root)
    return np.int64(NOBODY) if older == slot else newer


@part
def insert(members, root, slot):
    """Add a slot; returns the root."""
    if is_ring(members):
        return _enter_ring(members, root, slot)
    members.below[slot] = NOBODY
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
    if is_ring(members):
        return _leave_ring(members, root, slot)
    children = np.int64(members.below[slot])
    if slot == root:
        return _meld(members, children)
    prev, following = members.links[slot].prev, members.links[slot].next
    if members.below[prev] == slot:
        members.below[prev] = following
    else:
        members.links[prev].next = following
    if following >= 0:
        members.links[following].prev = prev
    rest = _meld(members, children)
    return np.int64(root) if rest < 0 else np.int64(_link(members, root, rest))
