"""An arrival meets the tuples of the opposite window; the matches become results.

Law: the index proposes candidates once; they are checked one by one and written until the output is
full. What was done stands in `work.progress`, so that the driver can stop inside the results of one
arrival and go on there: an arrival with a million results needs no more memory than one with ten.

A probe may be limited to a part of the window (`work.part`: the youngest and the oldest age that is
looked at); every candidate that is looked at is charged as a comparison.
"""

from __future__ import annotations

from tidegate.binding import matching
from tidegate.binding.spec_records import HASH, INVERTED
from tidegate.compiled.kernel import step
from tidegate.driver.limiting import looked_at
from tidegate.estimators.importance import combined
from tidegate.shed import sampling
from tidegate.shed.sample_records import WEIGHTS
from tidegate.state.join_state import FOUND, GROUP_ORDER, MATCHES, NEXT_FOUND, RESULTS
from tidegate.windows.arrivals import WAITS

ANYBODY, NEWCOMERS, EARLIER = range(3)  # whom an arrival meets: see `instant`


@step
def find(state, arrivals, work, stream, arrival):
    """Ask the index of the opposite stream for candidates, if the arrival is to search."""
    progress = work.progress
    progress[FOUND] = progress[NEXT_FOUND] = progress[MATCHES] = 0
    flag = arrivals.matchable[arrival]
    if flag and flag != WAITS:
        count, comparisons, visits = looked_at(
            state, state.throttle, arrivals, work, stream, arrival
        )
        state.lanes[stream].comparisons += comparisons
        state.lanes[stream].visits += visits
        progress[FOUND] = count


@step
def emit(state, shed, arrivals, work, output, stream, arrival, whom):
    """Turn the candidates that match into results; False if the output is full before the last.

    A join that samples leaves out those that its sample does not want (`shed.sampling`).
    The matches are moved to the front of `work.found`, where `progress[MATCHES]` counts them.
    """
    other = 1 - stream
    time = arrivals.time[arrival]
    kind = state.lanes[other].index
    check_code = state.gate[0].has_equality and kind != HASH
    first_set = 1 if kind == INVERTED else 0
    check_bands = len(state.bands) > 0
    check_sets = len(state.set_terms) > first_set
    check_thetas = len(state.thetas) > 0
    weighed = state.gate[0].has_importance
    writes = not state.gate[0].only_counts
    youngest, oldest = work.part[other, 0], work.part[other, 1]
    begun = results = output.filled[RESULTS]
    room = len(output.importance)
    count, matches = work.progress[FOUND], work.progress[MATCHES]
    k = work.progress[NEXT_FOUND]
    gained = 0.0
    while k < count and (results < room or not writes):
        slot = work.found[k]
        k += 1
        if not youngest <= time - state.slots[slot].time <= oldest:
            continue
        if not matching.meet_in_time(state.slots, state.lanes, slot, other, stream, time):
            continue
        if whom != ANYBODY:
            is_new = state.notes[slot].order >= work.progress[GROUP_ORDER]
            if is_new != (whom == NEWCOMERS):
                continue
        if check_code and state.slots[slot].code != arrivals.code[arrival]:
            continue
        if check_bands and not matching.in_bands(
            state.bands, state.values, state.reals, slot,
            arrivals.values, arrivals.reals, arrival, stream == 0,
        ):  # fmt: skip
            continue
        if check_sets and not matching.share_enough(
            state.set_terms, first_set, state.arena, state.spans, slot,
            arrivals.items, arrivals.weights, arrivals.spans, arrival,
        ):  # fmt: skip
            continue
        if check_thetas and not matching.thetas_hold(
            state.thetas, state.values, slot, arrivals.values, arrival, stream == 0
        ):
            continue
        if shed is not None:
            weight = weight_of(state, shed, shed.samples, slot, whom)
            if weight == 0.0:
                continue
            if writes:
                write_weight(output, shed.samples, results, weight)
        work.found[matches] = slot
        matches += 1
        if writes:
            output.rows[stream, results] = arrivals.row[arrival]
            output.rows[other, results] = state.slots[slot].row
        if weighed:
            worth = combined(
                state.gate[0].combine, arrivals.importance[arrival], state.importance[slot]
            )
            if writes:
                output.importance[results] = worth
            gained += worth
        results += 1
    state.gate[0].importance_out += gained
    state.gate[0].results += results - begun
    if writes:
        output.filled[RESULTS] = results
    work.progress[NEXT_FOUND] = k
    work.progress[MATCHES] = matches
    return k == count


@step
def weight_of(state, shed, samples, slot, whom):
    """The weight of a result with a retained tuple; 0 if the sample does not want it."""
    weight = 1.0
    if samples is not None:
        if whom == NEWCOMERS:  # those that meet inside their instant are certain
            weight = sampling.certain_weight(samples, state.lanes)
        else:
            weight = sampling.take_result(shed, state.lanes, state.gate[0].seed, slot)
        samples.sums[WEIGHTS] += weight
    return weight


@step
def write_weight(output, samples, result, weight):
    """Weights are written where there are samples."""
    if samples is not None:
        output.weight[result] = weight
