"""The data of ojewole2006, section 5.1, at sizes that a test can afford.

The law: rows carry their configuration, claims their verdict; what needs no clock is checked.
"""

from __future__ import annotations

import pytest

from tidegate.lab import ojewole2006_cost as cost
from tidegate.lab import ojewole2006_optimum as figures
from tidegate.offline.instance import instance_of

CLAIM = {"paper", "figure", "claim", "expected", "measured", "holds", "reason"}
ROW = {"figure", "series", "x", "y"}


def test_the_worked_example_holds_to_the_digit() -> None:
    rows, claims = figures.worked_example()
    assert len(rows) == len(claims) == 6
    assert all(claim["holds"] and claim["measured"] == claim["expected"] for claim in claims)


def test_figure_2_keeps_its_order() -> None:
    rows, claims = figures.figure_2(quick=True)
    assert all(set(row) >= ROW for row in rows)
    assert {row["series"] for row in rows} == {"EXACT", "OPT", "SJA", "RAND"}
    assert all(set(claim) == CLAIM for claim in claims)
    assert all(claim["holds"] or claim["reason"] for claim in claims)
    assert claims[-1]["holds"]
    # Pairs inside an instant are always produced: one in 2w - 1 results.
    worst = next(claim for claim in claims if claim["claim"] == "error of RAND at M/2 = 1")
    assert worst["measured"] < 1 - 1 / 25


def test_all_figures_are_there() -> None:
    assert list(figures.figure_data()) == [f"Fig. {number}" for number in range(1, 8)]


@pytest.mark.parametrize("half", [1, 19])
def test_running_times_have_a_row_for_each_solver(half: int) -> None:
    rows = cost.running_times("Fig. 3", [(100, 100, 20, half)], trials=1)
    assert [row["series"] for row in rows] == ["ODJA", "ESJA", "flow"]
    assert all(row["y"] > 0 and set(row) >= ROW for row in rows)


def test_cost_scaling_finds_the_same_value() -> None:
    pytest.importorskip("ortools")
    instance = instance_of(figures.streams_of(120, 0), figures.spec_of(15, 2), "importance")
    worth = [cost.odja.solve(instance, number, schedule=False) for number in (0, 1)]
    assert cost._by_cost_scaling(instance) == worth


def test_esja_takes_memory_with_the_length_and_odja_hardly() -> None:
    peaks = {}
    for length in (200, 800):
        instance = instance_of(figures.streams_of(length, 0), figures.spec_of(50, 1), "importance")
        for name, solver in cost.SOLVERS.items():
            solver(instance)
            peaks[name, length] = cost.peak_bytes(solver, instance)
    assert peaks["ESJA", 800] > 10 * peaks["ODJA", 800]
    assert peaks["ESJA", 800] > 3 * peaks["ESJA", 200]
