"""The partners that a tuple has met: how VALUE tells tuples apart where more than keys is compared.

Law: the level of a tuple follows from the partners that it has met, those that it found on arrival
included, beside the number that tuples of its age and key have met on average (`promised`):

    level of base * (met + 1) / (promised * base / AS_PROMISED + 1) - 1

Its base is what would be expected without that: one more than the count of its key on the opposite
stream, as with equal keys alone (`match_rate`); where no keys are compared (bands, sets, theta
functions), AS_PROMISED for all, and nothing is taken off. So a young tuple stands on the level of
its key, and each partner that it meets, or does not meet, moves it. What a level is worth is
learned in the same way: many partners may promise more of them, or none.

Partners that come LATE places of the age curve later than usual do not count against a tuple:
it would go just before partners that all come after the same lag.

The wait of a tuple is that since it last met a partner. Before the first it has none: it has waited
as long as it is old, and that the age curve knows.
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled.kernel import part, step
from tidegate.estimators.match_rate import (
    ARRIVALS,
    AT_ONCE,
    KEYED,
    SHIFT,
    SHORT_SPAN,
    TIME,
    TRIALS,
    ago,
    level_of,
    of_side,
    typical,
    wait_of,
)

AS_PROMISED = 76.0  # the middle of a level
LATE = 1.0  # places of ages


@step
def knows_met(rates):
    """Does the level of a tuple follow from what it has met?"""
    return rates.promised.shape[1] > 1


@step
def level_by_met(rates, stream, met, age, count):
    """The level of a tuple of this age that has met so many partners, and whose key came so often
    on the opposite stream."""
    ages = rates.promised.shape[1] - 1
    at = max(0.0, np.float64(min(age, rates.life[stream])) / rates.life[stream] * ages - LATE)
    first = min(ages - 1, np.int64(at))
    here, later = rates.promised[stream, first], rates.promised[stream, first + 1]
    promised = here + min(1.0, at - first) * (later - here)
    if rates.told[KEYED]:
        base = count + 1.0
        return level_of(base * (met + 1.0) / (promised * base / AS_PROMISED + 1.0) - 1.0)
    return level_of(AS_PROMISED * (met + 1.0) / (promised + 1.0))


@step
def waits_at(rates, met, last_met):
    """The place of the wait of a tuple that last met a partner, if it met any, at this moment."""
    if met == 0.0:
        return of_side(0, np.int64(0))
    return of_side(1, wait_of(ago(rates, np.int64(last_met)), rates.span[SHORT_SPAN]))


@step
def live_on(rates, stream, trials, time):
    """A retained tuple went through so many trials in such a time of its window's clock."""
    if knows_met(rates):
        rates.met[stream, TRIALS] += trials
        rates.met[stream, TIME] += time >> rates.span[SHIFT]


@step
def greet(rates, stream, found, count):
    """An arrival, whose key came so often on the opposite stream, has found partners at once."""
    if knows_met(rates):
        rates.met[stream, ARRIVALS] += np.int64(count) + 1 if rates.told[KEYED] else 1
        rates.met[stream, AT_ONCE] += found


@step
def weight_of(rates, level):
    """What is promised to a tuple of this level, beside one of AS_PROMISED."""
    return (typical(level) + 1.0) / AS_PROMISED if rates.told[KEYED] else 1.0


@part
def promise(rates, stream, hits, expected):
    """How many partners a tuple of the base AS_PROMISED has met up to each age, from hits and what
    trials by age make of them but for the scale."""
    met, ages = rates.met[stream], rates.promised.shape[1] - 1
    life = np.float64(rates.life[stream] >> rates.span[SHIFT])
    each = met[TRIALS] * life / max(1, met[TIME]) / ages
    each *= hits / expected if expected > 0.0 else 0.0
    at_once = met[AT_ONCE] / max(1, met[ARRIVALS])
    rates.promised[stream, 0] = AS_PROMISED * at_once if rates.told[KEYED] else at_once
    for age in range(ages):
        factor = rates.age[stream, age] if rates.told[1] else rates.age_rate[stream, age]
        rates.promised[stream, age + 1] = rates.promised[stream, age] + each * factor
