"""What a tuple is worth under each policy.

Law: a policy is one number, its priority, made of importance, matches and age; the tuple with
the smallest (priority, basis, order of arrival) goes. `m` is the count of the tuple's key on the
opposite stream (`estimators.frequency`), with n streams the product of its counts on the others: so
many results the tuple would complete if it came now. `imp` is its importance.

`random`          chance: what is retained is a uniform sample of the window
`prob`            m (srivastava2004, section 3.3), kept current
`output`          results that the key has produced, old ones for less
`simp`            imp (ojewole2006, section 4.3.1)
`simpprob`        imp x m at arrival (4.3.2); ties: the lower importance, then the oldest
`dimpprob`        imp x m, kept current (4.3.3)
`dgl`             imp (1 + gain m) at arrival, then + gain imp m (share of life left) for each
                  arrival that it meets, x decay for each that it does not (4.3.4)
`additive`        alpha imp + beta m + delta time, kept current (3.2)
`multiplicative`  imp^alpha m^beta time^delta
`cumulative`      alpha imp (1 + beta m) at arrival, then as `dgl` with gain beta and decay delta
`arrival-order`   results per tuple of its existence pattern (kwon2011; `estimators.patterns`)
`value`           expected importance per arrival: rate of the key (`estimators.rate_fit`) x what
                  lies ahead at its age and the wait of its key (`estimators.look_ahead`) x
                  E[f(imp, importance of whom it meets)], per byte under a budget in bytes; with n
                  streams the same for all tuples of a key (`estimators.prospects`)

Time is counted in windows since the first tuple, from 1 on.
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled.kernel import part, step
from tidegate.estimators import frequency, importance, look_ahead, match_rate, partners_met
from tidegate.shed import ages
from tidegate.shed.members import basis_at, born_at, cost_at, last_met_at, met_at
from tidegate.shed.shed_records import (
    ADDITIVE,
    ARRIVAL_ORDER,
    CUMULATIVE,
    MULTIPLICATIVE,
    OUTPUT,
    PROB,
    RANDOM,
    SIMP,
    SIMPPROB,
    VALUE_OF_KEYS,
)

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_ONE_OVER_2_53 = 1.0 / 9007199254740992.0
_LARGEST = 1.7976931348623157e308


@part
def bounded(number):
    """A priority that no importance makes infinite: in a queue, infinity says "no entry"."""
    return min(number, _LARGEST)


@part
def chance(seed, stream, number):
    """A uniform number in [0, 1) for the n-th tuple of a stream: a counter-based generator.

    Two rounds of the splitmix64 finaliser. No state but the counter, so it can be restored, cut
    and repeated at will.
    """
    state = seed + _STEP * (np.uint64(number) + np.uint64(1))
    state ^= _MIX_2 * (np.uint64(stream) + np.uint64(1))
    for _ in range(2):
        state = (state ^ (state >> np.uint64(30))) * _MIX_1
        state = (state ^ (state >> np.uint64(27))) * _MIX_2
        state = state ^ (state >> np.uint64(31))
    return np.float64(state >> np.uint64(11)) * _ONE_OVER_2_53


@part
def windows_since(first, moment, window):
    """The time of a tuple in windows since the first tuple, from 1 on."""
    return 1.0 + np.float64(moment - first) / np.float64(window) if window > 0 else 1.0


@part
def life_left(born, now, window):
    """The share of its life that a tuple has left."""
    return max(0.0, np.float64(born + window - now) / np.float64(window)) if window > 0 else 0.0


@step
def matches_of(counts, key, stream):
    """m: so many results a tuple of `stream` with this key would complete if it came now."""
    matches = 1.0
    if counts.shape[1] == 2:
        matches = frequency.count_of(counts, key, 1 - stream)
    else:
        for other in range(counts.shape[1]):
            if other != stream:
                matches *= frequency.count_of(counts, key, other)
    return matches


@part
def key_worth(rule, counts, key, stream):
    """The part of the priority that all tuples of a key share."""
    kind = rule[0].kind
    if kind == OUTPUT:
        return frequency.count_of(counts, key, 0)
    if kind == ARRIVAL_ORDER or kind == VALUE_OF_KEYS:
        return frequency.count_of(counts, key, stream)
    matches = matches_of(counts, key, stream)
    if kind == ADDITIVE:
        return rule[0].beta * matches
    if kind == MULTIPLICATIVE:
        return matches ** rule[0].beta
    return matches


@step
def group_priority(rule, worth, basis):
    return bounded(worth + basis) if rule[0].kind == ADDITIVE else bounded(worth * basis)


@part
def basis_of(rule, own, time):
    """The part of the priority that a tuple has for itself, fixed at arrival."""
    kind = rule[0].kind
    if kind == ADDITIVE:
        return bounded(rule[0].alpha * own + rule[0].delta * time)
    if kind == MULTIPLICATIVE:
        return bounded(own ** rule[0].alpha * time ** rule[0].delta)
    if kind == PROB or kind == OUTPUT or kind == ARRIVAL_ORDER:
        return 1.0
    if kind == RANDOM or kind == CUMULATIVE:
        return 0.0
    return own


@part
def at_arrival(rule, counts, key, stream, own, random):
    """The priority of a new tuple that stands by itself; VALUE has `score`."""
    kind = rule[0].kind
    if kind == RANDOM:
        return random
    if kind == SIMP:
        return own
    matches = matches_of(counts, key, stream)
    if kind == SIMPPROB:
        return bounded(own * matches)
    return bounded(rule[0].alpha * own * (1.0 + rule[0].beta * matches))


@part
def score(
    rule, stages, importances, rates, counts, combine, weighed, stream, key, own, born, now, size,
    met, last_met,
):  # fmt: skip
    """VALUE of a tuple at a moment, from the estimates as of the last fit."""
    other = 1 - stream
    if key == frequency.NO_KEY:
        return 0.0
    if rule[0].statistics == frequency.GIVEN:
        worth = frequency.count_of(counts, key, other)
    elif partners_met.knows_met(rates):
        count = frequency.count_of(counts, key, other)
        level = partners_met.level_by_met(rates, stream, met, now - born, count)
        worth = rates.level_rate[stream, level]
    else:
        level = match_rate.level_of(frequency.count_of(counts, key, other))
        worth = rates.level_rate[stream, level]
    if partners_met.knows_met(rates):
        place = partners_met.waits_at(rates, met, last_met)
    else:
        place = match_rate.waits_at(rates, stream, key)
    if rates.told[1]:
        worth *= rates.ahead[stream, place, 0] * ages.worth_at(stages, stream, born, now)
    else:
        worth *= look_ahead.ahead_at(rates, stream, place, now - born)
    if weighed:
        worth *= bounded(importance.worth(importances, stream, combine, own))
    return bounded(worth / (size + rule[0].slot_price))


@part
def score_of(shed, slot, combine, weighed):
    """What VALUE says of a member now."""
    members = shed.members
    stream = np.int64(members.notes[slot].stream)
    return score(
        shed.rule, shed.stages, shed.importances, shed.rates, shed.frequency.counts, combine,
        weighed, stream, np.int64(members.key[slot]), basis_at(members, slot),
        born_at(members, slot), shed.queues[stream].now, cost_at(members, slot),
        met_at(members, slot), last_met_at(members, slot),
    )  # fmt: skip
