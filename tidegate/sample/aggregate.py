"""What is asked of a sample: `count(*)`, `count(x)`, `sum(x)` or `avg(x)`."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from tidegate.spec import TidegateError

COUNT, SUM, AVG = "count", "sum", "avg"
_FORM = re.compile(r"\s*([a-zA-Z_]+)\s*\(\s*(.*?)\s*\)\s*")


class Aggregate(NamedTuple):
    """A function and its column; None for `count(*)`."""

    function: str
    column: str | None


def parse(text: Any) -> Aggregate:
    """Read an aggregate as SQL writes it.

    >>> parse("avg(price)")
    Aggregate(function='avg', column='price')
    """
    found = _FORM.fullmatch(text) if isinstance(text, str) else None
    function = found.group(1).lower() if found else ""
    if found is None or function not in (COUNT, SUM, AVG):
        raise TidegateError(
            f"aggregate {text!r} is not known; give 'count(*)', 'sum(x)' or 'avg(x)', where x is "
            "a column of the result"
        )
    column = found.group(2).strip('`"')
    if column == "*" and function == COUNT:
        return Aggregate(COUNT, None)
    if column in ("", "*"):
        raise TidegateError(f"aggregate {text!r} has no column; give such as '{function}(price)'")
    return Aggregate(function, column)
