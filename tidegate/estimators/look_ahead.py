"""What lies ahead of a tuple: the best mean of its factors, from its wait and its age on.

Law: age and wait go on together. A tuple of wait w and age a, both in parts of the span, has the
factor age(a + t) x wait(w + t) after a time t, and is worth the most that it can earn per unit of
time by staying up to some later moment:

    ahead(w, a) = max over t of  1/t x integral from 0 to t of age(a + u) x wait(w + u) du

(for age alone this is srivastava2004, section 3.2.1). A key that comes again renews its wait, on
the side where it came. So there is a second mean, in which a tuple that is renewed moves on to what
a wait of 0 brings on that side, for as long as that lasts (`_stay`). It ends there, and the first
ignores renewals; each is a plan that the tuple can follow, and the better one counts.

Steps of time grow from 1/256 of the span to a place of the age curve, with the factors in their
middle. Where no factor of waits is believed, renewals change nothing.
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled.kernel import part, step
from tidegate.estimators import match_rate, partners_met
from tidegate.estimators.match_rate import HOLD, SHORTEST_WAIT, SIDES, WAITS

_WIDER = 1.5  # each step is so much longer than the one before
_NEARLY = 0.999999  # of a life
_ALONE = 0.01  # share of tuples that were not renewed; with less, the rest is left out
_FEW = 2.0  # own arrivals that would make their rate at a wait that of all
_ROUNDS = 3  # of computing what a renewed wait brings, itself with renewals
NO_AGE = -1.0


@part
def look_ahead(rates, stream, cells, is_known):
    """Make the table that scores read, from the factors that are believed."""
    ages = rates.age.shape[1]
    renews = not _is_flat(rates.wait_rate[stream])
    mean = _own_rates(rates, stream, cells)
    per_window = match_rate.per_window(rates, stream)
    if renews:
        for side in range(SIDES):
            rates.stay[side, 0] = rates.stay[side, 1] = 0.0
        for _ in range(_ROUNDS):
            for side in range(SIDES):
                _with_renewals(rates, stream, side * WAITS, NO_AGE, mean, per_window)
    is_told = rates.told[0] or rates.told[1]
    for place in range(SIDES * WAITS):
        for age in range(ages + 1):
            if place > 0 and not renews:
                rates.ahead[stream, place, age] = rates.ahead[stream, 0, age]
                continue
            at = min(ages - 0.5, np.float64(age)) / ages
            best = _plainly(rates, stream, place, at)
            if renews:
                best = max(best, _with_renewals(rates, stream, place, at, mean, per_window))
            if not is_known and not is_told:
                best *= 1.0 + HOLD * age / ages
            rates.ahead[stream, place, age] = best


@part
def is_moving(rates):
    """Can what a tuple is worth fall as time goes on?"""
    if partners_met.knows_met(rates):
        return True
    for stream in range(len(rates.weight)):
        if not (_is_flat(rates.wait_rate[stream]) and _is_flat(rates.age_rate[stream])):
            return True
    return False


@step
def _is_flat(factor):
    for place in range(len(factor)):
        if factor[place] != 1.0:
            return False
    return True


@part
def _own_rates(rates, stream, cells):
    """Own arrivals of a key per trial, by place; returns hits per trial."""
    trials = rates.own_rate
    all_trials = all_hits = 0.0
    all_renewed = 0
    ages = rates.trials.shape[2]
    for place in range(SIDES * WAITS):
        trials[place] = 0.0
        all_renewed += rates.renewed[stream, place]
    for at in range(cells):
        number = np.int64(rates.cells[at])
        wait, rest = number % (SIDES * WAITS), number // (SIDES * WAITS)
        age, level = rest % ages, rest // ages
        its = np.float64(rates.trials[stream, level, age, wait])
        trials[wait] += its
        all_trials += its
        all_hits += its * rates.level_rate[stream, level]
    mean = all_renewed / max(1.0, all_trials)
    for place in range(SIDES * WAITS):
        own = 0.0
        if mean > 0.0:
            own = (rates.renewed[stream, place] + _FEW) / (trials[place] + _FEW / mean)
        rates.own_rate[place] = own
    return all_hits / max(1.0, all_trials)


@step
def _begin(place):
    """The middle of a wait, in parts of the span."""
    wait = place % WAITS
    return 0.75 * 2.0**wait / SHORTEST_WAIT if wait > 0 else 0.5 / SHORTEST_WAIT


@step
def _place_at(place, waited):
    """The place of a wait on the side of another one."""
    wait = 0
    shortest = waited * SHORTEST_WAIT
    while wait < WAITS - 1 and shortest >= 2.0**wait:
        wait += 1
    return place // WAITS * WAITS + wait


@step
def _age_rate(rates, stream, at):
    ages = rates.age.shape[1]
    return 1.0 if rates.told[1] else rates.age_rate[stream, min(ages - 1, np.int64(at * ages))]


@part
def _plainly(rates, stream, place, at):
    """The best mean if the key does not come again."""
    share, begun = rates.share[stream], _begin(place)
    most = 1.0 / rates.age.shape[1]
    total = length = best = 0.0
    wide = 1.0 / SHORTEST_WAIT / share
    life = 1.0 - at
    while length < _NEARLY * life:
        time = min(min(wide, most), life - length)
        middle = length + 0.5 * time
        rate = rates.wait_rate[stream, _place_at(place, begun + middle * share)]
        total += time * rate * _age_rate(rates, stream, at + middle)
        length += time
        best = max(best, total / length)
        wide *= _WIDER
    return best


@part
def _with_renewals(rates, stream, place, at, mean, per_window):
    """The best mean if a tuple moves on when its key comes: by hits to the opposite side, by own
    arrivals to the own one. Without an age: what a wait that begins brings, see `stay`."""
    share, begun = rates.share[stream], _begin(place)
    most = 1.0 / rates.age.shape[1]
    total = length = spent = best = best_total = best_time = 0.0
    alone = life = 1.0
    if at >= 0.0:
        life -= at
    else:
        begun = 0.0
    wide = 1.0 / SHORTEST_WAIT / share
    while length < _NEARLY * life and alone > _ALONE:
        time = min(min(wide, most), life - length)
        middle = length + 0.5 * time
        wait = _place_at(place, begun + middle * share)
        aged = _age_rate(rates, stream, at + middle) if at >= 0.0 else 1.0
        rate = rates.wait_rate[stream, wait] * aged
        hits = mean * rate * per_window * time
        own = rates.own_rate[wait] * per_window * time
        gone = (hits + own) / (1.0 + hits + own)
        total += alone * time * rate / (1.0 + hits + own)
        spent += alone * (1.0 - 0.5 * gone) * time
        for side in range(SIDES):
            if rates.stay[side, 1] > 0.0:
                moved = alone * (hits if side == 1 else own) / (1.0 + hits + own)
                stays = min(rates.stay[side, 1], life - length)
                total += moved * rates.stay[side, 0] * stays / rates.stay[side, 1] * aged
                spent += moved * stays
        alone *= 1.0 - gone
        length += time
        if total / spent > best:
            best, best_total, best_time = total / spent, total, spent
        wide *= _WIDER
    if at < 0.0:
        rates.stay[place // WAITS, 0], rates.stay[place // WAITS, 1] = best_total, best_time
    return best


@step
def ahead_at(rates, stream, place, age):
    """What is ahead of a wait at an age: between the two ages beside it."""
    life = rates.life[stream]
    if age > life:
        return 0.0
    ages = rates.age.shape[1]
    at = np.float64(age) / life * ages
    first = min(ages - 1, max(0, np.int64(at)))
    here, later = rates.ahead[stream, place, first], rates.ahead[stream, place, first + 1]
    return here + min(1.0, at - first) * (later - here)
