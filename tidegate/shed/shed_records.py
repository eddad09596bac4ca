"""What shedding remembers.

Law: everything a policy knows stands in `Shed`, in flat arrays: a join without a budget has None
instead, and its driver is compiled without a line of this room. What is needed to go on after a
snapshot are the rule, the queues' scales, the members and the estimators; heaps, groups, stages and
the table of keys are made again from them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tidegate.compiled.frames import frame
from tidegate.estimators.age_curve import AgeCurve
from tidegate.estimators.frequency import Frequency
from tidegate.estimators.importance import Importances
from tidegate.estimators.match_rate import MatchRate
from tidegate.estimators.patterns import Patterns
from tidegate.estimators.prospects import Prospects
from tidegate.shed.ages import Stages
from tidegate.shed.members import Members
from tidegate.shed.queue import Heaps
from tidegate.shed.sample_records import Samples
from tidegate.shed.shadows import Shadows

# How members stand: one by one, by key, or by age. It decides what a change of worth moves.
BY_TUPLE, BY_KEY, BY_AGE = range(3)

# How the priority of a tuple is made; those from EQ_CLUSTER on sample (`shed.sampling`).
# VALUE_OF_KEYS is VALUE with more than two streams.
(
    RANDOM, RECENT, UNTIL_EXPIRY, PROB, OUTPUT, SIMP, SIMPPROB, DIMPPROB, ADDITIVE, MULTIPLICATIVE,
    CUMULATIVE, AGE, VALUE, VALUE_OF_KEYS, ARRIVAL_ORDER, EQ_CLUSTER, PPS_CLUSTER, UNIFORM,
) = range(18)  # fmt: skip

RULE = np.dtype(
    [
        ("kind", np.int64),
        ("standing", np.int64),  # BY_TUPLE, BY_KEY or BY_AGE
        ("keyed", np.int64),  # does it count keys?
        ("statistics", np.int64),
        ("watched", np.int64),  # does it learn an age curve?
        ("aged", np.int64),  # does it use one?
        ("alpha", np.float64),  # weights of importance, matches and time (ojewole2006, 3.2)
        ("beta", np.float64),
        ("delta", np.float64),
        ("slot_price", np.int64),  # bytes of a tuple besides its payload; 0: budget in tuples
        ("first", np.int64),  # moment of the first tuple
        ("begun", np.int64),
        ("faded", np.int64),  # moment of the last fading
        ("fade_after", np.int64),  # moments
        ("quiet", np.int64),  # tuples since then
        ("refresh", np.int64),  # tuples until all scores are recomputed
        ("planned", np.int64),  # split="auto": one pool, shared out by what streams earn
        ("until_plan", np.int64),  # tuples until the next plan of the shares
        ("instant", np.int64),  # the clock at the last tuple
        ("shadowed", np.int64),  # does VALUE learn from shadows?
        ("instants", np.int64),  # do tuples of one time meet without memory?
    ]
)

QUEUE = np.dtype(
    [
        ("start", np.int64),  # of `heaps`: the stretch for this stream
        ("stop", np.int64),
        ("count", np.int64),  # entries of its queue, dead ones included; see `tiers`
        ("near", np.int64),  # of which so many in the near tier
        ("middle", np.int64),  # and so many in the middle one
        ("near_priority", np.float64),  # bounds of the tiers
        ("near_basis", np.float64),
        ("near_order", np.int64),
        ("middle_priority", np.float64),
        ("middle_basis", np.float64),
        ("middle_order", np.int64),
        ("members", np.int64),  # tuples that can be victims
        ("scale", np.float64),  # priority = what is stored x scale (CUMULATIVE)
        ("seen", np.int64),  # tuples taken
        ("now", np.int64),  # the clock, or in a count window the number of the newest tuple
        ("pace", np.int64),  # tuples in the last full period of the length of its window
        ("period", np.int64),  # moment when the present period began
        ("period_seen", np.int64),
        (
            "arrived",
            np.float64,
        ),  # tuples, old ones for less: only its ratio to others means anything
        (
            "precedence",
            np.int64,
        ),  # split="auto": the stream with less of it goes first, whatever its tuples are worth
        ("factor", np.float64),  # split="auto": from priorities to results per unit of time
    ]
)


@frame
class Shed(NamedTuple):
    rule: Any  # [0]
    queues: Any  # [stream]
    heaps: Heaps  # queue by queue
    members: Members
    groups: Any  # [key, stream]
    stages: Stages
    frequency: Frequency
    worths: Any  # [key, stream]: what the worth of a group is made of; as a rule the counts
    curve: AgeCurve
    importances: Importances
    rates: MatchRate
    shadows: Shadows
    # None unless the policy has them, and then their branches are pruned: the driver of most
    # policies is compiled without a line about patterns, prospects or samples.
    patterns: Patterns | None
    prospects: Prospects | None
    samples: Samples | None
