"""The live line: the numbers of a running query, one line that is written over and over.

Law: it only reads. Where standard error is no terminal, a line is written from time to time
instead, and where the output is for programs, none.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

SECONDS_BETWEEN_READINGS = 0.4
SECONDS_BETWEEN_LINES = 5.0


class LiveLine:
    """One line about one run."""

    def __init__(self, name: str, quiet: bool = False) -> None:
        self._name = name
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._said = time.monotonic()

    def show(self, batch: int, total: Mapping[str, float], budget: int | None) -> None:
        """Write the newest numbers."""
        if self._quiet or batch < 0:
            return
        text = f"  {self._name}: {line_of(batch, total, budget)}"
        if self._terminal:
            sys.stderr.write("\r\x1b[K" + text)
        elif time.monotonic() - self._said >= SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def end(self) -> None:
        """Leave an empty line for what comes next."""
        if self._terminal and not self._quiet:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def line_of(batch: int, total: Mapping[str, float], budget: int | None) -> str:
    """The numbers of a join as people read them.

    >>> total = {"rows_read": 5000, "rows_out": 1200, "memory_rows": 90, "evicted": 7, "refused": 3}
    >>> line_of(4, total, 100)
    'micro-batch 5 | 5,000 rows in | 1,200 results | remembers 90 of at most 100 | forgot 10 early'
    """
    limit = "" if budget is None else f" of at most {budget:,}"
    forgot = total.get("evicted", 0) + total.get("refused", 0)
    return (
        f"micro-batch {batch + 1} | {total.get('rows_read', 0):,.0f} rows in | "
        f"{total.get('rows_out', 0):,.0f} results | "
        f"remembers {total.get('memory_rows', 0):,.0f}{limit} | forgot {forgot:,.0f} early"
    )


def watch(query: Any, line: LiveLine, budget: int | None) -> None:
    """Show the numbers of a Spark query until it ends."""
    from tidegate.spark import metrics

    while not query.awaitTermination(SECONDS_BETWEEN_READINGS):
        found = metrics(query)
        line.show(found.batch, found.total, budget)
    line.end()
