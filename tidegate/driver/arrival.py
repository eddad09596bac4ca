"""The loop of `ties="arrival"`: expire, probe, emit, admit, for one arrival after the other.

Law: an arrival first probes, then is admitted. The loop owns the order of things: matching belongs
to `probing`, what leaves to `leaving`, who stays to `admission`, what is learned to `observing`.
`shed` is None without a budget, and then the code of shedding is not compiled; `many` is None with
two streams, and then that of the n-way probe is not.

The loop stops when it needs something that only Python can give (room for more slots, or a drained
output), returns what it needs, and goes on when it is called again. `work.progress` says how far it
came with an arrival; all that was done before the first candidate can be done twice without harm.
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled.kernel import kernel, step
from tidegate.driver.admission import DONE, NEED_OUTPUT, NO_VISITOR, admit, missing_room, take
from tidegate.driver.leaving import expire, want_again
from tidegate.driver.meeting import emit, find, learn, matched
from tidegate.driver.observing import produced, see
from tidegate.driver.prefetching import look_ahead
from tidegate.driver.probing import ANYBODY
from tidegate.estimators.frequency import NO_KEY, count_of
from tidegate.estimators.partners_met import greet
from tidegate.state.join_state import FOUND, MATCHES, NOTHING_FOUND
from tidegate.windows import lifetime
from tidegate.windows.arrivals import earliest


@step
def in_time(gate, time):
    """Move the clock to `time`; False if `time` is too late to be taken at all."""
    if time < gate[0].watermark:
        return False
    if time > gate[0].clock:
        gate[0].clock = time
        if not gate[0].external:
            gate[0].watermark = time - gate[0].lateness
    return True


@kernel
def run(state, shed, arrivals, work, many, output):
    """Take arrivals one by one until all are taken or something is needed."""
    cursor = work.cursor
    progress = work.progress
    while True:
        stream = earliest(arrivals.time, cursor, arrivals.end)
        if stream < 0:
            return DONE
        arrival = cursor[stream]
        if progress[FOUND] == NOTHING_FOUND:
            if not in_time(state.gate, arrivals.time[arrival]):
                state.lanes[stream].too_late += 1
                cursor[stream] += 1
                continue
            look_ahead(state, shed, many, arrivals, stream, arrival)
            expire(state, shed, output)
            missing = missing_room(state, shed, arrivals, output, stream, arrival)
            if missing != DONE:
                return missing
            find(state, arrivals, work, many, stream, arrival, ANYBODY)
        if not emit(state, shed, arrivals, work, many, output, stream, arrival, ANYBODY):
            return NEED_OUTPUT
        learn(state, state.throttle, arrivals, work, many, stream, arrival)
        take(state, stream)
        key = np.int64(NO_KEY)
        if shed is not None:
            key = see(state, shed, arrivals, stream, arrival)
            produced(shed, shed.prospects, key, progress[MATCHES])
            found = progress[MATCHES]
            greet(shed.rates, stream, found, count_of(shed.frequency.counts, key, 1 - stream))
            matched(state, shed, arrivals, arrival, work, many, stream, ANYBODY)
            want_again(state, shed, shed.samples, work, output, 1 - stream, progress[MATCHES])
        admit(state, shed, arrivals, output, stream, arrival, NO_VISITOR, key, progress[MATCHES])
        progress[FOUND] = NOTHING_FOUND
        lifetime.note_peak(state.pool, state.lanes[stream])
        cursor[stream] += 1
