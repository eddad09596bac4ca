"""A retained tuple enters and leaves the index of its stream; an arrival asks for candidates.

Law: an index holds the retained tuples of its stream that can match at all, no more and no less. It
proposes candidates; `matching` decides.
"""

from __future__ import annotations

import numpy as np

from tidegate.binding import matching
from tidegate.binding.spec_records import BTREE, HASH, INVERTED, NESTED_LOOP, SERVED_BY_CODE
from tidegate.compiled.kernel import kernel, part, step
from tidegate.index import hash_table, inverted, nested_loop, numbered, trees
from tidegate.state.join_state import State, line_of
from tidegate.windows import lifetime


@part
def tree_key(bands, term, values, reals, code, row):
    """The key of a tuple in a tree: its equality code, or the column of a band."""
    if term == SERVED_BY_CODE:
        return code
    column = bands[term].column
    if bands[term].is_float:
        return matching.ordered_bits(reals[row, column])
    return values[row, column]


@part
def tree_range(bands, term, values, reals, code, row, from_first):
    """The keys that can match a tuple."""
    if term == SERVED_BY_CODE:
        return code, code
    band = bands[term]
    if band.is_float:
        return matching.real_range(
            reals[row, band.column], band.low_real, band.high_real, from_first
        )
    return matching.band_range(values[row, band.column], band, from_first)


@step
def candidates(state, arrivals, work, stream, arrival):
    """Slots of the opposite stream that may match, in `work.found`.

    Returns how many, how many comparisons were made, and how many index nodes visited.
    """
    other = 1 - stream
    kind = state.lanes[other].index
    count = comparisons = visits = 0
    if kind == HASH:
        visits = 1
        count, comparisons = hash_table.probe(
            state.buckets, state.slots, other, arrivals.code[arrival], work.found
        )
    elif kind == NESTED_LOOP:
        count = nested_loop.probe(state.slots, state.lanes, state.lines, other, work.found)
        comparisons = count
    elif kind == INVERTED:
        visits = arrivals.spans[arrival, 0, 1]
        count, comparisons = inverted.probe(
            state.lists,
            state.arena,
            work.totals,
            other,
            arrivals.items,
            arrivals.weights,
            arrivals.spans[arrival, 0, 0],
            arrivals.spans[arrival, 0, 1],
            state.set_terms[0].weighted,
            state.set_terms[0].at_least,
            work.found,
        )
    else:
        low, high = tree_range(
            state.bands,
            state.gate[0].tree_term,
            arrivals.values,
            arrivals.reals,
            arrivals.code[arrival],
            arrival,
            stream == 0,
        )
        if low <= high:
            if kind == BTREE:
                count, comparisons, visits = trees.probe(state.btree, other, low, high, work.found)
            else:
                count, comparisons, visits = trees.probe(state.ttree, other, low, high, work.found)
    return count, comparisons, visits


@step
def enter_index(state, stream, slot):
    _change(state, stream, slot, True)


@step
def leave_index(state, stream, slot):
    _change(state, stream, slot, False)


@step
def _change(state, stream, slot, enters):
    """Put a tuple into the index of its stream, or take it out."""
    kind = state.lanes[stream].index
    if kind == HASH:
        bucket = hash_table.bucket_of(state.buckets, state.slots[slot].code)
        if enters:
            hash_table.insert(state.buckets, state.slots, stream, bucket, slot)
        else:
            hash_table.remove(state.buckets, state.slots, stream, bucket, slot)
    elif kind == INVERTED:
        begin, end = state.spans[slot, 0, 0], state.spans[slot, 0, 1]
        if enters:
            inverted.insert(state.lists, state.arena, stream, begin, end)
        else:
            inverted.remove(state.lists, state.arena, stream, begin, end)
    elif kind != NESTED_LOOP:
        key = tree_key(
            state.bands, state.gate[0].tree_term, state.values, state.reals,
            state.slots[slot].code, slot,
        )  # fmt: skip
        if kind == BTREE:
            updates = _change_tree(state.btree, stream, key, slot, enters)
        else:
            updates = _change_tree(state.ttree, stream, key, slot, enters)
        state.lanes[stream].updates += updates


@step
def _change_tree(tree, stream, key, slot, enters):
    """The same in a tree; how many comparisons it took."""
    if enters:
        updates = trees.insert(tree, stream, key, slot)
    else:
        updates = trees.remove(tree, stream, key, slot)
    return updates


@kernel
def _enter_all(state, stream, line):
    for k in range(len(line)):
        if state.slots[line[k]].older != lifetime.NOT_INDEXED:
            enter_index(state, stream, line[k])


@kernel
def _number_all(state, stream, line, since):
    """The same where the index is one of numbers; the first of the line has the number `since`."""
    for k in range(len(line)):
        slot = np.uint64(line[k])
        if state.slots[slot].older != lifetime.NOT_INDEXED:
            bucket = hash_table.bucket_of(state.buckets, state.slots[slot].code)
            numbered.insert(state.buckets, state.slots, stream, bucket, slot, since + k)


def reindex(state: State, kind: int | None = None) -> None:
    """Fill the (empty) indexes of one kind, or all, from the lines."""
    for stream, lane in enumerate(state.lanes):
        if kind is None or lane.index == kind:
            line, updates = line_of(state, stream), int(lane.updates)
            if numbered.is_table_of(state.buckets):
                since = int(lane.taken) - len(line)
                numbered.clear(state.buckets, stream, since)
                _number_all(state, stream, line, since)
            else:
                _enter_all(state, stream, line)
            lane.updates = updates
