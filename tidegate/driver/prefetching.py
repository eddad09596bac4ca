"""Memory that will be needed soon is asked for ahead of time.

A window join jumps from tuple to tuple all over its windows. Everything here only asks the CPU to
bring memory near; leaving all of it out changes no result, only the speed. What a fetch needs to
know was fetched by one that looks further ahead.
"""

from __future__ import annotations

import numpy as np

from tidegate.binding.spec_records import HASH
from tidegate.compiled import layout
from tidegate.compiled.kernel import step
from tidegate.driver import probing_many
from tidegate.estimators import frequency, key_lines
from tidegate.index import hash_table
from tidegate.shed.shed_records import BY_AGE, BY_KEY, CUMULATIVE, VALUE

# How many tuples of a stream ahead something is fetched: far enough to hide a cache miss, near
# enough to be still there.
FAR, NEAR, NEXT = 16, 8, 4
AHEAD = 32  # what is read from one end to the other: more such arrays than the CPU follows itself


@step
def look_ahead(state, shed, many, arrivals, stream, arrival):
    """Bring near what the next arrivals, the next expiries and the next victims will touch."""
    for column in (arrivals.time, arrivals.code, arrivals.row):
        layout.warm(column, arrival + AHEAD)
    last = arrivals.end[stream] - 1
    far = arrivals.code[min(arrival + FAR, last)]
    near = arrivals.code[min(arrival + NEAR, last)]
    next_ = arrivals.code[min(arrival + NEXT, last)]
    other = following(state, stream)
    hashed = state.lanes[stream].index == HASH or state.lanes[other].index == HASH
    if many is not None:
        warm_chains(state, stream, far, near)
    elif hashed:
        warm_index(state, stream, far, near, next_)
    if shed is None:
        if hashed:
            warm_expiring(state, stream)
    else:
        if many is None:
            if state.lanes[other].index == HASH:
                warm_met(state, shed, other, next_)
        if shed.rule[0].keyed:
            warm_keys(shed, stream, other, far, near, next_)
        warm_expiring_members(state, shed, stream)
        if shed.rule[0].standing != BY_AGE:
            warm_around_victim(state, shed, stream)


@step
def warm_index(state, stream, far, near, next_):
    """The chains that the next arrivals will probe and join."""
    other = 1 - stream
    hash_table.warm_bucket(state.buckets, hash_table.bucket_of(state.buckets, far))
    bucket = hash_table.bucket_of(state.buckets, near)
    hash_table.warm_chain(state.buckets, state.slots, other, hash_table.OLDEST, bucket)
    hash_table.warm_chain(state.buckets, state.slots, stream, hash_table.NEWEST, bucket)
    bucket = hash_table.bucket_of(state.buckets, next_)
    hash_table.warm_second(state.buckets, state.slots, other, bucket)


@step
def following(state, stream):
    """The next stream; of two, the opposite one."""
    return stream + 1 if stream + 1 < len(state.lanes) else 0


@step
def warm_chains(state, stream, far, near):
    """The same for n streams: most arrivals lack a partner, and then need the bucket alone."""
    hash_table.warm_bucket(state.buckets, hash_table.bucket_of(state.buckets, far))
    bucket = np.int64(hash_table.bucket_of(state.buckets, near))
    hash_table.warm_chain(state.buckets, state.slots, stream, hash_table.NEWEST, bucket)
    if probing_many.has_all(state.buckets, bucket, stream):
        for other in range(len(state.lanes)):
            if other != stream:
                hash_table.warm_chain(state.buckets, state.slots, other, hash_table.OLDEST, bucket)


@step
def warm_expiring(state, stream):
    """The head of a stream's line leaves next: its bucket."""
    lane = state.lanes[stream]
    if lane.begin + NEAR < lane.end:
        slot = state.lines[lane.begin + NEAR]
        if slot >= 0:
            bucket = hash_table.bucket_of(state.buckets, state.slots[slot].code)
            hash_table.warm_bucket(state.buckets, bucket)


# --- under a budget ----------------------------------------------------------------------


@step
def warm_met(state, shed, other, next_):
    """The first member that an arrival will meet, if meeting changes members."""
    if shed.rule[0].kind == CUMULATIVE or shed.rule[0].kind == VALUE or shed.rule[0].watched:
        bucket = hash_table.bucket_of(state.buckets, next_)
        slot = np.int64(state.buckets[bucket, other, hash_table.OLDEST])
        if slot >= 0:
            warm_member(shed, slot)


@step
def warm_member(shed, slot):
    layout.warm(shed.members.notes, slot)
    if len(shed.members.priority) > 1:
        layout.warm(shed.members.priority, slot)
    if len(shed.members.key) > 1:
        layout.warm(shed.members.key, slot)


@step
def warm_keys(shed, stream, other, far, near, next_):
    """The keys of the next arrivals and of those soon counted out; by key, whom they will join."""
    book = shed.frequency
    frequency.warm_place(book, key_lines.mark_of(far))
    layout.warm(book.keys, frequency.likely_key(book, key_lines.mark_of(near)))
    warm_root(shed, frequency.likely_key(book, key_lines.mark_of(next_)), stream)
    if shed.rule[0].statistics == frequency.WINDOW:
        frequency.warm_place(book, frequency.line_ahead(book, stream, FAR))
        key = frequency.likely_key(book, frequency.line_ahead(book, stream, NEAR))
        layout.warm(book.keys, key)
        key = frequency.likely_key(book, frequency.line_ahead(book, stream, NEXT))
        warm_root(shed, key, other)


@step
def warm_root(shed, key, stream):
    if shed.rule[0].standing == BY_KEY:
        slot = np.int64(shed.groups[key, stream].root)
        if slot >= 0:
            layout.warm(shed.members.links, slot)


@step
def warm_slot(state, shed, slot):
    warm_member(shed, slot)
    layout.warm(state.slots, slot)


@step
def warm_victim(state, shed, stream):
    """The next victim is at the top of its queue: what the entry names."""
    if shed.queues[stream].near > 0:
        holder = np.int64(shed.heaps.entries[shed.queues[stream].start].holder)
        if shed.rule[0].standing == BY_KEY:
            layout.warm(shed.frequency.keys, holder)
        else:
            warm_slot(state, shed, holder)


@step
def warm_around_victim(state, shed, stream):
    """What the entry of the next victim names is near by now: what that names in turn."""
    if shed.queues[stream].near > 0:
        holder = np.int64(shed.heaps.entries[shed.queues[stream].start].holder)
        if shed.rule[0].standing == BY_KEY:
            slot = np.int64(shed.groups[holder, stream].root)
            code = shed.frequency.keys[holder].code
            if slot >= 0:
                warm_slot(state, shed, slot)
        else:
            code = state.slots[holder].code
            if shed.rule[0].keyed:
                layout.warm(shed.frequency.keys, np.int64(shed.members.key[holder]))
        if shed.rule[0].keyed:
            warm_leaving_key(shed, code)
        hash_table.warm_bucket(state.buckets, hash_table.bucket_of(state.buckets, code))


@step
def warm_leaving_key(shed, code):
    """A key that nobody else holds loses its record, and its counts become those of a rare key."""
    frequency.warm_place(shed.frequency, key_lines.mark_of(code))


@step
def warm_expiring_members(state, shed, stream):
    """The heads of a stream's line leave next, unless they are evicted before."""
    lane = state.lanes[stream]
    if lane.begin + FAR < lane.end:
        slot = np.int64(state.lines[lane.begin + FAR])
        if slot >= 0:
            warm_slot(state, shed, slot)
        slot = np.int64(state.lines[lane.begin + NEAR])
        if slot >= 0:
            bucket = hash_table.bucket_of(state.buckets, state.slots[slot].code)
            hash_table.warm_bucket(state.buckets, bucket)
            if shed.rule[0].keyed:
                layout.warm(shed.frequency.keys, np.int64(shed.members.key[slot]))
                warm_leaving_key(shed, state.slots[slot].code)
