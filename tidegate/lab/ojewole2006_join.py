"""The join of ojewole2006, section 5.2, and what its experiments share.

Law: the streams, windows and budgets are the paper's. What it leaves open (the importance of the
tuples, DGL's constants) is stated here once, and `ojewole2006_open` shows how much it matters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.lab.claims import Claim
from tidegate.lab.comparisons import lead
from tidegate.lab.configuration import EXACT, OPTIMUM, Configuration
from tidegate.lab.contenders import Contender, contenders
from tidegate.lab.figures import Run, Scale
from tidegate.lab.measure import has_optimum

PAPER = "ojewole2006"
POLICIES = ("random", "simp", "prob", "simpprob", "dimpprob", "dgl", "value")
# From best to worst, as sections 5.2.1 and 5.2.2 give it.
ORDER = ("dgl", "dimpprob", "simpprob", "prob", "simp", "random")

LENGTH = 5_600
# The paper: few tuples have a high importance. Found by the search of `ojewole2006_open`.
IMPORTANCE: Mapping[str, float] = {"share": 0.05, "high": 100.0, "spread": 0.5}

# DGL's constants, from the same search: at M = 100 these are the best of those tried.
CONSTANTS: Mapping[str, Mapping[str, float]] = {"dgl": {"decay": 0.99, "gain": 1.0}}

# Section 5.2.2, the lead of DGL at M = 100. Read as (DGL - X) / DGL; see the notes of figure 9.
LEADS = {"dimpprob": 0.032, "simpprob": 0.206, "prob": 0.476, "simp": 0.529, "random": 0.778}
Setting = Mapping[str, Any]


def join_run(
    contender: Contender | str,
    setting: Setting,
    seed: int,
    labels: Mapping[str, Any],
    importance: Mapping[str, float] = IMPORTANCE,
) -> Run:
    """One run of the paper's join; a lifetime of w instants is a window of w - 1."""
    arguments = {
        "length": setting.get("length", LENGTH),
        "domain": setting["domain"],
        "skews": list(setting.get("skews", (1.0, 0.0))),
        "correlation": setting.get("correlation", "none"),
        **importance,
    }
    spec = {
        "streams": ["r", "s"],
        "on": "key",
        "time": "ts",
        "within": setting["w"] - 1,
        "importance": "importance",
        "ties": "instant",
        "split": "even",
    }
    chosen = Contender(contender, contender) if isinstance(contender, str) else contender
    configuration = Configuration(
        "keyed_streams",
        arguments,
        spec,
        policy=chosen.policy,
        parameters=chosen.parameters,
        memory=None if chosen.policy == EXACT else setting["memory"],
        count_from=setting["count_from"],
        seed=seed,
    )
    return Run(configuration, {**labels, "policy": chosen.label, "seed": seed})


def sweep(x: str, settings: Mapping[Any, Setting], scale: Scale) -> list[Run]:
    """All policies, the exact join and the optimum at every x, for every seed."""
    takers: list[Contender | str] = [EXACT, *contenders(POLICIES, CONSTANTS)]
    if has_optimum():
        takers.append(OPTIMUM)
    return [
        join_run(each, setting, seed, {x: at})
        for at, setting in settings.items()
        for seed in scale.seeds
        for each in takers
    ]


def thinned(values: Sequence[Any], scale: Scale) -> Sequence[Any]:
    """Under --quick the ends and the middle of a range."""
    return sorted({values[0], values[len(values) // 2], values[-1]}) if scale.quick else values


def lead_tolerance(expected: float) -> float:
    """A tenth, but never so much that a lead of the wrong sign would pass.

    >>> lead_tolerance(0.476), lead_tolerance(0.02)
    (0.1, 0.018)
    """
    return min(0.1, round(0.9 * expected, 4))


def lead_claim(claim: Claim, row: Mapping[str, float], better: str, worse: str) -> Claim:
    """The claim with the measured lead of one policy over another."""
    measured = lead(row, better, worse)
    if measured is None:
        return claim.with_measured(None, f"this version has no {better} or no {worse} yet")
    other = lead(row, f"{better} (retained)", f"{worse} (retained)")
    reason = (
        "no importances that we tried give all leads of the paper at once; the nearest are used "
        "(see Importances)"
    )
    if other is not None:
        reason += f"; with counts over retained tuples only the lead is {other:.3f}"
    return claim.with_measured(measured, reason)


def settings_of(**changed: str) -> dict[str, str]:
    """The configuration of a figure for people: the usual one, with changes."""
    importance = (
        f"{IMPORTANCE['share']:.0%} of the tuples {IMPORTANCE['high']:g}, others 1, each "
        f"+-{IMPORTANCE['spread']:.0%}"
    )
    basic = {
        "streams": "N = 5,600, Zipf 1.0 and 0.0, domain 100",
        "w": "400",
        "M": "200, split evenly",
        "importance": f"{importance} (open in the paper); of a result: the minimum",
        "counted": "from t = 2w on",
        "seeds": "10 (3 with --quick)",
    }
    return {**basic, **changed}
