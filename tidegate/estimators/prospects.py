"""What a key of n streams will earn: VALUE for more than two streams.

Law: nothing is taken at its word, and nothing is counted twice. All tuples of a key share its fate,
since every result takes one of each stream; so what is learned is learned of keys. A key stands in
a *place*: the streams on which tuples of it are retained, and whether it is *broken*, that is, came
on a stream that holds no tuple of it any more. The results that it earns per unit of time are

    rate[place] x level[tuples retained] x age[since it came] x wait[since it was seen last]

and a tuple of stream i earns its share of that, rate / (tuples of the key on stream i).

**Places look ahead.** A key that lacks two streams completes nothing at once; it gets nearer. So a
place earns the results that are completed in it, and when a key moves on, what the next place is
expected to earn; the time it takes is the time in it and what the next place is expected to take.
Both expectations are sums divided by the keys that came to a place, the rate is earnings / time,
and beyond one window nothing counts. With unique keys the places are the patterns of kwon2011 as
they are now: a complete or a broken key earns nothing more, and its tuples go first.

**Levels** are the product of the tuples retained on all streams. Until there is evidence a product
is taken at its word, as PROB does. With unique keys there is only one level; with frequent keys
there is almost only one place, and levels decide. So both are served without a switch.

**Ages and waits** are factors: earnings / earnings that place, level and the other of the two
expect, drawn towards 1 by a few earnings. What counts is the best mean ahead, as in `match_rate`.
Places and waits are drawn towards the mean by far more in the first windows (`patience`); as long
as all are alike, the oldest goes.

Sums are whole numbers and never overflow (they stop growing), so the order of counting cannot be
seen. Time is in windows.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.compiled.frames import frame
from tidegate.compiled.kernel import part, step

EXACT_STREAMS = 8  # with more, places are told apart by the number of streams that hold the key
LEVELS = 64  # two to a doubling of the product
AGES = 21  # twenty to a window; the last is older
WAITS = 20  # three to a doubling from 1/64 of a window on; the last is longer
_PER_DOUBLING = 3
_SHORTEST_WAIT = 64.0
CAUTION = 4.0  # earnings, each as large as is usual, that are added as if all were alike
CAUTION_OF_AGES = 16.0
_RASH = 8.0  # times more after one window, a quarter of that after two, and so on
_SOONEST = 1.0 / 64.0  # windows
NOWHERE = -1
NEVER = -(2**62)
UNIT = float(2**20)  # a result in the sums
SPAN_UNIT = float(2**24)  # a window in the sums
_MOST = float(2**60)
_NO_TIME = 1e-12  # windows; so short that it is none
_LARGEST = 3e38  # of a number of 32 bits
_FULL = 2**62
SMALLEST_FIT = 64  # tuples between two fits
FITS = 40  # in the weight of all tuples, which in the long run is that of five windows

CAME, EARNED, TIME, NEXT_TIME = range(4)  # of `places`
HITS, EXPECTED = range(2)  # of `levels`, `ages` and `waits`
NOW, BEGUN, FITTED_AFTER, REFRESHED, SINCE, WEIGHT, EVENTS = range(7)  # of `clock`

# Of a key; `before`, `wait` and `age` are as they were when the present moment began.
OUTLOOK = np.dtype(
    [
        ("last", np.int64),  # when it was seen
        ("counted", np.int64),  # up to when its time is in the sums
        ("begun", np.int64),  # when its record began
        ("place", np.int16),
        ("before", np.int16),
        ("wait", np.int16),
        ("age", np.int16),
    ]
)


@frame
class Prospects(NamedTuple):
    """The sums and `clock` are kept in a snapshot, with the factors as they are believed."""

    places: NDArray[np.int64]  # [place, sum]
    levels: NDArray[np.int64]  # [level, sum]
    ages: NDArray[np.int64]
    waits: NDArray[np.int64]
    rate: NDArray[np.float64]  # [place]: earnings per window, with a look ahead
    hazard: NDArray[np.float64]  # [place]: the same without the time that the next place takes
    expects: NDArray[np.float64]  # [place, 2]: earnings and time of a key that comes to it
    level: NDArray[np.float64]
    age: NDArray[np.float64]
    wait: NDArray[np.float64]
    age_worth: NDArray[np.float64]  # the best mean ahead
    wait_worth: NDArray[np.float64]
    ends: NDArray[np.float64]  # [wait]: where its places end, in windows
    even: NDArray[np.float64]  # [age]: the same, in twentieths of a window
    clock: NDArray[np.int64]
    span: NDArray[np.int64]  # [0]: the longest window, [1]: is the clock that of the stream?
    outlook: Any  # [key]: see OUTLOOK
    held: NDArray[np.int32]  # [key, stream]: tuples that are retained
    worth: NDArray[np.float32]  # [key, stream]: what a tuple of the key earns


def columns(streams: int) -> dict[str, Any]:
    """What is known by key, as columns of a block."""
    return {
        "outlook": (OUTLOOK, 1),
        "held": (np.int32, streams),
        "worth": (np.float32, streams),
    }


def number_of_places(streams: int) -> int:
    return 2 * (2**streams if streams <= EXACT_STREAMS else streams + 1)


def empty(streams: int, span: int, timed: bool, by_key: dict[str, Any]) -> Prospects:
    """Nothing is known yet: all keys are alike but for the tuples retained."""
    places = number_of_places(streams)
    return Prospects(
        places=np.zeros((places, 4), np.int64),
        levels=np.zeros((LEVELS, 2), np.int64),
        ages=np.zeros((AGES, 2), np.int64),
        waits=np.zeros((WAITS, 2), np.int64),
        rate=np.ones(places),
        hazard=np.zeros(places),
        expects=np.zeros((places, 2)),
        level=2.0 ** (np.arange(LEVELS) / 2.0),
        age=np.ones(AGES),
        wait=np.ones(WAITS),
        age_worth=np.ones(AGES),
        wait_worth=np.ones(WAITS),
        ends=2.0 ** (np.arange(WAITS) / _PER_DOUBLING) / _SHORTEST_WAIT,
        even=np.arange(1.0, AGES + 1.0),
        clock=np.zeros(7, np.int64),
        span=np.array([max(1, span), timed], np.int64),
        **{name: by_key[name] for name in columns(streams)},
    )


# --- where a key stands ------------------------------------------------------------------


@part
def place_of(held, counts, key):
    """The place of a key, NOWHERE if no tuple of it is retained."""
    bits = number = broken = 0
    streams = held.shape[1]
    for stream in range(streams):
        if held[key, stream] > 0:
            bits |= 1 << stream
            number += 1
        elif counts[key, stream] > 0.0:
            broken = 1
    if number == 0:
        return NOWHERE
    return 2 * (bits if streams <= EXACT_STREAMS else number) + broken


@part
def level_of(held, key):
    product = 1.0
    for stream in range(held.shape[1]):
        product *= max(1.0, np.float64(held[key, stream]))
    return min(LEVELS - 1, int(2.0 * math.log2(product))) if product > 1.0 else 0


@part
def age_of(windows):
    return min(AGES - 1, int(windows * (AGES - 1)))


@part
def wait_of(prospects, windows):
    """The place of a wait, by halves: waits of all lengths are common."""
    low, high = 0, WAITS - 1
    while low < high:
        middle = (low + high) // 2
        if windows >= prospects.ends[middle]:
            low = middle + 1
        else:
            high = middle
    return low


@step
def in_windows(prospects, moments):
    return np.float64(moments) / np.float64(prospects.span[0])


# --- what keys go through ----------------------------------------------------------------


@part
def add(sums, place, which, amount):
    """Of amounts that are not negative, in any order, the sum is the same."""
    more = np.int64(min(_MOST, amount + 0.5))
    sums[place, which] = min(np.int64(_FULL), sums[place, which] + more)


@part
def count(prospects, key):
    """Put the time since it was last counted into the sums."""
    outlook = prospects.outlook[key]
    since, now = outlook.counted, prospects.clock[NOW]
    outlook.counted = now
    if outlook.place == NOWHERE or now <= since:
        return
    place, level = np.int64(outlook.place), level_of(prospects.held, key)
    factor = prospects.level[level]
    span = in_windows(prospects, now - since)
    age = age_of(in_windows(prospects, (since - outlook.begun) + (now - outlook.begun)) / 2.0)
    add(prospects.places, place, TIME, span * factor * SPAN_UNIT)
    add(prospects.levels, level, EXPECTED, span * prospects.hazard[place] * UNIT)
    expected = prospects.hazard[place] * factor * UNIT
    begin = in_windows(prospects, since - outlook.last)
    end = in_windows(prospects, now - outlook.last)
    wait = wait_of(prospects, begin)
    while begin < end:
        upto = min(end, prospects.ends[wait]) if wait < WAITS - 1 else end
        add(prospects.waits, wait, EXPECTED, (upto - begin) * expected * prospects.age[age])
        add(prospects.ages, age, EXPECTED, (upto - begin) * expected * prospects.wait[wait])
        begin = upto
        wait += 1


@step
def begin_key(prospects, key):
    """The record of a key is new: its number may have belonged to another before."""
    outlook = prospects.outlook[key]
    outlook.last = outlook.begun = outlook.counted = prospects.clock[NOW]
    outlook.place = outlook.before = NOWHERE
    outlook.wait = outlook.age = 0
    for stream in range(prospects.held.shape[1]):
        prospects.held[key, stream] = 0
        prospects.worth[key, stream] = 0.0


@part
def see(prospects, key):
    """A tuple of the key has come. Those of one moment count as one event."""
    outlook, now = prospects.outlook[key], prospects.clock[NOW]
    if outlook.last != now:
        count(prospects, key)
        outlook.before = outlook.place
        outlook.wait = wait_of(prospects, in_windows(prospects, now - outlook.last))
        outlook.age = age_of(in_windows(prospects, now - outlook.begun))
        outlook.last = now


@part
def earn(prospects, key, results):
    """A tuple of the key has completed so many results."""
    outlook = prospects.outlook[key]
    if outlook.before != NOWHERE:
        prospects.clock[EVENTS] += np.int64(UNIT)
        amount = np.float64(results) * UNIT
        add(prospects.places, outlook.before, EARNED, amount)
        add(prospects.levels, level_of(prospects.held, key), HITS, amount)
        add(prospects.waits, outlook.wait, HITS, amount)
        add(prospects.ages, outlook.age, HITS, amount)


@part
def move(prospects, counts, key):
    """Tuples of the key were retained, or left: it may stand in another place."""
    outlook = prospects.outlook[key]
    now, place = np.int64(outlook.place), place_of(prospects.held, counts, key)
    if place != now:
        count(prospects, key)
        if place != NOWHERE:
            add(prospects.places, place, CAME, UNIT)
            if now != NOWHERE:
                hand_on(prospects, outlook, now, place)
        outlook.place = place


@step
def hand_on(prospects, outlook, now, place):
    """A place earns what is expected of the next one, and takes its time."""
    wait, age = np.int64(outlook.wait), np.int64(outlook.age)
    moment = prospects.clock[NOW]
    if outlook.last != moment:
        wait = wait_of(prospects, in_windows(prospects, moment - outlook.last))
        age = age_of(in_windows(prospects, moment - outlook.begun))
    amount = prospects.expects[place, 0] * UNIT
    add(prospects.places, now, EARNED, amount)
    add(prospects.places, now, NEXT_TIME, prospects.expects[place, 1] * SPAN_UNIT)
    add(prospects.waits, wait, HITS, amount)
    add(prospects.ages, age, HITS, amount)


@part
def fade(prospects):
    """Old evidence counts for less from now on."""
    for sums in (prospects.places, prospects.levels, prospects.ages, prospects.waits):
        for place in range(len(sums)):
            for which in range(sums.shape[1]):
                sums[place, which] = sums[place, which] // 5 * 4
    for which in (WEIGHT, EVENTS):
        prospects.clock[which] = prospects.clock[which] // 5 * 4


# --- what is believed --------------------------------------------------------------------


@part
def is_due(prospects):
    """Has enough come since the last fit for another one?"""
    since = prospects.clock[FITTED_AFTER]
    return since >= SMALLEST_FIT and FITS * since >= prospects.clock[WEIGHT]


@step
def ratio(earned, time):
    return earned / max(time, _NO_TIME)


@part
def total(sums, which):
    """As a float: whole sums could be too large."""
    number = 0.0
    for place in range(len(sums)):
        number += np.float64(sums[place, which])
    return number


@part
def fit(prospects):
    """Make the factors that worths read."""
    prospects.clock[FITTED_AFTER] = 0
    events = np.float64(prospects.clock[EVENTS]) / UNIT
    earned = total(prospects.places, EARNED) / UNIT
    if events > 0.0 and earned > 0.0:
        usual = earned / events
        caution = CAUTION * usual * patience(prospects)
        fit_places(prospects, earned, caution)
        fit_levels(prospects, CAUTION * total(prospects.levels, HITS) / UNIT / events)
        fit_factor(prospects.ages, prospects.age, CAUTION_OF_AGES * usual)
        fit_factor(prospects.waits, prospects.wait, caution)
        for age in range(AGES):
            prospects.age_worth[age] = best_mean(prospects.age, prospects.even, age)
        for wait in range(WAITS):
            prospects.wait_worth[wait] = best_mean(prospects.wait, prospects.ends, wait)


@part
def patience(prospects):
    """How much more caution is needed: in the first windows only keys that complete quickly have
    been seen to complete."""
    windows = in_windows(prospects, prospects.clock[NOW] - prospects.clock[BEGUN])
    return 1.0 + _RASH / max(_SOONEST, windows) ** 2


@part
def fit_places(prospects, earned, caution):
    """Earnings / time of each place; `caution` is added at the mean of all."""
    time = total(prospects.places, TIME) / SPAN_UNIT
    both = time + total(prospects.places, NEXT_TIME) / SPAN_UNIT
    for place in range(len(prospects.places)):
        sums = prospects.places[place]
        came = max(1.0, np.float64(sums[CAME]) / UNIT)
        its, its_time = np.float64(sums[EARNED]) / UNIT, np.float64(sums[TIME]) / SPAN_UNIT
        its_both = its_time + np.float64(sums[NEXT_TIME]) / SPAN_UNIT
        prospects.hazard[place] = ratio(its + caution, its_time + caution * time / earned)
        prospects.rate[place] = ratio(its + caution, its_both + caution * both / earned)
        # Beyond one window nothing counts.
        share = 1.0 if its_both <= came else came / its_both
        prospects.expects[place, 0] = its / came * share
        prospects.expects[place, 1] = its_both / came * share


@part
def fit_levels(prospects, caution):
    hits, expected = total(prospects.levels, HITS), total(prospects.levels, EXPECTED)
    scale = hits / expected if hits > 0.0 and expected > 0.0 else 1.0
    for level in range(LEVELS):
        sums = prospects.levels[level]
        its, its_expected = np.float64(sums[HITS]) / UNIT, np.float64(sums[EXPECTED]) / UNIT
        at_its_word = 2.0 ** (level / 2.0)
        prospects.level[level] = (its + caution) / (scale * its_expected + caution / at_its_word)


@part
def fit_factor(sums, factor, caution):
    hits, expected = total(sums, HITS), total(sums, EXPECTED)
    scale = hits / expected if hits > 0.0 and expected > 0.0 else 1.0
    for place in range(len(factor)):
        its = np.float64(sums[place, HITS]) / UNIT
        its_expected = scale * np.float64(sums[place, EXPECTED]) / UNIT
        factor[place] = (its + caution) / (its_expected + caution)


@part
def best_mean(factor, ends, begin):
    """The best mean of a factor from one place up to a later one; `ends` says where places end."""
    earned = length = best = 0.0
    for place in range(begin, len(factor)):
        width = ends[place] - (ends[place - 1] if place > 0 else 0.0)
        earned += width * factor[place]
        length += width
        best = max(best, earned / length)
    return best


@part
def rate_of(prospects, key, place):
    """What a key in a place earns per window, as of now."""
    level = level_of(prospects.held, key)
    outlook, now = prospects.outlook[key], prospects.clock[NOW]
    age = age_of(in_windows(prospects, now - outlook.begun))
    wait = wait_of(prospects, in_windows(prospects, now - outlook.last))
    rate = prospects.rate[place] * prospects.level[level]
    return min(_LARGEST, rate * prospects.age_worth[age] * prospects.wait_worth[wait])
