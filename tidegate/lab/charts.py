"""Charts as data: records in, a Vega-Lite specification out.

Law: a chart is a dict that can be looked at and tested without drawing; a policy has the same
colour in every chart, and a variant of it the same colour with another dash. Only `svg` draws, with
a library that needs neither a browser nor a network.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.planner import drawing
from tidegate.spec import TidegateError

Record = Mapping[str, Any]
Chart = dict[str, Any]

WIDTH, HEIGHT = 560, 320
INK, FAINT, GRID = "#1f2933", "#7b8794", "#e4e7eb"

# From the reference lines over our own policy down to the baselines: the order of the legend too.
COLOURS: dict[str, str] = {
    "exact": "#b0b8c1",
    "theory (eq. 3)": "#1f2933",
    **drawing.POLICY_COLOURS,
    # Policies that were told what they would have to learn, or that learn what they could be told.
    "value (told)": "#faa2c1",
    "dgl (fitted)": "#b197fc",
    "age (learned)": "#82c91e",
    # Pairs of structures (kang2003), and divisions of memory.
    "TN": "#d6336c",
    "TH": "#f08c00",
    "HH": "#1c7ed6",
    "HT": "#0ca678",
    "NT": "#7048e8",
    "TT": "#868e96",
    "HN": "#c9a227",
    "NH": "#15aabf",
    "ALLOC": "#d6336c",
    "PROP": "#1c7ed6",
    "equal": "#868e96",
}
REFERENCES = ("exact", "optimum", "theory (eq. 3)")
_RETAINED = " (retained)"
_OTHERS = drawing.OTHER_COLOURS


def lines(
    records: Sequence[Record],
    *,
    x: str,
    y: str,
    x_title: str,
    y_title: str,
    percent: bool = False,
    x_percent: bool = False,
    facet: str | None = None,
    columns: int | None = None,
    points: bool = True,
) -> Chart:
    """One line per policy. Records hold x, y and `policy`; retained variants are dashed."""
    alt = drawing.altair()
    rows = [_split_variant(record) for record in records]
    names = [name for name in COLOURS if any(row["policy"] == name for row in rows)]
    extra = sorted({row["policy"] for row in rows} - set(names))
    colours = [COLOURS[name] for name in names] + [*_OTHERS][: len(extra)]
    x_axis = alt.Axis(format="%") if x_percent else alt.Axis(format="~s")
    y_axis = alt.Axis(format="%") if percent else alt.Axis(format="~s")
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X(x, type="quantitative", title=x_title, axis=x_axis, scale=alt.Scale(nice=False)),
        y=alt.Y(y, type="quantitative", title=y_title, axis=y_axis),
        color=alt.Color(
            "policy:N",
            title=None,
            scale=alt.Scale(domain=[*names, *extra], range=colours),
            legend=alt.Legend(symbolType="stroke"),
        ),
        tooltip=[alt.Tooltip(f"{name}:N") for name in rows[0]] if rows else [],
    )
    # Only lines have dashes; with points among them the legend would draw points.
    dash = alt.StrokeDash("line:N", title=None, scale=_dashes(rows), legend=_dash_key(rows))
    drawn = base.mark_line(strokeWidth=2).encode(strokeDash=dash)
    if points:
        drawn = drawn + base.mark_point(size=26, filled=True, opacity=1)
    small = facet is not None
    drawn = drawn.properties(width=230 if small else WIDTH, height=230 if small else HEIGHT)
    if facet is not None:
        header = alt.Facet(f"{facet}:N", title=None, sort=_seen(rows, facet))
        drawn = drawn.facet(header, columns=columns or len(_seen(rows, facet)))
    return _themed(drawn)


def curve(records: Sequence[Record], *, x: str, y: str, x_title: str, y_title: str) -> Chart:
    """One filled curve; records with a `mark` get a vertical line that says so."""
    alt = drawing.altair()
    marks = [dict(record) for record in records if record.get("mark")]
    area = (
        alt.Chart(alt.Data(values=[dict(record) for record in records if not record.get("mark")]))
        .mark_area(color="#1c7ed6", opacity=0.25, line={"color": "#1c7ed6", "strokeWidth": 1.5})
        .encode(
            x=alt.X(x, type="quantitative", title=x_title, scale=alt.Scale(zero=False)),
            y=alt.Y(y, type="quantitative", title=y_title, axis=alt.Axis(format="%")),
        )
    )
    base = alt.Chart(alt.Data(values=marks)).encode(x=alt.X(x, type="quantitative"))
    rule = base.mark_rule(color="#d6336c", strokeDash=[4, 3], strokeWidth=1.5)
    text = base.mark_text(align="left", dx=6, dy=8, baseline="top", color="#d6336c", fontSize=12)
    label = text.encode(text="mark:N", y=alt.value(0))
    return _themed((area + rule + label).properties(width=WIDTH, height=HEIGHT))


def heat(
    records: Sequence[Record],
    *,
    x: str,
    y: str,
    value: str,
    x_title: str,
    y_title: str,
    value_title: str | list[str],
    number: str = ".2f",
    low_is_good: bool = False,
) -> Chart:
    """A table of numbers, coloured by size; records with `chosen` are framed."""
    alt = drawing.altair()
    base = alt.Chart(alt.Data(values=[dict(record) for record in records])).encode(
        x=alt.X(f"{x}:O", title=x_title, axis=alt.Axis(labelAngle=0), sort=_seen(records, x)),
        y=alt.Y(f"{y}:O", title=y_title, sort="descending"),
    )
    scheme = alt.Scale(scheme="teals", reverse=low_is_good)
    cells = base.mark_rect(stroke="white").encode(
        color=alt.Color(f"{value}:Q", title=value_title, scale=scheme)
    )
    values = [record[value] for record in records]
    middle = (min(values) + max(values)) / 2 if values else 0.0
    dark = f"datum['{value}'] {'<' if low_is_good else '>'} {middle}"
    numbers = base.mark_text(fontSize=11).encode(
        text=alt.Text(f"{value}:Q", format=number),
        color=alt.condition(dark, alt.value("white"), alt.value(INK)),
    )
    frame = base.transform_filter("datum.chosen == true").mark_rect(
        fill=None, stroke="#d6336c", strokeWidth=3
    )
    return _themed((cells + numbers + frame).properties(width=WIDTH - 60, height=HEIGHT - 60))


def bars(
    records: Sequence[Record], *, x: str, y: str, x_title: str, facet: str | None = None
) -> Chart:
    """Horizontal bars, one for each name in `y`, with the number at the end."""
    alt = drawing.altair()
    # The name on the axis keeps the variant: without it the bars of two variants would stack.
    rows = [{**_split_variant(record, y), "label": record[y]} for record in records]
    order = list(dict.fromkeys(record[y] for record in records))
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y("label:N", title=None, sort=order, axis=alt.Axis(labelLimit=240)),
        x=alt.X(x, type="quantitative", title=x_title, axis=alt.Axis(format="~s")),
    )
    names = sorted({row["policy"] for row in rows})
    colours = [COLOURS.get(name, _OTHERS[0]) for name in names]
    bar = base.mark_bar(cornerRadiusEnd=3, height=16).encode(
        color=alt.Color("policy:N", legend=None, scale=alt.Scale(domain=names, range=colours)),
        opacity=alt.condition("datum.line == 'retained'", alt.value(0.5), alt.value(1.0)),
    )
    number = base.mark_text(align="left", dx=5, color=INK).encode(
        text=alt.Text(x, type="quantitative", format=".3s")
    )
    height = max(90, 26 * len(order))
    drawn = (bar + number).properties(width=WIDTH if facet is None else 240, height=height)
    if facet is not None:
        drawn = drawn.facet(column=alt.Column(f"{facet}:N", title=None, sort=_seen(rows, facet)))
    return _themed(drawn)


def strip(
    records: Sequence[Record], *, x: str, y: str, x_title: str, colour: str, colour_title: str,
    mark: float,
) -> Chart:  # fmt: skip
    """A row of dots for each name in `y`, by a ratio; a line at `mark` says what is aimed at."""
    alt = drawing.altair()
    order = _seen(records, y)
    scale = alt.Scale(type="log", nice=False, padding=14)
    axis = alt.Axis(format=".3~g", grid=True, tickCount=7)
    dots = (
        alt.Chart(alt.Data(values=[dict(record) for record in records]))
        .mark_point(filled=True, size=42, opacity=0.7)
        .encode(
            x=alt.X(x, type="quantitative", title=x_title, scale=scale, axis=axis),
            y=alt.Y(f"{y}:N", title=None, sort=order, axis=alt.Axis(labelLimit=240)),
            color=alt.Color(
                f"{colour}:O",
                title=colour_title,
                scale=alt.Scale(scheme="teals"),
                legend=alt.Legend(format=".0%"),
            ),
        )
    )
    aim = (
        alt.Chart(alt.Data(values=[{"aim": mark}]))
        .mark_rule(color="#d6336c", strokeDash=[4, 3], strokeWidth=1.5)
        .encode(x="aim:Q")
    )
    height = max(90, 22 * len(order))
    return _themed((aim + dots).properties(width=WIDTH - 60, height=height))


def svg(chart: Chart) -> str:
    """The chart as one SVG element whose names clash with no other chart of the page."""
    drawn = drawing.vl_convert().vegalite_to_svg(chart)
    # Clip paths are called clip0, clip1, ... in every drawing; a page with many needs its own.
    mark = f"c{hashlib.sha256(drawn.encode()).hexdigest()[:8]}"
    drawn = re.sub(r'(id="|url\(#)(clip|gradient)', rf"\g<1>{mark}\g<2>", drawn)
    return drawn[drawn.index("<svg") :]


def png(chart: Chart, scale: float = 1.5) -> bytes:
    """The chart as a picture."""
    drawn: bytes = drawing.vl_convert().vegalite_to_png(chart, scale=scale)
    return drawn


def can_draw() -> bool:
    """Whether the libraries that draw are installed."""
    try:
        drawing.altair(), drawing.vl_convert()
    except TidegateError:
        return False
    return True


def _split_variant(record: Record, field: str = "policy") -> dict[str, Any]:
    """Name and variant apart: `dgl (retained)` has dgl's colour and a dash of its own."""
    name = str(record[field])
    retained = name.endswith(_RETAINED)
    kind = "retained" if retained else "reference" if name in REFERENCES else "window"
    return {**record, "policy": name.removesuffix(_RETAINED), "line": kind}


_DASH = {"window": [1, 0], "retained": [5, 3], "reference": [2, 3]}
_DASH_TEXT = (
    "datum.label == 'window' ? 'policy' : datum.label == 'retained' ? 'counts retained tuples only'"
    " : 'reference'"
)


def _dashes(rows: Sequence[Record]) -> Any:
    seen = [kind for kind in _DASH if any(row["line"] == kind for row in rows)]
    return drawing.altair().Scale(domain=seen, range=[_DASH[kind] for kind in seen])


def _dash_key(rows: Sequence[Record]) -> Any:
    if not any(row["line"] == "retained" for row in rows):
        return None
    return drawing.altair().Legend(
        labelExpr=_DASH_TEXT,
        labelLimit=220,
        symbolType="stroke",
        symbolSize=250,
        symbolStrokeColor=INK,
    )


def _seen(rows: Sequence[Record], field: str) -> list[Any]:
    return list(dict.fromkeys(row[field] for row in rows))


def _themed(chart: Any) -> Chart:
    """The look of all charts: quiet axes, no frame, one font."""
    font = "Inter, Segoe UI, Helvetica Neue, Arial, sans-serif"
    axis = {
        "labelColor": FAINT, "titleColor": INK, "gridColor": GRID, "domainColor": GRID,
        "tickColor": GRID, "titleFontWeight": "normal", "titlePadding": 10, "labelFontSize": 11,
        "titleFontSize": 12,
    }  # fmt: skip
    legend = {"labelColor": INK, "labelFontSize": 12, "symbolStrokeWidth": 2.5, "rowPadding": 4}
    config = {
        "font": font,
        "background": "white",
        "view": {"stroke": None},
        "axis": axis,
        # Browsers draw letters wider than they were measured here.
        "axisX": {"grid": False, "labelOverlap": "greedy", "labelSeparation": 8},
        "legend": legend,
        "header": {"labelFontSize": 13, "labelFontWeight": 600, "labelColor": INK},
    }
    specification: Chart = chart.to_dict(validate=False)
    return {**specification, "config": config}
