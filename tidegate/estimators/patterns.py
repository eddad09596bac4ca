"""Results per tuple of each existence pattern (kwon2011, section 3): the tables of EP.

Law: the existence pattern of a tuple says on which streams its key was when it came. For each
stream and pattern, r counts the results that tuples with it took part in and n how many of them
were retained; r/n is what a tuple with it is worth. A complete pattern is worth less than any
other: its results are there already.

Old evidence fades: when n reaches a limit, r and n of that pattern are halved. That leaves r/n as
it is, so no tuple changes its place among the victims. A tuple remembers how often its pattern was
halved before it came, and its results count with the weight that it has in n by now.

A stream is always in the patterns of its own tuples, so each has 2^(n-1) of them; a pattern's
*place* is its bits without that of the stream. With many streams most of them never occur, so only
places that were seen have a row in the tables, and these grow. A budget in bytes sets a limit to
that: places that are seen later share the row OTHERS.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.compiled.frames import frame
from tidegate.compiled.kernel import part, step

FADE = 1024  # tuples of a pattern, by default; not tuned
COMPLETE = -1.0  # what a complete pattern is worth: it goes first
FIRST = 16  # rows of the tables at first
WHOLE, OTHERS = range(2)  # rows: that of the complete pattern, and of all that have none
_NO_ROW = 2**16 - 1


@frame
class Patterns(NamedTuple):
    results: NDArray[np.float64]  # [row, stream]: r
    retained: NDArray[np.float64]  # n
    halved: NDArray[np.float64]  # how often both were
    row: NDArray[np.uint16]  # [place]
    place: NDArray[np.uint16]  # [row]; means nothing for OTHERS
    rows: NDArray[np.int64]  # [0]: rows in use, [1]: the most there may be
    fade: NDArray[np.float64]  # [0]: the limit of n
    together: NDArray[np.int64]  # [0]: streams that have the arrival's key in the same instant


def most_rows(streams: int) -> int:
    """A row for each pattern that the tuples of a stream can have, and OTHERS."""
    return 2 ** (streams - 1) + 1


def row_bytes(streams: int) -> int:
    """Of the tables here; groups and worths of patterns take as much again."""
    return 24 * streams + 2


def empty(streams: int, fade: float, most: int | None = None) -> Patterns:
    """Nothing is known yet; there will be at most so many rows."""
    most = min(most_rows(streams), most or most_rows(streams))
    row = np.full(2 ** (streams - 1), _NO_ROW, np.uint16)
    row[-1] = WHOLE
    rows = min(FIRST, most)
    tables = np.zeros((3, rows, streams), np.float64)
    place = np.zeros(rows, np.uint16)
    place[WHOLE] = len(row) - 1
    return Patterns(
        results=tables[0],
        retained=tables[1],
        halved=tables[2],
        row=row,
        place=place,
        rows=np.array([OTHERS + 1, most]),
        fade=np.array([fade]),
        together=np.zeros(1, np.int64),
    )


def with_rows(patterns: Patterns, rows: int) -> Patterns:
    """The same with room for so many rows."""
    before = len(patterns.place)
    tables = np.zeros((3, rows, patterns.results.shape[1]), np.float64)
    for table, old in zip(
        tables, (patterns.results, patterns.retained, patterns.halved), strict=True
    ):
        table[:before] = old
    place = np.zeros(rows, np.uint16)
    place[:before] = patterns.place
    return patterns._replace(results=tables[0], retained=tables[1], halved=tables[2], place=place)


@step
def needs_rows(patterns):
    """Is there no row left for the next place, and may there be more?"""
    rows = len(patterns.place)
    return patterns.rows[0] == rows and rows < patterns.rows[1]


@step
def row_of(patterns, place):
    """The row of a place; from now on, if it has none and there is room."""
    row = np.int64(patterns.row[place])
    if row == _NO_ROW:
        row = np.int64(OTHERS)
        if patterns.rows[0] < len(patterns.place):
            row = patterns.rows[0]
            patterns.rows[0] += 1
            patterns.row[place] = row
            patterns.place[row] = place
    return row


@step
def place_of(bits, stream):
    """Where the pattern of a tuple of `stream` stands."""
    above = bits >> (stream + 1)
    return (above << stream) | (bits & ((1 << stream) - 1))


@part
def worth_of(patterns, row, stream):
    """What a tuple of a pattern that was retained at least once is worth."""
    if row == WHOLE:
        return COMPLETE
    return patterns.results[row, stream] / patterns.retained[row, stream]


@part
def retain(patterns, row, stream):
    """One tuple more is retained."""
    patterns.retained[row, stream] += 1.0
    if patterns.retained[row, stream] >= patterns.fade[0]:
        patterns.results[row, stream] /= 2.0
        patterns.retained[row, stream] /= 2.0
        patterns.halved[row, stream] += 1.0


@part
def earn(patterns, row, stream, halved_before, results):
    """A tuple has taken part in so many results."""
    since = patterns.halved[row, stream] - halved_before
    patterns.results[row, stream] += results * 0.5**since
