"""How often each key comes on each stream.

Law: a key stands in the table while something refers to it (a retained tuple, or a line of the log)
or while its count has not faded away; the table never grows beyond what it was given. Counts are of
one of these kinds:

`retained`  the tuples of a stream that are retained now
`window`    the tuples taken from a stream that its full window holds now, shed ones included. The
            log remembers (moment, key) of the tuples of each stream, so that they can be counted
            out again when they die.
`sketched`  what `window` becomes when a window holds more tuples than its log has lines: a sketch
            with decay. Five times in a window every count is lowered by a fifth, so that a key's
            count goes on meaning what it meant: about how many of its tuples a window holds.
            Rare keys without a retained tuple are forgotten, the sooner the fuller the table.
`faded`     all tuples taken, old ones for less: as `sketched`, but lowered once in a window, so
            that what is remembered is the weight of about five
`given`     shares told by the user; never changed
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
FADED_AWAY = 0.75  # a count below this is not worth a line of the table

KEY = np.dtype(
    [
        ("code", np.int64),
        ("references", np.int32),
        ("next_free", np.int32),  # of unused keys; -1: in use
    ]
)

BOOK = np.dtype(
    [
        ("statistics", np.int64),
        ("used", np.int64),
        ("first_free", np.int64),
        ("fresh", np.int64),  # keys from here on were never used
    ]
)

LINE = np.dtype([("moment", np.int64), ("key", np.int64)])

PAGE = np.dtype([("begin", np.int64), ("length", np.int64)])

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


@frame
class Frequency(NamedTuple):
    """Counts of keys; flat arrays. `table` is made again after a snapshot."""

    book: Any  # [0]
    table: NDArray[np.int32]  # open addressing: place -> key, -1: empty
    keys: Any
    counts: NDArray[np.float64]  # [key, stream]
    pages: Any  # [stream]: the part of the ring in use
    log: Any  # [stream, line]


def block(streams: int, keys: int, **others: Any) -> dict[str, Any]:
    """The arrays `keys` and `counts` for so many keys besides NO_KEY, and others by key: all that
    is known of a key stands on one line of the cache, or two."""
    columns = layout.beside(keys + 1, keys=(KEY, 1), counts=(np.float64, streams), **others)
    columns["keys"].next_free = -1
    return columns


def empty(
    streams: int, keys: int, lines: int, statistics: int, columns: dict[str, Any] | None = None
) -> Frequency:
    """Room for `keys` keys besides NO_KEY (in the `columns` of a block, if it is given), and a log
    of so many lines per stream."""
    book = records(BOOK, 1)
    book.statistics = statistics
    book.first_free, book.fresh = -1, 1
    columns = columns or block(streams, keys)
    return Frequency(
        book=book,
        table=_places(keys + 1),
        keys=columns["keys"],
        counts=columns["counts"],
        pages=records(PAGE, streams),
        log=records(LINE, (streams, lines if statistics == WINDOW else 1)),
    )


def _places(keys: int) -> NDArray[np.int32]:
    return np.full(1 << max(4, (2 * keys - 1).bit_length()), -1, np.int32)


def grown(frequency: Frequency, columns: dict[str, Any]) -> Frequency:
    """The same counts, and what else is known by key, in a larger block; a key keeps its number."""
    layout.copy(frequency.keys, columns["keys"])
    bigger = frequency._replace(
        keys=columns["keys"], counts=columns["counts"], table=_places(len(columns["keys"]))
    )
    rebuild(bigger.book, bigger.table, bigger.keys)
    return bigger


@inlined
def place_of(table, code):
    mixed = (np.uint64(code) * _MULTIPLIER) >> _HALF
    return np.int64((mixed * np.uint64(table.shape[0])) >> _HALF)


@kernel
def rebuild(book, table, keys):
    """Fill the table from the keys in use."""
    for place in range(len(table)):
        table[place] = -1
    for key in range(1, book[0].fresh):
        if keys[key].next_free == -1:
            place = place_of(table, keys[key].code)
            while table[place] >= 0:
                place = (place + 1) & (len(table) - 1)
            table[place] = key


@kernel
def find(table, keys, code):
    """The key of a code, or FULL if the table does not hold it."""
    place = place_of(table, code)
    while table[place] >= 0:
        if keys[table[place]].code == code:
            return np.int64(table[place])
        place = (place + 1) & (len(table) - 1)
    return np.int64(FULL)


@kernel
def find_or_add(book, table, keys, counts, code):
    """The key of a code, new if need be; FULL if there is no room for a new one."""
    place = place_of(table, code)
    while table[place] >= 0:
        if keys[table[place]].code == code:
            return np.int64(table[place])
        place = (place + 1) & (len(table) - 1)
    key = book[0].first_free
    if key >= 0:
        book[0].first_free = -3 - keys[key].next_free
    elif book[0].fresh < len(keys):
        key = book[0].fresh
        book[0].fresh += 1
    else:
        return np.int64(FULL)
    keys[key].code = code
    keys[key].references = 0
    keys[key].next_free = -1
    for stream in range(counts.shape[1]):
        counts[key, stream] = 0.0
    table[place] = key
    book[0].used += 1
    return np.int64(key)


@part
def _drop(book, table, keys, key):
    """Take a key out of the table; the ones behind it move up, so that no search stops early."""
    mask = len(table) - 1
    place = place_of(table, keys[key].code)
    while table[place] != key:
        place = (place + 1) & mask
    hole = place
    place = (place + 1) & mask
    while table[place] >= 0:
        home = place_of(table, keys[table[place]].code)
        if ((place - home) & mask) >= ((place - hole) & mask):
            table[hole] = table[place]
            hole = place
        place = (place + 1) & mask
    table[hole] = -1
    # A chain of unused keys; -1 says "in use", so links are stored as -3 - link.
    keys[key].next_free = np.int32(-3 - book[0].first_free)
    book[0].first_free = key
    book[0].used -= 1


@inlined
def hold(keys, key):
    """Something refers to the key from now on."""
    keys[key].references += 1


@part
def let_go(book, table, keys, key):
    """One reference less. Without references a key has no counts, unless they fade or are given."""
    keys[key].references -= 1
    if key != NO_KEY and keys[key].references == 0 and book[0].statistics <= WINDOW:
        _drop(book, table, keys, key)


@part
def fade(book, table, keys, counts):
    """Lower all counts; forget keys that nothing refers to and that were rare."""
    for key in range(1, book[0].fresh):
        if keys[key].next_free == -1:
            total = 0.0
            for stream in range(counts.shape[1]):
                counts[key, stream] *= FADING
                total = max(total, counts[key, stream])
            if keys[key].references == 0 and total < FADED_AWAY:
                _drop(book, table, keys, key)


@inlined
def log_line(pages, log, keys, counts, stream, moment, key):
    """Count a tuple in; the caller has made sure that the ring has a free line."""
    line = pages[stream].begin + pages[stream].length
    if line >= log.shape[1]:
        line -= log.shape[1]
    log[stream, line].moment = moment
    log[stream, line].key = key
    pages[stream].length += 1
    keys[key].references += 1
    if key != NO_KEY:
        counts[key, stream] += 1.0


@part
def give_up_log(book, pages, log, keys):
    """Count on as a sketch: lines are forgotten, and with them what they refer to; counts stay."""
    for stream in range(len(pages)):
        for number in range(pages[stream].length):
            line = pages[stream].begin + number
            if line >= log.shape[1]:
                line -= log.shape[1]
            keys[log[stream, line].key].references -= 1
        pages[stream].length = 0
    book[0].statistics = SKETCHED


@inlined
def oldest_line(pages, log, stream, horizon):
    """The key of the oldest line if it is before the horizon, else -1.

    Asked again and again; each time the answer is a key, the line is gone from the log.
    """
    key = np.int64(-1)
    begin = pages[stream].begin
    if pages[stream].length > 0 and log[stream, begin].moment < horizon:
        key = log[stream, begin].key
        pages[stream].begin = begin + 1 if begin + 1 < log.shape[1] else 0
        pages[stream].length -= 1
    return key


@inlined
def warm_place(table, code):
    """Bring near where the search for a code begins."""
    layout.warm(table, place_of(table, code))


@inlined
def line_ahead(pages, log, stream, ahead):
    """The key of a line that is soon the oldest, or NO_KEY."""
    key = np.int64(NO_KEY)
    if pages[stream].length > ahead:
        line = pages[stream].begin + ahead
        if line >= log.shape[1]:
            line -= log.shape[1]
        key = log[stream, line].key
    return key
