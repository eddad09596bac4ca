"""What shedding has learned, on paper: one row for each array.

Law: options come from the spec, never from here; what can be made from the members (heaps, groups,
stages, the table of keys) is made anew. So a restored join names the same victims.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.engine import snapshot_checks
from tidegate.estimate import frequency, match_rate
from tidegate.shed.shed_records import VALUE, Shed
from tidegate.state import join_state, shed_arrays
from tidegate.state.join_state import State
from tidegate.windows.lifetime import NOT_INDEXED

_MARK = {b"tidegate": b"learned"}
_RULE = ("first", "begun", "faded", "quiet", "refresh", "until_plan", "instant", "statistics")
_NEW = {"rule.instant"}  # version 3 was written without it at first; it means nothing for long
_QUEUE = (
    "scale", "seen", "now", "pace", "period", "period_seen", "arrived", "precedence", "factor"
)  # fmt: skip
_RATES = (
    "trials", "hits", "old_trials", "old_hits", "level", "age", "wait", "level_rate",
    "age_rate", "wait_rate", "wait_worth", "weight", "known", "clumps",
    "clock",
)  # fmt: skip
_WATCH = ("alive", "lives", "waited", "known")
_BOOK = ("used", "first_free", "fresh", "statistics")


def _parts(shed: Shed, fresh: int) -> dict[str, Any]:
    """The arrays to keep, as views; of keys only the `fresh` ones ever used."""
    book = shed.frequency
    parts: dict[str, Any] = {f"rule.{name}": shed.rule[name] for name in _RULE}
    parts |= {f"queues.{name}": shed.queues[name] for name in _QUEUE}
    if shed.rule[0].aged:
        for name in ("worth", "rising", "ending"):
            parts[f"stages.{name}"] = getattr(shed.stages, name)
    if shed.rule[0].watched:
        for name in ("sums", "squares", "busy", "life"):
            parts[f"curve.{name}"] = getattr(shed.curve, name)
        parts |= {f"watch.{name}": shed.curve.watch[name] for name in _WATCH}
    if shed.rule[0].keyed and book.book[0].statistics != frequency.GIVEN:
        parts |= {f"book.{name}": book.book[name] for name in _BOOK}
        parts |= {f"keys.{name}": book.keys[name][:fresh] for name in book.keys.dtype.names or ()}
        parts["counts"] = book.counts[:fresh]
    if shed.rule[0].kind == VALUE:
        parts |= {f"importances.{name}": part for name, part in shed.importances._asdict().items()}
        parts |= {f"rates.{name}": getattr(shed.rates, name) for name in _RATES}
        parts["rates.activity"] = shed.rates.activity[:fresh]
    return parts


def _log_of(shed: Shed, stream: int) -> Any:
    """The lines of a stream's log from the oldest on; where the ring begins means nothing."""
    page = shed.frequency.pages[stream]
    lines = (page.begin + np.arange(page.length)) % shed.frequency.log.shape[1]
    return shed.frequency.log[stream, lines]


def dump(shed: Shed) -> pa.Table:
    """All that was learned as a table."""
    parts = _parts(shed, int(shed.frequency.book[0].fresh))
    for stream in range(len(shed.queues)):
        for name in ("moment", "key"):
            parts[f"log.{stream}.{name}"] = _log_of(shed, stream)[name]
    if shed.rule[0].kind == VALUE:
        parts["exposed.slot"] = np.flatnonzero(shed.members.order >= 0)
        parts["exposed"] = shed.rates.exposed[parts["exposed.slot"]]
    columns = {
        "name": pa.array(list(parts), pa.string()),
        "kind": pa.array([array.dtype.str for array in parts.values()], pa.string()),
        "data": pa.array([np.ascontiguousarray(a).tobytes() for a in parts.values()], pa.binary()),
    }
    return pa.table(columns).replace_schema_metadata(_MARK)


def is_learned(table: pa.Table) -> bool:
    """Is this what `dump` wrote?"""
    return table.schema.metadata == _MARK


def refill(shed: Shed, table: pa.Table, state: State, scale: int) -> Shed:
    """Put what was learned into a fresh `Shed` whose members are written; see `snapshot.refill`."""
    rows = table.to_pylist()
    kinds = {row["name"]: row["kind"] for row in rows}
    saved = {row["name"]: np.frombuffer(row["data"], np.dtype(row["kind"])) for row in rows}
    fresh = int(saved["book.fresh"][0]) if "book.fresh" in saved else 1
    if "rates.activity" in saved:
        fresh = len(saved["rates.activity"]) // 2
    snapshot_checks.require(0 < fresh <= len(shed.frequency.keys), f"it has {fresh} keys")
    statistics = int(shed.rule[0].statistics)
    for name, part in _parts(shed, fresh).items():
        if name not in saved and name in _NEW:
            continue
        snapshot_checks.check_part(name, kinds[name], part)
        part[...] = saved[name].reshape(part.shape)
    book = shed.frequency
    for stream in range(len(shed.queues)):
        length = len(saved[f"log.{stream}.key"])
        book.pages[stream].length = length
        for name in ("moment", "key"):
            book.log[name][stream, :length] = saved[f"log.{stream}.{name}"]
    line = join_state.alive_slots(state)
    line = line[shed.members.order[line] >= 0]
    if shed.rule[0].kind == VALUE:
        slots = np.sort(line)
        snapshot_checks.require(np.array_equal(saved["exposed.slot"], slots), "slots are missing")
        shed.rates.exposed[slots] = saved["exposed"].reshape(-1, 3)
    if scale != 1:
        _rescale(shed, state, scale)
    snapshot_checks.check_learned(shed, state, line, statistics)
    _recode(shed, state, line)
    shed_arrays.stand_again(shed, line)
    return shed


def _rescale(shed: Shed, state: State, scale: int) -> None:
    """Turn moments into finer units."""
    shed.rule["first"] *= scale
    shed.rule["faded"] *= scale
    valued = shed.rule[0].kind == VALUE
    for stream in range(len(shed.queues)):
        if state.lanes[stream].is_time_window:
            shed.queues["now"][stream] *= scale
            shed.queues["period"][stream] *= scale
            shed.frequency.log["moment"][stream] *= scale
            if valued:
                its = (shed.members.order >= 0) & (shed.members.stream == stream)
                exposed = shed.rates.exposed[: len(its)]  # it has two rows at least
                exposed[its, 2] *= scale
    if valued and shed.rates.span[1] >= 0:
        activity, clock = shed.rates.activity, shed.rates.clock
        activity[activity != match_rate.NEVER] *= scale
        clock[[match_rate.NOW, match_rate.REFRESHED]] *= scale
        shed.rates.exposed[:, 1] *= scale


def _recode(shed: Shed, state: State, line: Any) -> None:
    """Keys whose codes were made anew (a stream has shown its columns) get the new codes."""
    book = shed.frequency
    if book.book[0].statistics == frequency.GIVEN:
        frequency.rebuild(book.book, book.table, book.keys)
        for slot in line:
            key = frequency.NO_KEY
            if state.slots[slot].older != NOT_INDEXED:
                key = max(key, frequency.find(book.table, book.keys, state.slots[slot].code))
            shed.members.key[slot] = key
        return
    keys = shed.members.key[line]
    line, keys = line[keys != frequency.NO_KEY], keys[keys != frequency.NO_KEY]
    old, new = book.keys.code[keys], state.slots.code[line]
    changed = np.flatnonzero(old != new)
    if len(changed):
        # Finer units or more decimals: all codes grow by one factor.
        factor = new[changed[0]] // old[changed[0]] if old[changed[0]] else 1
        if (old * factor == new).all():
            book.keys.code[:] *= factor
        book.keys.code[keys] = new
