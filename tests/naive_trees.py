"""The slow twin of the ordered indexes, and what must hold inside each of them.

`SortedList` is obviously right: a sorted Python list of (key, slot) per stream. The `check_*`
functions walk a tree in plain Python, raise AssertionError where an invariant is broken, and
return the entries in tree order together with the nodes in use, so that a caller can compare both
with what should be there.
"""

from __future__ import annotations

import bisect
import itertools
from types import ModuleType

import numpy as np
from standalone import Standalone

from tidegate.index import btree, ttree
from tidegate.index.node_search import NONE

Entry = tuple[int, int]


class SortedList:
    """Ordered entries of several streams, kept by `bisect`."""

    def __init__(self, streams: int) -> None:
        self.entries: list[list[Entry]] = [[] for _ in range(streams)]

    def insert(self, stream: int, key: int, slot: int) -> None:
        bisect.insort(self.entries[stream], (key, slot))

    def remove(self, stream: int, key: int, slot: int) -> None:
        self.entries[stream].remove((key, slot))

    def probe(self, stream: int, low: int, high: int, limit: int) -> list[int]:
        return [slot for key, slot in self.entries[stream] if low <= key <= high][:limit]


def check_all(module: ModuleType, tree: btree.Tree | ttree.Tree, expected: SortedList) -> None:
    """Every stream's tree is sound and holds the expected entries; every node is accounted for."""
    if module.Tree is btree.Tree:
        leaves, inners = [], []
        for stream, entries in enumerate(expected.entries):
            found, stream_leaves, stream_inners = check_btree(tree, stream)
            assert found == entries
            leaves += stream_leaves
            inners += stream_inners
        check_pool(tree.leaf_pool, leaves)
        check_pool(tree.inner_pool, inners)
    else:
        nodes = []
        for stream, entries in enumerate(expected.entries):
            found, stream_nodes = check_ttree(tree, stream)
            assert found == entries
            nodes += stream_nodes
        check_pool(tree.pool, nodes)


def check_pool(pool: np.ndarray, used: list[int]) -> None:
    """Each row is either in use by one tree or waits once in the pool."""
    free = pool[1 : pool[0] + 1].tolist()
    assert sorted(free + used) == list(range(len(pool) - 1))


def row(keys: np.ndarray, slots: np.ndarray, node: int, count: int) -> list[Entry]:
    """The entries of one node, which must ascend strictly."""
    entries = list(zip(keys[node, :count].tolist(), slots[node, :count].tolist(), strict=True))
    assert all(one < other for one, other in itertools.pairwise(entries))
    return entries


def check_btree(tree: btree.Tree, stream: int) -> tuple[list[Entry], list[int], list[int]]:
    """Order, separators, equal depth, fill and leaf links of one B+tree.

    Returns its entries, leaves and inner nodes.
    """
    size = tree.leaf_keys.shape[1]
    height = int(tree.height[stream])
    entries: list[Entry] = []
    leaves: list[int] = []
    inners: list[int] = []

    def walk(node: int, level: int, low: Entry | None, high: Entry | None) -> None:
        is_root = level == 0
        if level == height:
            count = int(tree.leaf_count[node])
            assert (0 if is_root else (size + 1) // 2) <= count <= size
            own = row(tree.leaf_keys, tree.leaf_slots, node, count)
            leaves.append(node)
            entries.extend(own)
        else:
            count = int(tree.inner_count[node])
            assert (1 if is_root else size // 2) <= count <= size
            own = row(tree.inner_keys, tree.inner_slots, node, count)
            inners.append(node)
            bounds = [low, *own, high]
            for i, child in enumerate(tree.children[node, : count + 1].tolist()):
                walk(child, level + 1, bounds[i], bounds[i + 1])
        assert all(low is None or low <= entry for entry in own)
        assert all(high is None or entry < high for entry in own)

    walk(int(tree.root[stream]), 0, None, None)
    assert [int(tree.leaf_next[leaf]) for leaf in leaves] == [*leaves[1:], NONE]
    assert entries == sorted(set(entries))
    return entries, leaves, inners


def check_ttree(tree: ttree.Tree, stream: int) -> tuple[list[Entry], list[int]]:
    """Order, fill, balance, heights, parents and neighbours of one T-tree.

    Returns its entries and nodes, both in key order.
    """
    size = tree.keys.shape[1]
    entries: list[Entry] = []
    nodes: list[int] = []

    def walk(node: int, parent: int) -> int:
        if node == NONE:
            return 0
        links = tree.links[node].tolist()
        left, right, count = links[ttree.LEFT], links[ttree.RIGHT], links[ttree.COUNT]
        assert links[ttree.PARENT] == parent
        has_two = left != NONE and right != NONE
        assert (Standalone(ttree).least_inside(size) if has_two else 1) <= count <= size
        left_height = walk(left, node)
        entries.extend(row(tree.keys, tree.slots, node, count))
        nodes.append(node)
        right_height = walk(right, node)
        assert abs(left_height - right_height) <= 1
        assert links[ttree.HEIGHT] == 1 + max(left_height, right_height)
        return links[ttree.HEIGHT]

    walk(int(tree.root[stream]), NONE)
    assert tree.links[nodes, ttree.NEXT].tolist() == [*nodes[1:], NONE][: len(nodes)]
    assert tree.links[nodes, ttree.PREVIOUS].tolist() == [NONE, *nodes[:-1]][: len(nodes)]
    assert entries == sorted(set(entries))
    return entries, nodes
