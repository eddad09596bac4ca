"""What `tidegate.whatif` found, for people: as text, as HTML for a notebook, and as a chart.

Law: nothing is computed here that the answer does not hold.
"""

from __future__ import annotations

from html import escape
from itertools import cycle
from typing import TYPE_CHECKING, Any

from tidegate.planner import drawing
from tidegate.planner.plan_view import FAINT, INK, THEME, size
from tidegate.spec import TidegateError

if TYPE_CHECKING:
    from tidegate.planner.whatif import WhatIf

_OPTIMUM = "optimum"


def columns_of(found: WhatIf) -> list[str]:
    """Policies as they are listed: the recommended one first, the optimum last."""
    best = found.recommended
    others = [name for name in found.policies if name != best]
    known = [_OPTIMUM] if any(row["policy"] == _OPTIMUM for row in found.curve) else []
    return [best, *others, *known]


def table_of(found: WhatIf) -> list[tuple[int, dict[str, float]]]:
    """For each memory the recall of each policy."""
    rows: dict[int, dict[str, float]] = {}
    for row in found.curve:
        rows.setdefault(row["memory"], {})[row["policy"]] = row[found.measure]
    return sorted(rows.items())


def sentences(found: WhatIf) -> list[str]:
    """What is needed for each target, in words."""
    what = "the results" if not found.is_weighed else "the results' importance"
    if not found.exact["size"]:
        return ["no rows meet within the windows, so there is nothing to keep"]
    said = []
    for target, need in found.needed.items():
        share = f"{100 * float(target):.0f} % of {what}"
        if need is None:
            said.append(f"{share}: none of the memories that were tried is enough")
        else:
            said.append(
                f"{share}: {need['memory']:,} tuples, about {size(need['bytes'])}, with "
                f"{need['policy']}{_interval(found, need)}"
            )
    held = f"{found.exact['memory']:,.0f} tuples, about {size(int(found.exact['bytes']))}"
    said.append(f"all of {what}: {held}, the exact join")
    return said


def _interval(found: WhatIf, need: dict[str, Any]) -> str:
    if found.sampled >= 1.0:
        return ""
    return f" (95 % interval: {_percent(need['low'])} to {_percent(need['high'])} %)"


def text(found: WhatIf) -> str:
    """The answer for a terminal or a prompt."""
    names = columns_of(found)
    widths = {name: max(5, len(name)) + 2 for name in names}
    lines = [f"{'memory':>10}" + "".join(f"{name:>{widths[name]}}" for name in names)]
    for memory, row in table_of(found):
        cells = "".join(f"{_percent(row.get(name)):>{widths[name]}}" for name in names)
        lines.append(f"{memory:>10,}{cells}")
    return "\n".join([*lines, "", *sentences(found), *(f"note: {note}" for note in found.notes)])


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f}"


def html(found: WhatIf) -> str:
    """The answer for a notebook, or for a page of its own."""
    said = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences(found))
    notes = "".join(f'<li style="color:{FAINT}">{escape(note)}</li>' for note in found.notes)
    try:
        drawn = svg(found)
    except TidegateError:
        drawn = ""
    names = columns_of(found)
    cell = 'style="padding:2px 10px;text-align:right"'
    head = "".join(f"<th {cell}>{escape(name)}</th>" for name in ["memory", *names])
    rows = "".join(
        f"<tr><td {cell}>{memory:,}</td>"
        + "".join(f"<td {cell}>{_percent(row.get(name))}</td>" for name in names)
        + "</tr>"
        for memory, row in table_of(found)
    )
    return (
        f'<div style="font-family:{THEME["font"]};color:{INK}"><ul>{said}</ul>{drawn}'
        f"<table><tr>{head}</tr>{rows}</table><ul>{notes}</ul></div>"
    )


def chart(found: WhatIf) -> dict[str, Any]:
    """Recall against memory: a line for each policy, the targets as quiet rules."""
    alt = drawing.altair()
    names = columns_of(found)
    others = cycle(drawing.OTHER_COLOURS)
    colours = [drawing.POLICY_COLOURS.get(name) or next(others) for name in names]
    rows = [
        {
            "policy": row["policy"],
            "memory": row["memory"],
            "recall": row[found.measure],
            "low": row["low"],
            "high": row["high"],
            "kind": "optimum" if row["policy"] == _OPTIMUM else "policy",
        }
        for row in found.curve
    ]
    least = min(row["memory"] for row in rows)
    what = "importance kept" if found.is_weighed else "results kept"
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X(
            "memory:Q",
            title="memory, tuples",
            axis=alt.Axis(format="~s", tickCount=6),
            scale=alt.Scale(type="log", domainMin=least, nice=False),
        ),
        color=alt.Color(
            "policy:N",
            title=None,
            scale=alt.Scale(domain=names, range=colours),
            legend=alt.Legend(symbolType="stroke"),
        ),
    )
    y = alt.Y("recall:Q", title=what, axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1]))
    dash = alt.StrokeDash(
        "kind:N",
        legend=None,
        scale=alt.Scale(domain=["policy", "optimum"], range=[[1, 0], [4, 3]]),
    )
    layers = [
        alt.Chart(alt.Data(values=[{"y": float(target)} for target in found.needed]))
        .mark_rule(color=FAINT, strokeWidth=0.5, strokeDash=[2, 3])
        .encode(y="y:Q")
    ]
    if found.sampled < 1.0:
        band = alt.Chart(alt.Data(values=[row for row in rows if row["policy"] == names[0]]))
        shown = band.mark_area(opacity=0.12, color=colours[0])
        layers.append(shown.encode(x="memory:Q", y=alt.Y("low:Q"), y2="high:Q"))
    layers.append(base.mark_line(strokeWidth=2).encode(y=y, strokeDash=dash))
    top = base.transform_filter(f"datum.policy == {names[0]!r}")
    layers.append(top.mark_line(strokeWidth=3.5).encode(y=y))
    layers.append(base.mark_point(size=22, filled=True, opacity=1).encode(y=y))
    band_of = " (band: 95 % interval)" if found.sampled < 1.0 else ""
    title = {
        "text": f"Recommended: {found.recommended}{band_of}",
        "subtitle": sentences(found),
        "subtitleColor": FAINT,
    }
    drawn: dict[str, Any] = (
        alt.layer(*layers).properties(width=520, height=320, title=title).to_dict(validate=False)
    )
    return {**drawn, "config": THEME}


def svg(found: WhatIf) -> str:
    """The chart as an SVG element."""
    drawn: str = drawing.vl_convert().vegalite_to_svg(chart(found))
    return drawn[drawn.index("<svg") :]


def png(found: WhatIf) -> bytes:
    """The chart as a picture."""
    drawn: bytes = drawing.vl_convert().vegalite_to_png(chart(found), scale=1.5)
    return drawn
