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
from tidegate.compiled.kernel import kernel, part, step
from tidegate.compiled.layout import records
from tidegate.estimators import rare_keys
from tidegate.estimators.hashes import ahead_of, following, mark_of, place_of
from tidegate.estimators.rare_keys import PARTS

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
        ("most_rare", np.int64),  # lines that their table may have
    ]
)

LINE = np.dtype([("moment", np.int64), ("mark", np.uint32)])  # 12 bytes; mark 0: of no key

PAGE = np.dtype([("begin", np.int64), ("length", np.int64)])


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
    rare = min(rare_keys.FIRST, int(book[0].most_rare))
    return Frequency(
        book=book,
        **_places(keys + 1),
        keys=columns["keys"],
        counts=columns["counts"],
        **rare_keys.lines(rare, streams),
        pages=records(PAGE, streams),
        log=records(LINE, (streams, lines if statistics == WINDOW else 1)),
    )


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
        rare_keys.read(book, mark, key)
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
        rare_keys.write(book, key)
        _drop(book, key)


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
    rare_keys.fade(book)


@step
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
    key = find_marked(book, mark)
    if key >= 0:
        book.counts[key, stream] = max(0.0, count_of(book.counts, key, stream) - 1.0)
        return key
    place = rare_keys.find(book, mark)
    if book.marks[place] != 0:
        tally = max(np.int64(0), np.int64(book.tallies[place, stream]) - PARTS)
        book.tallies[place, stream] = np.uint16(tally)
        most = np.int64(0)
        for other in range(book.tallies.shape[1]):
            most = max(most, np.int64(book.tallies[place, other]))
        if most == 0:
            rare_keys.forget(book, place)
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
    layout.warm(book.table, place_of(len(book.table), mark))
    layout.warm(book.marks, place_of(len(book.marks), mark))


@step
def likely_key(book, mark):
    """The key at the first place where a hash is looked for, or NO_KEY."""
    return max(np.int64(NO_KEY), np.int64(book.table[place_of(len(book.table), mark)]))


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
