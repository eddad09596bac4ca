"""An arrival meets others: of one opposite stream, or of n - 1.

Law: the loops of the driver are the same for two streams and for n. `many` is None with two, and
numba leaves out the branches for n.
"""

from __future__ import annotations

from tidegate.compiled.kernel import step
from tidegate.driver import (
    counting_many,
    crediting_many,
    limiting,
    observing,
    observing_many,
    probing,
    probing_many,
)
from tidegate.state.join_state import MATCHES


@step
def find(state, arrivals, work, many, stream, arrival, whom):
    """Look for candidates."""
    if many is None:
        probing.find(state, arrivals, work, stream, arrival)
    else:
        probing_many.find(state, arrivals, work, many, stream, arrival, whom)


@step
def emit(state, shed, arrivals, work, many, output, stream, arrival, whom):
    """Turn those that match into results; False if the output is full before the last."""
    if many is None:
        done = probing.emit(state, shed, arrivals, work, output, stream, arrival, whom)
    elif state.gate[0].only_counts:
        counting_many.count(state, shed, arrivals, work, many, stream, arrival, whom)
        done = True
    else:
        done = probing_many.emit(state, shed, arrivals, work, many, output, stream, arrival, whom)
    return done


@step
def learn(state, throttle, arrivals, work, many, stream, arrival):
    """The results of an arrival say which basic windows pay."""
    if throttle is not None:
        if many is None:
            limiting.credit(state, throttle, arrivals, work, stream, arrival)
        else:
            crediting_many.credit(state, throttle, arrivals, work, many, stream, arrival)


@step
def matched(state, shed, arrivals, arrival, work, many, stream, whom):
    """What follows for the members that were met."""
    if many is None:
        count = work.progress[MATCHES]
        observing.matched(state, shed, shed.patterns, arrivals, arrival, work, stream, count)
    else:
        observing_many.matched(
            state, shed, shed.patterns, arrivals, arrival, work, many, stream, whom
        )
