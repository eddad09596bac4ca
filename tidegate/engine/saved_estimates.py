"""What shedding has learned, in a snapshot: one row for each array.

Law: options come from the spec, never from here; what can be computed from the members (heaps,
groups, stages, which keys have a record) is computed again. So a restored join names the same
victims. Until version 3 every key that was counted had a record; those without a member become
rare when they are read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.engine import saved_exposure, saved_patterns, saved_prospects, snapshot_checks
from tidegate.estimators import frequency, key_lines, match_rate
from tidegate.shed.sample_records import COVERED
from tidegate.shed.shed_records import VALUE, Shed
from tidegate.state import join_state, shed_arrays
from tidegate.state.join_state import State
from tidegate.windows.lifetime import NOT_CHARGED, NOT_INDEXED, ORDINARY

_MARK = {b"tidegate": b"learned"}
_RULE = ("first", "begun", "faded", "quiet", "refresh", "until_plan", "instant", "statistics")
# Version 3 was written without the first at first, version 4 without the others: they mean nothing
# for long, or are made of what was written (`_with_ahead`).
_NEW = {
    f"rates.{name}" for name in ("ahead", "renewed", "lived", "met", "promised", "lump")
} | {"rule.instant"}  # fmt: skip
# Places of levels and waits were other ones in early versions: these are learned again.
_RECUT = {
    f"rates.{name}"
    for name in (
        "trials", "hits", "old_hits", "level", "wait", "level_rate", "wait_rate"
    )
}  # fmt: skip
_WIDER = {"rates.trials": "<i8"}  # what some had for a type before
_OF_MONITORS = {"curve.busy", "curve.life"}
_QUEUE = (
    "scale", "seen", "now", "pace", "period", "period_seen", "arrived", "precedence", "factor"
)  # fmt: skip
_RATES = (
    "trials", "hits", "old_hits", "level", "age", "wait", "level_rate",
    "age_rate", "wait_rate", "ahead", "renewed", "lived", "met", "promised", "weight", "known",
    "clumps", "clock", "lump",
)  # fmt: skip
_WATCH = ("alive", "lives", "waited", "known")
_LEVELS = ("start", "peak", "reviewed", "begun")
_WANTS = ("skip", "left", "draws")


def _parts(shed: Shed) -> dict[str, Any]:
    """The arrays to keep whose size the options tell, as views."""
    parts: dict[str, Any] = {f"rule.{name}": shed.rule[name] for name in _RULE}
    parts |= {f"queues.{name}": shed.queues[name] for name in _QUEUE}
    if shed.rule[0].aged:
        for name in ("worth", "rising", "ending"):
            parts[f"stages.{name}"] = getattr(shed.stages, name)
    if shed.rule[0].watched:
        for name in ("sums", "squares", "busy", "life"):
            parts[f"curve.{name}"] = getattr(shed.curve, name)
        parts |= {f"watch.{name}": shed.curve.watch[name] for name in _WATCH}
    if shed.rule[0].kind == VALUE:
        parts |= {f"importances.{name}": part for name, part in shed.importances._asdict().items()}
        parts |= {f"rates.{name}": getattr(shed.rates, name) for name in _RATES}
    if shed.prospects is not None:
        parts |= {f"importances.{name}": part for name, part in shed.importances._asdict().items()}
        parts |= saved_prospects.learned(shed.prospects)
    if shed.samples is not None:
        parts |= {f"levels.{name}": shed.samples.levels[name] for name in _LEVELS}
        parts["samples.sums"] = shed.samples.sums
    return parts


def _counted(shed: Shed) -> dict[str, Any]:
    """What is known of keys, but for those that the user told."""
    book = shed.frequency
    fresh = int(book.book[0].fresh)
    parts: dict[str, Any] = {"keys.code": book.keys.code[:fresh]}
    parts["keys.next_free"] = np.where(book.keys.references[:fresh] >= 0, -1, -3).astype(np.int32)
    parts["counts"] = book.counts[:fresh].astype(np.float64)
    parts["book.statistics"] = book.book["statistics"]
    is_rare = key_lines.is_rare(book.marks)
    parts["rare.lines"] = np.array([len(book.marks)])
    parts["rare.marks"], parts["rare.tallies"] = book.marks[is_rare], book.tallies[is_rare]
    for stream in range(len(shed.queues)):
        for name in ("moment", "mark"):
            parts[f"log.{stream}.{name}"] = _log_of(shed, stream)[name]
    if shed.rule[0].kind == VALUE:
        parts["rates.activity"] = _activity(shed, slice(fresh))
    if shed.prospects is not None:
        parts |= saved_prospects.of_keys(shed.prospects, fresh)
    return parts


def _activity(shed: Shed, keys: slice) -> Any:
    """When keys were last seen, and before that, side by side."""
    activity = shed.rates.activity[keys]
    return np.stack([activity["last"], activity["before"]], axis=1)


def _counts_keys(shed: Shed) -> bool:
    return bool(shed.rule[0].keyed and shed.frequency.book[0].statistics != frequency.GIVEN)


def _log_of(shed: Shed, stream: int) -> Any:
    """The lines of a stream's log from the oldest on; where the ring begins means nothing."""
    page = shed.frequency.pages[stream]
    lines = (page.begin + np.arange(page.length)) % shed.frequency.log.shape[1]
    return shed.frequency.log[stream, lines]


def _sampled(shed: Shed, state: State) -> dict[str, Any]:
    """What a sample knows of its tuples. Thresholds as they are now: steps are not kept."""
    samples, notes = shed.samples, shed.members.notes
    assert samples is not None
    slots = np.flatnonzero(notes.monitor != NOT_CHARGED)
    floor = samples.floor[slots]
    accounts = state.lanes.account[notes.stream[slots]]
    for account, level in enumerate(samples.levels):
        steps = samples.steps[account, : level.steps]
        its = np.flatnonzero(accounts == account)
        first = np.searchsorted(steps.order, notes.order[slots[its]])
        its, first = its[first < level.steps], first[first < level.steps]
        floor[its] = np.maximum(floor[its], steps.threshold[first])
    parts = {"sampled.slot": slots, "sampled.floor": floor}
    parts["sampled.number"] = samples.number[slots]
    if len(samples.wants) > 1:
        parts |= {f"sampled.{name}": samples.wants[name][slots] for name in _WANTS}
    return parts


def dump(shed: Shed, state: State) -> pa.Table:
    """All that was learned as a table."""
    parts = _parts(shed)
    if _counts_keys(shed):
        parts |= _counted(shed)
    if shed.rule[0].kind == VALUE:
        parts |= saved_exposure.dump(shed)
    if shed.patterns is not None:
        parts |= saved_patterns.dump(shed.patterns)
    if shed.samples is not None:
        parts |= _sampled(shed, state)
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
    statistics = int(shed.rule[0].statistics)
    for name, part in _parts(shed).items():
        if name not in saved and name in _NEW:
            continue
        is_recut = name in _RECUT or name.startswith("importances.")
        is_recut |= name in _OF_MONITORS and saved_exposure.has_shadows(shed)
        if is_recut and saved[name].size != part.size:
            continue
        if kinds[name] != _WIDER.get(name):
            snapshot_checks.check_part(name, kinds[name], part)
        part[...] = saved[name].reshape(part.shape)
    if shed.rule[0].kind == VALUE and "rates.ahead" not in saved:
        _with_ahead(shed, saved)
    line = join_state.alive_slots(state)
    line = line[shed.members.notes.monitor[line] != NOT_CHARGED]
    if shed.rule[0].kind == VALUE and saved_exposure.has_shadows(shed):
        # Before shadows, VALUE had monitors here: they are as all others now.
        shed.members.notes.monitor[line] = ORDINARY
        shed.curve.watch.alive = 0
    if _counts_keys(shed):
        snapshot_checks.check_counted(shed, kinds, saved, line)
        if shed.prospects is not None:
            saved_prospects.check_written(shed.prospects, kinds, saved)
        shed = _recount(shed, saved, state, line, scale)
    elif shed.rule[0].keyed:
        _find_given(shed, state, line)
    if shed.patterns is not None:
        shed = saved_patterns.refill(shed, kinds, saved, line)
    if shed.rule[0].kind == VALUE:
        saved_exposure.refill(shed, saved, line, scale)
    if shed.samples is not None:
        _sample_again(shed, saved, line)
    if scale != 1:
        _rescale(shed, state, scale)
    snapshot_checks.check_learned(shed, state, line, statistics)
    if shed.prospects is not None:
        saved_prospects.check(shed.prospects, np.unique(shed.members.key[line]))
    if shed.rule[0].kind == VALUE:
        saved_exposure.check(shed, line)
    return shed_arrays.stand_again(shed, line)


def _with_ahead(shed: Shed, saved: dict[str, Any]) -> None:
    """Early in version 4 waits and ages were looked ahead of one by one, and the ages in stages."""
    rates, waits = shed.rates, saved["rates.wait_worth"]
    if waits.size != rates.wait_rate.size or rates.told[1]:
        return
    stages = shed.stages.worth.shape[1] - 1
    ages = rates.ahead.shape[2] - 1
    at = np.minimum(stages - 1, np.arange(ages + 1) * stages // ages)
    by_age = shed.stages.worth[:, None, at]
    rates.ahead[:] = waits.reshape(rates.wait_rate.shape)[:, :, None] * by_age


def _sample_again(shed: Shed, saved: dict[str, Any], line: Any) -> None:
    """What a sample knows of its tuples; their thresholds begin where they were."""
    slots, samples = np.sort(line), shed.samples
    assert samples is not None
    snapshot_checks.require(np.array_equal(saved["sampled.slot"], slots), "slots are missing")
    floor = saved["sampled.floor"]
    snapshot_checks.require(bool((np.isfinite(floor) & (floor >= 0)).all()), "a weight is none")
    samples.floor[slots] = floor
    samples.number[slots] = saved["sampled.number"]
    if len(samples.wants) > 1:
        for name in _WANTS:
            samples.wants[name][slots] = saved[f"sampled.{name}"]
    samples.levels.steps = 0


def _rescale(shed: Shed, state: State, scale: int) -> None:
    """Turn moments into finer units."""
    shed.rule["first"] *= scale
    shed.rule["faded"] *= scale
    if shed.samples is not None and state.lanes.is_time_window.any():
        shed.samples.levels["reviewed"] *= scale
        shed.samples.sums[COVERED] *= scale
    valued = shed.rule[0].kind == VALUE
    for stream in range(len(shed.queues)):
        if state.lanes[stream].is_time_window:
            shed.queues["now"][stream] *= scale
            shed.queues["period"][stream] *= scale
            shed.frequency.log["moment"][stream] *= scale
            if valued:
                saved_exposure.rescale_ages(shed, stream, scale)
    if shed.prospects is not None and shed.prospects.span[1]:
        saved_prospects.rescale(shed.prospects, scale)
    if valued:
        shed.shadows.shadow["time"] *= scale
    if valued and shed.rates.span[match_rate.CLOCK_OF] >= 0:
        saved_exposure.rescale_moments(shed, scale)


def _find_given(shed: Shed, state: State, line: Any) -> None:
    """Where the user told the shares of keys: which of these keys each member has."""
    book = shed.frequency
    key_lines.enter_again(book)
    for slot in line:
        key = frequency.NO_KEY
        if state.slots[slot].older != NOT_INDEXED:
            key = max(key, frequency.find(book, state.slots[slot].code))
        shed.members.key[slot] = key


def _recount(shed: Shed, saved: dict[str, Any], state: State, line: Any, scale: int) -> Shed:
    """Give the keys of members a record and all others a line among the rare ones.

    A key whose code is another than before (a stream has shown its columns, and with them that
    keys are compared in finer units) keeps its counts if it has a member; rare keys are known by a
    hash of their code alone, so then all of them are forgotten.
    """
    streams = len(shed.queues)
    codes = saved["keys.code"]
    counts = saved["counts"].reshape(-1, streams)
    numbers = shed.members.key[line]
    has_member = np.zeros(len(codes), np.bool_)
    has_member[numbers] = True
    has_member[frequency.NO_KEY] = False
    old = np.flatnonzero(has_member)
    renumbered = np.zeros(len(codes), np.int32)
    renumbered[old] = np.arange(1, len(old) + 1)
    shed.members.key[line] = renumbered[numbers]
    fresh = np.zeros(len(old) + 1, np.int64)
    fresh[renumbered[numbers]] = state.slots.code[line]
    book = shed.frequency
    head, new = book.book[0], slice(1, len(old) + 1)
    head.statistics = saved["book.statistics"][0]
    head.used, head.fresh, head.first_free = len(old), len(old) + 1, -1
    book.keys.code[new] = fresh[1:]
    book.keys.references[: len(old) + 1] = np.bincount(renumbered[numbers], minlength=len(old) + 1)
    book.counts[new] = counts[old]
    if shed.rule[0].kind == VALUE:
        last, before = saved_exposure.in_short(
            shed, saved["rates.activity"].reshape(-1, 2)[old], scale
        ).T
        shed.rates.activity["last"][new], shed.rates.activity["before"][new] = last, before
    if shed.prospects is not None:
        saved_prospects.refill(shed.prospects, saved, old, new)
        saved_prospects.count_held(shed, line)
    marks, tallies, lines = _rare_of(saved, has_member, counts)
    is_same = bool((codes[old] == fresh[1:]).all())
    if is_same:
        needed = key_lines.room_for(len(marks) + len(old) + 1)
        lines = max(len(book.marks), min(max(lines, needed), int(head.most_lines)))
        book = key_lines.with_lines(book, lines, marks, tallies)
    for stream in range(streams):
        logged = _marks_in_log(saved, stream)
        if not is_same:
            by_mark = dict(
                zip(
                    key_lines.marks_of(codes[old]).tolist(),
                    key_lines.marks_of(fresh[1:]),
                    strict=True,
                )
            )
            logged = np.array([by_mark.get(mark, 0) for mark in logged.tolist()], np.uint32)
        length = min(len(logged), book.log.shape[1])
        book.pages[stream].length = length
        book.log["moment"][stream, :length] = saved[f"log.{stream}.moment"][-length or None :]
        book.log["mark"][stream, :length] = logged[-length or None :]
    return shed._replace(frequency=book)


def _rare_of(saved: dict[str, Any], has_member: Any, counts: Any) -> tuple[Any, Any, int]:
    """Hashes and counts of rare keys, and the lines of their table."""
    if "rare.marks" in saved:
        tallies = saved["rare.tallies"].reshape(-1, counts.shape[1])
        marks = key_lines.shortened(saved["rare.marks"])
        return marks, tallies, int(saved["rare.lines"][0])
    is_rare = (saved["keys.next_free"] == -1) & ~has_member
    is_rare[frequency.NO_KEY] = False
    is_rare &= (counts * key_lines.PARTS >= 1).any(axis=1)
    parts = np.minimum(counts[is_rare] * key_lines.PARTS, 65_535).astype(np.uint16)
    return key_lines.marks_of(saved["keys.code"][is_rare]), parts, 2 * int(is_rare.sum())


def _marks_in_log(saved: dict[str, Any], stream: int) -> Any:
    if f"log.{stream}.mark" in saved:
        return key_lines.shortened(saved[f"log.{stream}.mark"])
    keys = saved[f"log.{stream}.key"]
    return np.where(keys == frequency.NO_KEY, 0, key_lines.marks_of(saved["keys.code"])[keys])
