"""What shedding learns from whom an arrival met, with more than two streams.

Law: as `observing.matched`, for every tuple of a result; a tuple that takes part in several results
of one arrival is told once, and how many they were. In an instant only tuples from earlier ones
are told: the new ones are met before they are members.
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled.kernel import part
from tidegate.driver import counting_many
from tidegate.driver.probing import ANYBODY
from tidegate.shed import learning, standing_patterns
from tidegate.shed.shed_records import CUMULATIVE
from tidegate.state.join_state import FOUND, GROUP_ORDER, MATCHES


@part
def matched(state, shed, patterns, arrivals, arrival, work, many, stream, whom):
    """The arrival has met the members in `work.found`; what follows for them."""
    rule = shed.rule
    kind = rule[0].kind
    told = kind == CUMULATIVE or rule[0].watched or patterns is not None
    if work.progress[MATCHES] > 0 and told:
        counting_many.share_out(state, work, many, stream, arrivals.time[arrival], whom)
        weighed = state.gate[0].has_importance
        for at in range(work.progress[FOUND]):
            slot = work.found[at]
            is_old = whom == ANYBODY or state.notes[slot].order < work.progress[GROUP_ORDER]
            if many.shares[at] > 0.0 and is_old:
                own = state.importance[slot] if weighed else 1.0
                lane = np.int64(state.notes[slot].stream)
                now = shed.queues[lane].now
                if rule[0].watched:
                    learning.watch(shed, slot, now, many.shares[at])
                if patterns is not None:
                    standing_patterns.earn(shed, slot, many.shares[at])
                if kind == CUMULATIVE:
                    learning.gain(shed, slot, own, now, state.lanes[lane].window)
