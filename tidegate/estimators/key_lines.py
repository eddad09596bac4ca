"""A line for each key that was counted, with a record or without: eight bytes for two streams.

Law: a line holds 31 bits of a key's hash, and one that says whether the key has a record. If so,
the rest is the number of the record, which holds the counts; if not, 16 bits for the count on each
stream, in sixteenths, up to 4,095. So an arrival whose key comes for the first time, stays, is
evicted and counted out touches one line four times. Two keys without a record that share a hash
share their counts. Keys that have faded away are forgotten; if the table is full, keys without a
record fade sooner. The table is part of `frequency.Frequency`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tidegate.compiled import layout
from tidegate.compiled.kernel import kernel, part, step
from tidegate.estimators import hashes
from tidegate.estimators.hashes import ahead_of, following, place_of

if TYPE_CHECKING:
    from tidegate.estimators.frequency import Frequency

PARTS = 16  # of a count of 1: counts are whole numbers of these
FIRST = 256  # lines for keys without a record, at first
_MOST_PARTS = 65_535
_FADED_AWAY = 12  # parts: a key with less is not worth its line
_RECORDED = 1  # the bit of a line's mark that says that the key has a record
_FEWEST = 4
_FULL = 7  # tenths of the places


def columns(number: int, streams: int) -> dict[str, Any]:
    """An empty table: a hash and what stands beside it."""
    parts = layout.beside(max(_FEWEST, number), marks=(np.uint32, 1), tallies=(np.uint16, streams))
    return {"marks": parts["marks"][:, 0], "tallies": parts["tallies"]}


def line_bytes(streams: int) -> int:
    """Of one line."""
    return int(columns(1, streams)["marks"].strides[0])


def room_for(keys: int) -> int:
    """Lines of a table in which so many keys have a record."""
    return 3 * keys // 2 + _FEWEST


def with_more(frequency: Frequency) -> Frequency:
    """The same with a larger table, if it may be larger."""
    number = min(2 * len(frequency.marks), int(frequency.book[0].most_lines))
    return with_lines(frequency, number, frequency.marks, frequency.tallies)


def with_lines(frequency: Frequency, number: int, marks: Any, tallies: Any) -> Frequency:
    """The same with these lines, in a table of another size."""
    streams = frequency.tallies.shape[1]
    bigger = frequency._replace(**columns(number, streams))
    bigger.book[0].rare = 0
    # Copies, so that all callers hand over arrays of one type.
    enter_all(bigger, np.array(marks), np.array(tallies))
    return bigger


def is_rare(marks: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Of which lines has the key no record?"""
    return (marks != 0) & (marks & _RECORDED == 0)


def marks_of(codes: NDArray[np.int64]) -> NDArray[np.uint32]:
    """The hashes of many codes; see `mark_of`."""
    return shortened(hashes.marks_of(codes))


def shortened(marks: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Hashes without their last bit, which some were written with; 0 stays 0."""
    even = np.maximum(2, marks & np.uint32(0xFFFFFFFE)).astype(np.uint32)
    return np.where(marks == 0, np.uint32(0), even)


@step
def mark_of(code):
    """The hash by which a key is known when it has no record; never 0, and even."""
    return max(np.int64(2), hashes.mark_of(code) & -2)


# --- one line ----------------------------------------------------------------------------


@step
def is_recorded(mark):
    """Has the key of this line a record?"""
    return mark & np.int64(_RECORDED) != 0


@step
def number_at(book, place):
    """The record of a line whose key has one."""
    tallies = book.tallies
    return np.int64(tallies[place, 0]) | np.int64(tallies[place, 1]) << 16


@step
def record_at(book, place, mark, key):
    """The line's key has this record from now on."""
    book.marks[place] = np.uint32(mark | _RECORDED)
    book.tallies[place, 0] = np.uint16(key & 0xFFFF)
    book.tallies[place, 1] = np.uint16(key >> 16)


@part
def find(book, mark):
    """The first line with this hash, or the empty one where it would stand."""
    marks = book.marks
    place = place_of(len(marks), mark)
    while marks[place] != 0 and np.int64(marks[place]) & -2 != mark:
        place = following(place, len(marks))
    return place


@part
def lift(book, place, mark, key):
    """The key of a line that was found for it, empty or rare, gets this record, and its counts."""
    head = book.book[0]
    if book.marks[place] == 0:
        if is_full(book):
            _purge(book)
            place = find_empty(book.marks, mark)
    else:
        head.rare -= 1
        for stream in range(book.tallies.shape[1]):
            book.counts[key, stream] = np.float64(book.tallies[place, stream]) / PARTS
    head.used += 1
    record_at(book, place, mark, key)


@part
def lower(book, key, mark):
    """A key loses its record: its line keeps its counts in few bits, if there is anything to keep.

    If another key without a record has the same hash, that line becomes the line of both.
    """
    marks, head = book.marks, book.book[0]
    own, rare = np.int64(-1), np.int64(-1)
    place = place_of(len(marks), mark)
    while marks[place] != 0:
        if marks[place] == mark:
            rare = place
        elif marks[place] == mark | _RECORDED and number_at(book, place) == key:
            own = place
            if not head.alike:
                break
        place = following(place, len(marks))
    most = 0.0
    for stream in range(book.counts.shape[1]):
        most = max(most, np.float64(book.counts[key, stream]))
    head.used -= 1
    if most * PARTS < 1.0:
        take_out(book, own)
    else:
        if rare >= 0:
            take_out(book, rare)
            head.rare -= 1
            own = find_record(book, mark, key)
        marks[own] = np.uint32(mark)
        head.rare += 1
        for stream in range(book.tallies.shape[1]):
            parts = np.int64(np.float64(book.counts[key, stream]) * PARTS)
            book.tallies[own, stream] = np.uint16(min(np.int64(_MOST_PARTS), parts))


@part
def find_record(book, mark, key):
    """The line of a key with a record."""
    place = place_of(len(book.marks), mark)
    while book.marks[place] != mark | _RECORDED or number_at(book, place) != key:
        place = following(place, len(book.marks))
    return place


@part
def take_out(book, place):
    """Empty a line; those behind it move up, so that no search stops early."""
    marks, tallies = book.marks, book.tallies
    places = len(marks)
    hole = place
    place = following(place, places)
    while marks[place] != 0:
        home = place_of(places, np.int64(marks[place]) & -2)
        if ahead_of(place, home, places) >= ahead_of(place, hole, places):
            marks[hole] = marks[place]
            _copy(tallies, hole, place)
            hole = place
        place = following(place, places)
    marks[hole] = 0


@part
def count_out(book, place, stream):
    """A tuple of a key without a record has left its window."""
    tally = max(np.int64(0), np.int64(book.tallies[place, stream]) - PARTS)
    book.tallies[place, stream] = np.uint16(tally)
    most = np.int64(0)
    for other in range(book.tallies.shape[1]):
        most = max(most, np.int64(book.tallies[place, other]))
    if most == 0:
        take_out(book, place)
        book.book[0].rare -= 1


# --- all lines ---------------------------------------------------------------------------


@step
def find_empty(marks, mark):
    """The empty line at which the search for a hash ends."""
    place = place_of(len(marks), mark)
    while marks[place] != 0:
        place = following(place, len(marks))
    return place


@kernel
def enter_all(book, marks, tallies):
    """Put all lines of another table into this one, which has room for them."""
    for at in range(len(marks)):
        mark = np.int64(marks[at])
        if mark != 0:
            place = find_empty(book.marks, mark & -2)
            if not is_recorded(mark):
                place = find(book, mark)  # there twice, where hashes were longer
                book.book[0].rare += 1 if book.marks[place] == 0 else 0
            book.marks[place] = marks[at]
            for stream in range(tallies.shape[1]):
                book.tallies[place, stream] = tallies[at, stream]


@kernel
def enter_records(book):
    """All keys with a record get a line, and counts of the same keys as rare ones are dropped."""
    for key in range(1, book.book[0].fresh):
        if book.keys[key].references >= 0:
            mark = mark_of(book.keys[key].code)
            place = place_of(len(book.marks), mark)
            while book.marks[place] != 0 and book.marks[place] != mark:
                if book.marks[place] == mark | _RECORDED:
                    book.book[0].alike = 1
                place = following(place, len(book.marks))
            book.book[0].rare -= 1 if book.marks[place] == mark else 0
            record_at(book, place, mark, np.int64(key))


def enter_again(book: Frequency) -> None:
    """Compute the lines of keys with a record from these."""
    rare = is_rare(book.marks)
    marks, tallies = np.array(book.marks[rare]), np.array(book.tallies[rare])
    book.marks[:] = 0
    book.book[0].rare = 0
    enter_all(book, marks, tallies)
    enter_records(book)


@part
def _purge(book):
    """Let rare keys fade until a third of the lines that they may have is free."""
    most = _FULL * len(book.marks) // 10 - book.book[0].used
    while book.book[0].rare > 0 and 3 * book.book[0].rare > 2 * most:
        fade(book)


@part
def fade(book):
    """Lower the counts of all rare keys, and forget those that have faded away.

    One pass: behind a line that was taken out, up to the next empty one, each line is taken out
    and entered again. Between where a search for it begins and where it stood all lines were taken
    up before, so it comes to stand there at the latest. The pass begins behind an empty line, or
    the first lines would belong to the last.
    """
    marks, tallies = book.marks, book.tallies
    places = len(marks)
    place = np.int64(0)
    while marks[place] != 0:
        place += 1
    is_settled = True
    for _ in range(places):
        place = following(place, places)
        mark = np.int64(marks[place])
        if mark == 0:
            is_settled = True
        else:
            most = np.int64(_MOST_PARTS)
            if not is_recorded(mark):
                # The first two by themselves: compilers make much of loops that are short.
                most = max(_faded(tallies, place, 0), _faded(tallies, place, 1))
                for stream in range(2, tallies.shape[1]):
                    most = max(most, _faded(tallies, place, stream))
            if most < _FADED_AWAY:
                marks[place] = 0
                book.book[0].rare -= 1
                is_settled = False
            elif not is_settled:
                marks[place] = 0
                _enter_again(marks, tallies, place, mark)


@step
def _faded(tallies, place, stream):
    """Lower one count of a line; returns what is left."""
    left = np.int64(tallies[place, stream]) * 4 // 5
    tallies[place, stream] = np.uint16(left)
    return left


@step
def _copy(tallies, target, source):
    """What stands beside a hash, from one line to another."""
    tallies[target, 0] = tallies[source, 0]
    tallies[target, 1] = tallies[source, 1]
    for stream in range(2, tallies.shape[1]):
        tallies[target, stream] = tallies[source, stream]


@step
def _enter_again(marks, tallies, place, mark):
    """Enter the line that stood in a place where the search for it ends now."""
    target = find_empty(marks, mark & -2)
    marks[target] = np.uint32(mark)
    _copy(tallies, target, place)


@step
def needs_lines(book):
    """Should the table grow, if it may?"""
    return is_full(book) and len(book.marks) < book.book[0].most_lines


@step
def is_full(book):
    """Are there as many lines as may be? With more of them searches get long."""
    return 10 * (book.book[0].rare + book.book[0].used + 1) > _FULL * len(book.marks)
