"""The libraries that draw charts, loaded when the first chart is wanted, and a colour per policy.

Law: a policy has the same colour in every chart; the lab's charts take theirs from here too.
"""

from __future__ import annotations

from typing import Any

from tidegate.spec import TidegateError

# The bound, our own policy, and the others down to the baselines.
POLICY_COLOURS = {
    "optimum": "#1f2933",
    "value": "#d6336c",
    "dgl": "#7048e8",
    "dimpprob": "#1c7ed6",
    "simpprob": "#0ca678",
    "age": "#2b8a3e",
    "arrival-order": "#94d82d",
    "output": "#364fc7",
    "prob": "#f08c00",
    "simp": "#a0673a",
    "until-expiry": "#c9a227",
    "recent": "#15aabf",
    "random": "#868e96",
    "uniform": "#e8590c",
    "eq-cluster": "#495057",
    "pps-cluster": "#087f5b",
}
OTHER_COLOURS = ("#5f3dc4", "#a61e4d", "#5c940d", "#1864ab")


def altair() -> Any:
    """What makes the description of a chart."""
    try:
        import altair as library
    except ModuleNotFoundError:
        raise TidegateError("charts need altair; install tidegate[charts]") from None
    return library


def vl_convert() -> Any:
    """What draws the description of a chart."""
    try:
        import vl_convert as library
    except ModuleNotFoundError:
        raise TidegateError("drawing needs vl-convert-python; install tidegate[charts]") from None
    return library
