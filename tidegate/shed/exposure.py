"""What retained tuples were exposed to: the trials and hits from which VALUE learns its rates.

Law: a tuple's trials are counted for the cell in which it stood, up to the moment at which it may
stand in another: when it has met an arrival, when it leaves, when evidence fades, and at every
refresh. So each arrival is a trial for each tuple that was there, once.
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled import layout
from tidegate.compiled.kernel import part, step
from tidegate.estimators import frequency, match_rate
from tidegate.shed.members import is_one

AHEAD = 16  # members: far enough to hide a cache miss


@step
def level_of(rule, counts, key, stream, met):
    """The level of a tuple of `stream`; if it was just met, before that was counted."""
    count = frequency.count_of(counts, key, 1 - stream)
    if rule[0].statistics == frequency.GIVEN:
        return match_rate.level_of(count * match_rate.GIVEN_SCALE)
    return match_rate.level_of(max(0.0, count - met))


@step
def begin(shed, slot, stream):
    """A tuple is retained, or was accounted for, up to now."""
    match_rate.expose(shed.rates, slot, shed.queues[1 - stream].seen, shed.queues[stream].now)


@part
def account(shed, slot, met):
    """Count the arrivals since it was last looked at as its trials; was the last one a hit?"""
    rates = shed.rates
    stream = np.int64(shed.members.notes[slot].stream)
    key, born = np.int64(shed.members.key[slot]), shed.members.born[slot]
    arrival = shed.queues[1 - stream].seen
    trials, since, then = match_rate.exposed_to(rates, slot, arrival)
    if key != frequency.NO_KEY and (trials > 0 or met):
        level = level_of(shed.rule, shed.frequency.counts, key, stream, met)
        window = shed.stages.width[stream] * shed.curve.watch[stream].buckets
        now = rates.clock[match_rate.NOW]
        youngest = then - born
        oldest = shed.queues[stream].now - born
        last, before = rates.activity[key].last, rates.activity[key].before
        if met and last == now:
            last, before = before, np.int64(match_rate.NEVER)
        if since < last < now:
            # Its key was seen in between: a wait ended there and another began.
            share = (last - since) / (now - since)
            first = np.int64(trials * share + 0.5)
            middle = youngest + np.int64((oldest - youngest) * share)
            begun = since - before if match_rate.NEVER < before <= since else np.int64(0)
            waits = (begun, begun + last - since)
            match_rate.spread(rates, stream, level, (youngest, middle), waits, window, first)
            trials -= first
            youngest, since = middle, last
        begun = np.int64(0) if last == match_rate.NEVER else max(np.int64(0), since - last)
        waits = (begun, begun + now - since)
        age, wait = match_rate.spread(
            rates, stream, level, (youngest, oldest), waits, window, trials
        )
        if met:
            match_rate.hit(rates, stream, level, age, wait, arrival)
    begin(shed, slot, stream)


@step
def warm_ahead(shed, slot):
    """In a pass over all members: bring near what is known of the key of one that comes soon."""
    soon = shed.members.key[min(slot + AHEAD, len(shed.members.key) - 1)]
    layout.warm(shed.frequency.keys, max(np.int64(0), np.int64(soon)))


@part
def account_all(shed):
    for slot in range(len(shed.members.notes)):
        warm_ahead(shed, slot)
        if is_one(shed.members, slot):
            account(shed, slot, 0)
