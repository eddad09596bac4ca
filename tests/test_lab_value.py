"""The table of VALUE: its settings, the generated families, and how ratios are made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

import tidegate as tg
from tidegate.lab.families import FAMILIES, ONE_SIDED, WINDOW, family_streams
from tidegate.lab.figures import APART, Scale, choose
from tidegate.lab.value_settings import FAMILY, LAB, joins
from tidegate.lab.value_table import compared
from tidegate.spec import TidegateError


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_families_come_in_order_of_time_and_are_repeatable(family: str) -> None:
    first, again = family_streams(family, 3, seed=5), family_streams(family, 3, seed=5)
    for name, table in first.items():
        assert table.equals(again[name])
        assert (np.diff(table["ts"].to_numpy()) >= 0).all()
        assert pc.min(table["importance"]).as_py() > 0
    assert not first["left"].equals(family_streams(family, 3, seed=6)["left"])


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_families_have_results(family: str) -> None:
    within: Any = {"left": WINDOW, "right": 0} if family in ONE_SIDED else WINDOW
    spec = tg.JoinSpec(on="key", time="ts", within=within)
    assert tg.join(family_streams(family, 3, seed=0), spec).stats["rows_out"] > 300


def test_an_unknown_family_is_refused_with_the_nearest() -> None:
    with pytest.raises(TidegateError, match="bursts"):
        family_streams("burst", 1, seed=0)


def test_settings_are_in_two_halves() -> None:
    found = joins(None, quick=True)
    assert {join.group for join in found} == {LAB, FAMILY}
    for group in (LAB, FAMILY):
        halves = [join.is_tuning for join in found if join.group == group]
        assert 0 < sum(halves) < len(halves)


def test_the_table_is_no_part_of_all() -> None:
    assert APART not in {figure.paper for figure in choose("all")}
    figures = choose(APART)
    assert len(figures) == 3
    runs = figures[0].runs(Scale(quick=True))
    assert len({run.configuration for run in runs}) == len(runs)


def test_ratios_are_to_the_best_other_policy_and_to_the_optimum() -> None:
    base = {"join": "j", "by": "rows", "half": "tuning", "importance": 0.0}
    kept = {"value": 60, "prob": 50, "dgl": 40, "optimum": 80}
    records = [{**base, "split": "auto", "x": 0.1, "policy": p, "size": n} for p, n in kept.items()]
    records.append({**base, "split": "auto", "x": None, "policy": "exact", "size": 100})
    (setting,) = compared(records)
    assert (setting["best"], setting["value"], setting["best_kept"]) == ("prob", 0.6, 0.5)
    assert setting["ratio"] == pytest.approx(1.2)
    assert setting["of_optimum"] == pytest.approx(0.75)


@pytest.mark.parametrize("policy", ["random", "prob", "output", "dgl", "age", "value"])
def test_a_stream_whose_tuples_nobody_meets_gets_no_memory(policy: str) -> None:
    """Right tuples do not wait: what they held would be lost to the left ones."""
    streams = family_streams("one-sided", 3, seed=1)
    spec = tg.JoinSpec(
        on="key", time="ts", within={"left": WINDOW, "right": 0}, memory=100, policy=policy
    )
    kept = {s: tg.join(streams, spec.replace(split=s)).stats for s in ("auto", "even", "shared")}
    assert kept["auto"]["memory_rows_peak_left"] == 100
    best = max(kept["even"]["rows_out"], kept["shared"]["rows_out"])
    assert kept["auto"]["rows_out"] >= 0.97 * best
