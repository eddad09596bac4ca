"""A queue in tiers gives up its entries in the order of one sorted list.

Law: whatever is pushed, popped, moved or rebuilt in between, and however the tiers are cut, the
first entry is the smallest of those that are there.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import pytest
from standalone import Standalone

from tidegate.shed import queue, tiers
from tidegate.shed.shed_records import QUEUE

queue = Standalone(queue)
tiers = Standalone(tiers)


ROOM = 20_000

Entry = tuple[float, float, int, int]


def empty_queue() -> tuple[Any, Any]:
    length = tiers.NEAR + ROOM
    heaps = queue.empty(2 * length, True)
    queues = np.zeros(2, QUEUE).view(np.recarray)
    queues.start, queues.stop = (0, length), (length, 2 * length)
    return queues, heaps


def entry_at(heaps: Any, at: int) -> Entry:
    entry = heaps.entries[at]
    return float(entry.priority), float(heaps.bases[at]), int(entry.order), int(entry.holder)


def come_near(queues: Any, heaps: Any, stream: int) -> None:
    """Fill the near tier if it is empty, all entries as they are."""
    if queues[stream].near == 0 and queues[stream].count > 0:
        found = tiers.refill(queues, heaps, stream)
        start = queues[stream].start
        for entry in [entry_at(heaps, start + at) for at in range(found)]:
            tiers.keep(queues, heaps, stream, *entry)
        tiers.end_refill(queues, heaps, stream)


def first(queues: Any, heaps: Any, stream: int) -> Entry:
    come_near(queues, heaps, stream)
    return entry_at(heaps, queues[stream].start)


def random_entry(generator: np.random.Generator, order: int, floor: float) -> Entry:
    """Few different priorities and bases, so that ties are common; mostly above the floor."""
    priority = floor + float(generator.integers(0, 50)) - 5.0 * float(generator.random() < 0.1)
    return priority, float(generator.integers(0, 3)), order, order


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("size", [3, 40, 700, 6000])
def test_entries_leave_in_order(size: int, seed: int) -> None:
    generator = np.random.default_rng([size, seed])
    queues, heaps = empty_queue()
    twin: list[Entry] = []
    stream, order = seed % 2, 0
    for _ in range(size):
        entry = random_entry(generator, order, 0.0)
        tiers.push(queues, heaps, stream, *entry)
        heapq.heappush(twin, entry)
        order += 1
    for step in range(2 * size):
        floor = 0.0 if seed < 3 else step * 0.01  # priorities that stay, or that drift away
        chance = generator.random()
        if chance < 0.6 and twin:
            assert first(queues, heaps, stream) == twin[0]
            tiers.pop(queues, heaps, stream)
            heapq.heappop(twin)
        elif chance < 0.7 and twin:
            assert first(queues, heaps, stream) == twin[0]
            _, basis, old, holder = twin[0]
            higher = twin[0][0] + float(generator.integers(0, 30))
            tiers.move_top(queues, heaps, stream, higher, basis, old)
            heapq.heapreplace(twin, (higher, basis, old, holder))
        else:
            entry = random_entry(generator, order, floor)
            tiers.push(queues, heaps, stream, *entry)
            heapq.heappush(twin, entry)
            order += 1
        assert queues[stream].count == len(twin)
    while twin:
        assert first(queues, heaps, stream) == heapq.heappop(twin)
        tiers.pop(queues, heaps, stream)
    assert queues[stream].count == 0


def test_a_full_near_tier_gives_way() -> None:
    """Ever lower entries all belong to the near tier, until there is no place in it."""
    queues, heaps = empty_queue()
    for order in range(3 * tiers.NEAR):
        tiers.push(queues, heaps, 0, -float(order), 0.0, order, order)
        assert first(queues, heaps, 0)[2] == order
        assert queues[0].near <= tiers.NEAR


def test_a_cleared_queue_takes_entries_in_any_order() -> None:
    queues, heaps = empty_queue()
    tiers.push(queues, heaps, 1, 1.0, 0.0, 0, 0)
    assert first(queues, heaps, 1)[0] == 1.0
    tiers.clear(queues, 1)
    priorities = np.random.default_rng(0).permutation(5000)
    for order, priority in enumerate(priorities):
        tiers.append(queues, heaps, 1, float(priority), 0.0, order, order)
    for expected in range(5000):
        assert first(queues, heaps, 1)[0] == expected
        tiers.pop(queues, heaps, 1)


def test_a_holder_that_is_queued_again_and_again_stands_once() -> None:
    """A worth that goes up and down leaves an entry at each fall, all saying the same."""
    queues, heaps = empty_queue()
    tiers.append(queues, heaps, 0, 2.0, 0.0, 1, 1)
    for _ in range(3 * tiers.NEAR):
        tiers.append(queues, heaps, 0, 1.0, 0.0, 0, 0)
    assert first(queues, heaps, 0) == (1.0, 0.0, 0, 0)
    while queues[0].count and first(queues, heaps, 0)[3] == 0:
        tiers.pop(queues, heaps, 0)
    assert first(queues, heaps, 0) == (2.0, 0.0, 1, 1)
    assert queues[0].count == 1
