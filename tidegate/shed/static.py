"""Policies that give a tuple its priority once, at arrival.

Law: a static priority is a function of the tuple alone (its stream, its number, its importance)
and the seed, so it is the same under any cut of the input and needs no state of its own.

`random`        chance: a uniform number, so what is retained is a uniform sample of the window
`recent`        the newest stay: the priority grows with the number of the tuple
`until-expiry`  first come, first served: the priority falls with the number, the new one is refused
`simp`          importance (ojewole2006, section 4.3.1)
"""

from __future__ import annotations

import numpy as np

from tidegate.kernel import kernel

RANDOM, RECENT, UNTIL_EXPIRY, SIMP = range(4)
STATIC_POLICIES = {
    "random": RANDOM,
    "recent": RECENT,
    "until-expiry": UNTIL_EXPIRY,
    "simp": SIMP,
}

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_ONE_OVER_2_53 = 1.0 / 9007199254740992.0


@kernel
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


@kernel
def priority(policy, seed, stream, number, order, importance):
    """The priority of a new tuple. `order` counts the tuples of all streams."""
    if policy == RANDOM:
        return chance(seed, stream, number)
    if policy == RECENT:
        return np.float64(order)
    if policy == UNTIL_EXPIRY:
        return -np.float64(order)
    return importance
