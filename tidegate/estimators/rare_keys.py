"""Counts of keys without a record: a hash and a few bits per stream.

Law: a line holds 32 bits of a key's hash and 16 for its count on each stream, in sixteenths, up to
4,095; two keys that share a hash share their counts. Keys that have faded away are forgotten; if
the table is full, its keys fade sooner. The table is part of `frequency.Frequency`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate.compiled import layout
from tidegate.compiled.kernel import kernel, part, step
from tidegate.estimators.hashes import ahead_of, following, mark_of, place_of

if TYPE_CHECKING:
    from tidegate.estimators.frequency import Frequency

PARTS = 16  # of a count of 1: counts are whole numbers of these
FIRST = 256  # lines of the table, at first
_MOST_PARTS = 65_535
_FADED_AWAY = 12  # parts: a key with less is not worth its line


def lines(number: int, streams: int) -> dict[str, Any]:
    """An empty table of rare keys: a hash and its counts stand side by side."""
    columns = layout.beside(max(2, number), marks=(np.uint32, 1), tallies=(np.uint16, streams))
    return {"marks": columns["marks"][:, 0], "tallies": columns["tallies"]}


def with_more(frequency: Frequency) -> Frequency:
    """The same with a larger table of rare keys, if it may be larger."""
    rare = min(2 * len(frequency.marks), int(frequency.book[0].most_rare))
    return with_lines(frequency, rare, frequency.marks, frequency.tallies)


def with_lines(frequency: Frequency, rare: int, marks: Any, tallies: Any) -> Frequency:
    """The same with these rare keys, in a table of so many lines."""
    streams = frequency.tallies.shape[1]
    bigger = frequency._replace(**lines(rare, streams))
    bigger.book[0].rare = 0
    # Copies, so that all callers hand over arrays of one type.
    enter_all(bigger, np.array(marks), np.array(tallies))
    return bigger


@part
def find(book, mark):
    """The place of a rare key, or of the empty line where it would stand."""
    marks = book.marks
    place = place_of(len(marks), mark)
    while marks[place] != 0 and marks[place] != mark:
        place = following(place, len(marks))
    return place


@part
def forget(book, place):
    """Take a rare key out of its table."""
    marks, tallies = book.marks, book.tallies
    places = len(marks)
    hole = place
    place = following(place, places)
    while marks[place] != 0:
        home = place_of(places, np.int64(marks[place]))
        if ahead_of(place, home, places) >= ahead_of(place, hole, places):
            marks[hole] = marks[place]
            for stream in range(tallies.shape[1]):
                tallies[hole, stream] = tallies[place, stream]
            hole = place
        place = following(place, places)
    marks[hole] = 0
    book.book[0].rare -= 1


@part
def read(book, mark, key):
    """A key gets a record, with the counts that it had as a rare key.

    Its line stays where it is and means nothing until the key is let go: most arrivals are refused
    at once, and then only the counts have changed.
    """
    place = find(book, mark)
    if book.marks[place] != 0:
        for stream in range(book.tallies.shape[1]):
            book.counts[key, stream] = np.float64(book.tallies[place, stream]) / PARTS


@part
def write(book, key):
    """A key loses its record: its counts are kept in few bits, if there is anything to keep."""
    mark = mark_of(book.keys[key].code)
    most = 0.0
    for stream in range(book.counts.shape[1]):
        most = max(most, np.float64(book.counts[key, stream]))
    place = find(book, mark)
    if most * PARTS < 1.0:
        if book.marks[place] != 0:
            forget(book, place)
        return
    if book.marks[place] == 0:
        if 4 * (book.book[0].rare + 1) > 3 * len(book.marks):
            _purge(book)
            place = find(book, mark)
        book.marks[place] = np.uint32(mark)
        book.book[0].rare += 1
    for stream in range(book.tallies.shape[1]):
        parts = min(np.int64(_MOST_PARTS), np.int64(np.float64(book.counts[key, stream]) * PARTS))
        book.tallies[place, stream] = np.uint16(parts)


@kernel
def enter_all(book, marks, tallies):
    """Put all keys of another table of rare keys into this one, which has room for them."""
    for at in range(len(marks)):
        if marks[at] != 0:
            place = find(book, np.int64(marks[at]))
            book.marks[place] = marks[at]
            for stream in range(tallies.shape[1]):
                book.tallies[place, stream] = tallies[at, stream]
            book.book[0].rare += 1


@part
def _purge(book):
    """Let rare keys fade until half of their table is free: in a full one searches are long."""
    while 2 * book.book[0].rare > len(book.marks):
        fade(book)


@part
def fade(book):
    """Lower the counts of all rare keys, and forget those that have faded away.

    One pass: each line is taken out and, if it stays, entered again. Between where a search for it
    begins and where it stood all lines were taken up before, so it comes to stand there at the
    latest. The pass begins behind an empty line, or the first lines would belong to the last.
    """
    marks, tallies = book.marks, book.tallies
    places = len(marks)
    place = np.int64(0)
    while marks[place] != 0:
        place += 1
    for _ in range(places):
        place = following(place, places)
        mark = np.int64(marks[place])
        if mark != 0:
            most = np.int64(0)
            for stream in range(tallies.shape[1]):
                left = np.int64(tallies[place, stream]) * 4 // 5
                tallies[place, stream] = np.uint16(left)
                most = max(most, left)
            marks[place] = 0
            if most < _FADED_AWAY:
                book.book[0].rare -= 1
            else:
                _enter_again(marks, tallies, place, mark)


@step
def _enter_again(marks, tallies, place, mark):
    """Enter the line that stood in a place where the search for it ends now."""
    places = len(marks)
    target = place_of(places, mark)
    while marks[target] != 0:
        target = following(target, places)
    marks[target] = np.uint32(mark)
    if target != place:
        for stream in range(tallies.shape[1]):
            tallies[target, stream] = tallies[place, stream]


@step
def needs_lines(book):
    """Should the table of rare keys grow, if it may? It has room for all keys with a record too,
    since any number of them can become rare by one arrival."""
    lines = len(book.marks)
    known = book.book[0].rare + book.book[0].used
    return 4 * (known + 1) > 3 * lines and lines < book.book[0].most_rare
