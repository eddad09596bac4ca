"""T-tree over slots: a balanced binary tree whose nodes hold many entries (Lehman and Carey).

The law kept here: read from left to right, the nodes hold all entries in the order of (key, slot);
the two subtrees of a node differ in height by at most one; a node with two children holds at
least `least_inside` entries, any other at least one. So inserting, removing and finding the start
of a range cost O(log n), however many entries share a key.

A node *bounds* what lies between its first and its last entry. Beyond the original, nodes know
their neighbours in key order: ranges are read along them, and the node that holds the greatest
entry below a node (from which it borrows, to which it overflows) is one step away.

One `Tree` holds a tree per stream in common node arrays. Cost by kang2003, equation 6 with the
bracket of its Table 3, for B entries in nodes of N: 1.5 * (ceil(log2 ceil(B / N)) - 1) +
ceil(log2 N) comparisons for a search, 1.5 because a step to the left needs one comparison and a
step to the right two.
"""

from typing import NamedTuple

import numpy as np

from tidegate.compiled.frames import frame
from tidegate.compiled.kernel import kernel, routine
from tidegate.index.node_search import (
    NONE,
    Array,
    doubled_pool,
    doubled_rows,
    drop_entry,
    first_entry_at_least,
    first_key_at_least,
    give,
    new_pool,
    put_entry,
    report,
    share,
    slot_at,
    take,
)

# Columns of `links`. A side is 0 or 1, so that left and right are one code: the child at a side
# is column `side`, the neighbour in key order at that side is column PREVIOUS + side.
LEFT, RIGHT, PREVIOUS, NEXT, PARENT, HEIGHT, COUNT = range(7)
COLUMNS = 7


@frame
class Tree(NamedTuple):
    """The trees of all streams."""

    root: Array  # [stream] node, or NONE
    keys: Array  # [node, N]
    slots: Array  # [node, N]
    links: Array  # [node, column]
    pool: Array


def empty(streams: int, entries: int, node_size: int = 64) -> Tree:
    """Trees without entries, with nodes for about `entries` entries in total."""
    if node_size < 4:
        raise ValueError(f"node_size is {node_size}; a T-tree node needs at least 4 entries")
    nodes = streams + 5 * entries // (3 * node_size) + 1
    return Tree(
        root=np.full(streams, NONE, np.int64),
        keys=np.zeros((nodes, node_size), np.int64),
        slots=np.zeros((nodes, node_size), np.int32),
        links=np.zeros((nodes, COLUMNS), np.int64),
        pool=new_pool(nodes),
    )


def grow(tree: Tree) -> Tree:
    """The same trees with twice as many nodes."""
    return Tree(
        root=tree.root.copy(),
        keys=doubled_rows(tree.keys),
        slots=doubled_rows(tree.slots),
        links=doubled_rows(tree.links),
        pool=doubled_pool(tree.pool),
    )


@kernel
def least_inside(node_size: int) -> int:
    """Fewest entries of a node with two children."""
    return node_size - max(node_size // 4, 2)


@kernel
def room(tree: Tree) -> bool:
    """Whether one more insert surely finds the node it may need."""
    return tree.pool[0] >= 1


@routine
def _bounding(tree: Tree, stream: int, key: int, slot: int) -> tuple[int, int, int]:
    """Where (`key`, `slot`) belongs: node, side of it, and the comparisons made.

    The side is NONE if the node bounds the entry; otherwise the search ended at that node, which
    has no child at that side.
    """
    node = tree.root[stream]
    last = node
    side = LEFT
    comparisons = 0
    while node != NONE:
        last = node
        row = np.uintp(node)  # why unsigned: see node_search
        first_key = tree.keys[row, 0]
        comparisons += 1
        if key < first_key or (key == first_key and slot < tree.slots[row, 0]):
            side = LEFT
            node = tree.links[row, LEFT]
        else:
            end = np.uintp(tree.links[row, COUNT] - 1)
            last_key = tree.keys[row, end]
            comparisons += 1
            if key < last_key or (key == last_key and slot <= tree.slots[row, end]):
                return node, NONE, comparisons
            side = RIGHT
            node = tree.links[row, RIGHT]
    return last, side, comparisons


@kernel
def insert(tree: Tree, stream: int, key: int, slot: int) -> int:
    """Insert `slot` under `key`, given `room`; returns the comparisons made."""
    node, side, comparisons = _bounding(tree, stream, key, slot)
    if node == NONE:
        _insert_between(tree, stream, node, node, key, slot)
    elif side == LEFT:
        _insert_between(tree, stream, tree.links[node, PREVIOUS], node, key, slot)
    elif side == RIGHT:
        _insert_between(tree, stream, node, tree.links[node, NEXT], key, slot)
    else:
        count = tree.links[node, COUNT]
        position, steps = first_entry_at_least(tree.keys, tree.slots, node, count, key, slot)
        comparisons += steps
        if count < tree.keys.shape[1]:
            _put(tree, node, position, key, slot)
        else:
            # The first entry makes room: it is the cheapest to find a place for, at the end of
            # the node before.
            first_key = tree.keys[node, 0]
            first_slot = slot_at(tree.slots, node, 0)
            drop_entry(tree.keys, tree.slots, node, 0, position)
            tree.keys[node, position - 1] = key
            tree.slots[node, position - 1] = slot
            before = tree.links[node, PREVIOUS]
            _insert_between(tree, stream, before, node, first_key, first_slot)
    return comparisons


@routine
def _put(tree: Tree, node: int, position: int, key: int, slot: int) -> None:
    """Insert an entry into a node that has a free place."""
    count = tree.links[node, COUNT]
    put_entry(tree.keys, tree.slots, node, position, count, key, slot)
    tree.links[node, COUNT] = count + 1


@routine
def _insert_between(tree: Tree, stream: int, before: int, after: int, key: int, slot: int) -> None:
    """Insert an entry that lies between two neighbours: in one of them, or in a new leaf."""
    size = tree.keys.shape[1]
    if before != NONE and tree.links[before, COUNT] < size:
        _put(tree, before, tree.links[before, COUNT], key, slot)
    elif after != NONE and tree.links[after, COUNT] < size:
        _put(tree, after, 0, key, slot)
    else:
        _new_leaf(tree, stream, before, after, key, slot)


@routine
def _new_leaf(tree: Tree, stream: int, before: int, after: int, key: int, slot: int) -> None:
    """Hang a leaf with one entry between two neighbours that are full or NONE.

    Of two neighbours one is an ancestor of the other, so exactly one has no child on the inside.
    That one becomes the parent, and being full it may have two children.
    """
    links = tree.links
    leaf = take(tree.pool)
    tree.keys[leaf, 0] = key
    tree.slots[leaf, 0] = slot
    links[leaf, LEFT] = NONE
    links[leaf, RIGHT] = NONE
    links[leaf, HEIGHT] = 1
    links[leaf, COUNT] = 1
    _join_neighbours(tree, before, leaf)
    _join_neighbours(tree, leaf, after)
    parent = NONE
    if after != NONE and links[after, LEFT] == NONE:
        parent = after
        links[parent, LEFT] = leaf
    elif before != NONE:
        parent = before
        links[parent, RIGHT] = leaf
    else:
        tree.root[stream] = leaf
    links[leaf, PARENT] = parent
    _rebalance(tree, stream, parent)


@routine
def _join_neighbours(tree: Tree, before: int, after: int) -> None:
    if before != NONE:
        tree.links[before, NEXT] = after
    if after != NONE:
        tree.links[after, PREVIOUS] = before


@routine
def _height(tree: Tree, node: int, side: int) -> int:
    child = tree.links[node, side]
    return 0 if child == NONE else tree.links[child, HEIGHT]


@routine
def _set_height(tree: Tree, node: int) -> None:
    tree.links[node, HEIGHT] = 1 + max(_height(tree, node, LEFT), _height(tree, node, RIGHT))


@routine
def _replace_child(tree: Tree, stream: int, old: int, new: int) -> int:
    """Put the subtree `new` (or NONE) where `old` hangs; returns the parent."""
    parent = tree.links[old, PARENT]
    if new != NONE:
        tree.links[new, PARENT] = parent
    if parent == NONE:
        tree.root[stream] = new
    else:
        tree.links[parent, RIGHT if tree.links[parent, RIGHT] == old else LEFT] = new
    return parent


@routine
def _lift(tree: Tree, stream: int, top: int, side: int) -> int:
    """Rotate: the child of `top` at `side` takes its place and becomes its parent."""
    links = tree.links
    child = links[top, side]
    middle = links[child, 1 - side]
    _replace_child(tree, stream, top, child)
    links[child, 1 - side] = top
    links[top, PARENT] = child
    links[top, side] = middle
    if middle != NONE:
        links[middle, PARENT] = top
    _set_height(tree, top)
    _set_height(tree, child)
    return child


@routine
def _rebalance(tree: Tree, stream: int, node: int) -> None:
    """Restore heights, balance and the fill of inner nodes from `node` up to the root.

    A rotation can give a second child to a sparse node (only near the leaves: it had one child or
    none). It is filled from the node before; if that one is used up it is dropped, and the way
    up starts again below, which happens at most a few times, once per node dropped.
    """
    while node != NONE:
        tilt = _height(tree, node, LEFT) - _height(tree, node, RIGHT)
        if tilt > 1 or tilt < -1:
            side = LEFT if tilt > 1 else RIGHT
            child = tree.links[node, side]
            if _height(tree, child, 1 - side) > _height(tree, child, side):
                _lift(tree, stream, child, 1 - side)
            node = _lift(tree, stream, node, side)
        else:
            _set_height(tree, node)
        missing = _missing(tree, node)
        donor = tree.links[node, PREVIOUS]
        if missing > 0 and _borrow(tree, donor, node, missing):
            node = _drop(tree, stream, donor)
        else:
            node = tree.links[node, PARENT]


@routine
def _missing(tree: Tree, node: int) -> int:
    """How many entries a node lacks; none unless it has two children."""
    if tree.links[node, LEFT] == NONE or tree.links[node, RIGHT] == NONE:
        return 0
    return least_inside(tree.keys.shape[1]) - tree.links[node, COUNT]


@routine
def _borrow(tree: Tree, donor: int, node: int, wanted: int) -> bool:
    """Move up to `wanted` entries from the end of the node before; true if that emptied it."""
    links = tree.links
    held = links[donor, COUNT]
    count = links[node, COUNT]
    left = max(held - wanted, 0)
    share(tree.keys, donor, held, node, count, left)
    share(tree.slots, donor, held, node, count, left)
    links[donor, COUNT] = left
    links[node, COUNT] = count + held - left
    return left == 0


@routine
def _drop(tree: Tree, stream: int, node: int) -> int:
    """Take a node with at most one child out of the tree; returns the node above."""
    links = tree.links
    child = links[node, RIGHT] if links[node, LEFT] == NONE else links[node, LEFT]
    parent = _replace_child(tree, stream, node, child)
    _join_neighbours(tree, links[node, PREVIOUS], links[node, NEXT])
    give(tree.pool, node)
    return parent


@kernel
def remove(tree: Tree, stream: int, key: int, slot: int) -> int:
    """Remove the entry (`key`, `slot`), which is there; returns the comparisons made."""
    links = tree.links
    node, _, comparisons = _bounding(tree, stream, key, slot)
    count = links[node, COUNT]
    position, steps = first_entry_at_least(tree.keys, tree.slots, node, count, key, slot)
    drop_entry(tree.keys, tree.slots, node, position, count)
    links[node, COUNT] = count - 1
    missing = _missing(tree, node)
    if missing > 0:
        # The node before has no right child, so it may be as sparse as it likes.
        donor = links[node, PREVIOUS]
        _borrow(tree, donor, node, missing)
        node = donor
    if links[node, COUNT] == 0:
        _rebalance(tree, stream, _drop(tree, stream, node))
    else:
        _merge_child(tree, stream, node)
    return comparisons + steps


@routine
def _merge_child(tree: Tree, stream: int, node: int) -> None:
    """Let a node with one child, a leaf, take over its entries where they fit."""
    links = tree.links
    if (links[node, LEFT] == NONE) == (links[node, RIGHT] == NONE):
        return
    child_is_left = links[node, RIGHT] == NONE
    child = links[node, LEFT] if child_is_left else links[node, RIGHT]
    left = child if child_is_left else node
    right = node if child_is_left else child
    left_count = links[left, COUNT]
    right_count = links[right, COUNT]
    total = left_count + right_count
    if total > least_inside(tree.keys.shape[1]):
        return
    target = 0 if child_is_left else total
    share(tree.keys, left, left_count, right, right_count, target)
    share(tree.slots, left, left_count, right, right_count, target)
    links[node, COUNT] = total
    _rebalance(tree, stream, _drop(tree, stream, child))


@kernel
def probe(tree: Tree, stream: int, low: int, high: int, found: Array) -> tuple[int, int, int]:
    """Write the slots with `low` <= key <= `high` into `found`, in the order of (key, slot).

    Stops when `found` is full. Returns how many were written, comparisons and nodes visited.
    """
    node = tree.root[stream]
    start = NONE
    position = 0
    comparisons = 0
    visits = 0
    while node != NONE:
        row = np.uintp(node)
        visits += 1
        comparisons += 1
        if low <= tree.keys[row, 0]:
            # The range starts here unless something before it is also in the range.
            start = node
            node = tree.links[row, LEFT]
            continue
        count = tree.links[row, COUNT]
        comparisons += 1
        if low <= tree.keys[row, np.uintp(count - 1)]:
            # The first entry was seen to be too small.
            position, steps = first_key_at_least(tree.keys, node, 1, count, low)
            comparisons += steps
            start = node
            break
        node = tree.links[row, RIGHT]
    reported = 0
    goes_on = True
    while goes_on and start != NONE:
        count = tree.links[start, COUNT]
        reported, steps, goes_on = report(
            tree.keys, tree.slots, start, position, count, high, found, reported
        )
        comparisons += steps
        position = 0
        start = tree.links[start, NEXT]
        visits += goes_on and start != NONE
    return reported, comparisons, visits
