"""What shedding learns from each arrival.

Law: every tuple that is taken is seen once, before it is admitted or refused (under
`ties="instant"` all tuples of an instant are seen before the first is admitted). What is learned
depends on the tuples alone, so it is the same under any cut of the input.
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled.kernel import part, step
from tidegate.estimators import (
    age_curve,
    frequency,
    importance,
    look_ahead,
    match_rate,
    rate_fit,
)
from tidegate.shed import exposure, shadows, standing_prospects, victims, worth
from tidegate.shed.members import basis_at, born_at, is_one
from tidegate.shed.shed_records import BY_KEY, OUTPUT, VALUE
from tidegate.windows.lifetime import ORDINARY

SMALLEST_REFRESH = 16  # tuples between two refreshes of all scores
MOST_HURRY = 64  # refreshes while 8 M tuples come
LEAST_HURRY = 16  # where what is ahead of a tuple falls as time goes on
CLEARLY_LESS = 0.9
SMALLEST_FADE = 256


@part
def learn_curve(shed, stream):
    """Turn what the monitors of a stream have shown into the worth of its stages, for AGE."""
    p = shed.curve.scratch[0, : shed.curve.watch[stream].buckets]
    if shed.curve.watch[stream].lives >= 1.0:
        age_curve.estimate(shed.curve, stream, p)
        for bucket in range(len(p)):
            p[bucket] /= np.float64(shed.stages.width[stream])
        stages = shed.stages
        age_curve.rate_ahead(p, stages.worth[stream], stages.rising[stream], stages.ending[stream])


@part
def fit(shed):
    """Make the rates of VALUE from what its tuples were exposed to."""
    rate_fit.fit(shed.rates)
    importance.summarise(shed.importances)
    if shed.rule[0].watched:
        for stream in range(len(shed.queues)):
            shed.curve.watch[stream].known = shed.rates.known[stream]


@part
def refresh(shed, combine, weighed):
    """Recompute all scores of VALUE: O(M), and so done after M / 8 to 8 M tuples, as `hurry` says,
    and at least once in a window."""
    if rate_fit.is_due(shed.rates):
        account_all(shed)
        fit(shed)
    for stream in range(len(shed.queues)):
        shed.rates.least[stream] = _least(shed, stream)
    members = wasted = 0
    for slot in range(len(shed.members.notes)):
        exposure.warm_ahead(shed, slot)
        if is_one(shed.members, slot):
            score = worth.score_of(shed, slot, combine, weighed)
            shed.members.priority[slot] = score
            members += 1
            wasted += score < CLEARLY_LESS * shed.rates.least[shed.members.notes[slot].stream]
    for stream in range(len(shed.queues)):
        victims.rebuild_by_tuple(shed.queues, shed.heaps, shed.members, stream)
    hurry = shed.rates.clock[match_rate.HURRY]
    least = LEAST_HURRY if look_ahead.is_moving(shed.rates) else 1
    shed.rates.clock[match_rate.HURRY] = max(least, next_hurry(hurry, wasted, members))
    shed.rates.clock[match_rate.REFRESHED] = shed.rates.clock[match_rate.NOW]
    shed.rule[0].refresh = max(SMALLEST_REFRESH, 8 * members // shed.rates.clock[match_rate.HURRY])


@step
def _least(shed, stream):
    """The priority of the next victim of a stream, as the queue has it."""
    slot = victims.first_by_tuple(shed.queues, shed.heaps, shed.members, stream)
    return shed.members.priority[slot] if slot >= 0 else 0.0


@part
def next_hurry(hurry, wasted, members):
    """How often scores are recomputed: more often if many members were clearly worth less than the
    next victim, less often if few were. A rise is seen when the member comes to the top."""
    if 32 * wasted > members:
        return min(MOST_HURRY, 2 * hurry)
    if 128 * wasted < members:
        return hurry // 2
    return hurry


@step
def score_again(shed, slot, combine, weighed, partner):
    """A member has met an arrival: a hit, and its key is worth something else now. A fall that is
    not clear waits for the next refresh: each takes one more entry in the queue."""
    members = shed.members
    exposure.account(shed, slot, 1)
    if len(members.met) > 1:
        members.met[slot] += np.float32(1.0)
        members.last_met[slot] = np.uint32(match_rate.short_now(shed.rates))
    if weighed:
        stream, own = np.int64(members.notes[slot].stream), basis_at(members, slot)
        importance.earn(shed.importances, stream, combine, own, partner)
    score = worth.score_of(shed, slot, combine, weighed)
    before = members.priority[slot]
    is_close = CLEARLY_LESS * before <= score and score <= before
    if members.notes[slot].monitor == ORDINARY and not is_close:
        victims.store(shed.queues, shed.heaps, members, slot, score)


@step
def account_all(shed):
    """Count all trials up to now, of shadows or of members."""
    if shed.rule[0].shadowed:
        shadows.account_all(shed)
    else:
        exposure.account_all(shed)


@part
def fade(shed):
    """Old evidence counts for less from now on."""
    book = shed.frequency
    if shed.rule[0].kind == VALUE:
        account_all(shed)
    frequency.fade(book)
    standing_prospects.fade(shed, shed.prospects)
    if shed.rule[0].kind == VALUE:
        shadows.fade(shed.shadows)
        match_rate.fade(shed.rates)
        importance.fade(shed.importances)
        shed.rule[0].refresh = 1
    elif shed.rule[0].standing == BY_KEY:
        for stream in range(len(shed.queues)):
            victims.rebuild_by_key(
                shed.rule, shed.queues, shed.heaps, shed.members, shed.groups, shed.worths, stream
            )
    shed.rule[0].quiet = 0


@step
def key_for(shed, code):
    """The key of a code. There is a record for each retained tuple and one that is being taken."""
    book = shed.frequency
    if shed.rule[0].statistics == frequency.GIVEN:
        # A key that the user did not name has the share 0, as NO_KEY has.
        key = max(np.int64(frequency.NO_KEY), frequency.find(book, code))
    else:
        key = frequency.find_or_add(book, code)
        if book.keys[key].references == 0 and shed.rule[0].kind == VALUE:
            match_rate.forget_key(shed.rates, key)
        if book.keys[key].references == 0:
            standing_prospects.begin_key(shed.prospects, key)
    return key


@step
def count_out(shed, stream, horizon):
    """Take from the counts what has left the full window of a stream."""
    book = shed.frequency
    while frequency.is_due(book, stream, horizon):
        key = frequency.count_out(book, stream)
        if key != frequency.NO_KEY and shed.rule[0].standing == BY_KEY:
            victims.reweigh_others(shed, key, stream)


@step
def count_in(shed, stream, moment, key, lives):
    """Add a new tuple to the counts of its key."""
    book = shed.frequency
    statistics = shed.rule[0].statistics
    if shed.rule[0].kind == VALUE:
        tick(shed, stream)
        if key != frequency.NO_KEY:
            match_rate.see_key(shed.rates, stream, key)
    if statistics == frequency.WINDOW:
        if lives:
            frequency.log_line(book, stream, moment, key)
    elif statistics == frequency.FADED or statistics == frequency.SKETCHED:
        if key != frequency.NO_KEY and shed.rule[0].kind != OUTPUT:
            book.counts[key, stream] += 1.0


@step
def tick(shed, stream):
    """The clock by which VALUE measures how long keys have not been seen."""
    clock = shed.rates.clock
    span = shed.rates.span
    if span[match_rate.CLOCK_OF] >= 0:
        time = match_rate.finer(shed.rates, shed.queues[span[match_rate.CLOCK_OF]].now)
        clock[match_rate.NOW] = max(clock[match_rate.NOW], time)
    else:
        clock[match_rate.NOW] += 1
    clock[match_rate.UNFITTED] += 1
    elapsed = clock[match_rate.NOW] - clock[match_rate.REFRESHED]
    if elapsed > span[match_rate.SPAN]:
        shed.rule[0].refresh = 1


@step
def pace(queues, stream, moment, window):
    """Measure how many tuples of a stream fall into the length of its window."""
    if queues[stream].seen == 0:
        queues[stream].period = moment
    elif moment - queues[stream].period > window:
        queues[stream].pace = queues[stream].seen - queues[stream].period_seen
        queues[stream].period = moment
        queues[stream].period_seen = queues[stream].seen
    queues[stream].seen += 1


@step
def gain(shed, slot, own, now, window):
    """A member has met an arrival: it does not decay by it, and gains (ojewole2006, 4.3.4)."""
    members = shed.members
    stream = np.int64(members.notes[slot].stream)
    rule = shed.rule[0]
    matches = worth.matches_of(shed.frequency.counts, np.int64(members.key[slot]), stream)
    left = worth.life_left(born_at(members, slot), now, window)
    # Only ever more than before, so its entry in the queue may stay behind.
    gained = worth.bounded(rule.alpha * rule.beta * own * matches)
    members.priority[slot] = worth.bounded(
        members.priority[slot] / rule.delta + gained * left / shed.queues[stream].scale
    )


@step
def watch(shed, slot, now, results):
    """A member has met an arrival: if it is a monitor, its life has so many results more."""
    note = shed.members.notes[slot]
    if note.monitor >= 0:
        stream = np.int64(note.stream)
        age = now - born_at(shed.members, slot)
        bucket = age_curve.bucket_at(
            age, shed.stages.width[stream], shed.curve.watch[stream].buckets
        )
        shed.curve.life[stream, note.monitor, bucket] += results
