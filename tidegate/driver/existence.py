"""On which streams the key of an arrival is: its existence pattern (kwon2011, definition 1).

Law: retained tuples count, and under `ties="instant"` all tuples of the instant, whatever becomes
of them. Where the index is a hash table, O(1) per stream; other indexes do not know keys, and the
window is searched until one is found.
"""

from __future__ import annotations

import numpy as np

from tidegate.binding.spec_records import HASH
from tidegate.compiled.kernel import part, step
from tidegate.estimators import patterns
from tidegate.estimators.patterns import needs_rows
from tidegate.index import hash_table
from tidegate.state.join_state import (
    ARRIVAL,
    GROUP_ORDER,
    GROUP_SIZE,
    PLACE,
    STREAM,
    TOGETHER,
)
from tidegate.windows import lifetime


@part
def pattern_of(state, shed, arrivals, stream, arrival):
    """The row of the pattern of an arrival that is about to be admitted or refused."""
    streams = len(state.lanes)
    bits = (np.int64(1) << streams) - 1
    if arrivals.matchable[arrival]:
        bits = shed.patterns.together[0] | (np.int64(1) << stream)
        for other in range(streams):
            if (bits >> other) & 1 == 0 and is_held(state, other, arrivals.code[arrival]):
                bits |= np.int64(1) << other
    return patterns.row_of(shed.patterns, patterns.place_of(bits, stream))


@part
def is_held(state, stream, code):
    """Does a stream hold a tuple with this key?"""
    lane = state.lanes[stream]
    if lane.index == HASH:
        bucket = hash_table.bucket_of(state.buckets, code)
        slot = np.int64(state.buckets[bucket, stream, hash_table.OLDEST])
        while slot >= 0:
            if state.slots[slot].code == code:
                return True
            slot = np.int64(state.slots[slot].newer)
        return False
    for position in range(lane.begin, lane.end):
        slot = np.int64(state.lines[position])
        if slot >= 0 and has_key(state, slot, code):
            return True
    return False


@part
def has_key(state, slot, code):
    return state.slots[slot].older != lifetime.NOT_INDEXED and state.slots[slot].code == code


@step
def lacks_rows(patterns):
    """Must the tables of patterns grow before the next tuple is admitted?"""
    lacks = False
    if patterns is not None:
        lacks = needs_rows(patterns)
    return lacks


@step
def note_pairs(state, patterns, arrivals, work):
    """All tuples of an instant stand in their windows: note which of them share a key."""
    if patterns is not None:
        note_together(state, arrivals, work)


@step
def tell_pairs(patterns, work):
    """The tuple at hand is about to be admitted."""
    if patterns is not None:
        patterns.together[0] = work.group[work.progress[PLACE], TOGETHER]


@part
def note_together(state, arrivals, work):
    """Write down for each tuple of an instant which streams have its key in the same instant."""
    for place in range(work.progress[GROUP_SIZE]):
        stream, arrival = work.group[place, STREAM], work.group[place, ARRIVAL]
        bits = np.int64(1) << stream
        for other in range(len(state.lanes)):
            if other != stream and came_now(state, work, other, arrivals.code[arrival]):
                bits |= np.int64(1) << other
        work.group[place, TOGETHER] = bits


@part
def came_now(state, work, stream, code):
    """Is there a tuple of `stream` with this key in the instant? All of it stand in the index."""
    first = work.progress[GROUP_ORDER]
    lane = state.lanes[stream]
    if lane.index == HASH:
        bucket = hash_table.bucket_of(state.buckets, code)
        oldest = np.int64(state.buckets[bucket, stream, hash_table.OLDEST])
        slot = np.int64(state.buckets[bucket, stream, hash_table.NEWEST])
        while slot >= 0 and state.notes[slot].order >= first:
            if state.slots[slot].code == code:
                return True
            # The oldest node's link to an older one means nothing.
            slot = np.int64(-1) if slot == oldest else np.int64(state.slots[slot].older)
        return False
    position = lane.end - 1
    while position >= lane.begin:
        slot = np.int64(state.lines[position])
        if slot >= 0:
            if state.notes[slot].order < first:
                return False
            if has_key(state, slot, code):
                return True
        position -= 1
    return False
