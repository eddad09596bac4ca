"""Charts are data that can be looked at without drawing; the report needs nothing but itself."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

from tidegate.lab import charts
from tidegate.lab.claims import Claim
from tidegate.lab.figures import APART, Figure, Findings, Shown, all_figures, choose, pivot
from tidegate.lab.report import page
from tidegate.spec import TidegateError

ROWS = [
    {"m": m, "policy": policy, "kept": m * share}
    for m in (1, 2)
    for policy, share in (("exact", 1.0), ("dgl", 0.4), ("dgl (retained)", 0.3), ("random", 0.2))
]


def _lines(**options: Any) -> charts.Chart:
    titles = {"x_title": "memory", "y_title": "kept"}
    return charts.lines(ROWS, x="m", y="kept", **titles, **options)


def _scale(chart: charts.Chart, channel: str) -> dict[str, list[Any]]:
    scale = chart["layer"][0]["encoding"][channel]["scale"]
    return dict(zip(scale["domain"], scale["range"], strict=True))


def test_a_policy_has_one_colour_and_its_variant_a_dash() -> None:
    chart = _lines()
    assert _scale(chart, "color") == {
        name: charts.COLOURS[name] for name in ("exact", "dgl", "random")
    }
    assert set(_scale(chart, "strokeDash")) == {"window", "retained", "reference"}
    values = chart["layer"][0].get("data", chart.get("data"))["values"]
    retained = [row for row in values if row["line"] == "retained"]
    assert {row["policy"] for row in retained} == {"dgl"}
    assert len(values) == len(ROWS)


def test_bars_of_two_variants_stand_apart() -> None:
    chart = charts.bars(ROWS[:4], x="kept", y="policy", x_title="kept")
    encoding = chart["layer"][0]["encoding"]
    values = chart["layer"][0].get("data", chart.get("data"))["values"]
    names = [row[encoding["y"]["field"]] for row in values]
    assert names == ["exact", "dgl", "dgl (retained)", "random"]
    assert encoding["y"]["sort"] == names


def test_every_kind_of_chart_can_be_drawn() -> None:
    rows = [{"a": a, "b": b, "v": a * b, "chosen": a == b} for a in (1, 2) for b in (1, 2)]
    curve = [{"k": k, "p": k % 3 / 3} for k in range(9)] + [{"k": 5, "p": 0, "mark": "here"}]
    ratios = [{"join": join, "ratio": 1.1, "m": m} for join in "ab" for m in (0.05, 0.25)]
    drawn = [
        _lines(),
        charts.lines(
            [{**row, "side": side} for row in ROWS for side in "ab"],
            x="m", y="kept", x_title="m", y_title="kept", facet="side",
        ),
        charts.heat(rows, x="a", y="b", value="v", x_title="a", y_title="b", value_title="v"),
        charts.bars(ROWS[:4], x="kept", y="policy", x_title="kept"),
        charts.curve(curve, x="k", y="p", x_title="age", y_title="share"),
        charts.strip(
            ratios, x="ratio", y="join", x_title="ratio", colour="m", colour_title="m", mark=0.99
        ),
    ]  # fmt: skip
    pictures = [charts.svg(chart) for chart in drawn]
    assert all(picture.startswith("<svg") and "</svg>" in picture for picture in pictures)
    ids = [set(re.findall(r'id="([^"]+)"', picture)) for picture in pictures]
    assert not set.intersection(*ids)
    assert charts.png(drawn[0]).startswith(b"\x89PNG")


def _shown() -> Shown:
    figure = Figure(
        "ojewole2006", "Fig. 9", "A <title>", "It states.", {"w": "400"}, lambda scale: [],
        lambda records, scale: Findings(),
    )  # fmt: skip
    claims = [
        Claim("ojewole2006", "Fig. 9", "good", 1.0, measured=1.0),
        Claim("ojewole2006", "Fig. 9", "bad", 1.0, measured=2.0, reason="the reason why"),
        Claim("ojewole2006", "Fig. 9", "not yet", ("a", "b"), "order", reason="no a yet"),
    ]
    numbers = [pivot({1: {"dgl": 5.0}}, "m", "importance")]
    return Shown(figure, Findings(claims, [_lines()], ROWS, ["A note."], numbers), 8)


def test_the_report_shows_everything_and_needs_nothing_else() -> None:
    text = page([_shown()], quick=True, notes=["8 runs in this process"])
    for part in ("It states.", "A &lt;title&gt;", "the reason why", "no a yet", "A note.",
                 "8 runs in this process", 'id="ojewole2006-fig9"', 'href="#ojewole2006-fig9"',
                 "quick run", "<svg"):  # fmt: skip
        assert part in text
    # Names of XML spaces are no addresses that a browser would ask.
    addresses = set(re.findall(r"https?://[^\"' <>)]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert "<script" not in text
    assert "<link" not in text
    assert text.count('class="mark yes"') == text.count('class="mark no"') == 2


def test_figures_are_found_by_paper_and_by_name() -> None:
    figures = all_figures()
    slugs = [each.slug for each in figures]
    assert len(set(slugs)) == len(slugs)
    assert {"ojewole2006-fig9", "srivastava2004-example3.3", "recorded-table"} <= set(slugs)
    assert [each.slug for each in choose("ojewole2006-fig10")] == ["ojewole2006-fig10"]
    assert {each.paper for each in choose("srivastava2004")} == {"srivastava2004"}
    assert choose("all") == [each for each in figures if each.paper != APART]
    with pytest.raises(TidegateError, match="did you mean 'ojewole2006-fig9'"):
        choose("ojewole-fig9")


def test_figures_of_a_paper_come_in_the_order_of_their_numbers() -> None:
    names = [each.name for each in choose("srivastava2004")]
    figures = [f"Fig. {number}" for number in (5, 6, 7, 8, 9, 10, 11)]
    others = ["S2", "Fig. 8 soft", "Age 8", "Age 9", "Alloc error", "Shed"]
    assert names == ["Example 3.3", "Example 3.4", *figures, *others]


def test_sections_without_charts_leave_no_empty_place() -> None:
    """As the figures that are measured in full runs only look in the quick form."""
    path = "see tidegate/" + "very_long_name_of_a_folder/" * 9 + "module.py"
    figure = Figure(
        "ojewole2006", "Fig. 4", "Times", "It states.", {"streams": path}, lambda scale: [],
        lambda records, scale: Findings(),
    )  # fmt: skip
    text = page([Shown(figure, Findings(notes=["Left out."]), 0)], quick=True)
    body = text.split("</style>")[1]
    assert "drawn" not in body
    assert "Claims" not in body
    assert "0 joins, " not in body
    assert path in body
    # A word that is longer than its place is broken, wherever users' texts stand.
    assert "dl div,td,p,li,h3{overflow-wrap:anywhere}" in text
    assert "drawn" in page([_shown()], quick=True).split("</style>")[1]
