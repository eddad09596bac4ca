"""The libraries that draw charts, loaded when the first chart is wanted; the lab uses them too."""

from __future__ import annotations

from typing import Any

from tidegate.spec import TidegateError


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
