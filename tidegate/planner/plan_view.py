"""A plan for people: as text, as HTML for a notebook, and as a chart.

Law: nothing is computed here that the plan does not hold. HTML needs no library; where altair and
vl-convert are installed it carries the chart too.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from tidegate.costs.structures import INDEX_NAMES
from tidegate.planner import drawing
from tidegate.spec import TidegateError

if TYPE_CHECKING:
    from tidegate.planner.plan import Plan

INK, FAINT, GRID, ACCENT, QUIET = "#1f2933", "#7b8794", "#e4e7eb", "#d6336c", "#b0b8c1"
_FONT = "Inter, Segoe UI, Helvetica Neue, Arial, sans-serif"
_MOST_LISTED = 8


def number(value: float) -> str:
    """Digits that a reader needs.

    >>> number(4.66912), number(2845.87), number(9_500_000), number(3.2e-7)
    ('4.67', '2,846', '9,500,000', '3.2e-07')
    """
    if value == 0 or 0.01 <= abs(value) < 100:
        return f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}".rstrip("0").rstrip(".")
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2g}"


def size(count: int) -> str:
    """Bytes in the unit that people read.

    >>> size(900), size(1_293_968), size(5_000_000_000)
    ('900 B', '1.3 MB', '5 GB')
    """
    amount, unit = float(count), "B"
    for larger in ("KB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.3g} {unit}" if amount >= 100 else f"{amount:.2g} {unit}"


def facts(plan: Plan) -> list[tuple[str, str]]:
    """What the plan says, line by line."""
    workload, unit = plan.workload, plan.time_unit
    structures = ", ".join(f"{name}: {index}" for name, index in plan.indexes.items())
    cost = f"{number(plan.cost)} per {unit}, {plan.weights.name} weights"
    if plan.cpu_per_second is not None:
        cost = f"{number(1e6 * plan.cpu_per_second)} µs of CPU per {unit}, this machine's weights"
        if unit == "second":
            cost += f" ({plan.cpu_per_second:.2%} of a core)"
    said = [
        ("windows", " and ".join(number(w) for w in workload.windows) + " tuples"),
        ("rates", " and ".join(number(r) for r in workload.rates) + f" per {unit}"),
        ("indexes", f"{plan.best} ({structures})"),
        ("cost", cost),
    ]
    if plan.output_rate is not None:
        said.append(("results", f"{number(plan.output_rate)} per {unit}"))
    if plan.sampling is not None:
        said.append(("sample", plan.sampling.sentence))
    held = f"{number(plan.state_rows)} rows, about {size(plan.state_bytes)}"
    said.append(("state", held))
    found = plan.allocation
    if found.scarce != "nothing":
        said.append((f"scarce {found.scarce}", f"{found.output_share:.0%} of the results"))
        said += [("  search with", _shares(plan.streams, found.search, found.rates, "of arrivals"))]
        said += [("  keep", _shares(plan.streams, found.keep, found.windows, "of the window"))]
    return said


def _shares(
    streams: Sequence[str], shares: Sequence[float], amounts: Sequence[float], of: str
) -> str:
    return ", ".join(
        f"{name} {share:.0%} {of} ({number(amount)})"
        for name, share, amount in zip(streams, shares, amounts, strict=True)
    )


def listed_costs(plan: Plan) -> list[tuple[str, float]]:
    """The cheapest pairs, the recommended one among them."""
    ranked = sorted(plan.costs.items(), key=lambda each: each[1])
    shown = ranked[:_MOST_LISTED]
    return shown if plan.best in dict(shown) else [*shown, (plan.best, plan.cost)]


def text(plan: Plan) -> str:
    """The plan for a terminal or a prompt."""
    said = facts(plan)
    width = max(len("less memory"), *(len(name) for name, _ in said))
    lines = [f"{name:<{width}}  {value}" for name, value in said]
    costs = ", ".join(f"{pair} {number(cost)}" for pair, cost in listed_costs(plan))
    lines.append(f"{'costs':<{width}}  {costs}")
    for resource in ("memory", "cpu"):
        left = ", ".join(
            f"{row['output_share']:.0%} with {row['share']:.0%}"
            for row in plan.scarcer
            if row["resource"] == resource and row["share"] < 1.0
        )
        lines.append(f"{'less ' + resource:<{width}}  results left: {left}")
    lines += [f"note: {note}" for note in plan.notes]
    return "\n".join(lines)


def html(plan: Plan) -> str:
    """The plan for a notebook."""
    cell = "padding:2px 12px 2px 0;text-align:left;vertical-align:top"
    rows = "".join(
        f'<tr><th style="{cell};font-weight:600">{escape(name.strip())}</th>'
        f'<td style="{cell}">{escape(value)}</td></tr>'
        for name, value in facts(plan)
    )
    notes = "".join(f'<li style="color:{FAINT}">{escape(note)}</li>' for note in plan.notes)
    try:
        drawn = svg(plan)
    except TidegateError:
        drawn = _cost_table(plan, cell)
    return (
        f'<div style="font-family:{_FONT};color:{INK}"><table>{rows}</table>{drawn}'
        f"<ul>{notes}</ul></div>"
    )


def _cost_table(plan: Plan, cell: str) -> str:
    rows = "".join(
        f'<tr><td style="{cell}">{pair}</td><td style="{cell}">{number(cost)}</td></tr>'
        for pair, cost in listed_costs(plan)
    )
    return f"<table>{rows}</table>"


def chart(plan: Plan) -> dict[str, Any]:
    """Two charts side by side: what each pair costs, and the results left with less."""
    alt = drawing.altair()
    unit, scale = ("µs of CPU", 1e6) if plan.weights.unit == "s" else ("cost", 1.0)
    costs = [
        {
            "pair": pair,
            "cost": scale * cost,
            "label": number(scale * cost),
            "best": pair == plan.best,
        }
        for pair, cost in listed_costs(plan)
    ]
    base = alt.Chart(alt.Data(values=costs)).encode(
        y=alt.Y("pair:N", sort=[row["pair"] for row in costs], title=None),
        x=alt.X("cost:Q", title=f"{unit} per {plan.time_unit}", axis=alt.Axis(format="~s")),
        tooltip=["pair:N", "cost:Q"],
    )
    colour = alt.condition("datum.best", alt.value(ACCENT), alt.value(QUIET))
    bars = base.mark_bar(cornerRadiusEnd=3, height=16).encode(color=colour)
    labels = base.mark_text(align="left", dx=5, color=INK).encode(text="label:N")
    left = (bars + labels).properties(width=260, height=26 * len(costs), title=_title(plan))
    rows = [
        {"resource": row["resource"], "share": row["share"], "how": how, "left": row[name]}
        for row in plan.scarcer
        for how, name in (("as planned", "output_share"), ("equally", "equal_share"))
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("share:Q", title="share of what is needed", axis=alt.Axis(format="%")),
        y=alt.Y("left:Q", title="results left", axis=alt.Axis(format="%")),
        color=alt.Color(
            "resource:N",
            title="scarce",
            scale=alt.Scale(domain=["memory", "cpu"], range=["#1c7ed6", "#f08c00"]),
            legend=alt.Legend(symbolType="stroke"),
        ),
    )
    # Only lines have dashes; with points among them the legend would draw points.
    dash = alt.StrokeDash(
        "how:N",
        title="divided",
        scale=alt.Scale(domain=["as planned", "equally"], range=[[1, 0], [4, 3]]),
        legend=alt.Legend(symbolType="stroke", symbolSize=250),
    )
    lines = base.mark_line(strokeWidth=2).encode(strokeDash=dash)
    right = (lines + base.mark_point(size=26, filled=True, opacity=1)).properties(
        width=280, height=26 * len(costs), title="What less would leave"
    )
    drawn: dict[str, Any] = (left | right).to_dict(validate=False)
    return {**drawn, "config": THEME}


def _title(plan: Plan) -> str:
    first, second = (INDEX_NAMES[letter] for letter in plan.best)
    return f"Cheapest: {plan.best} ({first}, {second})"


THEME = {
    "font": _FONT,
    "background": "white",
    "view": {"stroke": None},
    "title": {"anchor": "start", "color": INK, "fontSize": 13},
    "axis": {
        "labelColor": FAINT, "titleColor": INK, "gridColor": GRID, "domainColor": GRID,
        "tickColor": GRID, "titleFontWeight": "normal",
    },
    "axisX": {"grid": False},
    "legend": {"labelColor": INK, "titleColor": FAINT, "titleFontWeight": "normal"},
}  # fmt: skip


def svg(plan: Plan) -> str:
    """The chart as an SVG element."""
    drawn: str = drawing.vl_convert().vegalite_to_svg(chart(plan))
    return drawn[drawn.index("<svg") :]


def png(plan: Plan) -> bytes:
    """The chart as a picture."""
    drawn: bytes = drawing.vl_convert().vegalite_to_png(chart(plan), scale=1.5)
    return drawn
