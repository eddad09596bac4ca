"""Which basic windows pay: time correlation and join direction (gedik2005, 5.1 and 5.2).

Law: a plan asks for the share r of all comparisons, and fills it with basic windows in the order of
results per comparison; the last one is taken in part. The plan is a share for each basic window of
each stream, made once per adaptation period from what was seen when basic windows were looked at
whole.

Algorithm 2 (time correlation adaptation, every T_c seconds) and Algorithm 3 (processing of a tuple
t against window W_i), rebuilt from the text:

    adapt:    for each window W_i:
                  sort its basic windows by o_ij, the largest first: s_i1, s_i2, ...
                  forget the counts behind o_ij
    process:  with probability r * sample:           full processing
                  for each basic window j of W_i:
                      count the comparisons with B_ij and the results
                  (o_ij = results / comparisons since the last adaptation)
              otherwise:                             selective processing
                  left = r * |W_i|
                  for j = s_i1, s_i2, ...:
                      if |B_ij| <= left:  compare t with all of B_ij
                      else:               compare t with the part left / |B_ij| of it; stop
                      left = left - |B_ij|

Here the counts fade instead of being forgotten (`throttle.evidence`), every basic window that is
looked at whole counts (not only those of full processing), and the shares are fixed once per period
instead of anew for each tuple.

Algorithm 4 (join direction adaptation, after rate adaptation; o_i is the mean of o_ij):

    if o_1 >= o_2:  r_1 = min(1, r * (w_1 + w_2) / w_1);  r_2 = (r * (w_1 + w_2) - r_1 * w_1) / w_2
    else:           the same with 1 and 2 exchanged

because a window W_i costs r_i * lambda_1 * lambda_2 * w_i comparisons per unit of time, and both
together must cost what a single r costs. `BETTER_FIRST` is this rule, with measured comparisons in
place of w_i. It takes it that every part of one window pays more than all of the other. `ADAPTIVE`
does not: it is one greedy knapsack over all (direction, basic window). Where the assumption holds
the two are the same plan (`tests/test_throttle_shares.py`).
"""

from __future__ import annotations

from tidegate.compiled.kernel import part
from tidegate.throttle.evidence import appraise, fade
from tidegate.throttle.throttle_records import ADAPTIVE, BETTER_FIRST, LEARNED


@part
def plan(throttle):
    """Set the shares of all basic windows for the next period; old evidence fades."""
    total = appraise(throttle)
    tank, sides = throttle.tank, throttle.sides
    learned = tank[0].order == LEARNED and total > 0.0
    for side in range(len(sides)):
        sort_windows(throttle, side, learned)
    fraction = tank[0].fraction
    if fraction == 1.0:
        take_all(throttle)
    elif tank[0].direction == ADAPTIVE and learned:
        fill_all(throttle, fraction)
    else:
        fill_each(throttle, fraction, tank[0].direction >= BETTER_FIRST and total > 0.0)
    fade(throttle)


@part
def take_all(throttle):
    for side in range(len(throttle.sides)):
        for window in range(throttle.sides[side].windows):
            throttle.cells[side, window].share = 1.0


@part
def sort_windows(throttle, side, learned):
    """The order in which basic windows are taken: by density, equal ones the youngest first."""
    cells, density = throttle.cells, throttle.density
    for place in range(throttle.sides[side].windows):
        window = place
        before = place
        if learned:
            while (
                before > 0 and density[side, cells[side, before - 1].turn] < density[side, window]
            ):
                cells[side, before].turn = cells[side, before - 1].turn
                before -= 1
        cells[side, before].turn = window


@part
def fill(throttle, side, window, left):
    """Take a basic window as far as `left` comparisons reach; returns what is left then."""
    amount = throttle.amount[side, window]
    share = 1.0 if amount <= left else left / amount
    throttle.cells[side, window].share = share
    return max(0.0, left - amount)


@part
def fill_each(throttle, fraction, better_first):
    """Each window by itself: the share r of its comparisons, or r_1 and r_2 of Algorithm 4."""
    sides = throttle.sides
    left = fraction * whole_amount(throttle)
    for side in range(len(sides)):
        sides[side].next = 0
    for turn in range(len(sides)):
        side = best_side(throttle) if better_first else turn
        own = side_amount(throttle, side)
        budget = min(own, left) if better_first else fraction * own
        left -= budget
        for place in range(sides[side].windows):
            budget = fill(throttle, side, throttle.cells[side, place].turn, budget)
        sides[side].next = sides[side].windows


@part
def best_side(throttle):
    """The window that yields the most of those that were not filled; of equal ones the first."""
    chosen, most = -1, 0.0
    for side in range(len(throttle.sides)):
        if throttle.sides[side].next == 0:
            density = side_density(throttle, side)
            if chosen < 0 or density > most:
                chosen, most = side, density
    return chosen


@part
def whole_amount(throttle):
    """Comparisons of all windows."""
    total = 0.0
    for side in range(len(throttle.sides)):
        total += side_amount(throttle, side)
    return total


@part
def side_amount(throttle, side):
    """Comparisons of all basic windows of a window."""
    total = 0.0
    for window in range(throttle.sides[side].windows):
        total += throttle.amount[side, window]
    return total


@part
def side_density(throttle, side):
    """o_i: results per comparison with the whole window."""
    worth = compared = 0.0
    for window in range(throttle.sides[side].windows):
        compared += throttle.amount[side, window]
        worth += throttle.amount[side, window] * throttle.density[side, window]
    return worth / compared if compared > 0.0 else 0.0


@part
def fill_all(throttle, fraction):
    """The greedy knapsack: whichever basic window of any side pays most is the next."""
    cells, density, sides = throttle.cells, throttle.density, throttle.sides
    left = fraction * whole_amount(throttle)
    for side in range(len(sides)):
        sides[side].next = 0
    while True:
        chosen, most = -1, 0.0
        for side in range(len(sides)):
            if sides[side].next < sides[side].windows:
                yields = density[side, cells[side, sides[side].next].turn]
                if chosen < 0 or yields > most:
                    chosen, most = side, yields
        if chosen < 0:
            break
        left = fill(throttle, chosen, cells[chosen, sides[chosen].next].turn, left)
        sides[chosen].next += 1
