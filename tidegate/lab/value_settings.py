"""The settings on which VALUE is held against every other policy and the optimum.

Law: a setting is a join, what counts (rows or importance), a budget and a split. Every policy gets
the same. Settings are in two halves: constants of VALUE are chosen on the first (`tuning`) and
checked on the second, so that none is fitted to what it is judged by.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.lab.datasets import JOINS, MORE_JOINS, file_digest
from tidegate.lab.families import ONE_SIDED, WINDOW
from tidegate.lab.measure import RECORDED

LAB, DATA, FAMILY = "lab", "recorded", "generated"
BUDGETS, QUICK_BUDGETS = (0.05, 0.1, 0.25, 0.5), (0.05, 0.25)
SPLITS = ("auto", "even", "shared")
_TUNING = {
    "nasa-url", "bike-trips", "fines-sent", "loans", "sepsis-triage",
    "skew", "bursts", "one-to-one", "abrupt",
    "zipf-direct", "ages-bell", "frequencies",
    "skew by band", "age by band", "bursts by band", "one-to-one by band",
    "skew by kind and band", "bursts by kind and band",
}  # fmt: skip
_QUICK_ROWS = 20_000
_WITHOUT_IMPORTANCE = ("dns", "fines-penalty")


@dataclass(frozen=True)
class JoinToValue:
    """A join of the table.

    group
        `lab`, `recorded` or `generated`.
    source, arguments, spec
        As in `Configuration`; the spec says which columns are importances.
    """

    name: str
    group: str
    source: str
    arguments: Mapping[str, Any]
    spec: Mapping[str, Any]
    weighed: bool = True

    @property
    def is_tuning(self) -> bool:
        """Constants were chosen on this one."""
        return self.name in _TUNING

    def spec_for(self, by: str, split: str) -> dict[str, Any]:
        """The options of the join, by rows or by importance."""
        spec = {**self.spec, "streams": list(self.spec["streams"]), "split": split}
        if by == "rows":
            spec.pop("importance", None)
        return spec


def joins(folder: Path | None, quick: bool) -> list[JoinToValue]:
    """All joins of the table; recorded ones where their files are."""
    return [*_lab(quick), *_families(quick), *_recorded(folder, quick)]


def _recorded(folder: Path | None, quick: bool) -> list[JoinToValue]:
    found = []
    for name, join in {**JOINS, **MORE_JOINS}.items():
        if folder is None or not all((folder / file).is_file() for file in join.files):
            continue
        digest = file_digest(*(folder / file for file in join.files))
        arguments: dict[str, Any] = {"name": name, "digest": digest}
        if join.file == "bike_trips.parquet":
            arguments["rows"] = _QUICK_ROWS if quick else 3 * _QUICK_ROWS
        weighed = name not in _WITHOUT_IMPORTANCE
        found.append(JoinToValue(name, DATA, RECORDED, arguments, join.spec, weighed))
    return found


def _families(quick: bool) -> list[JoinToValue]:
    windows = 8 if quick else 24
    found = []
    for family in (
        "skew", "age", "bursts", "one-to-one", "one-sided", "drift", "abrupt", "mixed"
    ):  # fmt: skip
        found.append(_family(family, family, windows, {"on": "key"}))
    # The same where keys are numbers that may differ by so much, so that no key can be counted; or
    # where that can be counted which most pairs have in common.
    for family, apart in (("skew", 1), ("age", 0), ("bursts", 1), ("one-to-one", 0)):
        band = {"band": ["key", -apart, apart]}
        found.append(_family(f"{family} by band", family, windows, band))
        both = {"on": "kind", **band}
        found.append(_family(f"{family} by kind and band", family, windows, both))
    return found


def _family(name: str, family: str, windows: int, predicate: Mapping[str, Any]) -> JoinToValue:
    within: Any = {"left": WINDOW, "right": 0} if family in ONE_SIDED else WINDOW
    spec = {
        **predicate, "streams": ("left", "right"), "time": "ts", "importance": "importance",
        "within": within,
    }  # fmt: skip
    arguments = {"family": family, "windows": windows}
    return JoinToValue(name, FAMILY, "family_streams", arguments, spec)


def _lab(quick: bool) -> list[JoinToValue]:
    """Streams of ojewole2006 (5.2) and srivastava2004 (6.2)."""
    length = 4_000 if quick else 5_600
    keyed = {
        "streams": ("r", "s"), "on": "key", "time": "ts", "within": 399, "ties": "instant",
        "importance": "importance",
    }  # fmt: skip
    aged = {"streams": ("s1", "s2"), "on": "key", "time": "ts", "within": {"s1": 500_000, "s2": 0}}
    both = {**aged, "within": 500_000}
    tuples = 2_000 if quick else 5_000
    found = [
        JoinToValue(
            f"zipf-{correlation}", LAB, "keyed_streams",
            {"length": length, "domain": 100, "correlation": correlation}, keyed,
        )
        for correlation in ("none", "direct", "inverse")
    ]  # fmt: skip
    found += [
        JoinToValue(
            f"ages-{shape.lower()}", LAB, "age_streams", {"shape": shape, "tuples": tuples}, aged,
            weighed=False,
        )
        for shape in ("INC", "DEC", "BELL")
    ]  # fmt: skip
    arguments = {"skew": 1.0, "tuples": tuples, "correlation": "none"}
    found.append(
        JoinToValue("frequencies", LAB, "frequency_streams", arguments, both, weighed=False)
    )
    return found
