"""How often a key will come, given how often it came: a count becomes a rate.

Law: what a count is worth is not assumed but measured. Keys stand on *levels* by their count. Each
arrival on a stream is a trial for all keys of which the opposite stream retains tuples; it is a hit
for the level of its own key. Hits divided by trials is the rate at which a key of that level comes
next, among those on which a decision is due.

Where counts predict (a skewed stream) the rate grows with the level; where all keys are alike it
comes out flat, and counts no longer mislead; where a key comes once and never again (an order and
its delivery) the rate of level 1 comes out as nothing, and tuples that have met their partner are
the first to go. Until enough is seen, a count is taken at its word: the rate of PROB.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.estimate.frequency import FADING
from tidegate.kernel import kernel

LEVELS = 64
_SINGLE = 16  # counts below this have a level of their own; above, four levels to a doubling

TRIAL = np.dtype(
    [
        ("hits", np.float64),
        ("trials", np.float64),
        ("keys", np.float64),  # on this level now
        ("since", np.float64),  # arrivals of the stream when `trials` was brought up to date
        ("rate", np.float64),  # as of the last `summarise`
    ]
)


class MatchRate(NamedTuple):
    trials: Any  # [stream, level]
    arrivals: NDArray[np.float64]  # [stream]
    weight: NDArray[np.float64]  # [stream]: arrivals, faded


def empty(streams: int) -> MatchRate:
    return MatchRate(
        trials=np.zeros((streams, LEVELS), TRIAL).view(np.recarray),
        arrivals=np.zeros(streams, np.float64),
        weight=np.zeros(streams, np.float64),
    )


@kernel
def level_of(count):
    if count < _SINGLE - 0.5:
        return int(count + 0.5)
    return min(LEVELS - 1, _SINGLE + int(4.0 * math.log2(max(1.0, count / _SINGLE))))


@kernel
def typical(level):
    """A count that stands on this level."""
    return np.float64(level) if level < _SINGLE else _SINGLE * 2.0 ** ((level - _SINGLE + 0.5) / 4)


@kernel
def _change(rates, stream, level, keys):
    trial = rates.trials[stream, level]
    trial.trials += trial.keys * (rates.arrivals[stream] - trial.since)
    trial.since = rates.arrivals[stream]
    trial.keys += keys


@kernel
def retain(rates, counts, held, stream, key):
    """A tuple of `stream` with this key is retained from now on."""
    if held[key, stream] == 0:
        _change(rates, 1 - stream, level_of(counts[key, 1 - stream]), 1.0)
    held[key, stream] += 1


@kernel
def release(rates, counts, held, stream, key):
    """It is retained no longer."""
    held[key, stream] -= 1
    if held[key, stream] == 0:
        _change(rates, 1 - stream, level_of(counts[key, 1 - stream]), -1.0)


@kernel
def observe(rates, counts, held, stream, key):
    """A tuple of `stream` with this key has come; it is not counted yet, and is then."""
    count = counts[key, stream]
    level = level_of(count)
    if held[key, 1 - stream] > 0:
        rates.trials[stream, level].hits += 1.0
        above = level_of(count + 1.0)
        if above != level:
            _change(rates, stream, level, -1.0)
            _change(rates, stream, above, 1.0)
    counts[key, stream] = count + 1.0
    rates.arrivals[stream] += 1.0
    rates.weight[stream] += 1.0


@kernel
def fade(rates, counts, held, fresh):
    """After all counts have faded: so does the evidence, and keys stand on other levels now."""
    for stream in range(len(rates.arrivals)):
        rates.weight[stream] *= FADING
        for level in range(LEVELS):
            _change(rates, stream, level, 0.0)
            trial = rates.trials[stream, level]
            trial.hits *= FADING
            trial.trials *= FADING
            trial.keys = 0.0
    for key in range(1, fresh):
        for stream in range(len(rates.arrivals)):
            if held[key, 1 - stream] > 0:
                rates.trials[stream, level_of(counts[key, stream])].keys += 1.0


@kernel
def summarise(rates):
    """Make the rates that scores read."""
    for stream in range(len(rates.arrivals)):
        weight = max(1.0, rates.weight[stream])
        for level in range(LEVELS):
            _change(rates, stream, level, 0.0)
            trial = rates.trials[stream, level]
            plain = max(0.25, typical(level)) / weight
            # The larger the count, the more it says by itself.
            belief = 1.0 + typical(level) / 4.0
            trial.rate = (trial.hits + belief) / (trial.trials + belief / plain)
