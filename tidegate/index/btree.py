"""B+tree over slots: the ordered index for searches, with linked leaves for ranges.

The law kept here: all entries stand in leaves of equal depth, in the order of (key, slot), and
every node but a root is at least half full. So inserting, removing and finding the start of a
range cost O(log n), however many entries share a key.

A leaf holds up to N = `node_size` entries. An inner node holds up to N separators and one child
more; the entries below child i are smaller than separator i, those below child i + 1 are not. A
separator is a bound and need not be an entry (any longer).

One `Tree` holds a tree per stream in common node arrays. Cost by kang2003, equation 5, for B
entries: (ceil(log_{N+1} ceil(B / N)) + 1) * ceil(log2 N) comparisons for a search.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tidegate.compiled.frames import frame
from tidegate.compiled.kernel import kernel, routine
from tidegate.index.node_search import (
    NONE,
    Array,
    close_gap,
    doubled_pool,
    doubled_rows,
    drop_entry,
    first_entry_at_least,
    first_key_at_least,
    give,
    new_pool,
    open_gap,
    put_entry,
    report,
    share,
    slot_at,
    take,
)

# With the smallest nodes (4) each level at least triples the leaves, so 24 levels hold more
# entries than there are slots.
DEEPEST = 24


@frame
class Tree(NamedTuple):
    """The trees of all streams. At height 0 the root is a leaf, above it is an inner node."""

    root: Array  # [stream]
    height: Array  # [stream] inner levels above the leaves
    leaf_keys: Array  # [leaf, N]
    leaf_slots: Array  # [leaf, N]
    leaf_count: Array  # [leaf]
    leaf_next: Array  # [leaf] the leaf of the next larger entries, or NONE
    leaf_pool: Array
    inner_keys: Array  # [inner, N + 1] separators; the last place is for the moment of a split
    inner_slots: Array  # [inner, N + 1]
    inner_count: Array  # [inner] number of separators
    children: Array  # [inner, N + 2]
    inner_pool: Array
    path: Array  # [level, 2] inner node and child taken by the last descent


def empty(streams: int, entries: int, node_size: int = 64) -> Tree:
    """Trees without entries, with nodes for about `entries` entries in total."""
    if node_size < 4:
        raise ValueError(f"node_size is {node_size}; a B+tree node needs at least 4 entries")
    leaves = streams + 2 * entries // node_size + 1
    inners = 2 * leaves // node_size + DEEPEST
    tree = Tree(
        root=np.arange(streams, dtype=np.int64),
        height=np.zeros(streams, np.int64),
        leaf_keys=np.zeros((leaves, node_size), np.int64),
        leaf_slots=np.zeros((leaves, node_size), np.int32),
        leaf_count=np.zeros(leaves, np.int64),
        leaf_next=np.full(leaves, NONE, np.int64),
        leaf_pool=new_pool(leaves),
        inner_keys=np.zeros((inners, node_size + 1), np.int64),
        inner_slots=np.zeros((inners, node_size + 1), np.int32),
        inner_count=np.zeros(inners, np.int64),
        children=np.zeros((inners, node_size + 2), np.int64),
        inner_pool=new_pool(inners),
        path=np.zeros((DEEPEST, 2), np.int64),
    )
    tree.leaf_pool[0] -= streams  # the roots: the lowest numbers were on top of the pool
    return tree


def grow(tree: Tree) -> Tree:
    """The same trees with twice as many nodes."""
    other: dict[str, Callable[[Array], Array]] = {
        "root": np.copy,
        "height": np.copy,
        "path": np.copy,
        "leaf_pool": doubled_pool,
        "inner_pool": doubled_pool,
    }
    return Tree(
        **{name: other.get(name, doubled_rows)(array) for name, array in tree._asdict().items()}
    )


@kernel
def room(tree: Tree) -> bool:
    """Whether one more insert surely finds the nodes it may need: a leaf and one per level."""
    return tree.leaf_pool[0] >= 1 and tree.inner_pool[0] >= DEEPEST


@routine
def _descend(tree: Tree, stream: int, key: int, slot: int) -> tuple[int, int]:
    """The leaf where (`key`, `slot`) belongs, and the comparisons made; notes the path."""
    node = tree.root[stream]
    comparisons = 0
    for level in range(tree.height[stream]):
        # An entry equal to a separator stands right of it, hence the search for slot + 1.
        child, steps = first_entry_at_least(
            tree.inner_keys, tree.inner_slots, node, tree.inner_count[node], key, slot + 1
        )
        tree.path[level, 0] = node
        tree.path[level, 1] = child
        node = tree.children[node, child]
        comparisons += steps
    return node, comparisons


@kernel
def insert(tree: Tree, stream: int, key: int, slot: int) -> int:
    """Insert `slot` under `key`, given `room`; returns the comparisons made."""
    leaf, comparisons = _descend(tree, stream, key, slot)
    count = tree.leaf_count[leaf]
    position, steps = first_entry_at_least(tree.leaf_keys, tree.leaf_slots, leaf, count, key, slot)
    if count == tree.leaf_keys.shape[1]:
        leaf, position = _split_leaf(tree, stream, leaf, position, key, slot)
    count = tree.leaf_count[leaf]
    put_entry(tree.leaf_keys, tree.leaf_slots, leaf, position, count, key, slot)
    tree.leaf_count[leaf] = count + 1
    return comparisons + steps


@routine
def _split_leaf(
    tree: Tree, stream: int, leaf: int, position: int, key: int, slot: int
) -> tuple[int, int]:
    """Split a full leaf; returns where the entry that belonged at `position` belongs now."""
    size = tree.leaf_keys.shape[1]
    right = take(tree.leaf_pool)
    tree.leaf_next[right] = tree.leaf_next[leaf]
    tree.leaf_next[leaf] = right
    # The half that receives the entry is the smaller one, so that both are half full after it.
    goes_left = position <= size // 2
    kept = size // 2 if goes_left else size - size // 2
    share(tree.leaf_keys, leaf, size, right, 0, kept)
    share(tree.leaf_slots, leaf, size, right, 0, kept)
    tree.leaf_count[leaf] = kept
    tree.leaf_count[right] = size - kept
    if position == kept and not goes_left:
        _attach(tree, stream, key, slot, right)
    else:
        _attach(tree, stream, tree.leaf_keys[right, 0], slot_at(tree.leaf_slots, right, 0), right)
    if goes_left:
        return leaf, position
    return right, position - kept


@routine
def _attach(tree: Tree, stream: int, key: int, slot: int, right: int) -> None:
    """Enter a new right half and its separator into the inner nodes, which may split in turn."""
    size = tree.leaf_keys.shape[1]
    for level in range(tree.height[stream] - 1, -1, -1):
        node = tree.path[level, 0]
        child = tree.path[level, 1]
        count = tree.inner_count[node] + 1
        put_entry(tree.inner_keys, tree.inner_slots, node, child, count - 1, key, slot)
        open_gap(tree.children, node, child + 1, count, 1)
        tree.children[node, child + 1] = right
        tree.inner_count[node] = count
        if count <= size:
            return
        # The middle separator moves up, what stands right of it moves to a new node.
        kept = size // 2
        key = tree.inner_keys[node, kept]
        slot = slot_at(tree.inner_slots, node, kept)
        right = take(tree.inner_pool)
        share(tree.inner_keys, node, count, right, 0, kept + 1)
        share(tree.inner_slots, node, count, right, 0, kept + 1)
        share(tree.children, node, count + 1, right, 0, kept + 1)
        tree.inner_count[node] = kept
        tree.inner_count[right] = count - kept - 1
    root = take(tree.inner_pool)
    tree.inner_keys[root, 0] = key
    tree.inner_slots[root, 0] = slot
    tree.inner_count[root] = 1
    tree.children[root, 0] = tree.root[stream]
    tree.children[root, 1] = right
    tree.root[stream] = root
    tree.height[stream] += 1


@kernel
def remove(tree: Tree, stream: int, key: int, slot: int) -> int:
    """Remove the entry (`key`, `slot`), which is there; returns the comparisons made."""
    leaf, comparisons = _descend(tree, stream, key, slot)
    count = tree.leaf_count[leaf]
    position, steps = first_entry_at_least(tree.leaf_keys, tree.leaf_slots, leaf, count, key, slot)
    drop_entry(tree.leaf_keys, tree.leaf_slots, leaf, position, count)
    tree.leaf_count[leaf] = count - 1
    least = (tree.leaf_keys.shape[1] + 1) // 2
    if count - 1 < least and tree.height[stream] > 0:
        _refill_leaf(tree, stream, least)
    return comparisons + steps


@routine
def _refill_leaf(tree: Tree, stream: int, least: int) -> None:
    """Share with a neighbour under the same parent, or merge where two leaves are too many."""
    level = tree.height[stream] - 1
    parent = tree.path[level, 0]
    between = max(tree.path[level, 1] - 1, 0)
    left = tree.children[parent, between]
    right = tree.children[parent, between + 1]
    left_count = tree.leaf_count[left]
    right_count = tree.leaf_count[right]
    total = left_count + right_count
    target = total if total < 2 * least else total // 2
    share(tree.leaf_keys, left, left_count, right, right_count, target)
    share(tree.leaf_slots, left, left_count, right, right_count, target)
    tree.leaf_count[left] = target
    tree.leaf_count[right] = total - target
    if target < total:
        tree.inner_keys[parent, between] = tree.leaf_keys[right, 0]
        tree.inner_slots[parent, between] = tree.leaf_slots[right, 0]
    else:
        tree.leaf_next[left] = tree.leaf_next[right]
        give(tree.leaf_pool, right)
        _detach(tree, stream, level, between)


@routine
def _detach(tree: Tree, stream: int, level: int, between: int) -> None:
    """Take a separator and the child right of it out of its node; refill upwards if needed."""
    least = tree.leaf_keys.shape[1] // 2
    while True:
        node = tree.path[level, 0]
        count = tree.inner_count[node]
        drop_entry(tree.inner_keys, tree.inner_slots, node, between, count)
        close_gap(tree.children, node, between + 1, count + 1, 1)
        tree.inner_count[node] = count - 1
        if level == 0 or count - 1 >= least:
            break
        level -= 1
        between = max(tree.path[level, 1] - 1, 0)
        if not _merge_inner(tree, tree.path[level, 0], between, least):
            return
    root = tree.root[stream]
    if tree.inner_count[root] == 0:
        tree.root[stream] = tree.children[root, 0]
        tree.height[stream] -= 1
        give(tree.inner_pool, root)


@routine
def _merge_inner(tree: Tree, parent: int, between: int, least: int) -> bool:
    """Merge the children at both sides of a separator, or share if both can be half full.

    The separator comes down to the end of the left node, so that there each separator has its
    child; what moves are such pairs. After sharing, the last separator of the left goes up.
    """
    left = tree.children[parent, between]
    right = tree.children[parent, between + 1]
    left_count = tree.inner_count[left] + 1
    right_count = tree.inner_count[right]
    tree.inner_keys[left, left_count - 1] = tree.inner_keys[parent, between]
    tree.inner_slots[left, left_count - 1] = tree.inner_slots[parent, between]
    total = left_count + right_count
    merges = total <= 2 * least
    target = total if merges else (total + 1) // 2
    share(tree.inner_keys, left, left_count, right, right_count, target)
    share(tree.inner_slots, left, left_count, right, right_count, target)
    share(tree.children, left, left_count, right, right_count + 1, target + merges)
    if merges:
        tree.inner_count[left] = total
        give(tree.inner_pool, right)
        return True
    tree.inner_keys[parent, between] = tree.inner_keys[left, target - 1]
    tree.inner_slots[parent, between] = tree.inner_slots[left, target - 1]
    tree.inner_count[left] = target - 1
    tree.inner_count[right] = total - target
    return False


@kernel
def probe(tree: Tree, stream: int, low: int, high: int, found: Array) -> tuple[int, int, int]:
    """Write the slots with `low` <= key <= `high` into `found`, in the order of (key, slot).

    Stops when `found` is full. Returns how many were written, comparisons and nodes visited.
    """
    node = tree.root[stream]
    height = tree.height[stream]
    comparisons = 0
    for _ in range(height):
        # Entries equal to `low` may stand left of a separator with the same key.
        child, steps = first_key_at_least(tree.inner_keys, node, 0, tree.inner_count[node], low)
        node = tree.children[node, child]
        comparisons += steps
    count = tree.leaf_count[node]
    position, steps = first_key_at_least(tree.leaf_keys, node, 0, count, low)
    comparisons += steps
    visits = height + 1
    reported = 0
    while True:
        reported, steps, goes_on = report(
            tree.leaf_keys, tree.leaf_slots, node, position, count, high, found, reported
        )
        comparisons += steps
        node = tree.leaf_next[node]
        if not goes_on or node == NONE:
            return reported, comparisons, visits
        count = tree.leaf_count[node]
        position = 0
        visits += 1
