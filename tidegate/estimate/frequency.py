"""How often each key comes on each stream.

Law: a key has a record while a tuple of it is retained or being taken; all others that were counted
are *rare* and have a line of bits: 32 of a hash, and 16 for the count on each stream. A key whose
first tuple comes reads its counts there, one whose last tuple leaves writes them back, and nothing
is lost on the way, since counts are kept in sixteenths (a rare key is counted up to 4,095; two rare
keys that share a hash share their counts). Counts are of one of these kinds:

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
from tidegate.compiled.kernel import inlined, kernel, part
from tidegate.compiled.layout import records

RETAINED, WINDOW, FADED, GIVEN, SKETCHED = range(5)
STATISTICS = {"retained": RETAINED, "window": WINDOW, "faded": FADED, "given": GIVEN}

NO_KEY = 0  # the key of tuples that match nothing: its counts stay 0
FULL = -1
FADING = 0.8  # what is left of a count when it fades; mild, so that counts mean the same all along
FADES = 5  # in a window, of a sketch: what comes in a window is then what fades away in it
PARTS = 16  # of a count of 1: counts are whole numbers of these
_MOST_PARTS = 65_535  # of a rare key
_FADED_AWAY = 12  # parts: a rare key with less is not worth its line
FIRST_RARE = 256  # lines of the table of rare keys, at first

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
        ("most_rare", np.int64),  # lines that their table may have
    ]
)

LINE = np.dtype([("moment", np.int64), ("mark", np.uint32)])  # 12 bytes; mark 0: of no key

PAGE = np.dtype([("begin", np.int64), ("length", np.int64)])

_MIX_1 = np.uint64(0xFF51AFD7ED558CCD)
_MIX_2 = np.uint64(0xC4CEB9FE1A85EC53)
_HALF = np.uint64(32)
_ODD = np.uint64(33)


@frame
class Frequency(NamedTuple):
    """Counts of keys; flat arrays. `table` is made again after a snapshot."""

    book: Any  # [0]
    table: NDArray[np.int32]  # open addressing: place -> key, -1: empty
    homes: NDArray[np.uint32]  # [place]: the hash of that key
    keys: Any
    counts: NDArray[np.float32]  # [key, stream]; exact up to a million, and read by `count_of`
    marks: NDArray[np.uint32]  # open addressing: hashes of rare keys, 0: empty
    tallies: NDArray[np.uint16]  # [place, stream]: their counts, in parts
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
    """Room for `keys` keys besides NO_KEY (in the `columns` of a block, if it is given), for rare
    keys, and a log of so many lines per stream."""
    book = records(BOOK, 1)
    book.statistics = statistics
    book.first_free, book.fresh = -1, 1
    counts_rare = statistics in (WINDOW, FADED, SKETCHED)
    book.most_rare = most_rare if counts_rare else 1
    columns = columns or block(streams, keys)
    rare = min(FIRST_RARE, int(book[0].most_rare))
    return Frequency(
        book=book,
        **_places(keys + 1),
        keys=columns["keys"],
        counts=columns["counts"],
        **_rare_lines(rare, streams),
        pages=records(PAGE, streams),
        log=records(LINE, (streams, lines if statistics == WINDOW else 1)),
    )


def _rare_lines(lines: int, streams: int) -> dict[str, Any]:
    """An empty table of rare keys: a hash and its counts stand side by side."""
    columns = layout.beside(max(2, lines), marks=(np.uint32, 1), tallies=(np.uint16, streams))
    return {"marks": columns["marks"][:, 0], "tallies": columns["tallies"]}


def _places(keys: int) -> dict[str, Any]:
    """An empty table: a key and its hash stand side by side, so that a search reads one line."""
    places = keys + keys // 2 + 16
    columns = layout.beside(places, table=(np.int32, 1), homes=(np.uint32, 1))
    columns["table"][:] = -1
    return {name: column[:, 0] for name, column in columns.items()}


def grown(frequency: Frequency, columns: dict[str, Any]) -> Frequency:
    """The same counts, and what else is known by key, in a larger block; a key keeps its number."""
    layout.copy(frequency.keys, columns["keys"])
    bigger = frequency._replace(
        keys=columns["keys"], counts=columns["counts"], **_places(len(columns["keys"]))
    )
    rebuild(bigger)
    return bigger


def with_more_rare(frequency: Frequency) -> Frequency:
    """The same with a larger table of rare keys, if it may be larger."""
    rare = min(2 * len(frequency.marks), int(frequency.book[0].most_rare))
    return with_rare(frequency, rare, frequency.marks, frequency.tallies)


def with_rare(frequency: Frequency, rare: int, marks: Any, tallies: Any) -> Frequency:
    """The same with these rare keys, in a table of so many lines."""
    streams = frequency.tallies.shape[1]
    bigger = frequency._replace(**_rare_lines(rare, streams))
    bigger.book[0].rare = 0
    # Copies, so that all callers hand over arrays of one type.
    _enter_all(bigger, np.array(marks), np.array(tallies))
    return bigger


# --- hashes ------------------------------------------------------------------------------


@inlined
def mark_of(code):
    """The hash by which a key is known when it has no record; never 0."""
    mixed = np.uint64(code)
    mixed = (mixed ^ (mixed >> _ODD)) * _MIX_1
    mixed = (mixed ^ (mixed >> _ODD)) * _MIX_2
    return max(np.int64(1), np.int64(mixed >> _HALF))


def marks_of(codes: NDArray[np.int64]) -> NDArray[np.uint32]:
    """The hashes of many codes; see `mark_of`."""
    mixed = codes.astype(np.int64).view(np.uint64)
    for factor in (_MIX_1, _MIX_2):
        mixed = (mixed ^ (mixed >> _ODD)) * factor
    return np.maximum(1, mixed >> _HALF).astype(np.uint32)


@inlined
def place_of(places, mark):
    """Where the search for a hash begins, in a table of so many places."""
    return np.int64((np.uint64(mark) * np.uint64(places)) >> _HALF)


@inlined
def following(place, places):
    return place + 1 if place + 1 < places else np.int64(0)


@inlined
def ahead_of(place, home, places):
    """How many places a search from `home` has gone when it comes to `place`."""
    return place - home if place >= home else place - home + places


# --- keys with a record ------------------------------------------------------------------


@kernel
def rebuild(book):
    """Fill the table from the keys in use."""
    table, keys = book.table, book.keys
    for place in range(len(table)):
        table[place] = -1
    for key in range(1, book.book[0].fresh):
        if keys[key].references >= 0:
            mark = mark_of(keys[key].code)
            place = place_of(len(table), mark)
            while table[place] >= 0:
                place = following(place, len(table))
            table[place] = key
            book.homes[place] = np.uint32(mark)


@kernel
def find(book, code):
    """The key of a code, or FULL if it has no record."""
    table, keys = book.table, book.keys
    mark = mark_of(code)
    place = place_of(len(table), mark)
    while table[place] >= 0:
        if book.homes[place] == mark and keys[table[place]].code == code:
            return np.int64(table[place])
        place = following(place, len(table))
    return np.int64(FULL)


@part
def find_marked(book, mark):
    """A key with this hash that has a record, or FULL."""
    table = book.table
    place = place_of(len(table), mark)
    while table[place] >= 0:
        if book.homes[place] == mark:
            return np.int64(table[place])
        place = following(place, len(table))
    return np.int64(FULL)


@kernel
def find_or_add(book, code):
    """The key of a code, with a new record if need be; FULL if there is no room for one."""
    table, keys, head = book.table, book.keys, book.book[0]
    mark = mark_of(code)
    place = place_of(len(table), mark)
    while table[place] >= 0:
        if book.homes[place] == mark and keys[table[place]].code == code:
            return np.int64(table[place])
        place = following(place, len(table))
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
    table[place] = key
    book.homes[place] = np.uint32(mark)
    head.used += 1
    if head.rare > 0:
        _read_rare(book, mark, key)
    return key


@part
def _drop(book, key):
    """Take a key out of the table; the ones behind it move up, so that no search stops early."""
    table, homes, keys, head = book.table, book.homes, book.keys, book.book[0]
    places = len(table)
    place = place_of(places, mark_of(keys[key].code))
    while table[place] != key:
        place = following(place, places)
    hole = place
    place = following(place, places)
    while table[place] >= 0:
        home = place_of(places, np.int64(homes[place]))
        if ahead_of(place, home, places) >= ahead_of(place, hole, places):
            table[hole] = table[place]
            homes[hole] = homes[place]
            hole = place
        place = following(place, places)
    table[hole] = -1
    keys[key].references = np.int32(-2 - head.first_free)
    head.first_free = key
    head.used -= 1


@inlined
def count_of(counts, key, stream):
    """How often a key came on a stream."""
    return np.float64(counts[key, stream])


@inlined
def hold(keys, key):
    """Something refers to the key from now on."""
    keys[key].references += 1


@part
def let_go(book, key):
    """One reference less; without references a key has no record, unless it was given."""
    keys = book.keys
    keys[key].references -= 1
    if key != NO_KEY and keys[key].references == 0 and book.book[0].statistics != GIVEN:
        _write_rare(book, key)
        _drop(book, key)


# --- rare keys ---------------------------------------------------------------------------


@part
def _find_rare(book, mark):
    """The place of a rare key, or of the empty line where it would stand."""
    marks = book.marks
    place = place_of(len(marks), mark)
    while marks[place] != 0 and marks[place] != mark:
        place = following(place, len(marks))
    return place


@part
def _forget(book, place):
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
def _read_rare(book, mark, key):
    """A key gets a record, with the counts that it had as a rare key.

    Its line stays where it is and means nothing until the key is let go: most arrivals are refused
    at once, and then only the counts have changed.
    """
    place = _find_rare(book, mark)
    if book.marks[place] != 0:
        for stream in range(book.tallies.shape[1]):
            book.counts[key, stream] = np.float64(book.tallies[place, stream]) / PARTS


@part
def _write_rare(book, key):
    """A key loses its record: its counts are kept in few bits, if there is anything to keep."""
    mark = mark_of(book.keys[key].code)
    most = 0.0
    for stream in range(book.counts.shape[1]):
        most = max(most, count_of(book.counts, key, stream))
    place = _find_rare(book, mark)
    if most * PARTS < 1.0:
        if book.marks[place] != 0:
            _forget(book, place)
        return
    if book.marks[place] == 0:
        if 4 * (book.book[0].rare + 1) > 3 * len(book.marks):
            _purge(book)
            place = _find_rare(book, mark)
        book.marks[place] = np.uint32(mark)
        book.book[0].rare += 1
    for stream in range(book.tallies.shape[1]):
        parts = min(np.int64(_MOST_PARTS), np.int64(count_of(book.counts, key, stream) * PARTS))
        book.tallies[place, stream] = np.uint16(parts)


@kernel
def _enter_all(book, marks, tallies):
    """Put all keys of another table of rare keys into this one, which has room for them."""
    for at in range(len(marks)):
        if marks[at] != 0:
            place = _find_rare(book, np.int64(marks[at]))
            book.marks[place] = marks[at]
            for stream in range(tallies.shape[1]):
                book.tallies[place, stream] = tallies[at, stream]
            book.book[0].rare += 1


@part
def _purge(book):
    """Let rare keys fade until half of their table is free: in a full one searches are long."""
    while 2 * book.book[0].rare > len(book.marks):
        fade_rare(book)


@part
def fade_rare(book):
    """Lower the counts of all rare keys, and forget those that have faded away."""
    place = np.int64(0)
    marks, tallies = book.marks, book.tallies
    for place in range(len(marks)):
        if marks[place] != 0:
            for stream in range(tallies.shape[1]):
                tallies[place, stream] = np.uint16(np.int64(tallies[place, stream]) * 4 // 5)
    place = np.int64(0)
    while place < len(marks):
        most = 0
        for stream in range(tallies.shape[1]):
            most = max(most, np.int64(tallies[place, stream]))
        if marks[place] != 0 and most < _FADED_AWAY:
            _forget(book, place)  # one that stood behind may stand here now
        else:
            place += 1


@inlined
def needs_lines(book):
    """Should the table of rare keys grow, if it may? It has room for all keys with a record too,
    since any number of them can become rare by one arrival."""
    lines = len(book.marks)
    known = book.book[0].rare + book.book[0].used
    return 4 * (known + 1) > 3 * lines and lines < book.book[0].most_rare


# --- fading and the log ------------------------------------------------------------------


@part
def fade(book):
    """Lower all counts, in whole parts; forget rare keys that have faded away."""
    keys, counts = book.keys, book.counts
    for key in range(1, book.book[0].fresh):
        if keys[key].references >= 0:
            for stream in range(counts.shape[1]):
                parts = np.int64(count_of(counts, key, stream) * PARTS) * 4 // 5
                counts[key, stream] = np.float64(parts) / PARTS
    fade_rare(book)


@inlined
def log_line(book, stream, moment, key):
    """Count a tuple in; the caller has made sure that the ring has a free line."""
    pages, log = book.pages, book.log
    line = pages[stream].begin + pages[stream].length
    if line >= log.shape[1]:
        line -= log.shape[1]
    mark = np.int64(0)
    if key != NO_KEY:
        mark = mark_of(book.keys[key].code)
        book.counts[key, stream] += 1.0
    log[stream, line].moment = moment
    log[stream, line].mark = np.uint32(mark)
    pages[stream].length += 1


@inlined
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
    key = find_marked(book, mark)
    if key >= 0:
        book.counts[key, stream] = max(0.0, count_of(book.counts, key, stream) - 1.0)
        return key
    place = _find_rare(book, mark)
    if book.marks[place] != 0:
        tally = max(np.int64(0), np.int64(book.tallies[place, stream]) - PARTS)
        book.tallies[place, stream] = np.uint16(tally)
        most = np.int64(0)
        for other in range(book.tallies.shape[1]):
            most = max(most, np.int64(book.tallies[place, other]))
        if most == 0:
            _forget(book, place)
    return np.int64(NO_KEY)


@part
def give_up_log(book):
    """Count on as a sketch: lines are forgotten, counts stay."""
    for stream in range(len(book.pages)):
        book.pages[stream].length = 0
    book.book[0].statistics = SKETCHED


# --- fetching ahead ----------------------------------------------------------------------


@inlined
def warm_place(book, mark):
    """Bring near where the search for a hash begins."""
    layout.warm(book.table, place_of(len(book.table), mark))
    layout.warm(book.marks, place_of(len(book.marks), mark))


@inlined
def likely_key(book, mark):
    """The key at the first place where a hash is looked for, or NO_KEY."""
    return max(np.int64(NO_KEY), np.int64(book.table[place_of(len(book.table), mark)]))


@inlined
def line_ahead(book, stream, ahead):
    """The hash of a line that is soon the oldest, or 0."""
    mark = np.int64(0)
    if book.pages[stream].length > ahead:
        line = book.pages[stream].begin + ahead
        if line >= book.log.shape[1]:
            line -= book.log.shape[1]
        mark = np.int64(book.log[stream, line].mark)
    return mark
