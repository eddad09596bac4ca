"""A probe of n streams under a budget of CPU time looks at a part of each other window.

Law: an arrival that lacks a partner on one of the streams makes no comparison. Otherwise the other
windows are taken in the order of the streams, each as in a join of two streams: its basic windows
in the order of the plan, while there is fuel. When nothing of a window was looked at there are no
results, and the windows behind it are not looked at. A comparison is a retained tuple with the key
of the arrival.

So each probe's share of the fuel follows from one knapsack over all (stream, basic window). What a
basic window yields are the results in which its tuples take part, as seen by probes that look at
all windows whole: others see fewer combinations of the same tuples.
"""

from __future__ import annotations

from tidegate.compiled.kernel import part, step
from tidegate.driver.limiting import begin_probe
from tidegate.state.join_state import BEGIN, END
from tidegate.throttle import selection


@step
def prepare(state, throttle, stream):
    """Grant the fuel of the time that has passed, for an arrival that can match."""
    if throttle is not None:
        begin_probe(state, throttle, stream)


@step
def limit(state, throttle, arrivals, work, many, stream, arrival, found):
    """Shorten the segments to what the budget allows; returns `found`, or 0 if one is empty."""
    if throttle is not None:
        if not within_budget(state, throttle, work, many, stream, arrivals.time[arrival]):
            found = 0
    return found


@part
def within_budget(state, throttle, work, many, stream, time):
    """The same under a budget of CPU time; False if a segment is empty."""
    tank = throttle.tank
    full = tank[0].full == 1
    selection.note_probe(throttle, stream)
    tank[0].inside = 1.0
    for side in range(len(state.lanes)):
        if side != stream:
            selection.begin(throttle, side, time)
            for k in range(many.reach[side, BEGIN], many.reach[side, END]):
                selection.see(throttle, side, time, state.slots[work.found[k]].time)
            made = selection.choose(throttle, side, stream, full)
            state.lanes[stream].comparisons += made
            if not keep_taken(state, throttle, work, many, side, time):
                return False
    return True


@part
def keep_taken(state, throttle, work, many, side, time):
    """Leave out the candidates of basic windows that are not taken; False if none stays.

    `tank.inside` becomes the share of all combinations that the plan would have had, too.
    """
    end, planned = many.reach[side, BEGIN], 0
    for k in range(many.reach[side, BEGIN], many.reach[side, END]):
        slot = work.found[k]
        its = state.slots[slot].time
        if selection.is_taken(throttle, side, time, its):
            work.found[end] = slot
            end += 1
            planned += selection.is_planned(throttle, side, time, its)
    kept = end - many.reach[side, BEGIN]
    many.reach[side, END] = end
    if kept > 0:
        throttle.tank[0].inside *= planned / kept
    return kept > 0
