"""What a CPU budget remembers.

Law: everything that decides which comparisons are made stands in `Throttle`, in flat arrays; a join
without a CPU budget has None instead, and its driver is compiled without a line of this room. What
stands under *scratch* belongs to the probe at hand and is no part of a snapshot.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tidegate.compiled.frames import frame

# In which order a probe takes the basic windows, and how fuel is split over the join directions.
YOUNGEST, LEARNED = range(2)
EVEN, BETTER_FIRST, ADAPTIVE = range(3)

ORDERS = {"youngest": YOUNGEST, "learned": LEARNED}
DIRECTIONS = {"even": EVEN, "better-first": BETTER_FIRST, "adaptive": ADAPTIVE}

# Options, written from the spec.
OPTIONS = ("rate", "most", "every", "basic", "boost", "sample", "order", "direction")

TANK = np.dtype(
    [
        ("rate", np.float64),  # comparisons per unit of time
        ("most", np.float64),  # how much fuel can be saved up
        ("every", np.int64),  # adaptation period
        ("basic", np.int64),  # length of a basic window
        ("boost", np.float64),
        ("sample", np.float64),
        ("order", np.int64),
        ("direction", np.int64),
        ("begun", np.int64),  # 0 until the first probe
        ("now", np.int64),  # until when fuel was granted
        ("period", np.int64),  # number of the present adaptation period
        ("fuel", np.float64),  # comparisons that may be made now; below 0: overdrawn
        ("fraction", np.float64),  # r: the share of all comparisons that is asked for
        ("wanted", np.float64),  # comparisons that the plan asked for in this period, made or not
        ("probed", np.float64),  # probes of this period
        ("probed_before", np.float64),  # of the period before; 0: not known yet
        ("denied", np.float64),  # results expected where the fuel did not allow what was asked for
        ("allowed", np.float64),  # scratch: what the probe at hand may spend
        ("weight", np.float64),  # scratch: for how many others the sampled probe at hand stands
        ("full", np.int64),  # the same: does it ask for whole windows?
        ("planned", np.float64),  # the same: the share of what it asks for that the plan asks for
        ("inside", np.float64),  # the same, n streams: the share of results that the plan has
        ("fits", np.int64),  # scratch of a push: no two basic windows share a place of the ring
    ]
)

# Of a stream, as the one whose window is looked at; but `skipped` as the one that probes.
SIDE = np.dtype(
    [
        ("windows", np.int64),  # n_i: number of its basic windows
        ("window", np.int64),  # w_i
        ("linked", np.int64),  # are its tuples chained by basic window? A nested loop's are
        ("next", np.int64),  # scratch of an adaptation: the place of the next basic window
        ("probes", np.float64),  # of its window, old ones for less
        ("skipped", np.float64),  # comparisons that its tuples did not make
        # Of probes of its window; with n streams, of probes by its tuples:
        ("others", np.float64),  # those that looked at no more than the plan
        ("stood", np.float64),  # for how many of these sampled probes stood
        ("missed", np.float64),  # their results outside of the plan, weighted alike
    ]
)

# What was seen when a basic window was looked at whole (`throttle.evidence`); and the plan.
CELL = np.dtype(
    [
        ("tries", np.float64),
        ("comparisons", np.float64),
        ("hits", np.float64),  # results
        ("worth", np.float64),  # their importance
        ("old_comparisons", np.float64),  # what has faded from those above, and fades slowly
        ("old_worth", np.float64),
        ("share", np.float64),  # of the basic window that a probe looks at
        ("turn", np.int64),  # [place]: the basic window that is taken at this place
    ]
)

# Scratch: of each basic window of the probe at hand.
LOOK = np.dtype(
    [
        ("first", np.int64),  # offsets inside the basic window from here on are asked for
        ("planned", np.int64),  # the same by the plan, also if the probe looks at everything
        ("asked", np.int64),  # comparisons
        ("passed", np.float64),  # comparisons that are not asked for; expected where not walked to
        ("taken", np.int64),  # NOT_TAKEN, IN_PART or WHOLE
        ("node", np.int64),  # of a chain: the first tuple that is asked for, -1: none
    ]
)
NOT_TAKEN, IN_PART, WHOLE = range(3)

# To the evidence of a basic window so many results are added, and the comparisons that give them on
# average: what could be noise is shrunk towards what is expected.
DOUBT = 4.0


@frame
class Throttle(NamedTuple):
    tank: Any  # [0]
    sides: Any  # [stream]
    cells: Any  # [stream, basic window]
    held: Any  # [stream, place in a ring]: retained tuples of a basic window that can match
    chains: Any  # [place in the ring, stream, end]: the same tuples, where they are chained
    looks: Any  # [basic window], scratch
    density: Any  # [stream, basic window], scratch of an adaptation: results per comparison
    amount: Any  # [stream, basic window], the same: comparisons of a period
