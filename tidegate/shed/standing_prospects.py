"""Members of n streams that stand by key: the policy `value` with more than two streams.

Law: what a tuple of a key is worth on each stream stands in `prospects.worth`, which the queues of
groups read; it is recomputed when a tuple of the key comes, is retained or leaves, and for all keys
at every refresh. So a change of a key moves at most n groups.

Refreshes follow time, since waits do: up to `HURRY` in a window, if `SMALLEST_REFRESH` tuples came
in between and a few for each tuple that is retained.
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled.kernel import kernel, part, step
from tidegate.estimators import frequency, importance, prospects
from tidegate.shed import victims, worth

HURRY = 32
SMALLEST_REFRESH = 16  # tuples
_SHARE = 32  # one tuple for each so many keys


@step
def begin_key(outlooks, key):
    """The record of a key is new. `outlooks` are the prospects of `shed`, None unless it has
    them."""
    if outlooks is not None:
        prospects.begin_key(outlooks, key)


@step
def see(outlooks, key):
    """A tuple with this key has come; `tick` went before."""
    if outlooks is not None:
        if key != frequency.NO_KEY:
            prospects.see(outlooks, key)


@step
def tick(shed, outlooks, clock):
    """A tuple has come: move the clock by which keys are watched; refresh if it is time."""
    if outlooks is not None:
        move_clock(shed, clock)


@part
def move_clock(shed, clock):
    ours = shed.prospects.clock
    if shed.prospects.span[1]:
        ours[prospects.NOW] = clock
    else:
        ours[prospects.NOW] += 1
    if ours[prospects.WEIGHT] == 0:
        ours[prospects.BEGUN] = ours[prospects.NOW]
    ours[prospects.FITTED_AFTER] += 1
    ours[prospects.SINCE] += 1
    ours[prospects.WEIGHT] += 1
    keys = np.int64(shed.frequency.book[0].used)
    if ours[prospects.SINCE] >= max(SMALLEST_REFRESH, keys // _SHARE):
        elapsed = ours[prospects.NOW] - ours[prospects.REFRESHED]
        if HURRY * elapsed >= shed.prospects.span[0] or prospects.is_due(shed.prospects):
            refresh(shed)


@part
def refresh(shed):
    """Recompute what all keys are worth: O(M)."""
    ours, keys = shed.prospects, shed.frequency.keys
    ours.clock[prospects.SINCE] = 0
    ours.clock[prospects.REFRESHED] = ours.clock[prospects.NOW]
    if prospects.is_due(ours):
        for key in range(1, shed.frequency.book[0].fresh):
            if keys[key].references >= 0:
                prospects.count(ours, key)
        prospects.fit(ours)
        importance.summarise(shed.importances)
    write_all(shed)
    for stream in range(len(shed.queues)):
        victims.rebuild_by_key(
            shed.rule, shed.queues, shed.heaps, shed.members, shed.groups, shed.worths, stream
        )


@kernel
def write_all(shed):
    """What all keys are worth."""
    keys = shed.frequency.keys
    for key in range(1, shed.frequency.book[0].fresh):
        if keys[key].references >= 0 and shed.prospects.outlook[key].place != prospects.NOWHERE:
            write(shed, key)


@step
def write(shed, key):
    """What a key that is retained somewhere is worth on each stream."""
    ours = shed.prospects
    place = np.int64(ours.outlook[key].place)
    rate = prospects.rate_of(ours, key, place)
    for stream in range(len(shed.queues)):
        if ours.held[key, stream] > 0:
            ours.worth[key, stream] = rate / ours.held[key, stream]


@step
def produced(outlooks, key, results):
    """An arrival with this key has completed so many results."""
    if outlooks is not None:
        if key != frequency.NO_KEY and results > 0:
            prospects.earn(outlooks, key, results)


@step
def key_worth(shed, outlooks, key, stream):
    """The part of an arrival's priority that all tuples of its key share."""
    if outlooks is not None:
        part = worth_if_held(shed, key, stream)
    else:
        part = worth.key_worth(shed.rule, shed.worths, key, stream)
    return part


@part
def worth_if_held(shed, key, stream):
    """The same as it would be if the arrival were retained."""
    if key == frequency.NO_KEY:
        return 0.0
    ours = shed.prospects
    ours.held[key, stream] += 1
    place = prospects.place_of(ours.held, shed.frequency.counts, key)
    rate = prospects.rate_of(ours, key, place)
    part = np.float64(np.float32(rate / ours.held[key, stream]))
    ours.held[key, stream] -= 1
    return part


@step
def hold(outlooks, key, stream):
    """One tuple more of a key is retained; `settle` follows."""
    if outlooks is not None:
        if key != frequency.NO_KEY:
            prospects.count(outlooks, key)
            outlooks.held[key, stream] += 1


@step
def release(shed, outlooks, key, stream):
    """One tuple less of a key is retained."""
    if outlooks is not None:
        if key != frequency.NO_KEY:
            prospects.count(outlooks, key)
            outlooks.held[key, stream] -= 1
            settle(shed, outlooks, key)


@step
def settle(shed, outlooks, key):
    """Something has changed for a key: where it stands, and what it is worth."""
    if outlooks is not None:
        if key != frequency.NO_KEY:
            settle_key(shed, key)


@part
def settle_key(shed, key):
    ours = shed.prospects
    prospects.move(ours, shed.frequency.counts, key)
    if ours.outlook[key].place != prospects.NOWHERE:
        write(shed, key)
        for stream in range(len(shed.queues)):
            victims.reweigh(
                shed.rule, shed.queues, shed.heaps, shed.members, shed.groups, shed.worths, key,
                stream,
            )  # fmt: skip


@step
def fade(shed, outlooks):
    """Old evidence counts for less from now on."""
    if outlooks is not None:
        prospects.fade(outlooks)
        importance.fade(shed.importances)


@step
def own_part(shed, outlooks, stream, own, size, combine, weighed):
    """What of a tuple's worth is its own, fixed at arrival: importance of its results, per byte
    under a budget in bytes."""
    if outlooks is not None:
        part = 1.0
        if weighed:
            part = importance.expected_of_many(shed.importances, stream, combine, own)
        own = part / (size + shed.rule[0].slot_price)
    return own
