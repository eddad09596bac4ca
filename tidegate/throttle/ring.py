"""The tuples of each basic window, in a ring (gedik2005, 5.1): how many, and for some joins which.

Law: a retained tuple that can match belongs to the place `time // b` modulo the ring's length, is
counted there, and stands in the chain there if its stream has no index. A push that brings times
which would make two basic windows share a place makes the ring longer beforehand, as far as that
is allowed (`state.throttle_arrays.with_room`); where it is not, `tank.fits` is 0, nobody reads the
counts, and whoever walks a chain looks at the times.

Without a CPU budget nothing of this is compiled.
"""

from __future__ import annotations

from tidegate.compiled.kernel import kernel, step
from tidegate.index import hash_table


@step
def place_of(throttle, segment):
    """The place of the basic window that begins at `segment` times its length."""
    return segment % throttle.held.shape[1]


@step
def enter(throttle, slots, stream, slot):
    """A tuple is retained."""
    if throttle is not None:
        place = place_of(throttle, slots[slot].time // throttle.tank[0].basic)
        throttle.held[stream, place] += 1
        if throttle.sides[stream].linked:
            hash_table.insert(throttle.chains, slots, stream, place, slot)


@step
def leave(throttle, slots, stream, slot):
    """A tuple is retained no longer."""
    if throttle is not None:
        place = place_of(throttle, slots[slot].time // throttle.tank[0].basic)
        throttle.held[stream, place] -= 1
        if throttle.sides[stream].linked:
            hash_table.remove(throttle.chains, slots, stream, place, slot)


@kernel
def enter_all(throttle, slots, stream, line):
    """All tuples of a line that can match, in this order."""
    for k in range(len(line)):
        enter(throttle, slots, stream, line[k])
