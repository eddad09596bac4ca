"""The policies by name: what each is made of.

Law: what `policies()` lists works; a name that is known but has no implementation yet is refused
with the list of those that have one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from tidegate.estimators.frequency import FADED, GIVEN, STATISTICS
from tidegate.estimators.patterns import FADE
from tidegate.shed import shed_records
from tidegate.shed.shed_records import BY_AGE, BY_KEY, BY_TUPLE
from tidegate.spec import SpecError
from tidegate.spec.options import Policy
from tidegate.spec.policy import PARAMETERS, check

# `auto` is the best that is there.
_AUTO = "value"


NOT_TOLD = -1.0


class Recipe(NamedTuple):
    """How the driver treats a policy; the numbers of `shed_records.RULE`."""

    kind: int
    standing: int
    keyed: bool = False  # counts keys
    aged: bool = False  # has an age curve


_RECIPES = {
    "random": Recipe(shed_records.RANDOM, BY_TUPLE),
    "recent": Recipe(shed_records.RECENT, BY_AGE),
    "until-expiry": Recipe(shed_records.UNTIL_EXPIRY, BY_AGE),
    "prob": Recipe(shed_records.PROB, BY_KEY, keyed=True),
    "output": Recipe(shed_records.OUTPUT, BY_KEY, keyed=True),
    "simp": Recipe(shed_records.SIMP, BY_TUPLE),
    "simpprob": Recipe(shed_records.SIMPPROB, BY_TUPLE, keyed=True),
    "dimpprob": Recipe(shed_records.DIMPPROB, BY_KEY, keyed=True),
    "dgl": Recipe(shed_records.CUMULATIVE, BY_TUPLE, keyed=True),
    "age": Recipe(shed_records.AGE, BY_AGE, aged=True),
    "arrival-order": Recipe(shed_records.ARRIVAL_ORDER, BY_KEY),
    "value": Recipe(shed_records.VALUE, BY_TUPLE, keyed=True, aged=True),
    "additive": Recipe(shed_records.ADDITIVE, BY_KEY, keyed=True),
    "multiplicative": Recipe(shed_records.MULTIPLICATIVE, BY_KEY, keyed=True),
    "eq-cluster": Recipe(shed_records.EQ_CLUSTER, BY_TUPLE),
    "pps-cluster": Recipe(shed_records.PPS_CLUSTER, BY_TUPLE, keyed=True),
    "uniform": Recipe(shed_records.UNIFORM, BY_TUPLE, keyed=True),
    "cumulative": Recipe(shed_records.CUMULATIVE, BY_TUPLE, keyed=True),
}


# VALUE for more than two streams.
_VALUE_OF_KEYS = Recipe(shed_records.VALUE_OF_KEYS, BY_KEY, keyed=True)


def policies() -> tuple[str, ...]:
    """The names that `JoinSpec(policy=...)` takes."""
    return tuple(name for name in PARAMETERS if name != "priority")


def name_of(policy: Policy) -> str:
    """The name of the policy that is meant."""
    return _AUTO if policy.name == "auto" else policy.name


def recipe_of(policy: Policy, streams: int = 2) -> Recipe:
    """What a policy is made of, its parameters checked."""
    name = name_of(policy)
    if name == "priority":
        name = str(policy.get("form"))
    elif name not in policies():
        raise SpecError(
            f"policy {policy.name!r} is not available in this version; "
            f"available: {', '.join(policies())}"
        )
    check(policy)
    return _VALUE_OF_KEYS if name == _AUTO and streams > 2 else _RECIPES[name]


def check_for_many(policy: Policy) -> None:
    """Refuse what this version does with two streams only."""
    told = [name for name in PARAMETERS["value"] if policy.get(name) is not None]
    if policy.name == "value" and told:
        raise SpecError(
            f"policy 'value' with more than two streams learns all it needs, and {told[0]} is "
            "for two streams; leave it out"
        )


def statistics_of(policy: Policy) -> int:
    """Over what a policy counts keys."""
    if policy.get("frequencies") is not None:
        return GIVEN
    if policy.name in ("value", "auto", "output"):
        return FADED
    return STATISTICS[policy.get("statistics", "window")]


def fade_of(policy: Policy) -> float:
    """After how many tuples of a pattern its evidence is halved (`arrival-order`)."""
    fade = policy.get("fade", FADE)
    return float(fade) if fade else math.inf


def weights_of(policy: Policy) -> tuple[float, float, float]:
    """alpha, beta and delta of ojewole2006, section 3.2; DGL is the cumulative form. Of `uniform`
    alpha is the margin, and the others are the matches that each stream can expect."""
    if policy.name == "dgl":
        return 1.0, float(policy.get("gain", 0.1)), float(policy.get("decay", 0.99))
    if policy.name == "uniform":
        return float(policy.get("margin", 2.0)), NOT_TOLD, NOT_TOLD
    delta = 0.99 if policy.get("form") == "cumulative" else 0.0
    return (
        float(policy.get("alpha", 1.0)),
        float(policy.get("beta", 1.0)),
        float(policy.get("delta", delta)),
    )
