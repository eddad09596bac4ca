"""Claims are data: what holds follows from expected, relation, tolerance and measurement alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tidegate.lab.claims import Claim, held_before, no_longer_held, write_held
from tidegate.lab.comparisons import average_row, lead, order_claim, table_of, value_claim


def _claim(measured: Any, relation: Any = "near", text: str = "x", **more: Any) -> Claim:
    values = {"expected": 2.0, "tolerance": 0.5, **more}
    return Claim("p", "Fig. 1", text, relation=relation, measured=measured, **values)


@pytest.mark.parametrize(
    ("relation", "measured", "holds"),
    [
        ("near", 2.5, True), ("near", 1.5, True), ("near", 2.6, False), ("near", None, None),
        ("near", float("nan"), False),
        ("at least", 1.5, True), ("at least", 1.4, False), ("at least", 9.0, True),
        ("at most", 2.5, True), ("at most", 2.6, False), ("at most", -9.0, True),
    ],
)  # fmt: skip
def test_a_claim_holds_within_its_tolerance(relation: Any, measured: Any, holds: Any) -> None:
    assert _claim(measured, relation).holds is holds


def test_who_measured_may_have_judged() -> None:
    assert _claim(99.0, judged=True).holds is True
    assert _claim(2.0, judged=False).holds is False


def test_an_order_may_be_missed_by_the_tolerance_only() -> None:
    claim = Claim("p", "Fig. 1", "order", ("a", "b", "c"), "order", 0.01)
    assert claim.with_measured({"a": 3.0, "b": 2.0, "c": 1.0}).holds
    assert claim.with_measured({"a": 1.995, "b": 2.0, "c": 1.0}).holds
    assert not claim.with_measured({"a": 1.9, "b": 2.0, "c": 1.0}).holds
    done = order_claim({"a": 1.0, "b": 2.0, "c": 3.0}, ("a", "b", "c"), claim)
    assert (done.holds, done.row()["reason"]) == (False, "we found c > b > a")
    lacking = order_claim({"a": 1.0}, ("a", "b", "c"), claim)
    assert (lacking.holds, lacking.row()["reason"]) == (None, "this version has no b, c yet")


def test_a_reason_is_told_only_where_the_claim_does_not_hold() -> None:
    assert _claim(2.0).with_measured(2.0, "because").row()["reason"] == ""
    assert _claim(2.0).with_measured(3.0, "because").row()["reason"] == "because"
    assert set(_claim(2.0).row()) >= {"paper", "figure", "claim", "expected", "measured", "holds"}


def test_a_claim_that_stops_to_hold_is_found(tmp_path: Path) -> None:
    path = tmp_path / "held.json"
    figures = [("p", "Fig. 1")]
    good = [_claim(2.0, text="a"), _claim(2.0, text="b"), _claim(9.0, text="c")]
    assert write_held([*good, _claim(2.0, text="speed", timed=True)], figures, path) == 2
    assert held_before(path) == {"p | Fig. 1 | a", "p | Fig. 1 | b"}
    assert no_longer_held(good, figures, path) == []
    worse = [_claim(2.0, text="a"), _claim(9.0, text="b")]
    assert no_longer_held(worse, figures, path) == ["p | Fig. 1 | b"]
    assert no_longer_held(worse[:1], figures, path) == ["p | Fig. 1 | b"]
    assert no_longer_held([], [("p", "Fig. 2")], path) == []


def test_accepting_one_figure_leaves_the_others(tmp_path: Path) -> None:
    path = tmp_path / "held.json"
    path.write_text(json.dumps(["p | Fig. 1 | gone", "q | Fig. 1 | stays", "p | Fig. 10 | too"]))
    write_held([_claim(2.0, text="new")], [("p", "Fig. 1")], path)
    expected = {"p | Fig. 1 | new", "q | Fig. 1 | stays", "p | Fig. 10 | too"}
    assert held_before(path) == expected


def test_policies_are_compared_by_their_means() -> None:
    records = [
        {"m": m, "policy": policy, "importance": m * value + seed}
        for m in (1, 2)
        for policy, value in (("exact", 10.0), ("value", 6.0), ("dgl", 5.0), ("simp", 7.0))
        for seed in (-1, 1)
    ]
    table = table_of(records, "m")
    assert table[2] == {"exact": 20.0, "value": 12.0, "dgl": 10.0, "simp": 14.0}
    assert lead(table[1], "simp", "dgl") == pytest.approx(2 / 7)
    assert lead(table[1], "simp", "age") is None
    assert average_row(table)["dgl"] == pytest.approx(0.5)
    claim = value_claim(table, "p", "Fig. 1", "m")
    assert claim.measured == pytest.approx(6 / 7)
    assert (claim.holds, claim.reason.split(",")[0]) == (False, "behind in 2 of 2 settings")
