"""The chart of `tidegate demo --pool`: recall and shares after each micro-batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.planner import drawing

_EIGHTHS = " ▁▂▃▄▅▆▇█"

History = Sequence[Mapping[str, Any]]


def bars(numbers: Sequence[float], most: float) -> str:
    """Numbers as a row of bars, one character each.

    >>> bars([0, 50, 100], 100)
    ' ▄█'
    """
    return "".join(_EIGHTHS[min(8, round(8 * number / most))] for number in numbers)


def chart(history: History) -> dict[str, Any]:
    """Above recall, below the share of the memory; equal halves on the left, the pool on the
    right. A Vega-Lite specification."""
    alt = drawing.altair()
    rows = [dict(row) | {"batch": row["batch"] + 1} for row in history]
    base = alt.Chart(alt.Data(values=rows)).mark_line(point=True)
    panels = []
    for field, title, form in (
        ("recall", "results found", "%"),
        ("share", "tuples it may hold", "~s"),
    ):
        panel = base.encode(
            x=alt.X("batch:Q", title="micro-batch", axis=alt.Axis(tickMinStep=1)),
            y=alt.Y(f"{field}:Q", title=title, axis=alt.Axis(format=form)),
            color=alt.Color("join:N", title=None),
        )
        panels.append(
            panel.properties(width=260, height=160).facet(
                column=alt.Column("run:N", title=None, sort=["equal", "pool"])
            )
        )
    drawn: dict[str, Any] = alt.vconcat(*panels).to_dict(validate=False)
    return drawn


def svg(history: History) -> str:
    """The chart as an SVG element."""
    drawn: str = drawing.vl_convert().vegalite_to_svg(chart(history))
    return drawn[drawn.index("<svg") :]


def png(history: History) -> bytes:
    """The chart as a picture."""
    drawn: bytes = drawing.vl_convert().vegalite_to_png(chart(history), scale=1.5)
    return drawn


def html(history: History) -> str:
    """The chart inside a page."""
    return f"<h1>Two joins, one memory</h1>{svg(history)}"
