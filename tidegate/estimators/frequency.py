"""How often each key comes on each stream.

Law: a key has a record while a tuple of it is retained or being taken; all others that were counted
are *rare*. Each key has a line in one table (`key_lines`), which leads to its record or holds the
counts of a rare key in few bits. A key whose first tuple comes reads its counts there, one whose
last tuple leaves writes them back, and nothing is lost on the way, since counts are kept in
sixteenths (a rare key is counted up to 4,095; two rare keys that share a hash share their counts).
Counts are of one of these kinds:

`retained`  the tuples of a stream that are retained now
`window`    the tuples taken from a stream that its full window holds now, shed ones included. The
            log remembers (moment, hash) of the tuples of each stream, so that they can be counted
            out again when they die.
`sketched`  what `window` becomes when a window holds more tuples than its log has lines: a sketch
            with decay. Five times in a window every count is lowered by a fifth, so that a key's
            count goes on meaning what it meant: about how many of its tuples a window holds.
`faded`     all tuples taken, old ones for less: as `sketched`, but lowered once in a window, so
            that what is remembered is the weight of about five
`given`     shares told by the user; never changed. Each key that the user names has a record.

Rare keys that have faded away are forgotten; if their table is full, rare keys alone fade sooner.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.compiled import layout
from tidegate.compiled.frames import frame
from tidegate.compiled.kernel import kernel, part, step
from tidegate.compiled.layout import records
from tidegate.estimators import key_lines
from tidegate.estimators.hashes import following, place_of
from tidegate.estimators.key_lines import PARTS

RETAINED, WINDOW, FADED, GIVEN, SKETCHED = range(5)
STATISTICS = {"retained": RETAINED, "window": WINDOW, "faded": FADED, "given": GIVEN}

NO_KEY = 0  # the key of tuples that match nothing: its counts stay 0
FULL = -1
FADING = 0.8  # what is left of a count when it fades; mild, so that counts mean the same all along
FADES = 5  # in a window, of a sketch: what comes in a window is then what fades away in it

KEY = np.dtype(
    [
        ("code", np.int64),
        ("references", np.int32),  # of an unused key: -2 - the next unused one, -1: it is the last
    ]
)

BOOK = np.dtype(
    [
        ("statistics", np.int64),
        ("used", np.int64),
        ("first_free", np.int64),
        ("fresh", np.int64),  # keys from here on were never used
        ("rare", np.int64),  # rare keys
        ("most_lines", np.int64),  # that the table may have
        ("alike", np.int64),  # have two keys of one hash ever had records at once?
    ]
)

LINE = np.dtype([("moment", np.int64), ("mark", np.uint32)])  # 12 bytes; mark 0: of no key

PAGE = np.dtype([("begin", np.int64), ("length", np.int64)])


@frame
class Frequency(NamedTuple):
    """Counts of keys; flat arrays."""

    book: Any  # [0]
    keys: Any
    counts: NDArray[np.float32]  # [key, stream]; exact up to a million, and read by `count_of`
    marks: NDArray[np.uint32]  # open addressing: the hashes of the lines, 0: empty
    tallies: NDArray[np.uint16]  # [place, stream]: counts in parts, or which record
    pages: Any  # [stream]: the part of the ring in use
    log: Any  # [stream, line]


def block(streams: int, keys: int, **others: Any) -> dict[str, Any]:
    """The arrays `keys` and `counts` for so many keys besides NO_KEY, and others by key: all that
    is known of a key stands on one line of the cache, or two."""
    return layout.beside(keys + 1, keys=(KEY, 1), counts=(np.float32, streams), **others)


def empty(
    streams: int,
    keys: int,
    lines: int,
    statistics: int,
    columns: dict[str, Any] | None = None,
    most_rare: int = 1,
) -> Frequency:
    """Room for `keys` keys besides NO_KEY (in the `columns` of a block, if it is given), for at
    most so many rare keys, and a log of so many lines per stream."""
    book = records(BOOK, 1)
    book.statistics = statistics
    book.first_free, book.fresh = -1, 1
    rare = most_rare if statistics in (WINDOW, FADED, SKETCHED) else 0
    book.most_lines = rare + key_lines.room_for(keys)
    columns = columns or block(streams, keys)
    return Frequency(
        book=book,
        keys=columns["keys"],
        counts=columns["counts"],
        **key_lines.columns(min(rare, key_lines.FIRST) + key_lines.room_for(keys), streams),
        pages=records(PAGE, streams),
        log=records(LINE, (streams, lines if statistics == WINDOW else 1)),
    )


def grown(frequency: Frequency, columns: dict[str, Any]) -> Frequency:
    """The same counts, and what else is known by key, in a larger block; a key keeps its number."""
    more = key_lines.room_for(len(columns["keys"]) - 1) - key_lines.room_for(
        len(frequency.keys) - 1
    )
    layout.copy(frequency.keys, columns["keys"])
    bigger = frequency._replace(keys=columns["keys"], counts=columns["counts"])
    bigger.book[0].most_lines += more
    lines = len(frequency.marks) + more
    return key_lines.with_lines(bigger, lines, frequency.marks, frequency.tallies)


# --- keys with a record ------------------------------------------------------------------


@kernel
def find(book, code):
    """The key of a code, or FULL if it has no record."""
    marks = book.marks
    mark = key_lines.mark_of(code)
    place = place_of(len(marks), mark)
    while marks[place] != 0:
        if np.int64(marks[place]) & -2 == mark and key_lines.is_recorded(np.int64(marks[place])):
            key = key_lines.number_at(book, place)
            if book.keys[key].code == code:
                return key
        place = following(place, len(marks))
    return np.int64(FULL)


@kernel
def find_or_add(book, code):
    """The key of a code, with a new record if need be; FULL if there is no room for one."""
    marks, keys, head = book.marks, book.keys, book.book[0]
    mark = key_lines.mark_of(code)
    place = place_of(len(marks), mark)
    rare = np.int64(-1)
    while marks[place] != 0:
        if np.int64(marks[place]) & -2 == mark:
            if key_lines.is_recorded(np.int64(marks[place])):
                known = key_lines.number_at(book, place)
                if keys[known].code == code:
                    return known
                head.alike = 1
            else:
                rare = place
                if not head.alike:
                    break
        place = following(place, len(marks))
    key = np.int64(head.first_free)
    if key >= 0:
        head.first_free = -2 - keys[key].references
    elif head.fresh < len(keys):
        key = np.int64(head.fresh)
        head.fresh += 1
    else:
        return np.int64(FULL)
    keys[key].code = code
    keys[key].references = 0
    for stream in range(book.counts.shape[1]):
        book.counts[key, stream] = 0.0
    key_lines.lift(book, rare if rare >= 0 else place, mark, key)
    return key


@step
def count_of(counts, key, stream):
    """How often a key came on a stream."""
    return np.float64(counts[key, stream])


@step
def hold(keys, key):
    """Something refers to the key from now on."""
    keys[key].references += 1


@part
def let_go(book, key):
    """One reference less; without references a key has no record, unless it was given."""
    keys = book.keys
    keys[key].references -= 1
    if key != NO_KEY and keys[key].references == 0 and book.book[0].statistics != GIVEN:
        key_lines.lower(book, key, key_lines.mark_of(keys[key].code))
        keys[key].references = np.int32(-2 - book.book[0].first_free)
        book.book[0].first_free = key


# --- fading and the log ------------------------------------------------------------------


@step
def faded(count):
    """What is left of a count."""
    return np.float64(np.int64(count * PARTS) * 4 // 5) / PARTS


@part
def fade(book):
    """Lower all counts, in whole parts; forget rare keys that have faded away."""
    keys, counts = book.keys, book.counts
    for key in range(1, book.book[0].fresh):
        if keys[key].references >= 0:
            for stream in range(counts.shape[1]):
                counts[key, stream] = faded(count_of(counts, key, stream))
    key_lines.fade(book)


@step
def log_line(book, stream, moment, key):
    """Count a tuple in; the caller has made sure that the ring has a free line."""
    pages, log = book.pages, book.log
    line = pages[stream].begin + pages[stream].length
    if line >= log.shape[1]:
        line -= log.shape[1]
    mark = np.int64(0)
    if key != NO_KEY:
        mark = key_lines.mark_of(book.keys[key].code)
        book.counts[key, stream] += 1.0
    log[stream, line].moment = moment
    log[stream, line].mark = np.uint32(mark)
    pages[stream].length += 1


@step
def is_due(book, stream, horizon):
    """Is the oldest line from before the horizon?"""
    page = book.pages[stream]
    return page.length > 0 and book.log[stream, page.begin].moment < horizon


@part
def count_out(book, stream):
    """Drop the oldest line; returns the key whose count on `stream` it lowered, or NO_KEY if that
    key has no record."""
    page = book.pages[stream]
    mark = np.int64(book.log[stream, page.begin].mark)
    page.begin = page.begin + 1 if page.begin + 1 < book.log.shape[1] else 0
    page.length -= 1
    if mark == 0:
        return np.int64(NO_KEY)
    place = key_lines.find(book, mark)
    if key_lines.is_recorded(np.int64(book.marks[place])):
        key = key_lines.number_at(book, place)
        book.counts[key, stream] = max(0.0, count_of(book.counts, key, stream) - 1.0)
        return key
    if book.marks[place] != 0:
        key_lines.count_out(book, place, stream)
    return np.int64(NO_KEY)


@part
def give_up_log(book):
    """Count on as a sketch: lines are forgotten, counts stay."""
    for stream in range(len(book.pages)):
        book.pages[stream].length = 0
    book.book[0].statistics = SKETCHED


# --- fetching ahead ----------------------------------------------------------------------


@step
def warm_place(book, mark):
    """Bring near where the search for a hash begins."""
    layout.warm(book.marks, place_of(len(book.marks), mark))


@step
def likely_key(book, mark):
    """The key at the first place where a hash is looked for, or NO_KEY."""
    place = place_of(len(book.marks), mark)
    is_recorded = key_lines.is_recorded(np.int64(book.marks[place]))
    return key_lines.number_at(book, place) if is_recorded else np.int64(NO_KEY)


@step
def line_ahead(book, stream, ahead):
    """The hash of a line that is soon the oldest, or 0."""
    mark = np.int64(0)
    if book.pages[stream].length > ahead:
        line = book.pages[stream].begin + ahead
        if line >= book.log.shape[1]:
            line -= book.log.shape[1]
        mark = np.int64(book.log[stream, line].mark)
    return mark
