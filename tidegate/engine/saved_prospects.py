"""What VALUE has learned of more than two streams, in a snapshot.

Law: sums, factors and what is known of keys are written; on which streams a key is held is counted
again from the members. So a restored join names the same victims.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.engine.snapshot_checks import FAR, check_part, require, within
from tidegate.estimators import frequency, prospects
from tidegate.shed.shed_records import Shed

_LEARNED = (
    "places", "levels", "ages", "waits", "rate", "hazard", "expects", "level", "age", "wait",
    "age_worth", "wait_worth", "clock",
)  # fmt: skip
_FIELDS = tuple(prospects.OUTLOOK.names or ())


def learned(ours: prospects.Prospects) -> dict[str, Any]:
    """The arrays whose size the options tell."""
    return {f"prospects.{name}": getattr(ours, name) for name in _LEARNED}


def of_keys(ours: prospects.Prospects, fresh: int) -> dict[str, Any]:
    """What is known of the first keys."""
    parts = {f"outlook.{name}": ours.outlook[name][:fresh] for name in _FIELDS}
    return parts | {"outlook.worth": ours.worth[:fresh]}


def refill(ours: prospects.Prospects, saved: Mapping[str, Any], old: Any, new: slice) -> None:
    """Keys that were numbered `old` are numbered `new`."""
    for name in _FIELDS:
        ours.outlook[name][new] = saved[f"outlook.{name}"][old]
    ours.worth[new] = saved["outlook.worth"].reshape(-1, ours.worth.shape[1])[old]


def count_held(shed: Shed, line: NDArray[np.int64]) -> None:
    """On which streams the members in `line` hold their keys."""
    assert shed.prospects is not None
    held, keys = shed.prospects.held, shed.members.key[line]
    np.add.at(held, (keys, shed.members.notes.stream[line]), 1)
    held[frequency.NO_KEY] = 0


def rescale(ours: prospects.Prospects, scale: int) -> None:
    """Turn moments into finer units."""
    for name in ("last", "counted", "begun"):
        ours.outlook[name] *= scale
    ours.clock[[prospects.NOW, prospects.BEGUN, prospects.REFRESHED]] *= scale


def check_written(
    ours: prospects.Prospects, kinds: Mapping[str, str], saved: Mapping[str, Any]
) -> None:
    """What was written of keys has the right types and lengths."""
    keys = len(saved["keys.code"])
    for name in _FIELDS:
        check_part(name, kinds[f"outlook.{name}"], ours.outlook[name])
        require(saved[f"outlook.{name}"].shape == (keys,), "its keys do not add up")
    check_part("worth", kinds["outlook.worth"], ours.worth)
    length = keys * ours.worth.shape[1]
    require(saved["outlook.worth"].shape == (length,), "its keys do not add up")


def check(ours: prospects.Prospects, keys: NDArray[np.int32]) -> None:
    """Nothing is used as an address that is none."""
    for sums in (ours.places, ours.levels, ours.ages, ours.waits):
        require(within(sums, 0, 2**62 + 1), "a count is negative")
    for factor in (ours.rate, ours.hazard, ours.expects, ours.level, ours.age, ours.wait):
        require(np.isfinite(factor).all() and (factor >= 0).all(), "a rate is wrong")
    for factor in (ours.age_worth, ours.wait_worth):
        require(np.isfinite(factor).all() and (factor >= 0).all(), "a rate is wrong")
    now = int(ours.clock[prospects.NOW])
    require(abs(now) < FAR and now >= ours.clock[prospects.REFRESHED], "a time is out of range")
    require(now >= ours.clock[prospects.BEGUN] > now - FAR, "a time is out of range")
    require((ours.clock[prospects.SINCE :] >= 0).all(), "a count is negative")
    require(ours.clock[prospects.FITTED_AFTER] >= 0, "a count is negative")
    known = ours.outlook[keys[keys != frequency.NO_KEY]]
    for name in ("last", "counted", "begun"):
        require(((known[name] <= now) & (known[name] > now - FAR)).all(), "a time is out of range")
    require((known["counted"] >= known["last"]).all(), "a time is out of range")
    require((known["last"] >= known["begun"]).all(), "a time is out of range")
    require(within(known["place"], 0, len(ours.places)), "a place is out of range")
    require(within(known["before"], prospects.NOWHERE, len(ours.places)), "a place is wrong")
    require(within(known["wait"], 0, prospects.WAITS), "a wait is out of range")
    require(within(known["age"], 0, prospects.AGES), "an age is out of range")
    worth = ours.worth[keys]
    require(np.isfinite(worth).all() and (worth >= 0).all(), "a key is worth nothing")
