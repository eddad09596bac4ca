"""The partners that a tuple has met: how VALUE tells tuples apart where no keys are compared.

Law: the level of a tuple follows from the partners that it has met, those that it found on arrival
included, beside the number that tuples of its age have met on average (`promised`):

    level of AS_PROMISED * (met + 1) / (promised + 1)

With equal keys the level says how often the key came (`match_rate`); with bands, sets or theta
functions there is nothing to count but this. What a level is worth is learned in the same way: many
partners may promise more of them, or none.

Partners that come LATE places of the age curve later than usual do not count against a tuple:
it would go just before partners that all come after the same lag.
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled.kernel import part, step
from tidegate.estimators.match_rate import ARRIVALS, AT_ONCE, SHIFT, TIME, TRIALS, level_of

AS_PROMISED = 76.0  # the count, in the middle of a level, of tuples that met as many as others
LATE = 1.0  # places of ages


@step
def is_keyless(rates):
    """Does the level of a tuple say what it has met, because no keys are compared?"""
    return rates.promised.shape[1] > 1


@step
def level_by_met(rates, stream, met, age):
    """The level of a tuple of this age that has met so many partners."""
    ages = rates.promised.shape[1] - 1
    at = max(0.0, np.float64(min(age, rates.life[stream])) / rates.life[stream] * ages - LATE)
    first = min(ages - 1, np.int64(at))
    here, later = rates.promised[stream, first], rates.promised[stream, first + 1]
    promised = here + min(1.0, at - first) * (later - here)
    return level_of(AS_PROMISED * (met + 1.0) / (promised + 1.0))


@step
def live_on(rates, stream, trials, time):
    """A retained tuple went through so many trials in such a time of its window's clock."""
    if is_keyless(rates):
        rates.met[stream, TRIALS] += trials
        rates.met[stream, TIME] += time >> rates.span[SHIFT]


@step
def greet(rates, stream, count):
    """An arrival has found so many partners at once."""
    if is_keyless(rates):
        rates.met[stream, ARRIVALS] += 1
        rates.met[stream, AT_ONCE] += count


@part
def promise(rates, stream, hits, expected):
    """How many partners a tuple has met up to each age, from hits and what trials by age make of
    them but for the scale."""
    met, ages = rates.met[stream], rates.promised.shape[1] - 1
    life = np.float64(rates.life[stream] >> rates.span[SHIFT])
    each = met[TRIALS] * life / max(1, met[TIME]) / ages
    each *= hits / expected if expected > 0.0 else 0.0
    rates.promised[stream, 0] = met[AT_ONCE] / max(1, met[ARRIVALS])
    for age in range(ages):
        factor = rates.age[stream, age] if rates.told[1] else rates.age_rate[stream, age]
        rates.promised[stream, age + 1] = rates.promised[stream, age] + each * factor
