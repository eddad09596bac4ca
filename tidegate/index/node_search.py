"""What the two trees do inside one node.

The law kept here: the entries of a node stand side by side at the front of its row, in the order
of (key, slot), and every step costs at most the length of a row. A tree decides which entries
belong to which node; this file finds, inserts, moves and reports them once that is decided.

A node is a row number in two-dimensional arrays: `keys[node, i]`, any 64-bit integer, and
`slots[node, i]`, which is below 2**31 - 1. Rows that are in no tree wait in a pool, a stack in one
array: `pool[0]` says how many, they follow from `pool[1]` on.

Inner loops index with unsigned numbers. A signed one could mean "from the end", and asking for
that at every step keeps the compiler from making vector code and doubles the time of a shift.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from tidegate.compiled.kernel import routine

Array = npt.NDArray[Any]

NONE = -1  # no node


def new_pool(nodes: int) -> Array:
    """A pool in which all of `nodes` rows wait, the lowest number on top."""
    return np.concatenate([[nodes], np.arange(nodes - 1, -1, -1)]).astype(np.int64)


def doubled_pool(pool: Array) -> Array:
    """The same pool after the number of rows was doubled: the new rows wait below the old ones."""
    nodes = len(pool) - 1
    waiting = pool[1 : pool[0] + 1]
    doubled = np.zeros(2 * nodes + 1, np.int64)
    doubled[0] = nodes + len(waiting)
    doubled[1 : doubled[0] + 1] = np.concatenate([np.arange(2 * nodes - 1, nodes - 1, -1), waiting])
    return doubled


def doubled_rows(array: Array) -> Array:
    """A copy of `array` with as many rows again, all zero."""
    return np.concatenate([array, np.zeros_like(array)])


@routine
def take(pool: Array) -> int:
    """Take a free row out of the pool, which must not be empty."""
    free = pool[0]
    pool[0] = free - 1
    return pool[free]


@routine
def give(pool: Array, node: int) -> None:
    """Put a row back into the pool."""
    pool[0] += 1
    pool[pool[0]] = node


@routine
def first_key_at_least(keys: Array, node: int, start: int, count: int, key: int) -> tuple[int, int]:
    """First position in `start..count` whose key is >= `key`, and the comparisons it took.

    The halves are chosen by arithmetic and not by a jump: which half it will be cannot be
    predicted, and a wrong guess of the processor costs more than the comparison.
    """
    row = np.uintp(node)
    base = start
    length = count - start
    comparisons = 0
    while length > 0:
        half = (length + 1) >> 1
        base += half * (keys[row, np.uintp(base + half - 1)] < key)
        length -= half
        comparisons += 1
    return base, comparisons


@routine
def first_entry_at_least(
    keys: Array, slots: Array, node: int, count: int, key: int, slot: int
) -> tuple[int, int]:
    """First position whose entry is >= (`key`, `slot`), and the comparisons it took.

    The slots are only looked at where the key occurs, and searched only where it occurs again.
    """
    position, comparisons = first_key_at_least(keys, node, 0, count, key)
    if position == count or keys[node, position] != key:
        return position, comparisons
    comparisons += 1
    if slots[node, position] >= slot:
        return position, comparisons
    first = position + 1
    length = count - first
    while length > 0:
        half = (length + 1) >> 1
        middle = first + half - 1
        first += half * ((keys[node, middle] == key) & (slots[node, middle] < slot))
        length -= half
        comparisons += 1
    return first, comparisons


@routine
def slot_at(slots: Array, node: int, position: int) -> np.int64:
    """One slot as a 64-bit number, so that functions which take a slot are compiled only once."""
    return np.int64(slots[node, position])


@routine
def open_gap(array: Array, node: int, position: int, count: int, width: int) -> None:
    """Move what stands from `position` on up by `width` places."""
    row = np.uintp(node)
    for i in range(count - 1, position - 1, -1):
        array[row, np.uintp(i + width)] = array[row, np.uintp(i)]


@routine
def close_gap(array: Array, node: int, position: int, count: int, width: int) -> None:
    """Move what stands from `position` + `width` on down by `width` places."""
    row = np.uintp(node)
    for i in range(position + width, count):
        array[row, np.uintp(i - width)] = array[row, np.uintp(i)]


@routine
def put_entry(
    keys: Array, slots: Array, node: int, position: int, count: int, key: int, slot: int
) -> None:
    """Insert one entry at `position` of a node that held `count`."""
    open_gap(keys, node, position, count, 1)
    open_gap(slots, node, position, count, 1)
    keys[node, position] = key
    slots[node, position] = slot


@routine
def drop_entry(keys: Array, slots: Array, node: int, position: int, count: int) -> None:
    """Remove the entry at `position` of a node that held `count`."""
    close_gap(keys, node, position, count, 1)
    close_gap(slots, node, position, count, 1)


@routine
def share(
    array: Array, left: int, left_count: int, right: int, right_count: int, target: int
) -> None:
    """Move a run across the border of two neighbours so that `left` holds `target` of the total.

    With the total as target this is a merge into `left`, with 0 into `right`; with an empty
    `right` it is a split.
    """
    if target > left_count:
        width = target - left_count
        for i in range(width):
            array[left, left_count + i] = array[right, i]
        close_gap(array, right, 0, right_count, width)
    else:
        width = left_count - target
        open_gap(array, right, 0, right_count, width)
        for i in range(width):
            array[right, i] = array[left, target + i]


@routine
def report(
    keys: Array,
    slots: Array,
    node: int,
    position: int,
    count: int,
    high: int,
    found: Array,
    reported: int,
) -> tuple[int, int, bool]:
    """Append the slots from `position` on to `found` while their key is <= `high`.

    Returns how many are in `found` now, the comparisons made, and whether the scan goes on in the
    next node: it ends at a larger key or when `found` is full.
    """
    row = np.uintp(node)
    stop = min(count, position + len(found) - reported)
    for i in range(position, stop):
        if keys[row, np.uintp(i)] > high:
            return reported, i - position + 1, False
        found[np.uintp(reported)] = slots[row, np.uintp(i)]
        reported += 1
    return reported, stop - position, reported < len(found)
