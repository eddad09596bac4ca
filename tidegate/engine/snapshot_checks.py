"""The numbers of a snapshot are checked before they are used.

Law: whatever a snapshot says, behind a right checksum too, no number of it is used as an address, a
length or a position before it was checked. What does not fit is refused with one sentence. What can
be counted (the tuples of a stream, the references to a key) is counted and compared, so that a
snapshot whose numbers contradict each other is refused too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.binding.spec_records import INDEX_CODES
from tidegate.compiled.layout import Records
from tidegate.estimators import frequency, match_rate
from tidegate.shed import learning
from tidegate.shed.shed_records import VALUE, Shed
from tidegate.spec import JoinSpec, TidegateError
from tidegate.state.join_state import State
from tidegate.windows.lifetime import ORDINARY

MOST_SLOTS = 2**31 - 2  # slots are 32-bit numbers
FAR = 2**62  # times and differences of times stay below
_COUNTS = ("too_late", "expired", "evicted", "refused", "comparisons", "visits", "updates", "peak")
_RAW = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, pa.ArrowException,
    OSError, RecursionError, TypeError, ValueError,
)  # fmt: skip


def damaged(what: str) -> TidegateError:
    """The error for a snapshot that snapshot() did not return."""
    return TidegateError(f"the snapshot is damaged: {what}; restore an older one")


def require(holds: Any, what: str) -> None:
    """Refuse the snapshot unless something holds."""
    if not holds:
        raise damaged(what)


@contextmanager
def reading() -> Iterator[None]:
    """Whatever cannot be read is damage, said in one sentence."""
    try:
        yield
    except TidegateError:
        raise
    except _RAW as error:
        said = (str(error).splitlines() or [""])[0]
        raise damaged(f"it cannot be read ({type(error).__name__}: {said})") from error


# --- the head ----------------------------------------------------------------------------


def check_head(about: Mapping[str, Any], tables: int, is_learned: bool, spec: JoinSpec) -> None:
    """The streams and what was counted of them."""
    streams, counted = about["streams"], about["counted"]
    require(
        streams == [name for name in spec.streams if name in streams],
        f"its streams are {streams!r}",
    )
    limited = spec.memory is not None
    require(is_learned == limited, "what was learned is missing")
    require(tables == max(1, len(streams)) + limited, f"it has {tables} tables")
    rejected = counted["rejected"]
    numbers = [*counted["rows_in"], counted["bytes_peak"], about["capacity"]]
    numbers += [count for reasons in rejected for count in reasons.values()]
    require(len(counted["rows_in"]) == len(rejected) == len(spec.streams), "streams are missing")
    require(all(type(n) is int and 0 <= n < 2**63 for n in numbers), "a count is not a count")


def check_indexes(kinds: Any, spec: JoinSpec) -> None:
    """What the windows of a join are searched by, where the join may choose."""
    known = [INDEX_CODES[kind] for kind in ("nested-loop", "btree", "ttree")]
    require(
        isinstance(kinds, list)
        and len(kinds) == len(spec.streams)
        and all(type(kind) is int and kind in known for kind in kinds),
        f"its indexes are {kinds!r}",
    )


def check_table(table: pa.Table, notes: Mapping[str, Any]) -> None:
    """The notes beside the rows of a stream, by name and type."""
    for name, kind in notes.items():
        column = table.column(name)
        require(
            column.type == pa.from_numpy_dtype(kind) and not column.null_count,
            f"{name} is {column.type} with {column.null_count} NULLs",
        )


# --- slots and records -------------------------------------------------------------------


def check_slots(lines: Sequence[NDArray[np.int64]], unused: NDArray[np.int32]) -> int:
    """Each slot up to the last in use is retained or unused, once. Returns how many these are."""
    slots = np.sort(np.concatenate([*lines, unused.astype(np.int64)]))
    require(np.array_equal(slots, np.arange(len(slots))), "its slots are not numbered as they were")
    return len(slots)


def restored_capacity(written: int, used: int, fresh: int, most: int) -> int:
    """Room for as many tuples as before, if that is not far more than were ever retained.

    Results do not depend on it; `most` is what the budget has room for.
    """
    require(used <= written <= MOST_SLOTS, f"it has {written} slots of which {used} are in use")
    return min(written, max(fresh, most, 8 * (used + 1)))


def write_records(target: Records, rows: Sequence[Mapping[str, Any]], options: set[str]) -> None:
    """Fill records with what was written of them."""
    require(len(rows) == len(target), "records are missing")
    for record, values in zip(target, rows, strict=True):
        for field in values.keys() - options:
            require(field in (target.dtype.names or ()), f"{field!r} is not known")
            value = values[field]
            wanted = float if target.dtype[field].kind == "f" else int
            require(type(value) in (int, wanted), f"{field} is {value!r}")
            record[field] = value


def check_records(
    state: State, lines: Sequence[NDArray[np.int64]], counted: Mapping[str, Any], tracked: int
) -> None:
    """The counts of rows add up, and times are times."""
    gate, pool = state.gate[0], state.pool[0]
    for stream, lane in enumerate(state.lanes):
        require(all(lane[name] >= 0 for name in _COUNTS), "a count is negative")
        taken = int(lane.expired) + int(lane.evicted) + int(lane.refused) + len(lines[stream])
        rejected = sum(counted["rejected"][stream].values())
        require(
            lane.alive == len(lines[stream])
            and lane.taken == taken
            and counted["rows_in"][stream] == taken + int(lane.too_late) + rejected,
            "its counts of rows do not add up",
        )
        require(_is_moment(int(lane.newest)), "a time is out of range")
    require(pool.alive == state.lanes.alive.sum(), "its counts of rows do not add up")
    taken = int(state.lanes.taken.sum())
    require(pool.alive <= gate.order <= taken, "its counts of rows do not add up")
    require(min(gate.results, pool.peak, pool.closed_until) >= 0, "a count is negative")
    require(pool.tracked in (0, 1) and pool.tracked >= tracked, "its notes are missing")
    require(gate.external in (0, 1), "its watermark is neither its own nor given")
    require(_is_moment(int(gate.clock)), "a time is out of range")


def _is_moment(time: int) -> bool:
    return abs(time) < FAR or time == -2 * FAR


def check_line(state: State, stream: int, line: NDArray[np.int64], late: NDArray[np.bool_]) -> None:
    """The tuples of a stream stand in the order in which they came."""
    lane, notes = state.lanes[stream], state.notes
    require(not late.any() or (state.gate[0].takes_late and lane.is_time_window), "tuples are late")
    if state.pool[0].tracked:
        order = notes.order[line]
        require(_rises(order) and within(order, 0, int(state.gate[0].order)), "its order is lost")
    if lane.is_time_window:
        times = state.slots.time[line[~late]]
        require((np.diff(times) >= 0).all(), "its order is lost")
    else:
        number = state.numbers[line]
        require(_rises(number), "its order is lost")
        require(within(number, int(lane.taken - lane.window), int(lane.taken)), "a tuple is dead")


def _rises(numbers: NDArray[np.int64]) -> bool:
    return bool((numbers[1:] > numbers[:-1]).all())


def within(numbers: NDArray[Any], first: int, end: int) -> bool:
    return not len(numbers) or (first <= int(numbers.min()) and int(numbers.max()) < end)


# --- what was learned --------------------------------------------------------------------


def check_part(name: str, kind: str, part: Any) -> None:
    """An array has the type of the one whose place it takes."""
    require(kind == part.dtype.str, f"{name} has type {kind}")


def check_learned(shed: Shed, state: State, line: NDArray[np.int64], statistics: int) -> None:
    """All that was learned, beside the retained tuples it was learned from."""
    rule, queues = shed.rule[0], shed.queues
    sketched = (statistics, int(rule.statistics)) == (frequency.WINDOW, frequency.SKETCHED)
    require(rule.statistics == statistics or sketched, "its way of counting is another one")
    require(rule.begun in (0, 1) and rule.quiet >= 0, "a count is negative")
    require(np.array_equal(queues.seen, state.lanes.taken), "its counts of rows do not add up")
    require((np.abs(queues.now) < FAR).all(), "a time is out of range")
    require((queues.pace >= 0).all() and within(queues.precedence, 0, 2), "a share is wrong")
    for name in ("scale", "arrived", "factor"):
        require(np.isfinite(queues[name]).all() and (queues[name] >= 0).all(), "a share is wrong")
    require((queues.scale > 0).all(), "a share is wrong")
    require(not np.isnan(shed.stages.worth).any(), "an age is worth nothing that can be compared")
    _check_members(shed, state, line)
    if rule.watched:
        _check_monitors(shed, line)
    if rule.kind == VALUE:
        _check_rates(shed)


def check_monitors(monitors: NDArray[np.int32]) -> None:
    """Every retained tuple is charged to an account."""
    require(within(monitors, ORDINARY, 2**15), "a monitor is out of range")


def _check_members(shed: Shed, state: State, line: NDArray[np.int64]) -> None:
    members, notes = shed.members, shed.members.notes[line]
    for column in (members.priority, members.basis):
        worth = column[line] if len(column) > 1 else column
        require(np.isfinite(worth).all(), "a tuple is worth nothing that can be compared")
    if len(members.born) > 1:
        born, now = members.born[line], shed.queues.now[notes.stream]
        require(((born <= now) & (born > now - FAR)).all(), "a time is out of range")
    by_bytes = bool(state.gate[0].by_bytes)
    cost = members.cost[line] if len(members.cost) > 1 else np.repeat(members.cost, len(line))
    require((cost >= 0).all() if by_bytes else (cost == 1).all(), "a size is wrong")
    for account in range(len(state.accounts)):
        its = state.lanes.account[notes.stream] == account
        used, held = int(cost[its].astype(np.int64).sum()), int(its.sum())
        found = state.accounts[account]
        require((found.used, found.held) == (used, held), "its accounts do not add up")
        require(found.peak >= used, "its accounts do not add up")
    if not shed.rule[0].watched:
        require((notes.monitor == ORDINARY).all(), "a monitor watches nothing")


def _check_monitors(shed: Shed, line: NDArray[np.int64]) -> None:
    notes, curve = shed.members.notes[line], shed.curve
    for stream, watch in enumerate(curve.watch):
        monitors = notes.monitor[notes.stream == stream]
        require(within(monitors, ORDINARY, curve.busy.shape[1]), "a monitor is out of range")
        busy = np.bincount(monitors[monitors >= 0], minlength=curve.busy.shape[1])
        require(np.array_equal(curve.busy[stream], busy), "its monitors do not add up")
        require(watch.alive == busy.sum() and watch.waited >= 0, "its monitors do not add up")
        require(watch.lives >= 0.0, "a count is negative")


def check_counted(
    shed: Shed, kinds: Mapping[str, str], saved: Mapping[str, Any], line: NDArray[np.int64]
) -> None:
    """What was counted of keys, as it was written."""
    book, streams = shed.frequency, len(shed.queues)
    require(saved["book.statistics"][0] == shed.rule[0].statistics, "its counting is another one")
    written = {"keys.code": np.int64, "keys.next_free": np.int32, "counts": np.float64}
    for name, kind in written.items():
        check_part(name, kinds[name], np.zeros(0, kind))
    keys = len(saved["keys.code"])
    counts = saved["counts"].reshape(keys, streams)
    require(keys > 0 and len(saved["keys.next_free"]) == keys, "its keys do not add up")
    require(np.isfinite(counts).all() and (counts >= 0).all(), "a count is negative")
    require(not counts[frequency.NO_KEY].any(), "what matches nothing was counted")
    require(within(shed.members.key[line], 0, keys), "a key is out of range")
    if shed.rule[0].kind == VALUE:
        require(saved["rates.activity"].shape == (2 * keys,), "its keys do not add up")
    numbered = "rare.marks" not in saved  # version 3: lines of logs name keys by number
    for stream in range(streams):
        moments, name = saved[f"log.{stream}.moment"], "key" if numbered else "mark"
        lines = saved[f"log.{stream}.{name}"]
        require(len(moments) == len(lines), "its log does not add up")
        require(not numbered or within(lines, 0, keys), "a key is out of range")
    if not numbered:
        marks, room = saved["rare.marks"], int(saved["rare.lines"][0])
        check_part("rare.marks", kinds["rare.marks"], book.marks)
        check_part("rare.tallies", kinds["rare.tallies"], book.tallies)
        require(saved["rare.tallies"].size == len(marks) * streams, "its rare keys do not add up")
        require(marks.all() and len(np.unique(marks)) == len(marks), "a rare key is there twice")
        most = int(book.book[0].most_lines)
        require(4 * len(marks) <= 3 * room and room <= max(2, most), "it has too many rare keys")


def _check_rates(shed: Shed) -> None:
    rates = shed.rates
    for part in (rates.trials, rates.hits):
        require(np.isfinite(part).all() and (part >= 0).all(), "a count is negative")
    for part in (rates.renewed, rates.lived, rates.met):
        require(bool((part >= 0).all()), "a count is negative")
    for name in ("level_rate", "age_rate", "wait_rate", "ahead", "promised", "weight", "level"):
        part = getattr(rates, name)
        require(np.isfinite(part).all() and (part >= 0).all(), "a rate is wrong")
    now = int(rates.clock[match_rate.NOW])
    require(abs(now) < FAR and now >= rates.clock[match_rate.REFRESHED], "a time is out of range")
    require(1 <= rates.clock[match_rate.HURRY] <= learning.MOST_HURRY, "a rate is wrong")
    require(rates.clock[match_rate.UNFITTED] >= 0, "a count is negative")
