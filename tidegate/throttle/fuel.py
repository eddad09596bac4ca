"""Fuel, and how much of it is asked for: rate adaptation (gedik2005, section 4.1, Algorithm 1).

Law: fuel is granted by the clock of the stream, `rate` comparisons per unit of time, and at most
one adaptation period of it is saved up. A basic window is looked at only while there is fuel, so
comparisons never exceed what was granted by more than one basic window. Nothing depends on how fast
the machine is.

Algorithm 1, rebuilt from the text of the paper (r: fraction, gamma: boost):

    r = 1
    every T_r seconds:
        alpha_i = tuples fetched from stream i since the last step
        lambda_i = average rate of stream i
        beta = (alpha_1 + alpha_2) / ((lambda_1 + lambda_2) * T_r)
        if beta < 1:  r = beta * r
        else:         r = min(1, gamma * r)

The paper measures beta on tuples, because its fuel is the time of a processor that it cannot see:
beta is never above 1. Here the fuel is known: beta is the fuel of a period over the comparisons
that were asked for in it (with the paper's assumption that comparing is the dominating cost, the
same number below 1). Above 1 it says how far r can grow, where the next period is like the last:

        if beta < 1:  r = beta * r
        else:         r = min(1, r * min(beta, max(gamma, beta / gamma)))

gamma is what is added against noise: r grows by it in any case, and at once as far as the fuel
would reach if the next period asked for gamma times as much. So it is there after two periods,
however far it was behind; and it never grows beyond what the fuel of the last period allowed.

While r is still growing, fuel would be saved up to no use. So a probe that finds more than half of
what can be saved up looks at the whole window; to beta it counts as what the plan would have asked.

Rates rise inside a period, too. So that the fuel does not run dry, a probe may spend at most
`BRAKE` times what there is per probe of a period; its first basic window, which pays most, is
always taken. With half of the tank that is four times what the average probe can have.
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled.kernel import part, step

# r never falls below: from nothing it would never rise again.
LEAST_FRACTION = 2.0**-10
SPARE = 0.5  # of what can be saved up: fuel above it is spent on whole windows
MOST_IDLE = 1000  # periods without a probe that count
BRAKE = 8.0
ENOUGH = 16.0  # probes of a period that look at everything only to learn


@part
def grant(tank, clock):
    """Add the fuel of the time that has passed; True if a new adaptation period has begun."""
    period = clock // tank[0].every
    if not tank[0].begun:
        tank[0].begun = 1
        tank[0].now = clock
        tank[0].period = period
    elif clock > tank[0].now:
        earned = tank[0].rate * (clock - tank[0].now)
        tank[0].fuel = min(tank[0].most, tank[0].fuel + earned)
        tank[0].now = clock
    return period > tank[0].period


@step
def is_spare(tank):
    """Is there more fuel than the plan needs?"""
    return tank[0].fuel > SPARE * tank[0].most


@step
def chance_to_sample(tank):
    """How likely a probe looks at everything to learn: for `sample` of the fuel at most."""
    return min(tank[0].sample * tank[0].fraction, ENOUGH / max(1.0, tank[0].probed_before))


@step
def allow(tank, sampled):
    """Set what the probe at hand may spend; nothing binds those that are to learn.

    Nor is anything held back as long as the fuel was enough for all comparisons and the tank is
    more than half full.
    """
    tank[0].allowed = np.inf
    scarce = tank[0].fraction < 1.0 or not is_spare(tank)
    if scarce and tank[0].probed_before > 0.0 and not sampled:
        tank[0].allowed = BRAKE * tank[0].fuel / tank[0].probed_before


@part
def adapt_fraction(tank):
    """Algorithm 1, at the first probe of a new period; periods without a probe raise r as well."""
    period = tank[0].now // tank[0].every
    growth = tank[0].boost
    if tank[0].wanted > 0.0:
        beta = tank[0].rate * tank[0].every / tank[0].wanted
        growth = min(beta, max(growth, beta / growth))
    fraction = min(1.0, tank[0].fraction * growth)
    for _ in range(min(MOST_IDLE, period - tank[0].period - 1)):
        fraction = min(1.0, fraction * tank[0].boost)
    tank[0].fraction = max(LEAST_FRACTION, fraction)
    tank[0].wanted = 0.0
    tank[0].probed_before = tank[0].probed
    tank[0].probed = 0.0
    tank[0].period = period
