"""What retained tuples were exposed to: the trials and hits from which VALUE learns its rates.

Law: a tuple's trials are counted for the cell in which it stood, up to the moment at which it may
stand in another: when it has met an arrival, when it leaves, when evidence fades, and at every
refresh. So each arrival is a trial for each tuple that was there, once. Of a key the last two
moments are known; if it was seen more often since a tuple was last looked at, it is taken to have
come as regularly as between these two. Where a budget holds many tuples, a sample of them is
studied (`match_rate.place_of`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.compiled import layout
from tidegate.compiled.kernel import part, step
from tidegate.estimators import frequency, match_rate, partners_met
from tidegate.shed.members import born_at, is_one, met_at

AHEAD = 16  # members: far enough to hide a cache miss


@step
def level_of(rule, counts, key, stream, met):
    """The level of a tuple of `stream`; if it was just met, before that was counted."""
    count = frequency.count_of(counts, key, 1 - stream)
    if rule[0].statistics == frequency.GIVEN:
        return match_rate.level_of(count * match_rate.GIVEN_SCALE)
    return match_rate.level_of(max(0.0, count - met))


@step
def place_of(shed, slot):
    """Where it is noted what a member was exposed to, or NOT_STUDIED."""
    note = shed.members.notes[slot]
    stream, monitor = np.int64(note.stream), np.int64(note.monitor)
    return match_rate.place_of(shed.rates, np.int64(slot), stream, monitor)


def studied(shed: Any, slots: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Those of the slots of members that are studied, and their places."""
    notes, study = shed.members.notes[slots], shed.rates.study
    every, monitors = int(study[match_rate.EVERY]), int(study[match_rate.MONITORS])
    watches = (notes.monitor >= 0) & (every > 0)
    places = np.where(
        watches,
        notes.stream.astype(np.int64) * (monitors // len(shed.queues)) + notes.monitor,
        monitors + (slots >> every),
    )
    chosen = watches | (slots % (1 << every) == 0)
    return slots[chosen], places[chosen]


@step
def begin(shed, slot):
    """A member is retained from now on."""
    place = place_of(shed, slot)
    if len(shed.rates.exposed) > 1 and place != match_rate.NOT_STUDIED:
        _begin_at(shed, place, np.int64(shed.members.notes[slot].stream))


@step
def _begin_at(shed, place, stream):
    match_rate.expose(shed.rates, place, shed.queues[1 - stream].seen, shed.queues[stream].now)


@step
def account(shed, slot, met):
    """Count the arrivals since a member was last looked at as its trials, if it is studied; was the
    last one a hit?"""
    place = place_of(shed, slot)
    if len(shed.rates.exposed) > 1 and place != match_rate.NOT_STUDIED:
        _account_at(shed, slot, place, met)


@part
def _account_at(shed, slot, place, met):
    rates = shed.rates
    stream, key = np.int64(shed.members.notes[slot].stream), np.int64(shed.members.key[slot])
    arrival, now = shed.queues[1 - stream].seen, shed.queues[stream].now
    trials, since, aged = match_rate.exposed_to(rates, place, arrival, now)
    if key != frequency.NO_KEY and (trials > 0 or met):
        window = shed.stages.width[stream] * shed.curve.watch[stream].buckets
        oldest = now - born_at(shed.members, slot)
        if partners_met.is_keyless(rates) and shed.rule[0].statistics != frequency.GIVEN:
            level = partners_met.level_by_met(rates, stream, met_at(shed.members, slot), oldest)
        else:
            level = level_of(shed.rule, shed.frequency.counts, key, stream, met)
        partners_met.live_on(rates, stream, trials, aged)
        youngest = oldest - aged
        last, before = np.int64(rates.activity[key].last), np.int64(rates.activity[key].before)
        cycle = since  # how long its key is not seen, where it was seen more than once meanwhile
        if met and last != match_rate.NEVER and match_rate.ago(rates, last) == 0:
            last, before = before, np.int64(match_rate.NEVER)
            if last != match_rate.NEVER:
                cycle = match_rate.ago(rates, last)
        unseen = match_rate.ago(rates, last) if last != match_rate.NEVER else since
        if unseen < since:
            # Its key was seen in between: a wait ended there and another began.
            share = (since - unseen) / since
            first = np.int64(trials * share + 0.5)
            middle = youngest + np.int64((oldest - youngest) * share)
            begun = np.int64(0)
            if before != match_rate.NEVER:
                begun = match_rate.ago(rates, before) - since
                if begun < 0:
                    begun, cycle = np.int64(0), min(cycle, begun + since - unseen)
            waits = (begun, begun + min(cycle, since - unseen))
            match_rate.spread(rates, stream, level, (youngest, middle), waits, 0, window, first)
            trials -= first
            youngest, since = middle, unseen
        begun = max(np.int64(0), unseen - since)
        waits = (begun, begun + since)
        age, wait = match_rate.spread(
            rates, stream, level, (youngest, oldest), waits, 0, window, trials
        )
        if met:
            match_rate.hit(rates, stream, level, age, wait, arrival)
    _begin_at(shed, place, stream)


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
