"""Rates of matches from what was counted: the factors of a product.

Law: each factor is hits / hits that the two others expect, so what one explains the others leave
alone: iterative proportional fitting, the maximum likelihood of the product. Where counts predict
(a skewed stream) the levels differ and the rest comes out flat; where only age matters (a key's
count grows with its age, but says nothing else) the age curve is steep and the levels come out
alike; where keys come in bursts it is the wait. So the key's frequency, the age curve and their
product need no contest: a factor that does not predict is 1. Where a key comes once and never again
(an order and its delivery) the rate of level 1 comes out as nothing.

What is believed is shrunk: to 1 as far as chance could have made the differences, and to the
neighbours where little was seen. Hits of one arrival come together; so many of them count as the
square root of their number (between one piece of evidence and as many as there are hits).
"""

from __future__ import annotations

import math

import numpy as np

from tidegate.compiled.kernel import part, step
from tidegate.estimators.look_ahead import look_ahead
from tidegate.estimators.match_rate import (
    AGE,
    HITS,
    KEYED,
    LEVEL,
    LEVELS,
    SIDES,
    SMALLEST_FIT,
    SQUARES,
    UNFITTED,
    WAIT,
    WAITS,
    typical,
)
from tidegate.estimators.partners_met import knows_met, promise, weight_of

SWEEPS = 2  # of the fitting, each time; factors are kept, so it goes on from where it was
POWERS = (-2.0, -1.0, -0.5, 0.0, 0.25, 0.5, 0.75, 1.0)
_ENOUGH = 8.0  # hits, where they come one by one, to learn from
_CAUTION = 4.0  # hits, where they come one by one, that would make a factor 1
_FEW_WAITS = 8.0  # hits that would make the factor of a wait 1, while it is fitted
# Hits that would make that of a level the mean, where it says what was met: beside the count of a
# key, and alone.
_FEW_LEVELS, _FEW_LEVELS_ALONE = 8.0, 200.0
_SIGMAS = 1.0
_AT_ITS_WORD = 2.0  # of log-likelihood that a power of 0 must gain over the count itself
_FITS = 40  # in the weight of all tuples, which in the long run is that of five windows


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
            clump = math.sqrt(rates.clumps[stream, SQUARES] / rates.clumps[stream, HITS])
        # Each is judged against what is believed of the ones before, and the level comes last: it
        # carries the scale, by which streams are compared, so it must be that of what is believed.
        age, wait = rates.age_rate[stream], rates.wait_rate[stream]
        _expect(rates, stream, WAIT, cells, rates.age[stream], wait)
        _judge_factor(rates, stream, WAIT, wait, clump)
        _expect(rates, stream, AGE, cells, age, wait)
        rates.known[stream] = _judge_factor(rates, stream, AGE, age, clump)
        _expect(rates, stream, LEVEL, cells, age, wait)
        if knows_met(rates):
            _promise(rates, stream)
        is_known = _judge_level(rates, stream, clump)
        if len(rates.exposed) > 1:
            # Learned from the tuples that are retained. If the young ones stayed, old ages would
            # never be seen: the older of equal tuples stay until there is evidence at all ages.
            is_known = is_known and rates.known[stream] != 0
        look_ahead(rates, stream, cells, is_known)
    rates.clock[UNFITTED] = 0


@part
def _promise(rates, stream):
    """What tuples have met at each age, from what was expected of all levels together."""
    hits = expected = 0.0
    for level in range(LEVELS):
        hits += _hits(rates, stream, LEVEL, level)
        expected += rates.expected[level] * weight_of(rates, level)
    promise(rates, stream, hits, expected)


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
    # Old tuples have met many or none, young ones a few: ages and levels can share what they
    # explain in many ways, and are drawn to the one with the least differences of levels.
    few = 1.0
    if knows_met(rates):
        few = _FEW_LEVELS if rates.told[KEYED] else _FEW_LEVELS_ALONE
    for level in range(LEVELS):
        mean = (total + 1.0) / (trials + rates.weight[1 - stream] + 1.0)
        hits = _hits(rates, stream, LEVEL, level)
        rates.level[stream, level] = (hits + few) / (rates.expected[level] + few / mean)


@step
def _first_of(rates, feature):
    """The first place of a feature that is fitted: tuples that have met nobody have no wait."""
    return np.int64(WAITS) if feature == WAIT and knows_met(rates) else np.int64(0)


@step
def _excess(rates, stream, feature, places):
    """Hits over expected hits in total: the scale, which only the level is to carry."""
    hits = expected = 0.0
    for place in range(_first_of(rates, feature), places):
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
    for place in range(_first_of(rates, feature), len(factor)):
        hits = _hits(rates, stream, feature, place)
        factor[place] = (hits + few) / (scale * rates.expected[place] + few)


@part
def _judge_level(rates, stream, clump):
    """Hits per trial, shrunk towards a power of the count: the one of `POWERS` that fits best;
    evidence must be the stronger the further it is from 1 (a count taken at its word). Returns
    whether enough was seen; until then the power is 0, and counts do not mislead.
    """
    power, scale, is_known = _power(rates, stream, clump)
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
    return is_known


@part
def _trust(rates, stream, feature, places, scale, clump):
    """How far differences between hits and expected hits are more than chance would make them."""
    seen = surprise = 0.0
    for place in range(_first_of(rates, feature), places):
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
    best, power, scale = -np.inf, 0.0, 1.0 / max(1.0, rates.weight[1 - stream])
    is_known = total >= _ENOUGH * clump
    if not is_known:
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
            likelihood = likelihood / clump - _AT_ITS_WORD * abs(1.0 - candidate)
            if likelihood > best:
                best, power, scale = likelihood, candidate, total / expected
    return power, scale, is_known


@part
def _judge_factor(rates, stream, feature, judged, clump):
    """A factor, drawn towards that of its neighbours where little was seen, and towards 1 as far as
    chance could have made the differences; was enough seen everywhere?"""
    scale = _excess(rates, stream, feature, len(judged))
    caution = _CAUTION * clump
    trust = _trust(rates, stream, feature, len(judged), scale, clump)
    least = np.inf
    for place in range(_first_of(rates, feature), len(judged)):
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
def is_due(rates):
    """Has enough come since the last fit for another one?"""
    weight = 0.0
    for stream in range(len(rates.weight)):
        weight += rates.weight[stream]
    since = rates.clock[UNFITTED]
    return since >= SMALLEST_FIT and _FITS * since >= weight
