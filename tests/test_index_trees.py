"""B+tree and T-tree against a sorted list, against their own invariants and against the paper.

Nodes are small (4, 5, 8) wherever the shape of the tree is tested, so that a few hundred entries
already split, merge and rotate on several levels.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from types import ModuleType

import numba
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from naive_trees import SortedList, check_all, check_btree, check_ttree
from standalone import Standalone

from tidegate.index import btree, ttree

btree = Standalone(btree)
ttree = Standalone(ttree)


SMALLEST = int(np.iinfo(np.int64).min)
LARGEST = int(np.iinfo(np.int64).max)
PLAIN = bool(numba.config.DISABLE_JIT)  # plain Python is some hundred times slower

both_trees = pytest.mark.parametrize("module", [btree, ttree], ids=["btree", "ttree"])
small_nodes = pytest.mark.parametrize("node_size", [4, 5, 8])


class Twins:
    """A tree and a sorted list that do everything together and must agree."""

    def __init__(self, module: ModuleType, streams: int, node_size: int) -> None:
        self.module = module
        self.tree = module.empty(streams, 0, node_size)
        self.naive = SortedList(streams)
        self.grown = 0

    def insert(self, stream: int, key: int, slot: int) -> int:
        if not self.module.room(self.tree):
            self.tree = self.module.grow(self.tree)
            self.grown += 1
            assert self.module.room(self.tree)
        self.naive.insert(stream, key, slot)
        return int(self.module.insert(self.tree, stream, key, slot))

    def remove(self, stream: int, key: int, slot: int) -> int:
        self.naive.remove(stream, key, slot)
        return int(self.module.remove(self.tree, stream, key, slot))

    def probe(self, stream: int, low: int, high: int, limit: int = 5000) -> tuple[int, int, int]:
        """Compares the slots found; returns their number, comparisons and visits."""
        found = np.full(limit, -1, np.int64)
        count, comparisons, visits = self.module.probe(self.tree, stream, low, high, found)
        assert found[:count].tolist() == self.naive.probe(stream, low, high, limit)
        assert (found[count:] == -1).all()
        return count, comparisons, visits

    def check(self) -> None:
        check_all(self.module, self.tree, self.naive)


KEYS = st.integers(-3, 3) | st.sampled_from([SMALLEST, LARGEST]) | st.integers(SMALLEST, LARGEST)


class TreeMachine(RuleBasedStateMachine):
    """Any order of inserts, removals and probes, on two streams with few and many equal keys."""

    module: ModuleType

    @initialize(node_size=st.sampled_from([4, 5, 8]))
    def start(self, node_size: int) -> None:
        self.twins = Twins(self.module, 2, node_size)
        self.live: list[tuple[int, int, int]] = []
        self.next_slot = 0

    @rule(stream=st.integers(0, 1), keys=st.lists(KEYS, min_size=1, max_size=30))
    def insert(self, stream: int, keys: list[int]) -> None:
        for key in keys:
            self.twins.insert(stream, key, self.next_slot)
            self.live.append((stream, key, self.next_slot))
            self.next_slot += 1

    @precondition(lambda self: self.live)
    @rule(picks=st.lists(st.integers(0, 10**6), min_size=1, max_size=30))
    def remove(self, picks: list[int]) -> None:
        for pick in picks[: len(self.live)]:
            self.twins.remove(*self.live.pop(pick % len(self.live)))

    @rule(stream=st.integers(0, 1), low=KEYS, high=KEYS, limit=st.integers(0, 60))
    def probe(self, stream: int, low: int, high: int, limit: int) -> None:
        self.twins.probe(stream, low, high, limit)

    @invariant()
    def sound(self) -> None:
        self.twins.check()


class BtreeMachine(TreeMachine):
    module = btree


class TtreeMachine(TreeMachine):
    module = ttree


# An example is up to 50 rules of up to 30 operations, so fewer examples do than elsewhere.
TestBtreeMachine = pytest.mark.nojit(BtreeMachine.TestCase)
TestTtreeMachine = pytest.mark.nojit(TtreeMachine.TestCase)
TestBtreeMachine.settings = settings(max_examples=15 if PLAIN else 100)
TestTtreeMachine.settings = TestBtreeMachine.settings


@pytest.mark.nojit
@both_trees
@small_nodes
@pytest.mark.parametrize("domain", [1, 40, 2**62], ids=["equal", "some-equal", "distinct"])
def test_random_operations(module: ModuleType, node_size: int, domain: int) -> None:
    """Three streams swell and shrink by turns, in an order that favours no end of the tree."""
    random = np.random.default_rng([node_size, domain])
    operations = 300 if PLAIN else 1500
    twins = Twins(module, 3, node_size)
    live: list[tuple[int, int, int]] = []
    free = list(range(1000))
    for step in range(operations):
        swelling = math.sin(4 * math.pi * step / operations) > 0
        if free and (not live or random.random() < (0.8 if swelling else 0.25)):
            stream = int(random.integers(3))
            key = int(random.integers(-domain, domain))
            slot = free.pop(int(random.integers(len(free))))
            twins.insert(stream, key, slot)
            live.append((stream, key, slot))
        else:
            entry = live.pop(int(random.integers(len(live))))
            twins.remove(*entry)
            free.append(entry[2])
        if step % 5 == 0:
            twins.check()
            low, high = (int(key) for key in random.integers(-domain, domain, 2))
            twins.probe(int(random.integers(3)), low, high)
    assert twins.grown > 0
    for entry in live:
        twins.remove(*entry)
    twins.check()


ORDERS = {
    "rising": lambda count, random: np.arange(count),
    "falling": lambda count, random: -np.arange(count),
    "equal": lambda count, random: np.zeros(count, np.int64),
    "mixed": lambda count, random: random.integers(0, 50, count),
    "drifting": lambda count, random: np.arange(count) + random.integers(0, 200, count),
}


@pytest.mark.nojit
@both_trees
@small_nodes
@pytest.mark.parametrize("order", ORDERS)
def test_sliding_window(module: ModuleType, node_size: int, order: str) -> None:
    """The newest comes in, the oldest goes out; nodes are reused, so the tree stops growing.

    time    0 1 2 3 4 5 6 7
    window      [-------)        slots are taken in turn, so old numbers come back
    """
    window = 40 if PLAIN else 300
    arrivals = 5 * window
    keys = ORDERS[order](arrivals, np.random.default_rng(7)).tolist()
    twins = Twins(module, 1, node_size)
    for arrival, key in enumerate(keys):
        oldest = arrival - window
        if oldest >= 0:
            twins.remove(0, keys[oldest], oldest % window)
        twins.insert(0, key, arrival % window)
        twins.probe(0, key - 1, key + 1)
        if arrival % 7 == 0:
            twins.check()
        if arrival == 2 * window:
            grown = twins.grown
    assert twins.grown <= grown + 1


@pytest.mark.nojit
@both_trees
def test_many_equal_keys_cost_a_logarithm(module: ModuleType) -> None:
    """Among equal keys the slots are in order too, so no entry is looked for one by one."""
    entries = 1000 if PLAIN else 100_000
    tree = module.empty(1, 2 * entries, 64)
    slots = np.random.default_rng(3).permutation(entries).tolist()
    inserting = max(module.insert(tree, 0, 5, slot) for slot in slots)
    found = np.zeros(entries, np.int64)
    count, comparisons, _ = module.probe(tree, 0, 5, 5, found)
    assert found.tolist() == list(range(entries))
    removing = max(module.remove(tree, 0, 5, slot) for slot in reversed(slots))
    # Two comparisons per halving: within equal keys a node is searched by key, then by slot. In
    # the T-tree the halvings are node bounds, two per level of at most 1.45 times the logarithm.
    assert max(inserting, removing) <= 2 * (1.45 * math.log2(entries) + 6)
    assert count == entries
    assert comparisons <= entries + 4 * math.log2(entries)
    assert module.probe(tree, 0, SMALLEST, LARGEST, found)[0] == 0


@pytest.mark.nojit
@both_trees
def test_streams_do_not_see_each_other(module: ModuleType) -> None:
    twins = Twins(module, 4, 4)
    for slot in range(60):
        twins.insert(slot % 3, slot % 5, slot)
    for stream in range(4):
        assert twins.probe(stream, 0, 4)[0] == (0 if stream == 3 else 20)
    for slot in range(0, 60, 3):
        twins.remove(0, slot % 5, slot)
    assert [twins.probe(stream, 0, 4)[0] for stream in range(4)] == [0, 20, 20, 0]
    twins.check()


@pytest.mark.nojit
@both_trees
@small_nodes
def test_bounds_are_inclusive_up_to_the_last_integer(module: ModuleType, node_size: int) -> None:
    twins = Twins(module, 1, node_size)
    keys = [SMALLEST, SMALLEST + 1, -1, 0, 1, LARGEST - 1, LARGEST]
    for slot, key in enumerate(keys * 6):
        twins.insert(0, key, slot)
    for low in keys:
        for high in keys:
            expected = 6 * sum(low <= key <= high for key in keys)
            assert twins.probe(0, low, high)[0] == expected
    twins.check()
    for slot, key in enumerate(keys * 6):
        twins.remove(0, key, slot)
    assert twins.probe(0, SMALLEST, LARGEST)[0] == 0


@pytest.mark.nojit
@both_trees
def test_probe_stops_when_found_is_full(module: ModuleType) -> None:
    twins = Twins(module, 1, 4)
    for slot in range(50):
        twins.insert(0, slot // 2, slot)
    for limit in range(52):
        count, comparisons, _ = twins.probe(0, 3, 20, limit)
        assert count == min(limit, 36)
        assert comparisons <= count + 30


@pytest.mark.nojit
@both_trees
@small_nodes
def test_growing_changes_nothing_but_the_room(module: ModuleType, node_size: int) -> None:
    """The smallest tree grows again and again; what it held before is still there, in copy."""
    twins = Twins(module, 2, node_size)
    for slot, key in enumerate(np.random.default_rng(node_size).permutation(400).tolist()):
        small, held = twins.tree, copy.deepcopy(twins.naive)
        twins.insert(slot % 2, key, slot)
        if twins.tree is not small:
            check_all(module, small, held)
            twins.check()
    assert twins.grown >= 3


@pytest.mark.nojit
def test_ttree_drops_a_node_that_gave_everything() -> None:
    r"""The rotation lifts a sparse leaf over a sparse node, which it then takes over entirely.

           A                     C                 C
         /   \                 /   \                 \
        B     (emptied)  ->   B     A     ->          A
         \
          C
    """
    twins = Twins(ttree, 1, 8)
    slots: dict[int, int] = {}
    # B = 0..70, A = 80..150 and the node to be emptied = 160..230 are full, C lies between.
    for key in [*range(0, 240, 10), *range(71, 79)]:
        slots[key] = len(slots)
        twins.insert(0, key, slots[key])
    assert len(check_ttree(twins.tree, 0)[1]) == 4
    for key in [*range(10, 80, 10), *range(72, 79), *range(160, 240, 10)]:
        twins.remove(0, key, slots[key])
        twins.check()
    entries, nodes = check_ttree(twins.tree, 0)
    assert [key for key, _ in entries] == [0, 71, *range(80, 160, 10)]
    assert twins.tree.links[nodes, ttree.COUNT].tolist() == [2, 8]


@both_trees
def test_first_size_holds_about_what_was_asked_for(module: ModuleType) -> None:
    """Random arrivals fill a window of the size asked for without growing."""
    keys = np.random.default_rng(1).integers(0, 10**9, 20_000).tolist()
    tree = module.empty(2, len(keys), 64)
    for slot, key in enumerate(keys):
        assert module.room(tree)
        module.insert(tree, slot % 2, key, slot)


def btree_search(entries: int, node_size: int) -> float:
    """Comparisons of a search in a B+tree, kang2003 equation 5."""
    inner_levels = math.ceil(math.log(math.ceil(entries / node_size), node_size + 1))
    return (inner_levels + 1) * math.ceil(math.log2(node_size))


def ttree_search(entries: int, node_size: int) -> float:
    """Comparisons of a search in a T-tree, kang2003 equation 6 with the bracket of Table 3."""
    levels = math.ceil(math.log2(math.ceil(entries / node_size)))
    return 1.5 * (levels - 1) + math.ceil(math.log2(node_size))


@pytest.mark.nojit
@pytest.mark.parametrize("entries", [1000] if PLAIN else [1000, 10_000])
@pytest.mark.parametrize("node_size", [16, 64, 100])
@pytest.mark.parametrize(
    ("module", "formula"), [(btree, btree_search), (ttree, ttree_search)], ids=["btree", "ttree"]
)
def test_comparisons_follow_the_paper(
    module: ModuleType, formula: Callable[[int, int], float], node_size: int, entries: int
) -> None:
    """Mean comparisons of insert, probe and remove stay within a quarter of the formulas.

    The paper counts the search. A probe compares each entry it reports once more, and one entry
    after the last, unless the tree ends there.
    """
    random = np.random.default_rng([entries, node_size])
    keys = random.permutation(10 * entries)[: 2 * entries].tolist()
    tree = module.empty(1, 3 * entries, node_size)
    for slot in range(entries):
        module.insert(tree, 0, keys[slot], slot)
    # Then the window slides by its own length.
    updates = [
        (
            module.remove(tree, 0, keys[slot], slot),
            module.insert(tree, 0, keys[slot + entries], slot),
        )
        for slot in range(entries)
    ]
    found = np.zeros(100, np.int64)
    searches = []
    for key in random.choice(keys[entries:], 1000).tolist():
        count, comparisons, visits = module.probe(tree, 0, key, key, found)
        assert count == 1
        assert visits <= 1.45 * math.log2(2 * entries / node_size) + 3
        searches.append(comparisons - count - 1)
    expected = formula(entries, node_size)
    removing, inserting = np.mean(updates, axis=0)
    for measured in (removing, inserting, np.mean(searches)):
        assert 0.75 * expected <= measured <= 1.25 * expected


@pytest.mark.nojit
@both_trees
def test_a_short_range_visits_few_nodes(module: ModuleType) -> None:
    """Entries that follow each other are read along neighbours, not by a new descent."""
    tree = module.empty(1, 4000, 8)
    for slot in range(2000):
        module.insert(tree, 0, slot, slot)
    found = np.zeros(2000, np.int64)
    _, _, descent = module.probe(tree, 0, 1000, 1000, found)
    count, comparisons, visits = module.probe(tree, 0, 1000, 1399, found)
    assert count == 400
    assert visits <= descent + 400 / 4 + 1
    assert comparisons <= 400 + 2 * 1.45 * math.log2(2000) + 8


@pytest.mark.nojit
@both_trees
def test_too_small_nodes_are_refused(module: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"node_size is 3; .* at least 4"):
        module.empty(2, 100, 3)


@pytest.mark.nojit
def test_checks_see_broken_trees() -> None:
    """The invariants are really looked at: damage done by hand is noticed."""

    def filled(module: ModuleType) -> btree.Tree | ttree.Tree:
        tree = module.empty(1, 200, 4)
        for slot in range(100):
            module.insert(tree, 0, slot * 37 % 100, slot)
        return tree

    for field, change in [("leaf_keys", 50), ("leaf_next", 1), ("leaf_count", -2), ("root", 1)]:
        tree = filled(btree)
        leaf = check_btree(tree, 0)[1][3]
        array = getattr(tree, field)
        array[(leaf if field != "root" else 0, *([1] * (array.ndim - 1)))] += change
        with pytest.raises((AssertionError, RecursionError)):
            check_btree(tree, 0)
    for column in (ttree.COUNT, ttree.HEIGHT, ttree.PARENT, ttree.NEXT, ttree.PREVIOUS):
        tree = filled(ttree)
        tree.links[check_ttree(tree, 0)[1][3], column] += 1
        with pytest.raises(AssertionError):
            check_ttree(tree, 0)
