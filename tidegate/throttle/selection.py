"""One probe: which basic windows it looks at (gedik2005, Algorithm 3).

Law: a tuple x belongs to basic window `now // b - x.time // b` of its window, so tuples never move
from one basic window to another, and all of them move on together every b units of time; the first
is the youngest. There are 1 + ceil(w / b), numbered from 0. A tuple that is younger than a late
arrival belongs to the first. One that is kept beyond its window, for arrivals that may be late, is
older than the last, cannot match, and is not looked at.

A probe counts the comparisons that each basic window would take (`see`), then takes basic windows
in the order of the plan while there is fuel (`choose`), the first one and what `fuel` allows
besides; what is not taken is skipped and counted.
Chains of an index that are in order of time are not walked further than the oldest basic window
that is asked for; what is skipped behind it is expected from earlier looks, not counted.
Of a basic window that is taken in part, the youngest tuples are looked at.

What skipped comparisons would have given is estimated from sampled probes: their results outside of
the plan, weighted by the inverse of the chance to be sampled, per probe that was not sampled. What
the plan asked for and the fuel did not allow counts by the density of its basic window.

        first of a basic window in part
               v
    |----------########|        ## looked at: offsets from `first` on
    older          younger
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled.kernel import part, step
from tidegate.throttle.throttle_records import IN_PART, NOT_TAKEN, WHOLE

FROM_ALL = -1  # offsets are at least 0


@step
def note_probe(throttle, at):
    """Count the probe at hand; a sampled one stands for `weight` others, which are not full."""
    throttle.sides[at].stood += throttle.tank[0].weight
    if throttle.tank[0].full == 0:
        throttle.sides[at].others += 1.0


@part
def begin(throttle, side, time):
    """Prepare a look at the window of stream `side`, for an arrival at `time`.

    A full probe asks for the whole window.
    """
    full = throttle.tank[0].full == 1
    throttle.sides[side].probes += 1.0
    for window in range(throttle.sides[side].windows):
        look = throttle.looks[window]
        look.asked = 0
        look.passed = 0.0
        look.planned = planned_from(throttle, side, window, time)
        look.first = FROM_ALL if full else look.planned


@part
def planned_from(throttle, side, window, time):
    """The offset inside a basic window from which on the plan looks at it."""
    share = throttle.cells[side, window].share
    basic = throttle.tank[0].basic
    first = np.int64(FROM_ALL)
    if share <= 0.0:
        first = basic
    elif share < 1.0:
        # Of the first and the last basic window only a part is alive at this time.
        start = (time // basic - window) * basic
        low = min(basic, max(0, time - throttle.sides[side].window - start))
        high = min(basic, time - start + 1)
        first = high - np.int64(np.floor(share * max(0, high - low) + 0.5))
    return first


@part
def oldest_asked(throttle, side):
    """The oldest basic window that is asked for at all; -1 if none is."""
    window = throttle.sides[side].windows - 1
    while window >= 0 and throttle.looks[window].first >= throttle.tank[0].basic:
        window -= 1
    return window


@part
def pass_beyond(throttle, side, reach):
    """The basic windows behind `reach` are not walked to: what they hold is expected only."""
    for window in range(reach + 1, throttle.sides[side].windows):
        cell = throttle.cells[side, window]
        if cell.tries > 0.0:
            throttle.looks[window].passed = cell.comparisons / cell.tries


@step
def window_of(throttle, side, now, time):
    """The basic window of a tuple of `time`, for an arrival at `now`; `windows` if it is older."""
    basic = throttle.tank[0].basic
    return min(max(now // basic - time // basic, 0), throttle.sides[side].windows)


@step
def is_asked(throttle, window, time):
    """Does a tuple stand in the part of its basic window that is asked for?"""
    return time % throttle.tank[0].basic >= throttle.looks[window].first


@step
def see(throttle, side, now, time):
    """A comparison with a tuple of `time` could be made."""
    window = window_of(throttle, side, now, time)
    if window < throttle.sides[side].windows:
        if is_asked(throttle, window, time):
            throttle.looks[window].asked += 1
        else:
            throttle.looks[window].passed += 1


@part
def choose(throttle, side, stream, counts):
    """Take basic windows while there is fuel; returns the comparisons that `stream` will make.

    With `counts` a basic window that is looked at whole is evidence.
    """
    tank = throttle.tank
    planned = tank[0].planned
    made = 0
    for place in range(throttle.sides[side].windows):
        window = throttle.cells[side, place].turn
        cell, look = throttle.cells[side, window], throttle.looks[window]
        tank[0].wanted += planned * look.asked
        skipped = look.passed
        too_much = made > 0 and made + look.asked > tank[0].allowed
        if look.asked > 0 and (tank[0].fuel <= 0.0 or too_much):
            look.taken = NOT_TAKEN
            skipped += look.asked
            if cell.comparisons > 0.0:
                # Of a result of n streams each tuple but the arrival is credited.
                expected = look.asked * (cell.hits / cell.comparisons)
                tank[0].denied += expected / (len(throttle.sides) - 1)
        else:
            tank[0].fuel -= look.asked
            made += look.asked
            look.taken = IN_PART
            if look.first == FROM_ALL:
                look.taken = WHOLE
                if counts:
                    cell.tries += 1.0
                    cell.comparisons += look.asked
        throttle.sides[stream].skipped += skipped
    return made


@step
def is_taken(throttle, side, now, time):
    """Is a tuple of `time` looked at by the probe at hand?"""
    window = window_of(throttle, side, now, time)
    taken = window < throttle.sides[side].windows and throttle.looks[window].taken != NOT_TAKEN
    return taken and is_asked(throttle, window, time)


@step
def is_planned(throttle, side, now, time):
    """Would the plan have looked at a tuple of `time`?"""
    window = window_of(throttle, side, now, time)
    return time % throttle.tank[0].basic >= throttle.looks[window].planned


@step
def learn(throttle, side, now, time, worth):
    """A tuple of `time` gave a result."""
    window = window_of(throttle, side, now, time)
    if throttle.looks[window].taken == WHOLE:
        if time % throttle.tank[0].basic < throttle.looks[window].planned:
            throttle.sides[side].missed += throttle.tank[0].weight
        throttle.cells[side, window].hits += 1.0
        throttle.cells[side, window].worth += worth
