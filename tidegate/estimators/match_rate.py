"""How often a retained tuple will meet a partner: a product of three measured factors.

Law: nothing is taken at its word, and nothing is counted twice. Each arrival on a stream is a trial
for every tuple of the opposite stream that is followed (`shed/shadows`, `shed/exposure`); it is a
hit for those that it meets. A tuple stands in a *cell* by three features, and its rate of hits per
trial is taken as

    rate = level[how often its key came on the opposite stream]      (hits per trial)
         x age[how old it is]                                        (a factor around 1)
         x wait[how long its key has not been seen, and on which stream it last was]

Each factor is hits / hits that the two others expect, so what one explains the others leave alone:
iterative proportional fitting, the maximum likelihood of the product. Where counts predict (a
skewed stream) the levels differ and the rest comes out flat; where only age matters (a key's count
grows with its age, but says nothing else) the age curve is steep and the levels come out alike;
where keys come in bursts it is the wait. So the key's frequency, the age curve and their product
need no contest: a factor that does not predict is 1. Where a key comes once and never again (an
order and its delivery) the rate of level 1 comes out as nothing.

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
_SHORTEST_WAIT = 256  # the first ends at 1/256 of the span, then each is twice as long
STUDIED = 4096  # tuples from which rates are learned, where a budget holds more, and all monitors
NOT_STUDIED = -1
GIVEN_SCALE = 4096.0  # a given share stands on the level of so many times itself
SWEEPS = 2  # of the fitting, each time; factors are kept, so it goes on from where it was
POWERS = (-2.0, -1.0, -0.5, 0.0, 0.25, 0.5, 0.75, 1.0)
_ENOUGH = 8.0  # hits, where they come one by one, to learn from
_LASTING = 1000.0  # hits; less than that is kept until there is more
_CAUTION = 4.0  # hits, where they come one by one, that would make a factor 1
_FEW_WAITS = 8.0  # hits that would make the factor of a wait 1, while it is fitted
_SIGMAS = 2.0
_HARDLY = 0.005  # of the hits that are expected of all waits: so long a wait is hardly ever seen
_SMALLEST_FIT = 64  # tuples between two fits, which cost as much as some hundred
FIRST_HURRY = 16  # see `clock`: to learn quickly at first
_FITS = 40  # in the weight of all tuples, which in the long run is that of five windows


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
    wait_worth: NDArray[np.float64]  # [stream, place]: the best mean ahead of it
    weight: NDArray[np.float64]  # [stream]: arrivals, faded
    known: NDArray[np.int64]  # [stream]: was enough seen of all ages?
    clumps: NDArray[np.float64]  # [stream]: hits, their squares by arrival, the last arrival, its
    activity: Any  # [key]: see ACTIVITY
    exposed: Any  # [place]: up to where trials are counted, see EXPOSED and `place_of`
    aged: NDArray[np.int64]  # [place], if a window is counted: the same by the clock of its age
    clock: NDArray[np.int64]  # now, of the last refresh, tuples since the last fit, and refreshes
    #                           of all scores while 8 M tuples come
    span: NDArray[np.int64]  # the longest window; the stream whose clock it is of, -1: arrivals;
    #                          bits by which moments are shortened; the window in such units
    least: NDArray[np.float64]  # [stream]: scratch of a refresh
    told: NDArray[np.int64]  # [0]: levels are given shares, [1]: ages are a given curve
    study: NDArray[np.int64]  # one slot in 2 ** [0] is studied; [1]: places for monitors
    expected: NDArray[np.float64]  # scratch, since kernels allocate nothing: by place,
    cells: NDArray[np.int16]  # and the cells with trials


# Moments are kept in 31 bits, in units of at most a 2 ** 24th of the longest window: two of them
# are compared by how long ago they were, which is right for 128 windows.
NEVER = 0x80000000  # moment at which a key was seen that was not
_MOMENTS = np.int64(0x7FFFFFFF)
_FINE = 24
_SHORT = np.int64(0xFFFFFFFF)

# Of a key: the moments at which it was last seen, and before that.
ACTIVITY = np.dtype([("last", np.uint32), ("before", np.uint32)])

# Of a studied tuple: the clock of waits, and the last bits of the number of opposite arrivals.
EXPOSED = np.dtype([("moment", np.uint32), ("seen", np.uint32)])

LEVEL, AGE, WAIT = range(3)  # the features of `hits`
NOW, REFRESHED, UNFITTED, HURRY = range(4)  # of `clock`
HITS, SQUARES, LAST, RUN = range(4)  # of `clumps`
SPAN, CLOCK_OF, SHIFT, SHORT_SPAN = range(4)  # of `span`
EVERY, MONITORS = range(2)  # of `study`


def empty(
    streams: int,
    ages: int = 1,
    keys: int = 0,
    slots: int = 0,
    is_counted: bool = False,
    study: tuple[int, int] = (0, 0),
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
        level_rate=np.zeros((streams, LEVELS), np.float64),
        age_rate=np.ones((streams, max(1, ages)), np.float64),
        wait_rate=np.ones((streams, SIDES * WAITS), np.float64),
        wait_worth=np.ones((streams, SIDES * WAITS), np.float64),
        weight=np.zeros(streams, np.float64),
        known=np.zeros(streams, np.int64),
        clumps=np.zeros((streams, 4), np.float64),
        activity=_never(keys + 1),
        exposed=records(EXPOSED, studied),
        aged=np.zeros(studied if is_counted else 1, np.int64),
        clock=np.array([0, 0, _SMALLEST_FIT, FIRST_HURRY], np.int64),
        span=np.array([1, -1, 0, 1], np.int64),
        least=np.zeros(streams, np.float64),
        told=np.zeros(2, np.int64),
        study=np.array(study, np.int64),
        expected=np.zeros(places, np.float64),
        cells=np.zeros(LEVELS * max(1, ages) * SIDES * WAITS, np.int16),
    )


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
    first = max(np.int64(1), span // _SHORTEST_WAIT)
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
    return max(np.int64(1), span // _SHORTEST_WAIT) << place


@step
def short(rates, moment):
    """A moment in the bits that are kept of it."""
    return (moment >> rates.span[SHIFT]) & _MOMENTS


@step
def ago(rates, moment):
    """How long ago a moment was that is kept in short."""
    return (short(rates, rates.clock[NOW]) - np.int64(moment)) & _MOMENTS


@step
def forget_key(rates, key):
    """The record of a key is new: its number may have belonged to another before."""
    rates.activity[key].last = rates.activity[key].before = NEVER


@step
def see_key(rates, stream, key, knows_side):
    """A tuple of `stream` with this key has come; the caller counts it. Where shadows know when the
    key was seen before, `before` is the stream on which it was last seen."""
    rates.weight[stream] += 1.0
    now = short(rates, rates.clock[NOW])
    activity = rates.activity[key]
    if knows_side:
        activity.last, activity.before = np.uint32(now), np.uint32(stream)
    elif np.int64(activity.last) != now:
        activity.before = activity.last
        activity.last = np.uint32(now)


@part
def waited(rates, key):
    """How long a key has not been seen."""
    last = np.int64(rates.activity[key].last)
    return np.int64(0) if last == NEVER else ago(rates, last)


@step
def waits_at(rates, stream, key, knows_side):
    """The place of the wait of a key, for tuples of `stream`."""
    side = np.int64(0)
    if knows_side:
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


@part
def fade(rates):
    """Old evidence counts for less from now on, where there is so much that it will be replaced."""
    for stream in range(len(rates.weight)):
        rates.weight[stream] *= FADING
        keep = FADING if rates.clumps[stream, HITS] >= _LASTING else 1.0
        rates.clumps[stream, HITS] *= keep
        rates.clumps[stream, SQUARES] *= keep
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


# --- fitting -----------------------------------------------------------------------------


@step
def _hits(rates, stream, feature, place):
    return rates.old_hits[stream, feature, place] + rates.hits[stream, feature, place]


@part
def fit(rates):
    """Make the factors that scores read."""
    for stream in range(len(rates.weight)):
        cells = _gather(rates, stream)
        for _ in range(SWEEPS):
            if not rates.told[1]:
                _fit_factor(rates, stream, AGE, rates.age[stream], cells)
            _fit_factor(rates, stream, WAIT, rates.wait[stream], cells)
            if not rates.told[0]:
                _fit_level(rates, stream, cells)
        clump = 1.0
        if rates.clumps[stream, HITS] > 0.0:
            clump = rates.clumps[stream, SQUARES] / rates.clumps[stream, HITS]
        # Each is judged against what is believed of the ones before, and the level comes last: it
        # carries the scale, by which streams are compared, so it must be that of what is believed.
        age, wait = rates.age_rate[stream], rates.wait_rate[stream]
        _expect(rates, stream, WAIT, cells, rates.age[stream], wait)
        _judge_factor(rates, stream, WAIT, wait, clump)
        for side in range(SIDES):
            _look_ahead(rates, stream, side * WAITS)
        _expect(rates, stream, AGE, cells, age, wait)
        rates.known[stream] = _judge_factor(rates, stream, AGE, age, clump)
        _expect(rates, stream, LEVEL, cells, age, wait)
        _judge_level(rates, stream, clump)
    rates.clock[UNFITTED] = 0


@part
def _gather(rates, stream):
    """List the cells that have trials, by number; returns how many there are."""
    cells = number = 0
    for level in range(LEVELS):
        for age in range(rates.trials.shape[2]):
            for wait in range(SIDES * WAITS):
                if rates.trials[stream, level, age, wait] > 0:
                    rates.cells[cells] = number
                    cells += 1
                number += 1
    return cells


@part
def _expect(rates, stream, feature, cells, age_factor, wait_factor):
    """Hits at each place of a feature as the two other factors expect them; for LEVEL, trials."""
    expected = rates.expected
    for place in range(len(expected)):
        expected[place] = 0.0
    ages = rates.trials.shape[2]
    for at in range(cells):
        number = np.int64(rates.cells[at])
        wait, rest = number % (SIDES * WAITS), number // (SIDES * WAITS)
        age, level = rest % ages, rest // ages
        hits = np.float64(rates.trials[stream, level, age, wait])
        place = level
        if feature != LEVEL:
            hits *= rates.level[stream, level]
        if feature != AGE:
            hits *= age_factor[age]
        else:
            place = age
        if feature != WAIT:
            hits *= wait_factor[wait]
        else:
            place = wait
        expected[place] += hits


@part
def _fit_level(rates, stream, cells):
    _expect(rates, stream, LEVEL, cells, rates.age[stream], rates.wait[stream])
    total = trials = 0.0
    for level in range(LEVELS):
        total += _hits(rates, stream, LEVEL, level)
        trials += rates.expected[level]
    for level in range(LEVELS):
        mean = (total + 1.0) / (trials + rates.weight[1 - stream] + 1.0)
        hits = _hits(rates, stream, LEVEL, level)
        rates.level[stream, level] = (hits + 1.0) / (rates.expected[level] + 1.0 / mean)


@step
def _excess(rates, stream, feature, places):
    """Hits over expected hits in total: the scale, which only the level is to carry."""
    hits = expected = 0.0
    for place in range(places):
        hits += _hits(rates, stream, feature, place)
        expected += rates.expected[place]
    return hits / expected if hits > 0.0 and expected > 0.0 else 1.0


@part
def _fit_factor(rates, stream, feature, factor, cells):
    _expect(rates, stream, feature, cells, rates.age[stream], rates.wait[stream])
    scale = _excess(rates, stream, feature, len(factor))
    # Where age and wait cannot be told apart (a key that comes once has waited as long as it is
    # old), wait is drawn to 1 at each sweep, and age carries both: it knows what lies ahead.
    few = _FEW_WAITS if feature == WAIT else 1.0
    for place in range(len(factor)):
        hits = _hits(rates, stream, feature, place)
        factor[place] = (hits + few) / (scale * rates.expected[place] + few)


@part
def _judge_level(rates, stream, clump):
    """Hits per trial, drawn towards a power of the count: the one that fits best of `POWERS`.

    Until enough is seen the power is 1 and a count is taken at its word, as PROB does; where keys
    are alike it comes out as 0, and counts no longer mislead.
    """
    power, scale = _power(rates, stream, clump)
    caution = _CAUTION * clump
    for level in range(LEVELS):
        plain = scale * (typical(level) + 0.5) ** power
        rates.expected[level] *= plain
        rates.level_rate[stream, level] = plain
    trust = _trust(rates, stream, LEVEL, LEVELS, 1.0, clump)
    for level in range(LEVELS):
        hits = _hits(rates, stream, LEVEL, level)
        ratio = (hits + caution) / (rates.expected[level] + caution)
        rates.level_rate[stream, level] *= 1.0 + trust * (ratio - 1.0)


@part
def _trust(rates, stream, feature, places, scale, clump):
    """How far differences between hits and expected hits are more than chance would make them."""
    seen = surprise = 0.0
    for place in range(places):
        expected = scale * rates.expected[place]
        if expected > 0.0:
            hits = _hits(rates, stream, feature, place)
            seen += 1.0
            surprise += (hits - expected) ** 2 / (expected + _CAUTION * clump) / clump
    # Twice the standard deviation more than on average, or a flat factor would look like a curve.
    by_chance = seen + _SIGMAS * math.sqrt(2.0 * seen)
    return max(0.0, 1.0 - by_chance / surprise) if surprise > 0.0 else 0.0


@part
def _power(rates, stream, clump):
    """The power of the count that explains the hits best, and its scale."""
    total = 0.0
    for level in range(LEVELS):
        total += _hits(rates, stream, LEVEL, level)
    best, power, scale = -np.inf, 1.0, 1.0 / max(1.0, rates.weight[1 - stream])
    if total < _ENOUGH * clump:
        # Too little to say what predicts, but not that the hits that a count promises do not come.
        expected = 0.0
        for level in range(LEVELS):
            expected += rates.expected[level] * (typical(level) + 0.5) * scale
        caution = _CAUTION * clump
        scale *= min(1.0, (total + caution) / (expected + caution))
    else:
        for candidate in POWERS:
            expected = likelihood = 0.0
            for level in range(LEVELS):
                plain = (typical(level) + 0.5) ** candidate
                expected += rates.expected[level] * plain
                likelihood += _hits(rates, stream, LEVEL, level) * math.log(plain)
            likelihood -= total * math.log(expected)
            if likelihood > best:
                best, power, scale = likelihood, candidate, total / expected
    return power, scale


@part
def _judge_factor(rates, stream, feature, judged, clump):
    """A factor, drawn towards that of its neighbours where little was seen, and towards 1 as far as
    chance could have made the differences; was enough seen everywhere?"""
    scale = _excess(rates, stream, feature, len(judged))
    caution = _CAUTION * clump
    trust = _trust(rates, stream, feature, len(judged), scale, clump)
    least = np.inf
    for place in range(len(judged)):
        hits = _hits(rates, stream, feature, place)
        expected = scale * rates.expected[place]
        least = min(least, expected)
        near = _near(rates, stream, feature, place, len(judged), scale, caution)
        judged[place] = 1.0 + trust * ((hits + caution * near) / (expected + caution) - 1.0)
    return least >= _ENOUGH * clump


@step
def _near(rates, stream, feature, place, places, scale, caution):
    """The factor of the two places beside one: what it is taken for where little is known."""
    hits = expected = caution
    run = WAITS if feature == WAIT else places
    if place % run > 0:
        hits += _hits(rates, stream, feature, place - 1)
        expected += scale * rates.expected[place - 1]
    if place % run < run - 1:
        hits += _hits(rates, stream, feature, place + 1)
        expected += scale * rates.expected[place + 1]
    return hits / expected


@part
def _look_ahead(rates, stream, first):
    """What a wait is worth: the best mean of the factor from it up to a later one, as far as waits
    were seen: the last place is longer than a tuple lives, unless windows are counted."""
    total = 0.0
    for wait in range(WAITS):
        total += rates.expected[first + wait]
    longest = WAITS - 1
    while longest > 0 and rates.expected[first + longest] <= _HARDLY * total:
        longest -= 1
    for wait in range(WAITS):
        total = length = best = 0.0
        for later in range(wait, max(wait, longest) + 1):
            width = 2.0 ** max(0, later - 1)
            total += width * rates.wait_rate[stream, first + later]
            length += width
            best = max(best, total / length)
        rates.wait_worth[stream, first + wait] = best


@part
def is_due(rates):
    """Has enough come since the last fit for another one?"""
    weight = 0.0
    for stream in range(len(rates.weight)):
        weight += rates.weight[stream]
    since = rates.clock[UNFITTED]
    return since >= _SMALLEST_FIT and _FITS * since >= weight
