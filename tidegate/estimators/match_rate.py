"""How often a retained tuple will meet a partner: what is counted to learn it.

Law: nothing is taken at its word, and nothing is counted twice. Each arrival on a stream is a trial
for every tuple of the opposite stream that is followed (`shed/shadows`, `shed/exposure`); it is a
hit for those that it meets. A tuple stands in a *cell* by three features, and its rate of hits per
trial is taken as

    rate = level[how often its key came on the opposite stream]      (hits per trial)
         x age[how old it is]                                        (a factor around 1)
         x wait[how long its key has not been seen, and on which stream it last was]

Where more than equal keys is compared, a tuple has a level and a wait by the partners that it has
met itself (`partners_met`).

Here is what is counted; `rate_fit` makes the factors of it, `look_ahead` what a tuple is worth.

`python -m benchmarks features` prints what each feature gains offline, and those that gain nothing.

Trials and hits are whole numbers, so the order of counting cannot be seen. Trials take 32 bits; of
more than 2**24 in a cell the last bits are rounded away.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.compiled import layout
from tidegate.compiled.frames import frame
from tidegate.compiled.kernel import kernel, part, step
from tidegate.compiled.layout import records
from tidegate.estimators.frequency import FADING

LEVELS = 24
_SINGLE = 8  # counts below this have a level of their own; above, two levels to a doubling
WAITS = 10
SIDES = 2  # of a wait: the key was last seen on the own stream, or on the opposite one
MOST_AGES = 40
SHORTEST_WAIT = 256  # the first ends at 1/256 of the span, then each is twice as long
STUDIED = 4096  # tuples from which rates are learned, where a budget holds more, and all monitors
NOT_STUDIED = -1
GIVEN_SCALE = 4096.0  # a given share stands on the level of so many times itself
HOLD = 0.1  # more, at the end of its life, is a tuple worth of which nothing is known
_LASTING = 1000.0  # hits; less than that is kept until there is more
SMALLEST_FIT = 64  # tuples between two fits, which cost as much as some hundred
FIRST_HURRY = 16  # see `clock`: to learn quickly at first


@frame
class MatchRate(NamedTuple):
    """Of the tuples of each stream; all but `span` and what follows is part of a snapshot."""

    trials: NDArray[np.float32]  # [stream, level, age, place of wait]; faded ones in whole numbers
    hits: NDArray[np.int64]  # [stream, feature, place], fresh
    old_hits: NDArray[np.float64]  # the same before the last fading, faded
    level: NDArray[np.float64]  # [stream, level]: hits per trial
    age: NDArray[np.float64]  # [stream, age]
    wait: NDArray[np.float64]  # [stream, place]: see `of_side`
    level_rate: NDArray[np.float64]  # the three as they are believed
    age_rate: NDArray[np.float64]
    wait_rate: NDArray[np.float64]
    ahead: NDArray[np.float64]  # [stream, place of a wait, age]: see `look_ahead`
    renewed: NDArray[np.int64]  # [stream, place]: so often its key came on its own stream again
    lived: NDArray[np.int64]  # [stream]: trials, and how long they took, see TRIALS
    weight: NDArray[np.float64]  # [stream]: arrivals, faded
    known: NDArray[np.int64]  # [stream]: was enough seen of all ages?
    clumps: NDArray[np.float64]  # [stream]: hits, their squares by arrival, the last arrival, its
    activity: Any  # [key]: see ACTIVITY
    exposed: Any  # [place]: up to where trials are counted, see EXPOSED and `place_of`
    aged: NDArray[np.int64]  # [place], if a window is counted: the same by the clock of its age
    clock: NDArray[np.int64]  # now, of the last refresh, tuples since the last fit, and refreshes
    #                           of all scores while 8 M tuples come
    lump: NDArray[np.int64]  # see `finer`
    span: NDArray[np.int64]  # the longest window; the stream whose clock it is of, -1: arrivals;
    #                          bits by which moments are shortened; the window in such units
    least: NDArray[np.float64]  # [stream]: scratch of a refresh
    told: NDArray[np.int64]  # [0]: levels are given shares, [1]: ages are a given curve, KEYED
    study: NDArray[np.int64]  # one slot in 2 ** [0] is studied; [1]: places for monitors
    expected: NDArray[np.float64]  # scratch, since kernels allocate nothing: by place,
    cells: NDArray[np.int16]  # and the cells with trials
    life: NDArray[np.int64]  # [stream]: its window, in whole places of the age curve,
    share: NDArray[np.float64]  # and as a part of the span
    met: NDArray[np.int64]  # [stream], where more than keys is compared: see TRIALS to AT_ONCE
    promised: NDArray[np.float64]  # [stream, age]: see `partners_met`
    own_rate: NDArray[np.float64]  # scratch of `look_ahead`, by place,
    stay: NDArray[np.float64]  # and [side]: what a renewed wait brings, and how long


# Moments are kept in 31 bits, in units of at most a 2 ** 24th of the longest window: two of them
# are compared by how long ago they were, which is right for 128 windows.
NEVER = 0x80000000  # moment at which a key was seen that was not
_MOMENTS = np.int64(0x7FFFFFFF)
_FINE = 24
_SHORT = np.int64(0xFFFFFFFF)

# Of a key: the moment at which it was last seen, and on which stream; NEVER before that.
ACTIVITY = np.dtype([("last", np.uint32), ("before", np.uint32)])

# Of a studied tuple: the clock of waits, and the last bits of the number of opposite arrivals.
EXPOSED = np.dtype([("moment", np.uint32), ("seen", np.uint32)])

LEVEL, AGE, WAIT = range(3)  # the features of `hits`
NOW, REFRESHED, UNFITTED, HURRY = range(4)  # of `clock`
HITS, SQUARES, LAST, RUN = range(4)  # of `clumps`
SPAN, CLOCK_OF, SHIFT, SHORT_SPAN = range(4)  # of `span`
# Of `lived`; times in short units, in whole numbers, as all evidence. Of `met`, the same of those
# that were retained, and the arrivals (with keys, what their keys promised them) with the partners
# that they found at once.
TRIALS, TIME, ARRIVALS, AT_ONCE = range(4)
EVERY, MONITORS = range(2)  # of `study`
# Of `lump`: the present instant and its arrivals so far; of those that are counted now, how near
# any two stand, how many there were, and arrivals; of the last ones, how near they stood, and how
# many arrivals an instant had.
INSTANT, SO_FAR, NEAREST, INSTANTS, IN_ALL, GAP, SIZE = range(7)
_INSTANTS = 16  # that are counted together
KEYED = 2  # of `told`: are keys compared?


def empty(
    streams: int,
    ages: int = 1,
    keys: int = 0,
    slots: int = 0,
    is_counted: bool = False,
    study: tuple[int, int] = (0, 0),
    knows_met: bool = False,
    keyed: bool = True,
) -> MatchRate:
    places = max(LEVELS, ages, SIDES * WAITS)
    studied = _places_for(slots, study)
    shape = (streams, LEVELS, max(1, ages), SIDES * WAITS)
    return MatchRate(
        trials=np.zeros(shape, np.float32),
        hits=np.zeros((streams, 3, places), np.int64),
        old_hits=np.zeros((streams, 3, places), np.float64),
        level=np.zeros((streams, LEVELS), np.float64),
        age=np.ones((streams, max(1, ages)), np.float64),
        wait=np.ones((streams, SIDES * WAITS), np.float64),
        level_rate=np.ones((streams, LEVELS), np.float64),
        age_rate=np.ones((streams, max(1, ages)), np.float64),
        wait_rate=np.ones((streams, SIDES * WAITS), np.float64),
        ahead=unknown_ahead(streams, max(1, ages)),
        renewed=np.zeros((streams, SIDES * WAITS), np.int64),
        lived=np.zeros((streams, 2), np.int64),
        weight=np.zeros(streams, np.float64),
        known=np.zeros(streams, np.int64),
        clumps=np.zeros((streams, 4), np.float64),
        activity=_never(keys + 1),
        exposed=records(EXPOSED, studied),
        aged=np.zeros(studied if is_counted else 1, np.int64),
        clock=np.array([0, 0, SMALLEST_FIT, FIRST_HURRY], np.int64),
        lump=np.zeros(7, np.int64),
        span=np.array([1, -1, 0, 1], np.int64),
        least=np.zeros(streams, np.float64),
        told=np.array([0, 0, keyed], np.int64),
        study=np.array(study, np.int64),
        expected=np.zeros(places, np.float64),
        cells=np.zeros(LEVELS * max(1, ages) * SIDES * WAITS, np.int16),
        life=np.ones(streams, np.int64),
        share=np.ones(streams, np.float64),
        met=np.zeros((streams, 4), np.int64),
        promised=np.zeros((streams, ages + 1 if knows_met else 1), np.float64),
        own_rate=np.zeros(SIDES * WAITS, np.float64),
        stay=np.zeros((SIDES, 2), np.float64),
    )


def unknown_ahead(streams: int, ages: int) -> NDArray[np.float64]:
    """What is ahead before anything is known: hardly more for older tuples, so that the first ones
    stay. Hits of young tuples are seen early and teach otherwise; whoever waits for late ones would
    otherwise be replaced before they come."""
    older = 1.0 + HOLD * np.arange(ages + 1) / ages
    return np.tile(older, (streams, SIDES * WAITS, 1))


def _places_for(slots: int, study: tuple[int, int]) -> int:
    every, monitors = study
    return monitors + ((max(1, slots) - 1) >> every) + 1


def study_of(tuples: int, monitors: int) -> tuple[int, int]:
    """Which of so many tuples are studied, as `MatchRate.study` says it.

    >>> study_of(4096, 256), study_of(20_000, 256)
    ((0, 0), (3, 256))
    """
    every = 0
    while tuples >> every > STUDIED:
        every += 1
    return every, monitors if every else 0


def shift_for(span: int) -> int:
    """By how many bits moments are shortened.

    >>> shift_for(1000), shift_for(2**30)
    (0, 6)
    """
    return max(0, span.bit_length() - 1 - _FINE)


def with_more_slots(rates: MatchRate, slots: int) -> MatchRate:
    """The same with room for `slots` tuples."""
    places = _places_for(slots, (int(rates.study[EVERY]), int(rates.study[MONITORS])))
    exposed = records(EXPOSED, places)
    layout.copy(rates.exposed, exposed)
    aged = np.zeros(places if len(rates.aged) > 1 else 1, np.int64)
    aged[: len(rates.aged)] = rates.aged
    return rates._replace(exposed=exposed, aged=aged)


def _never(keys: int) -> Any:
    """Keys in a block, at least two, so that their type is that of a block's column."""
    activity = layout.beside(max(2, keys), part=(ACTIVITY, 1), rest=(np.int32, 1))["part"]
    activity.last = activity.before = NEVER
    return activity


@part
def level_of(count):
    if count < _SINGLE - 0.5:
        return int(count + 0.5)
    return min(LEVELS - 1, _SINGLE + int(2.0 * math.log2(max(1.0, count / _SINGLE))))


@kernel
def typical(level):
    """A count that stands on this level."""
    return np.float64(level) if level < _SINGLE else _SINGLE * 2.0 ** ((level - _SINGLE + 0.5) / 2)


@part
def wait_of(elapsed, span):
    """The place of a wait: the first ends at 1/256 of the span, then each is twice as long. Both
    are in short units."""
    first = max(np.int64(1), span // SHORTEST_WAIT)
    place = np.int64(0)
    for ahead in (8, 4, 2, 1):
        if place + ahead < WAITS and elapsed >= first << (place + ahead - 1):
            place += ahead
    return place


@step
def of_side(side, wait):
    """The place of a wait: those since the key was seen on the own stream (side 0) and those since
    it was seen on the opposite one (1) have factors of their own."""
    return wait + side * WAITS


@part
def wait_end(place, span):
    """Where a place of waits ends and the next begins."""
    return max(np.int64(1), span // SHORTEST_WAIT) << place


@step
def short(rates, moment):
    """A moment in the bits that are kept of it."""
    return (moment >> rates.span[SHIFT]) & _MOMENTS


@step
def short_now(rates):
    """The same of the clock of waits."""
    return short(rates, rates.clock[NOW])


@step
def ago(rates, moment):
    """How long ago a moment was that is kept in short."""
    return (short(rates, rates.clock[NOW]) - np.int64(moment)) & _MOMENTS


@step
def finer(rates, time):
    """A moment inside an instant, if instants are further apart than the first wait is long.

    Arrivals of one time come together, so all of an instant would be trials at the same wait, and
    none would be between two instants. They are taken to come evenly from one to the next.
    """
    lump = rates.lump
    if lump[INSTANTS] == 0 or time != lump[INSTANT]:
        if lump[INSTANTS] > 0:
            lump[NEAREST] = min(lump[NEAREST], time - lump[INSTANT])
        if lump[INSTANTS] == _INSTANTS:
            lump[GAP], lump[SIZE] = lump[NEAREST], lump[IN_ALL] // _INSTANTS
            lump[INSTANTS] = 0
        if lump[INSTANTS] == 0:
            lump[NEAREST], lump[IN_ALL] = rates.span[SPAN], 0
        lump[INSTANT], lump[SO_FAR] = time, 0
        lump[INSTANTS] += 1
    later = np.int64(0)
    if lump[GAP] > rates.span[SPAN] // SHORTEST_WAIT:
        part = np.float64(min(lump[SO_FAR], lump[SIZE])) / np.float64(lump[SIZE])
        later = np.int64(np.float64(lump[GAP]) * part)
    lump[SO_FAR] += 1
    lump[IN_ALL] += 1
    return time + later


@step
def forget_key(rates, key):
    """The record of a key is new: its number may have belonged to another before."""
    rates.activity[key].last = rates.activity[key].before = NEVER


@step
def see_key(rates, stream, key):
    """A tuple of `stream` with this key has come; the caller counts it."""
    rates.weight[stream] += 1.0
    activity = rates.activity[key]
    activity.last, activity.before = np.uint32(short_now(rates)), np.uint32(stream)


@part
def waited(rates, key):
    """How long a key has not been seen."""
    last = np.int64(rates.activity[key].last)
    return np.int64(0) if last == NEVER else ago(rates, last)


@step
def waits_at(rates, stream, key):
    """The place of the wait of a key, for tuples of `stream`."""
    side = np.int64(rates.activity[key].before == np.uint32(1 - stream))
    return of_side(side, wait_of(waited(rates, key), rates.span[SHORT_SPAN]))


@step
def place_of(rates, slot, stream, monitor):
    """Where it is noted what a tuple was exposed to, or NOT_STUDIED.

    Slots are numbered without regard to what is in them, so every so many of them are a fair
    sample. All monitors are studied, since they alone show all ages.
    """
    every = rates.study[EVERY]
    place = np.int64(NOT_STUDIED)
    if every > 0 and monitor >= 0:
        place = stream * (rates.study[MONITORS] // len(rates.weight)) + monitor
    elif slot & ((1 << every) - 1) == 0:
        place = rates.study[MONITORS] + (slot >> every)
    return place


@step
def expose(rates, place, seen, now):
    """The trials of a tuple are counted up to now."""
    rates.exposed[place].moment = np.uint32(short(rates, rates.clock[NOW]))
    rates.exposed[place].seen = np.uint32(seen & _SHORT)
    if len(rates.aged) > 1:
        rates.aged[place] = now


@step
def exposed_to(rates, place, seen, now):
    """Opposite arrivals that were not counted yet, and for how long: by the clock of waits, in
    short, and by the clock of its age, which is another only in count windows."""
    since = ago(rates, rates.exposed[place].moment)
    trials = (seen - np.int64(rates.exposed[place].seen)) & _SHORT
    aged = since << rates.span[SHIFT]
    if len(rates.aged) > 1:
        aged = now - rates.aged[place]
    return trials, since, aged


@part
def age_place(age, window, places):
    return max(0, min(places - 1, age * places // max(np.int64(1), window)))


@part
def spread(rates, stream, level, ages, waits, side, window, trials):
    """Count trials for all cells through which a tuple went, evenly over ages (from, to) and waits
    (from, to) of a side; returns the last place of each."""
    places = rates.age.shape[1]
    span = rates.span[SHORT_SPAN]
    age, wait = age_place(ages[0], window, places), wait_of(waits[0], span)
    done = 0
    while True:
        share = by_age = by_wait = 1.0
        if age < places - 1 and ages[1] > ages[0]:
            by_age = (-(-(age + 1) * window // places) - ages[0]) / (ages[1] - ages[0])
        if wait < WAITS - 1 and waits[1] > waits[0]:
            by_wait = (wait_end(wait, span) - waits[0]) / (waits[1] - waits[0])
        share = min(share, by_age, by_wait)
        upto = np.int64(trials * share + 0.5)
        rates.trials[stream, level, age, of_side(side, wait)] += upto - done
        done = upto
        if share >= 1.0:
            return age, of_side(side, wait)
        if by_age <= share:
            age += 1
        if by_wait <= share:
            wait += 1


@part
def hit(rates, stream, level, age, wait, arrival):
    """A tuple that stands in a cell has met an arrival."""
    rates.hits[stream, LEVEL, level] += 1
    rates.hits[stream, AGE, age] += 1
    rates.hits[stream, WAIT, wait] += 1
    # Hits of one arrival come together, so they are worth less as evidence.
    clump = rates.clumps[stream]
    clump[RUN] = clump[RUN] + 1.0 if clump[LAST] == arrival else 1.0
    clump[LAST] = arrival
    clump[HITS] += 1.0
    clump[SQUARES] += 2.0 * clump[RUN] - 1.0


@step
def renew(rates, stream, wait):
    """The key of a tuple that stands in a place of waits came on the tuple's own stream."""
    rates.renewed[stream, wait] += 1


@step
def live(rates, stream, trials, time):
    """A tuple went through so many trials in such a time of its window's clock."""
    rates.lived[stream, TRIALS] += trials
    rates.lived[stream, TIME] += time >> rates.span[SHIFT]


@step
def per_window(rates, stream):
    """Trials of a tuple that lives through its window."""
    # Where there are no shadows, of those that were retained.
    lived = rates.met[stream] if rates.promised.shape[1] > 1 else rates.lived[stream]
    life = np.float64(rates.life[stream] >> rates.span[SHIFT])
    return lived[TRIALS] * life / lived[TIME] if lived[TIME] > 0 else 0.0


@part
def fade(rates):
    """Old evidence counts for less from now on, where there is so much that it will be replaced."""
    for stream in range(len(rates.weight)):
        rates.weight[stream] *= FADING
        keep = FADING if rates.clumps[stream, HITS] >= _LASTING else 1.0
        rates.clumps[stream, HITS] *= keep
        rates.clumps[stream, SQUARES] *= keep
        if keep < 1.0:
            for what in range(2):
                rates.lived[stream, what] = rates.lived[stream, what] * 4 // 5
            for what in range(4):
                rates.met[stream, what] = rates.met[stream, what] * 4 // 5
            for place in range(SIDES * WAITS):
                rates.renewed[stream, place] = rates.renewed[stream, place] * 4 // 5
        for feature in range(3):
            for place in range(rates.hits.shape[2]):
                hits = rates.old_hits[stream, feature, place] + rates.hits[stream, feature, place]
                rates.old_hits[stream, feature, place] = hits * keep
                rates.hits[stream, feature, place] = 0
        for level in range(LEVELS):
            for age in range(rates.trials.shape[2]):
                for wait in range(SIDES * WAITS):
                    if keep < 1.0:
                        trials = np.float64(rates.trials[stream, level, age, wait])
                        rates.trials[stream, level, age, wait] = trials * 4.0 // 5.0
