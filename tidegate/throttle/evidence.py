"""What a comparison with each basic window gives: results per comparison, o_ij of gedik2005.

Evidence are looks at whole basic windows. It is kept twice: the recent one fades to a quarter per
adaptation, and what fades from it goes over into an older one that fades slowly. So a plan rests on
many periods where streams stay as they are, and follows within two where they change:

    mean      what full probes find: basic windows weigh what they cost, however often they were
              looked at (those that a plan takes were looked at most, and pay most)
    usual     all evidence, shrunk towards the neighbours; these are shrunk towards the mean
    density   the recent evidence, shrunk towards the usual

Shrinking adds the comparisons that give `DOUBT` results on average, `TRUST` times as many for the
usual. Old evidence of a basic window that the recent one contradicts by more than noise is dropped.
`worth` is importance, so that with importances o_ij is expected importance.
"""

from __future__ import annotations

from tidegate.compiled.kernel import part, step
from tidegate.throttle.throttle_records import DOUBT

FADING = 0.25  # of recent evidence, per adaptation: after two of them a sixteenth is left
OLD_FADING = 0.95
TRUST = 4.0
NOISE = 3.0  # standard deviations


@part
def appraise(throttle):
    """What each basic window yields and costs; returns the recent comparisons behind it."""
    cells, sides = throttle.cells, throttle.sides
    doubt, mean, unit = doubt_and_mean(throttle)
    compared = 0.0
    for side in range(len(sides)):
        usual = usual_cost(cells, side, sides[side].windows)
        for window in range(sides[side].windows):
            cell = cells[side, window]
            compared += cell.comparisons
            if is_contradicted(cell, unit):
                cell.old_comparisons = cell.old_worth = 0.0
            worth = cell.worth + cell.old_worth + doubt * mean
            comparisons = cell.comparisons + cell.old_comparisons + doubt
            throttle.density[side, window] = worth / comparisons
            cost = cell.comparisons / cell.tries if cell.comparisons > 0.0 else usual
            throttle.amount[side, window] = cost * sides[side].probes
        smooth(throttle, side, doubt)
    return compared


@part
def doubt_and_mean(throttle):
    """In full probes: the comparisons that give `DOUBT` results, and the worth of a comparison and
    of a result."""
    cells, sides = throttle.cells, throttle.sides
    compared = hits = worth = 0.0
    for side in range(len(sides)):
        for window in range(sides[side].windows):
            cell = cells[side, window]
            if cell.tries > 0.0:
                times = sides[side].probes / cell.tries
                compared += times * cell.comparisons
                hits += times * cell.hits
                worth += times * cell.worth
    doubt, mean, unit = 1.0, 0.0, 1.0
    if hits > 0.0 and compared > 0.0:
        doubt, mean, unit = DOUBT * (compared / hits), worth / compared, worth / hits
    return doubt, mean, unit


@step
def is_contradicted(cell, unit):
    """Is the recent evidence too far from the old, for results that come by chance?"""
    contradicted = False
    if cell.old_comparisons > 0.0:
        times = cell.comparisons / cell.old_comparisons
        expected = times * cell.old_worth
        variance = unit * (expected * (1.0 + times) + unit)
        contradicted = (cell.worth - expected) ** 2 > NOISE**2 * variance
    return contradicted


@part
def smooth(throttle, side, doubt):
    """Shrink towards the neighbours: what pays now pays a moment earlier and later, too."""
    density = throttle.density
    last = throttle.sides[side].windows - 1
    before = density[side, 0]
    for window in range(last + 1):
        cell = throttle.cells[side, window]
        own = density[side, window]
        near = (before + density[side, min(window + 1, last)]) / 2.0
        worth = cell.worth + cell.old_worth + doubt * near
        usual = worth / (cell.comparisons + cell.old_comparisons + doubt)
        trust = TRUST * doubt
        density[side, window] = (cell.worth + trust * usual) / (cell.comparisons + trust)
        before = own


@part
def usual_cost(cells, side, windows):
    """Comparisons of a look at a basic window that was empty or not looked at: it may fill."""
    total = 0.0
    known = 0
    for window in range(windows):
        if cells[side, window].comparisons > 0.0:
            total += cells[side, window].comparisons / cells[side, window].tries
            known += 1
    return total / known if known > 0 else 1.0


@part
def fade(throttle):
    """Recent evidence becomes old, and old evidence counts for less."""
    for side in range(len(throttle.sides)):
        throttle.sides[side].probes *= FADING
        for window in range(throttle.sides[side].windows):
            cell = throttle.cells[side, window]
            comparisons = OLD_FADING * cell.old_comparisons + (1.0 - FADING) * cell.comparisons
            cell.old_comparisons = comparisons
            cell.old_worth = OLD_FADING * cell.old_worth + (1.0 - FADING) * cell.worth
            cell.tries *= FADING
            cell.comparisons *= FADING
            cell.hits *= FADING
            cell.worth *= FADING
