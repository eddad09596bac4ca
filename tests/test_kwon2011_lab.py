"""The figures of kwon2011: who goes in the example, and what numbers become claims."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.lab import kwon2011
from tidegate.lab.configuration import EXACT
from tidegate.lab.figures import Figure, Record, Scale
from tidegate.lab.kwon2011_example import T22, dropped, priority
from tidegate.lab.kwon2011_grid import EP, OURS, POLICIES, ahead, versus_best

QUICK = Scale(quick=True)
by_figure = pytest.mark.parametrize("figure", kwon2011.FIGURES, ids=lambda figure: figure.slug)


def invented(figure: Figure, sizes: dict[str, float], last: float = 1.0) -> list[Record]:
    """Records with a number by policy; the random policy and EP get `last` as much at the end."""
    runs = figure.runs(QUICK)
    end = runs[-1].labels["x"]
    return [
        {
            **run.labels,
            "size": sizes[run.labels["policy"]] * (last if run.labels["x"] == end else 1.0),
            "seconds": sizes[run.labels["policy"]] / 100.0,
        }
        for run in runs
    ]


SIZES = {EXACT: 100.0, OURS: 90.0, EP: 80.0, "recent": 70.0, "prob": 40.0, "output": 40.0}


@by_figure
def test_claims_follow_from_the_numbers(figure: Figure) -> None:
    claims = figure.read(invented(figure, SIZES | {"random": 40.0}), QUICK).claims
    ours = [claim for claim in claims if "VALUE" in claim.claim]
    assert all(claim.holds and claim.measured == pytest.approx(90 / 80) for claim in ours)
    theirs = [claim for claim in claims if claim.claim.startswith("EP / best")]
    assert all(claim.holds and claim.measured == pytest.approx(2.0) for claim in theirs)


@by_figure
def test_what_does_not_hold_has_a_reason(figure: Figure) -> None:
    """EP and VALUE are last and fall, the others differ: nothing is as the paper says."""
    sizes = SIZES | {OURS: 10.0, EP: 10.0, "output": 5.0, "random": 60.0, "prob": 20.0}
    findings = figure.read(invented(figure, sizes, last=0.2), QUICK)
    failed = [claim for claim in findings.claims if not claim.holds]
    assert failed
    assert all(claim.reason for claim in failed)
    assert findings.charts


@pytest.mark.parametrize(
    ("router", "new", "gone"), [(1, (6,), {"t4"}), (1, (6, 7), {"t4", "t3"}), (2, (6,), {"t5"})]
)
def test_who_goes_in_the_example(router: int, new: tuple[int, ...], gone: set[str]) -> None:
    assert dropped(router, new) == gone


def test_the_priority_of_figure_3() -> None:
    assert priority(2, (2, 3), *T22) == 0.8


def test_value_is_held_against_the_best_named_policy() -> None:
    row: dict[str, Any] = dict.fromkeys(POLICIES, 10.0) | {EXACT: 40.0, OURS: 30.0, "recent": 20.0}
    table = versus_best({"some": {500: row}}, "memory")
    assert table.rows == [["some", "500", "recent", "20", "30", "1.50", "75.0%"]]
    assert ahead(row) == 1.0
