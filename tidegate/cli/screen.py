"""What people see while a command runs, and how its answer is printed.

Law: the answer goes to standard output; everything else goes to standard error and can be turned
off. On a terminal progress is a bar, elsewhere a line from time to time, and nothing within the
first two seconds.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console

SECONDS_BEFORE_PROGRESS = 2.0
SECONDS_BETWEEN_LINES = 5.0

Progress = Callable[[int, int], None]


def say(sentence: str) -> None:
    """Tell the user something that is not the answer."""
    print(sentence, file=sys.stderr, flush=True)


def answer(payload: Mapping[str, Any]) -> None:
    """Print the one JSON object of a command."""
    print(json.dumps(_plain(payload), allow_nan=False, indent=2))


def _plain(value: Any) -> Any:
    """The value as JSON can hold it: what has no form there becomes its text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    # numpy's numbers say what they are in plain Python; dates, decimals and bytes do not.
    return _plain(value.item()) if hasattr(value, "item") else str(value)


def console() -> Console:
    """Where tables for people are drawn."""
    return Console(highlight=False)


@contextmanager
def progress_of(what: str, quiet: bool = False, unit: str = "rows") -> Iterator[Progress]:
    """A function `progress(rows done, rows in total)` that shows how far `what` is."""
    if quiet:
        yield _nothing
    elif sys.stderr.isatty():
        with _bar(what, unit) as advance:
            yield advance
    else:
        yield _lines(what, unit)


def _nothing(done: int, total: int) -> None:
    """Show no progress."""


@contextmanager
def _bar(what: str, unit: str) -> Iterator[Progress]:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bars

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(f"{unit},"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(what, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def _lines(what: str, unit: str) -> Progress:
    began = time.monotonic()
    said = began + SECONDS_BEFORE_PROGRESS - SECONDS_BETWEEN_LINES

    def advance(done: int, total: int) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said >= SECONDS_BETWEEN_LINES and done < total:
            said = now
            say(f"{what}: {100 * done // total} % ({done:,} of {total:,} {unit})")

    return advance
