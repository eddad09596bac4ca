"""Sampling policies: how likely a retained tuple was to be retained, known at every moment.

A tuple draws v in (0, 1] and has the priority size / v. When an account is full, the tuple with the
smallest priority goes, and that priority is a threshold that all others were above. So a tuple is
retained iff its priority is above every threshold since it came: with probability
min(1, size / threshold) for the largest of them, whatever the others drew, because had this tuple
been pinned, the same others would have gone. A result's weight is the inverse of it at the moment
when the result is emitted. (For a set that only grows this is priority sampling, or threshold
sampling, of the statistics of streams.)

`eq-cluster`   size 1: all tuples are as likely (srivastava2004, strategy 2)
`pps-cluster`  the matches that a tuple can expect, and half a match, so that no tuple has no chance
               (strategy 3), with n streams the mean over the others; a wrong expectation costs
               precision and never makes a bias
`uniform`      size 1, and v is drawn for each result: a tuple wants some of its results, found by
               geometric skips, and stays until the last of those that it can expect (figure 4)

Law: thresholds of one tuple only rise. The largest threshold since an order of arrival is found in
a stack of steps: a new threshold removes all smaller ones, which no later question can ask for.
"""

from __future__ import annotations

import math

import numpy as np

from tidegate.compiled.kernel import kernel, part, step
from tidegate.estimators import frequency
from tidegate.shed import victims, worth
from tidegate.shed.members import basis_at, is_one
from tidegate.shed.sample_records import COVERED
from tidegate.shed.shed_records import PPS_CLUSTER, UNIFORM

UNSEEN = 0.5  # matches of a key that was not seen yet
# Where the memory was never full for a part of a window, the start falls to this share of it.
PARTS, GROWTH = 4, 0.9
CERTAIN = 1.0  # the threshold at which everything is sampled
# The weight of a result that is certain to be there although others are not; see `sample.tags`.
SURE = 1.0 + 2.0**-50
NOT_WANTED = -1.0  # the priority of an arrival that wants none of its results
MOST = 2.0**31 - 1.0
_DRAW = np.uint64(0xD6E8FEB86659FD93)
TAGS = 1 << 40  # draws that make tags lie behind all others
_TAG_SHARES = 268435456.0  # 2^28: see `sample.tags`
_LAYOUTS = 4.0  # the lowest bits of a tag say how it is laid out; here 0


@part
def drawn(seed, stream, number, draw):
    """The n-th number of a tuple, in (0, 1]; it is known by its number among all tuples.

    Each draw has a seed of its own. It is mixed first, because `chance` adds to the seed for each
    tuple: otherwise the draws of one tuple would be those of others.
    """
    state = seed + _DRAW * (np.uint64(draw) + np.uint64(1))
    state = (state ^ (state >> np.uint64(32))) * _DRAW
    return 1.0 - worth.chance(state ^ (state >> np.uint64(29)), stream, number)


@part
def skip_of(level, number):
    """Coins of this bias until the first success: geometric, at most MOST."""
    if level >= 1.0:
        return 1.0
    return 1.0 + np.floor(min(MOST, math.log(number) / math.log1p(-level)))


# --- thresholds --------------------------------------------------------------------------


@part
def threshold_of(samples, account, slot, order):
    """The largest threshold since the tuple in a slot came."""
    steps = samples.steps
    low, high = np.int64(0), np.int64(samples.levels[account].steps)
    while low < high:
        middle = (low + high) // 2
        if steps[account, middle].order >= order:
            high = middle
        else:
            low = middle + 1
    found = samples.floor[slot]
    if low < samples.levels[account].steps:
        found = max(found, steps[account, low].threshold)
    return found


@part
def raise_to(shed, lanes, account, order, threshold):
    """All tuples of an account up to an order have been above this threshold."""
    samples = shed.samples
    level, steps = samples.levels[account], samples.steps
    count = np.int64(level.steps)
    while count > 0 and steps[account, count - 1].threshold <= threshold:
        count -= 1
    level.steps = count
    if count == steps.shape[1]:
        fold(shed, lanes, account)
        count = np.int64(0)
    steps[account, count].order = order
    steps[account, count].threshold = threshold
    level.steps = count + 1
    if not level.given:
        level.start = max(level.start, threshold)


@part
def fold(shed, lanes, account):
    """Write the threshold of each tuple of an account down; no step is needed then."""
    samples, notes = shed.samples, shed.members.notes
    for slot in range(len(notes)):
        if is_one(shed.members, slot) and lanes[notes[slot].stream].account == account:
            order = np.int64(notes[slot].order)
            samples.floor[slot] = threshold_of(samples, account, slot, order)
    samples.levels[account].steps = 0


@kernel
def fold_all(shed, lanes):
    """Write all thresholds down: orders of arrival are about to change."""
    for account in range(len(shed.samples.levels)):
        fold(shed, lanes, account)


# --- results -----------------------------------------------------------------------------


@part
def take_result(shed, lanes, seed, slot):
    """A retained tuple has a match: the weight of the result, 0 if the sample does not want it."""
    samples, note = shed.samples, shed.members.notes[slot]
    stream, order = np.int64(note.stream), np.int64(note.order)
    number = samples.number[slot]
    tag = np.int64(TAGS)
    if shed.rule[0].kind == UNIFORM:
        samples.wants[slot].skip -= 1
        if samples.wants[slot].skip > 0:
            return 0.0
        tag += samples.wants[slot].draws
    threshold = threshold_of(samples, lanes[stream].account, slot, order)
    weight = threshold / basis_at(shed.members, slot)
    if weight <= 1.0:
        return certain_weight(samples, lanes)
    return tagged(weight, drawn(seed, stream, number, tag))


@step
def certain_weight(samples, lanes):
    """The weight of a certain result: exactly 1 while all results were."""
    lost = np.int64(0)
    for stream in range(len(lanes)):
        if samples.waits[stream] != 0:
            lost += lanes[stream].evicted + lanes[stream].refused
    return 1.0 if lost == 0 else SURE


@part
def tagged(weight, number):
    """A weight whose lowest bits name what was drawn; see `sample.tags`."""
    _, exponent = math.frexp(weight)
    unit = math.ldexp(1.0, exponent - 25)
    tag = np.floor((1.0 - number) * (_TAG_SHARES / _LAYOUTS)) * _LAYOUTS
    return np.floor(weight / unit) * unit + tag * (unit / _TAG_SHARES)


@part
def wants_another(shed, lanes, seed, slot):
    """A result was taken: draw which one its tuple wants next; False if there is none."""
    samples, note = shed.samples, shed.members.notes[slot]
    stream, order = np.int64(note.stream), np.int64(note.order)
    threshold = threshold_of(samples, lanes[stream].account, slot, order)
    priority = next_want(shed, seed, stream, slot, threshold)
    if priority < 0.0:
        return False
    victims.store(shed.queues, shed.heaps, shed.members, slot, priority)
    return True


@part
def next_want(shed, seed, stream, slot, threshold):
    """Draw the next wanted result of a member at a threshold. Its priority, or NOT_WANTED."""
    want, number = shed.samples.wants[slot], shed.samples.number[slot]
    further = skip_of(1.0 / threshold, drawn(seed, stream, number, want.draws))
    share = drawn(seed, stream, number, want.draws + 1)
    want.draws += 2
    if further > want.left:
        return beyond(threshold, want)
    want.left -= np.int32(further)
    want.skip += np.int32(further)
    return threshold / share


@step
def beyond(threshold, want):
    """No result that can be expected is wanted. While all are in the sample, an unexpected one is
    waited for, by a tuple that goes before all others."""
    if threshold > CERTAIN:
        return NOT_WANTED
    want.skip += 1
    return CERTAIN


# --- arrivals ----------------------------------------------------------------------------


@part
def expected(shed, lanes, stream, other, key, moment):
    """Tuples of another stream that a tuple can expect to meet in its life, from those in the
    other's window. Count windows are as long as their share of the tuples so far.

    Where a window is empty, tuples of all times are counted and old ones fade: then the time is
    known that counts stand for, and they are a rate (srivastava2004, equation 1).
    """
    own_length, length = np.float64(lanes[stream].window), np.float64(lanes[other].window)
    if not lanes[stream].is_time_window:
        own_length /= max(1, shed.queues[stream].seen)
    if not lanes[other].is_time_window:
        length /= max(1, shed.queues[other].seen)
    ratio = 1.0
    if lanes[stream].is_time_window == lanes[other].is_time_window and length != 0.0:
        ratio = own_length / length
    if shed.rule[0].statistics == frequency.FADED and lanes[stream].is_time_window:
        covered = shed.samples.sums[COVERED] + np.float64(moment - shed.rule[0].faded)
        ratio = own_length / max(1.0, covered)
    return frequency.count_of(shed.frequency.counts, key, other) * ratio


@step
def note_fade(samples, elapsed):
    """Counts are about to be faded, so long after the last time."""
    if samples is not None:
        samples.sums[COVERED] = (samples.sums[COVERED] + elapsed) * frequency.FADING


@part
def cluster_size(shed, lanes, stream, key, moment):
    """The size of a tuple for `pps-cluster`. With n streams the probabilities of the n - 1 retained
    tuples of a result are multiplied, so each has the (n - 1)th root of what can be expected."""
    size = 1.0
    for other in range(len(lanes)):
        if other != stream:
            size *= expected(shed, lanes, stream, other, key, moment) + UNSEEN
    if len(lanes) > 2:
        size = size ** (1.0 / (len(lanes) - 1.0))
    return size


@part
def appraise(shed, lanes, accounts, seed, stream, number, key, moment):
    """Priority and size of an arrival; what it wants is noted in its account's level."""
    kind = shed.rule[0].kind
    account = lanes[stream].account
    level = shed.samples.levels[account]
    level.draws, level.skip, level.left, level.floor = 0, 0, 0, 0.0
    size = 1.0
    if kind == UNIFORM:
        review(shed, accounts, account, moment)
        matches = shed.rule[0].beta if stream == 0 else shed.rule[0].delta
        if matches < 0.0:  # not told
            matches = expected(shed, lanes, stream, 1 - stream, key, moment)
        level.left = np.int64(
            min(MOST, np.ceil(matches + shed.rule[0].alpha * math.sqrt(matches + 1.0)))
        )
        level.floor = level.start
        priority = arrival_wants(shed, seed, stream, number, account, level.start)
    else:
        if kind == PPS_CLUSTER:
            size = cluster_size(shed, lanes, stream, key, moment)
        priority = worth.bounded(size / drawn(seed, stream, number, 0))
    return priority, size


@part
def arrival_wants(shed, seed, stream, number, account, threshold):
    """As `next_want`, for the arrival under way."""
    level = shed.samples.levels[account]
    further = skip_of(1.0 / threshold, drawn(seed, stream, number, level.draws))
    share = drawn(seed, stream, number, level.draws + 1)
    level.draws += 2
    if further > level.left:
        level.priority = beyond(threshold, level)
        return level.priority
    level.left -= np.int64(further)
    level.skip += np.int64(further)
    level.priority = threshold / share
    return level.priority


@part
def review(shed, accounts, account, moment):
    """Some times in a window: let the fraction grow where memory was left."""
    level = shed.samples.levels[account]
    if not level.begun or PARTS * (moment - level.reviewed) > shed.rule[0].fade_after:
        unused = level.peak < accounts[account].capacity
        if level.begun and unused and not level.given:
            level.start = max(1.0, GROWTH * level.start)
        level.begun = 1
        level.reviewed = moment
        level.peak = accounts[account].used


@step
def taken_in_all(lanes):
    """How many tuples were taken from all streams: the next one is known by it."""
    taken = np.int64(0)
    for stream in range(len(lanes)):
        taken += lanes[stream].taken
    return taken


@step
def settle(shed, lanes, accounts, account, slot):
    """The arrival under way is retained in a slot."""
    samples = shed.samples
    level = samples.levels[account]
    samples.floor[slot] = level.floor
    samples.number[slot] = taken_in_all(lanes) - 1
    if shed.rule[0].kind == UNIFORM:
        samples.wants[slot].skip = np.int32(level.skip)
        samples.wants[slot].left = np.int32(level.left)
        samples.wants[slot].draws = np.int32(level.draws)
    level.peak = max(level.peak, accounts[account].used)
