"""Encoded tables of one push become `Arrivals`.

Law: rejected rows are gone before this point; what is left is put in order of time within its
stream (stable), and each row knows the address of its payload.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tidegate.binding.binding import Encoded
from tidegate.compiled.scratch import Scratch
from tidegate.windows.arrivals import Arrivals


def kept_rows(encoded: Encoded) -> NDArray[np.bool_] | None:
    """Which rows can be joined at all; None if all of them."""
    bad = np.zeros(len(encoded.time), np.bool_)
    for mask in encoded.rejected.values():
        bad |= mask
    return ~bad if bad.any() else None


def select(encoded: Encoded, rows: NDArray[np.bool_] | NDArray[np.int64] | slice) -> Encoded:
    """Some rows of an encoded table, by mask, in a new order, or those in a row."""
    return encoded._replace(
        time=encoded.time[rows],
        code=encoded.code[rows],
        importance=encoded.importance[rows] if len(encoded.importance) else encoded.importance,
        matchable=encoded.matchable[rows],
        values=encoded.values[rows],
        sets=tuple(s._replace(begin=s.begin[rows], length=s.length[rows]) for s in encoded.sets),
    )


def by_time(encoded: Encoded, base: int) -> tuple[Encoded, NDArray[np.int64], int]:
    """The rows in order of time, the address of the payload of each, and their disorder.

    The disorder is how far an address can lie below one that stands before it.
    """
    address = np.arange(base, base + len(encoded.time), dtype=np.int64)
    if len(encoded.time) > 1 and (encoded.time[1:] < encoded.time[:-1]).any():
        order = np.argsort(encoded.time, kind="stable")
        overtaken = np.maximum.accumulate(order) - order
        return select(encoded, order), address[order], int(overtaken.max())
    return encoded, address, 0


def arrivals_of(
    parts: Sequence[Encoded],
    rows: Sequence[NDArray[np.int64]],
    sizes: NDArray[np.int64],
    scratch: Scratch,
) -> Arrivals:
    """All streams of a push, one after the other; good until the next push."""
    counts = [len(part.time) for part in parts]
    ends = np.cumsum(counts, dtype=np.int64)
    values = np.ascontiguousarray(np.concatenate([part.values for part in parts]))
    spans, items, weights = _joined_sets(parts, int(ends[-1]))
    return Arrivals(
        begin=ends - np.array(counts, np.int64),
        end=ends,
        time=scratch.joined("time", [part.time for part in parts]),
        code=scratch.joined("code", [part.code for part in parts]),
        row=scratch.joined("row", rows),
        importance=scratch.joined("importance", [part.importance for part in parts]),
        matchable=scratch.joined("matchable", [part.matchable for part in parts]),
        values=values,
        reals=values.view(np.float64),
        spans=spans,
        items=items,
        weights=weights,
        size=sizes,
    )


def _joined_sets(
    parts: Sequence[Encoded], total: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    terms = len(parts[0].sets)
    spans = np.zeros((total, terms, 2), np.int64)
    items: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    weights: list[NDArray[np.float64]] = [np.zeros(0, np.float64)]
    row = shift = 0
    for part in parts:
        for term, sets in enumerate(part.sets):
            spans[row : row + len(sets.begin), term, 0] = sets.begin + shift
            spans[row : row + len(sets.begin), term, 1] = sets.length
            items.append(sets.items)
            weights.append(sets.weights)
            shift += len(sets.items)
        row += len(part.time)
    return spans, np.concatenate(items), np.concatenate(weights)
