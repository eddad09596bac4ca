"""What retained tuples were exposed to: trials and hits from which VALUE learns its rates, where
not all that have equal keys meet.

Law: a tuple's trials are counted for the cell in which it stood, up to the moment at which it may
stand in another: when it has met an arrival, when it leaves, when evidence fades, and at every
refresh. So each arrival is a trial for each tuple that was there, once. Where a budget holds many
tuples, a sample of them is studied (`match_rate.place_of`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.compiled import layout
from tidegate.compiled.kernel import part, step
from tidegate.estimators import frequency, match_rate, partners_met
from tidegate.shed.members import born_at, is_one, last_met_at, met_at

AHEAD = 16  # members: far enough to hide a cache miss


@step
def level_of(shed, slot, stream, key, age, met):
    """The level of a member; if it has just met an arrival, as of before that was counted."""
    count = frequency.count_of(shed.frequency.counts, key, 1 - stream)
    if shed.rule[0].statistics == frequency.GIVEN:
        return match_rate.level_of(count * match_rate.GIVEN_SCALE)
    partners = met_at(shed.members, slot)
    return partners_met.level_by_met(shed.rates, stream, partners, age, max(0.0, count - met))


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
        age = now - born_at(shed.members, slot)
        level = level_of(shed, slot, stream, key, age, met)
        partners_met.live_on(rates, stream, trials, aged)
        side, waits = np.int64(0), (np.int64(0), np.int64(0))
        if met_at(shed.members, slot) > 0.0:
            waited = match_rate.ago(rates, np.int64(last_met_at(shed.members, slot)))
            side, waits = np.int64(1), (max(np.int64(0), waited - since), waited)
        age, wait = match_rate.spread(
            rates, stream, level, (age - aged, age), waits, side, window, trials
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
