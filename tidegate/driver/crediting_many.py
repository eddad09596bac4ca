"""The results of a probe of n streams say which basic windows pay.

Law: only a probe that asked for all windows is evidence. Each tuple that it found is credited with
the results in which it takes part and with their importance; nothing is enumerated.
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled.kernel import part
from tidegate.driver import counting_many
from tidegate.driver.probing import ANYBODY
from tidegate.state.join_state import BEGIN, END, MATCHES
from tidegate.throttle import selection


@part
def credit(state, throttle, arrivals, work, many, stream, arrival):
    """An arrival has met the tuples in `work.found`."""
    tank, time = throttle.tank, arrivals.time[arrival]
    if tank[0].full == 1 and work.progress[MATCHES] > 0:
        results = np.float64(work.progress[MATCHES])
        throttle.sides[stream].missed += tank[0].weight * results * (1.0 - tank[0].inside)
        counting_many.share_out(state, work, many, stream, time, ANYBODY)
        add_shares(state, throttle, work, many, stream, time, True)
        if state.gate[0].has_importance:
            own = arrivals.importance[arrival]
            counting_many.share_out_worth(state, work, many, stream, time, ANYBODY, own)
        add_shares(state, throttle, work, many, stream, time, False)


@part
def add_shares(state, throttle, work, many, stream, time, are_results):
    """What stands in `many.shares` is added to basic windows, as results or as their worth."""
    for side in range(len(state.lanes)):
        if side != stream:
            for at in range(many.reach[side, BEGIN], many.reach[side, END]):
                its = state.slots[work.found[at]].time
                window = selection.window_of(throttle, side, time, its)
                if are_results:
                    throttle.cells[side, window].hits += many.shares[at]
                else:
                    throttle.cells[side, window].worth += many.shares[at]
