"""A push in stretches: its rows up to a moment, then those up to the next.

Law: every row is in one stretch, and stretches follow each other in time. Rows that cannot be
joined have no time that counts; they go with the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.binding.batching import kept_rows, select
from tidegate.binding.binding import Encoded
from tidegate.columns.storage import some_rows

_NEVER, _LAST = -(2**63), 2**63 - 1

Given = Mapping[int, pa.Table]
Encodings = Mapping[int, Encoded]


class Stretch(NamedTuple):
    """Rows by stream, and the first time among them; None where no row can be joined."""

    given: Given
    encoded: Encodings
    first: int | None


def stretches_of(
    given: Given, encoded: Encodings, moment_after: Callable[[int], int]
) -> Iterator[Stretch]:
    """Cut before each moment; `moment_after` is asked when the stretches before were taken."""
    while True:
        times = {stream: _times(part) for stream, part in encoded.items()}
        first = min(
            (int(t.min(initial=_LAST, where=t > _NEVER)) for t in times.values()), default=_LAST
        )
        end = _LAST if first == _LAST else moment_after(first)
        now = {stream: time < end for stream, time in times.items()}
        if all(mask.all() for mask in now.values()):
            yield Stretch(given, encoded, None if first == _LAST else first)
            return
        yield Stretch(*_some(given, encoded, now), first)
        given, encoded = _some(given, encoded, {stream: ~mask for stream, mask in now.items()})


def _times(part: Encoded) -> NDArray[np.int64]:
    """Times of the rows; rows that cannot be joined stand before all others."""
    kept = kept_rows(part)
    return part.time if kept is None else np.where(kept, part.time, _NEVER)


def _some(
    given: Given, encoded: Encodings, masks: Mapping[int, NDArray[np.bool_]]
) -> tuple[Given, Encodings]:
    """Some rows of each stream."""
    tables, parts = {}, {}
    for stream, mask in masks.items():
        part, run = encoded[stream], _in_a_row(mask)
        if run is None:
            tables[stream] = some_rows(given[stream], pa.array(mask))
        else:
            tables[stream] = given[stream].slice(run.start, run.stop - run.start)
        rows = mask if run is None else run
        rejected = {reason: bad[rows] for reason, bad in part.rejected.items()}
        parts[stream] = select(part, rows)._replace(rejected=rejected)
    return tables, parts


def _in_a_row(mask: NDArray[np.bool_]) -> slice | None:
    """The rows of a mask if they follow each other, as in a table in order of time."""
    count = int(mask.sum())
    begin = int(mask.argmax()) if count else 0
    return slice(begin, begin + count) if mask[begin : begin + count].all() else None
