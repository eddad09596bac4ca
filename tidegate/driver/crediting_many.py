"""The results of a probe of n streams say which basic windows pay.

Law: only a probe that asked for all windows is evidence. Each tuple that it found is credited with
the results in which it takes part; nothing is enumerated.
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
        for side in range(len(state.lanes)):
            if side != stream:
                for at in range(many.reach[side, BEGIN], many.reach[side, END]):
                    its = state.slots[work.found[at]].time
                    selection.earn(throttle, side, time, its, many.shares[at])
