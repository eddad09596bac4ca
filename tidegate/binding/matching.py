"""Does an arrival match a retained tuple? The exact answer, whatever an index proposed.

Law: an index proposes candidates, a superset of the matches; the functions here decide. A band is
`low <= b.x - a.x <= high` with a of the first stream and b of the second, in the arithmetic of the
column: integers never overflow, floats are compared as written.
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled import calls
from tidegate.compiled.kernel import part, step
from tidegate.index.inverted import common

SMALLEST = np.iinfo(np.int64).min
LARGEST = np.iinfo(np.int64).max


@part
def plus(number, step):
    """`number + step`, held at the ends of the 64-bit range."""
    if step > 0 and number > LARGEST - step:
        return LARGEST
    if step < 0 and number < SMALLEST - step:
        return SMALLEST
    return number + step


@part
def minus(number, step):
    """`number - step`, held at the ends of the 64-bit range."""
    if step < 0 and number > LARGEST + step:
        return LARGEST
    if step > 0 and number < SMALLEST + step:
        return SMALLEST
    return number - step


@part
def band_range(number, band, from_first):
    """The integers that lie in the band around `number`, as an inclusive range.

    Seen from the first stream that is [number + low, number + high], from the second
    [number - high, number - low]. A range outside of the 64-bit numbers is empty: (2, 1).
    """
    low, high = band.low, band.high
    bottom, top = SMALLEST, LARGEST
    if from_first:
        if not band.low_open:
            if low > 0 and number > LARGEST - low:
                return 2, 1
            bottom = plus(number, low)
        if not band.high_open:
            if high < 0 and number < SMALLEST - high:
                return 2, 1
            top = plus(number, high)
    else:
        if not band.high_open:
            if high < 0 and number > LARGEST + high:
                return 2, 1
            bottom = minus(number, high)
        if not band.low_open:
            if low > 0 and number < SMALLEST + low:
                return 2, 1
            top = minus(number, low)
    return bottom, top


@part
def in_bands(bands, values, reals, slot, new_values, new_reals, arrival, from_first):
    for term in range(len(bands)):
        band = bands[term]
        column = band.column
        if band.is_float:
            difference = reals[slot, column] - new_reals[arrival, column]
            if not from_first:
                difference = -difference
            if not (band.low_real <= difference and difference <= band.high_real):
                return False
        else:
            number = new_values[arrival, column]
            low, high = band_range(number, band, from_first)
            if not (low <= values[slot, column] and values[slot, column] <= high):
                return False
    return True


@part
def share_enough(terms, first_term, arena, spans, slot, items, weights, new_spans, arrival):
    """Do the sets reach their thresholds, from `first_term` on?"""
    for term in range(first_term, len(terms)):
        total = common(
            arena,
            spans[slot, term, 0],
            spans[slot, term, 1],
            items,
            weights,
            new_spans[arrival, term, 0],
            new_spans[arrival, term, 1],
            terms[term].weighted,
        )
        if not total >= terms[term].at_least:
            return False
    return True


@part
def thetas_hold(thetas, values, slot, new_values, arrival, from_first):
    for term in range(len(thetas)):
        address = thetas[term].address
        column = thetas[term].column
        if from_first:
            if not calls.holds(address, new_values, arrival, values, slot, column):
                return False
        elif not calls.holds(address, values, slot, new_values, arrival, column):
            return False
    return True


@step
def meet_in_time(slots, lanes, slot, other, stream, time):
    """Are a retained tuple of `other` and an arrival of `stream` in each other's window?"""
    before = slots[slot].time
    lane = lanes[other] if before <= time else lanes[stream]
    return abs(time - before) <= lane.window or not lane.is_time_window


@part
def ordered_bits(real):
    """A 64-bit integer that orders like the float does."""
    bits = np.float64(real).view(np.int64)
    return bits ^ ((bits >> 63) & LARGEST)


@part
def real_range(real, low, high, from_first):
    """Keys of floats that can lie in the band around `real`; wider than the band by rounding."""
    bottom, top = (low, high) if from_first else (-high, -low)
    slack_below = 1e-15 * (abs(real) + abs(bottom)) + 1e-300
    slack_above = 1e-15 * (abs(real) + abs(top)) + 1e-300
    lowest = real + bottom - slack_below if np.isfinite(bottom) else bottom
    highest = real + top + slack_above if np.isfinite(top) else top
    if np.isnan(lowest) or np.isnan(highest):  # infinity minus infinity: look everywhere
        return SMALLEST, LARGEST
    return ordered_bits(lowest), ordered_bits(highest)
