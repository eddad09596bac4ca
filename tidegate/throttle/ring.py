"""How many tuples stand in each basic window, in a ring (gedik2005, 5.1).

Law: without late tuples all that is retained of a stream stands in at most 1 + ceil(w / b) basic
windows, and a ring with one place more holds their counts: when time moves on, the place of the
last becomes that of the first. Tuples that match nothing are not counted.

With late tuples more may be retained, and nobody reads the counts. Without a CPU budget nothing of
this is compiled.
"""

from __future__ import annotations

from tidegate.compiled.kernel import step


@step
def place_of(throttle, segment):
    """The place of the basic window that begins at `segment` times its length."""
    return segment % throttle.held.shape[1]


@step
def enter(throttle, stream, time):
    """A tuple is retained."""
    if throttle is not None:
        throttle.held[stream, place_of(throttle, time // throttle.tank[0].basic)] += 1


@step
def leave(throttle, stream, time):
    """A tuple is retained no longer."""
    if throttle is not None:
        throttle.held[stream, place_of(throttle, time // throttle.tank[0].basic)] -= 1
