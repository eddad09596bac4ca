"""Shadows: what VALUE learns its rates from, where tuples meet by equal keys.

Law: a shadow follows one tuple in so many for its whole life in the full window, whether or not the
tuple itself is retained, and counts whom it would have met. So what is learned does not depend on
whom the policy keeps, and no memory is spent on tuples that are kept only to learn from them. A
shadow's trials are counted for the cell in which it stood, up to the moment at which it may stand
in another: when its key is seen, when it dies, when evidence fades, and at every fit. So each
arrival is a trial for each shadow of the opposite stream, once.

Which tuples have a shadow depends on their number alone. When there are too many, every other one
is dropped and half as many begin from then on; when there are few, twice as many.

A shadow knows its key by a hash of 32 bits. Other predicates than equality cannot be checked by a
hash: with these VALUE learns from the tuples that it retains (`exposure`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.compiled.frames import frame
from tidegate.compiled.kernel import kernel, part, step
from tidegate.compiled.layout import records
from tidegate.estimators import frequency, hashes, match_rate
from tidegate.estimators.hashes import mark_of

MOST = 512  # shadows of a stream
FEWEST = 128  # that there is room for
NOBODY = -1
NOTHING, HIT, OWN = range(3)  # what has happened to a shadow

SHADOW = np.dtype(
    [
        ("time", np.int64),
        ("born", np.int64),  # by the clock of its window
        ("aged", np.int64),  # the same clock, when its trials were last counted
        ("mark", np.uint32),  # of its key
        ("draw", np.uint32),  # decides whether it stays when shadows are dropped
        ("last", np.uint32),  # when its key was last seen, in short (`match_rate.short`)
        ("since", np.uint32),  # when its trials were last counted, in short,
        ("seen", np.uint32),  # and the last bits of the number of opposite arrivals then
        ("count", np.float32),  # of its key on the opposite stream
        ("side", np.uint32),  # was its key last seen on the opposite stream?
        ("next", np.int32),  # in the chain of a bucket
    ]
)

RING = np.dtype(
    [
        ("begin", np.int64),
        ("length", np.int64),
        ("every", np.int64),  # one tuple in so many gets a shadow, a power of two
        ("life", np.int64),  # the oldest age at which a tuple can be met; -1: none
    ]
)


@frame
class Shadows(NamedTuple):
    ring: Any  # [stream]
    shadow: Any  # [stream, place]
    chains: NDArray[np.int32]  # [bucket]: the first of its shadows, by stream and place
    instants: NDArray[np.int64]  # [0]: do tuples of one time meet without memory?


def empty(streams: int, room: int, instants: bool = False) -> Shadows:
    """No shadows yet; with room for none, nothing is learned from them."""
    ring = records(RING, streams)
    ring.every, ring.life = 1, -1
    return Shadows(
        ring=ring,
        shadow=records(SHADOW, (streams, max(1, room))),
        chains=np.full(max(1, 2 * streams * room), NOBODY, np.int32),
        instants=np.array([instants], np.int64),
    )


def room_for(tuples: int) -> int:
    """How many shadows a stream may have under a budget of so many tuples.

    >>> room_for(10), room_for(200), room_for(10_000)
    (128, 200, 512)
    """
    return max(FEWEST, min(MOST, tuples))


@step
def _bucket(shadows, mark):
    return hashes.place_of(len(shadows.chains), mark)


@step
def _link(shadows, stream, place):
    room = shadows.shadow.shape[1]
    shadow = shadows.shadow[stream, place]
    bucket = _bucket(shadows, np.int64(shadow.mark))
    shadow.next = shadows.chains[bucket]
    shadows.chains[bucket] = stream * room + place


@part
def _unlink(shadows, stream, place):
    room = shadows.shadow.shape[1]
    shadow = shadows.shadow[stream, place]
    bucket = _bucket(shadows, np.int64(shadow.mark))
    wanted, at = stream * room + place, np.int64(shadows.chains[bucket])
    if at == wanted:
        shadows.chains[bucket] = shadow.next
    else:
        while at != wanted:
            before = shadows.shadow[at // room, at % room]
            at = np.int64(before.next)
            if at == wanted:
                before.next = shadow.next


@kernel
def link_all(shadows):
    """Make the chains from the rings."""
    room = shadows.shadow.shape[1]
    for bucket in range(len(shadows.chains)):
        shadows.chains[bucket] = NOBODY
    for stream in range(len(shadows.ring)):
        ring = shadows.ring[stream]
        for at in range(ring.length):
            _link(shadows, stream, (ring.begin + at) % room)


@step
def _window(shed, stream):
    return shed.stages.width[stream] * shed.curve.watch[stream].buckets


@part
def _account(shed, stream, place, event):
    """Count the opposite arrivals since the last time as trials; was the last one a hit, or has its
    key come on its own stream?"""
    rates, shadow = shed.rates, shed.shadows.shadow[stream, place]
    arrival, now = shed.queues[1 - stream].seen, shed.queues[stream].now
    trials = (arrival - np.int64(shadow.seen)) & np.int64(0xFFFFFFFF)
    if trials > 0 or event != NOTHING:
        count = np.float64(shadow.count)
        if shed.rule[0].statistics == frequency.GIVEN:
            count *= match_rate.GIVEN_SCALE
        level = match_rate.level_of(count)
        since = match_rate.ago(rates, shadow.since)
        begun = max(np.int64(0), match_rate.ago(rates, shadow.last) - since)
        ages = (shadow.aged - shadow.born, now - shadow.born)
        waits = (begun, begun + since)
        side, window = np.int64(shadow.side), _window(shed, stream)
        age, wait = match_rate.spread(rates, stream, level, ages, waits, side, window, trials)
        if event == HIT:
            match_rate.hit(rates, stream, level, age, wait, arrival)
        elif event == OWN:
            match_rate.renew(rates, stream, wait)
    match_rate.live(rates, stream, trials, now - shadow.aged)
    shadow.since = np.uint32(match_rate.short(rates, rates.clock[match_rate.NOW]))
    shadow.seen = np.uint32(arrival & np.int64(0xFFFFFFFF))
    shadow.aged = now


@part
def account_all(shed):
    """Count the trials of all shadows up to now."""
    room = shed.shadows.shadow.shape[1]
    for stream in range(len(shed.queues)):
        ring = shed.shadows.ring[stream]
        for at in range(ring.length):
            _account(shed, stream, (ring.begin + at) % room, NOTHING)


@part
def fade(shadows):
    """Counts of keys are lowered, as `frequency.fade` does."""
    room = shadows.shadow.shape[1]
    for stream in range(len(shadows.ring)):
        ring = shadows.ring[stream]
        for at in range(ring.length):
            shadow = shadows.shadow[stream, (ring.begin + at) % room]
            shadow.count = frequency.faded(np.float64(shadow.count))


@part
def _bury(shed, stream):
    """Drop the shadows that are dead by the clock."""
    shadows = shed.shadows
    room, ring, now = shadows.shadow.shape[1], shadows.ring[stream], shed.queues[stream].now
    while ring.length > 0 and now - shadows.shadow[stream, ring.begin].born > ring.life:
        _account(shed, stream, ring.begin, NOTHING)
        _unlink(shadows, stream, ring.begin)
        ring.begin = ring.begin + 1 if ring.begin + 1 < room else 0
        ring.length -= 1


@part
def _thin(shed, stream):
    """Half as many tuples have a shadow from now on: drop every other one."""
    shadows = shed.shadows
    room, ring = shadows.shadow.shape[1], shadows.ring[stream]
    ring.every *= 2
    stay = np.int64(0)
    for at in range(ring.length):
        place = (ring.begin + at) % room
        if np.int64(shadows.shadow[stream, place].draw) & (ring.every - 1):
            _account(shed, stream, place, NOTHING)
        else:
            shadows.shadow[stream, (ring.begin + stay) % room] = shadows.shadow[stream, place]
            stay += 1
    ring.length = stay
    link_all(shadows)


@part
def see(shed, stream, key, time, born):
    """A tuple of `stream` has come and is counted: whom it meets, and a shadow of its own."""
    shadows, rates = shed.shadows, shed.rates
    for lane in range(len(shed.queues)):
        _bury(shed, lane)
    room = shadows.shadow.shape[1]
    mark = mark_of(shed.frequency.keys[key].code)
    at = np.int64(shadows.chains[_bucket(shadows, mark)])
    while at >= 0:
        its, place = at // room, at % room
        shadow = shadows.shadow[its, place]
        if np.int64(shadow.mark) == mark:
            event = OWN if its == stream else HIT
            if event == HIT and shadows.instants[0] and shadow.time == time:
                event = NOTHING
            _account(shed, its, place, event)
            shadow.last = np.uint32(match_rate.short(rates, rates.clock[match_rate.NOW]))
            shadow.side = np.uint32(its != stream)
            if its != stream:
                shadow.count = shed.frequency.counts[key, stream]
        at = np.int64(shadow.next)
    if shadows.ring[stream].life >= 0:
        _begin(shed, stream, key, mark, time, born)


@part
def _begin(shed, stream, key, mark, time, born):
    shadows = shed.shadows
    room, ring = shadows.shadow.shape[1], shadows.ring[stream]
    draw = mark_of(2 * shed.queues[stream].seen + stream)
    if draw & (ring.every - 1) == 0 and ring.length == room:
        _thin(shed, stream)
    elif ring.every > 1 and 8 * ring.length < room:
        ring.every //= 2
    if draw & (ring.every - 1) == 0 and ring.length < room:
        place = (ring.begin + ring.length) % room
        ring.length += 1
        now = np.uint32(match_rate.short(shed.rates, shed.rates.clock[match_rate.NOW]))
        shadow = shadows.shadow[stream, place]
        shadow.time, shadow.born, shadow.aged = time, born, shed.queues[stream].now
        shadow.mark, shadow.draw = np.uint32(mark), np.uint32(draw)
        shadow.last = shadow.since = now
        shadow.side = np.uint32(0)
        shadow.seen = np.uint32(shed.queues[1 - stream].seen & np.int64(0xFFFFFFFF))
        shadow.count = shed.frequency.counts[key, 1 - stream]
        _link(shadows, stream, place)
