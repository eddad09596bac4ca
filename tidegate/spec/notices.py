"""What deserves a warning in the numbers of a join.

Law: a stream that takes no part in a join, though rows came, is not silent about it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping

LOG = logging.getLogger("tidegate")


def rejected_streams(stats: Mapping[str, float], streams: Iterable[str]) -> Iterator[str]:
    """A sentence for each stream whose rows were all rejected.

    >>> stats = {"rows_in_a": 5, "rejected_a": 5, "rows_in_b": 5, "rejected_importance": 5}
    >>> list(rejected_streams(stats, ("a", "b")))
    ["all 5 rows of stream 'a' were rejected (importance), so nothing can match; ..."]
    """
    names = list(streams)
    for name in names:
        rows = stats.get(f"rows_in_{name}", 0)
        if rows and stats.get(f"rejected_{name}", 0) == rows:
            reasons = _reasons(stats, names)
            why = f" ({', '.join(reasons)})" if reasons else ""
            yield (
                f"all {rows:,.0f} rows of stream {name!r} were rejected{why}, so nothing can "
                "match; look at the examples of rejected rows"
            )


def rejected_rows(stats: Mapping[str, float], streams: Iterable[str]) -> str:
    """A sentence about the rows that cannot be joined; none where all can.

    >>> stats = {"rows_in": 9, "rejected": 5, "rejected_b": 5, "rejected_importance": 5}
    >>> rejected_rows(stats, ("a", "b"))
    '5 of 9 rows cannot be joined (importance)'
    """
    if not stats["rejected"]:
        return ""
    why = ", ".join(_reasons(stats, list(streams)))
    return f"{stats['rejected']:,.0f} of {stats['rows_in']:,.0f} rows cannot be joined ({why})"


def _reasons(stats: Mapping[str, float], names: list[str]) -> list[str]:
    return [
        key.removeprefix("rejected_").replace("_", " ")
        for key, count in stats.items()
        if key.startswith("rejected_") and count
        if key.removeprefix("rejected_") not in names and not _of_stream(key, names)
    ]


def _of_stream(key: str, streams: Iterable[str]) -> bool:
    """Whether a reason is counted for one stream, as `rejected_ahead_left` is."""
    return any(key.endswith(f"_{name}") for name in streams)


def warn_of_rejected(stats: Mapping[str, float], streams: Iterable[str]) -> None:
    """Log a warning for each stream whose rows were all rejected."""
    for sentence in rejected_streams(stats, streams):
        LOG.warning("%s", sentence)
