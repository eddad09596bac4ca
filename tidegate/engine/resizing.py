"""An engine goes on with another budget, by a call of `resize` or by its target.

Law: when `resize` returns, the engine retains no more than the new budget allows, and it is what
an engine under the new budget would restore from its snapshot. A smaller budget sheds at once, by
the policy; a larger one is room. What was learned stays, as far as the new budget has room for it.

The state is written down and read back under the new spec (as in a restore), since arrays, the log
of counts and the table of rare keys are sized by the budget. Tuples are shed before that, so that
the new arrays need not hold them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.driver import admission
from tidegate.engine.snapshot import MONITOR, SLOT, UNUSED_KIND, Saved
from tidegate.engine.snapshot_checks import require
from tidegate.estimators import frequency, key_lines, match_rate
from tidegate.loss import saved_sentinel
from tidegate.shed.shed_records import Shed
from tidegate.spec import JoinSpec, TidegateError
from tidegate.state import arrays, byte_budget, shed_arrays
from tidegate.state.join_state import Output, State
from tidegate.state.settings import capacities
from tidegate.windows.lifetime import ORDINARY

# What a snapshot says of a join that steers itself.
IN_FORCE = ("memory_in_force", "policy_in_force", "is_racing")
TRY_LESS = 0.8  # of the memory, when arrays came out larger than expected


def resized_spec(spec: JoinSpec, memory: Any) -> JoinSpec:
    """The same join under another budget, which must be of the same kind."""
    if spec.memory is None:
        raise TidegateError(
            "this join has no budget that could change; give its spec a memory, such as "
            "memory='200 MB'"
        )
    if spec.target is not None:
        raise TidegateError(
            f"target {spec.target!r} sets the memory of this join while it runs; give target=None"
        )
    if memory is None or isinstance(memory, str) != isinstance(spec.memory, str):
        unit = "tuples, such as 1000" if spec.memory_bytes is None else "bytes, such as '200 MB'"
        raise TidegateError(f"memory {memory!r} is not in the unit of this join; give {unit}")
    if spec.split_rows is not None and memory != spec.memory:
        raise TidegateError(
            f"split {spec.split!r} fixes the tuples of each stream, so memory cannot change; give "
            "shares that sum to 1.0, or 'auto'"
        )
    return spec.replace(memory=memory)


def within(spec: JoinSpec, counted: Mapping[str, Any]) -> JoinSpec:
    """The spec under the memory and the policy that a snapshot says were in force."""
    memory = counted.get("memory_in_force", spec.memory)
    policy = counted.get("policy_in_force", spec.policy)
    fitting = spec.replace(memory=memory, policy=policy)
    most, now = ((s.memory_bytes or s.memory_rows or 0) for s in (spec, fitting))
    require(type(memory) is type(spec.memory) and 0 < now <= most, "its memory is out of range")
    is_free = spec.policy_choice.name == "auto"
    require(policy == spec.policy or is_free, "its policy is another one")
    return fitting


# --- shedding ----------------------------------------------------------------------------


def crowded_by_monitors(shed: Shed, limits: NDArray[np.float64]) -> NDArray[np.int64]:
    """The streams that have more monitors than a smaller budget lets them have."""
    watch = shed.curve.watch
    most = np.where(limits > 0.0, np.maximum(1.0, limits), 0.0)
    return np.flatnonzero((watch.alive > most) & (limits < watch.limit))


def without_monitors(saved: Saved, streams: NDArray[np.int64], shed: Shed) -> Saved:
    """The same, but the monitors of some streams are ordinary members; their lives count for
    nothing. Nobody else has to make room for them then."""
    assert saved.learned is not None
    names, tables = list(saved.schemas), list(saved.tables)
    for stream in streams:
        at = names.index(saved.spec.streams[stream])
        place = tables[at].schema.get_field_index(MONITOR)
        ordinary = pa.array(np.full(len(tables[at]), ORDINARY, np.int32))
        tables[at] = tables[at].set_column(place, MONITOR, ordinary)
    learned = {row["name"]: row for row in saved.learned.to_pylist()}
    _expose_all(learned, saved, shed, np.sort(_all_slots(saved)))
    for name in ("curve.busy", "watch.alive"):
        numbers = _read(learned, name).reshape(len(saved.spec.streams), -1).copy()
        numbers[streams] = 0
        _write(learned, name, numbers)
    return saved._replace(tables=tables, learned=_table(learned, saved))


def shed_tuples(spec: JoinSpec, state: State, shed: Shed, output: Output) -> None:
    """Evict by the policy until a budget in tuples is kept."""
    state.accounts.capacity = capacities(spec, spec.memory_rows)
    admission.trim(state, shed, output)


def shed_bytes(
    spec: JoinSpec, state: State, shed: Shed, output: Output, fixed: int, part: float
) -> None:
    """The same for a budget in bytes, of which `fixed` go to arrays that hold no tuples.

    Accounts are charged with payload alone, so each round takes as much of it as the slots would
    take; sizes differ, so one round may not be enough.
    """
    assert spec.memory_bytes is not None
    each = arrays.slot_bytes(state) + shed_arrays.slot_bytes(shed)
    room = part * (spec.memory_bytes - fixed)
    while (alive := int(state.pool[0].alive)) > 0:
        used = int(state.accounts.used.sum())
        if used + alive * each <= room:
            break
        wanted = int(max(0.0, room) * used / (used + alive * each))
        state.accounts.capacity = capacities(spec, min(wanted, used - 1))
        admission.trim(state, shed, output)


def fixed_bytes(state: State, shed: Shed, saved_shed: Shed) -> int:
    """Bytes of an empty engine but for its slots, with rare keys as the old one has them."""
    each = arrays.slot_bytes(state) + shed_arrays.slot_bytes(shed)
    book = shed.frequency
    lines = min(len(saved_shed.frequency.marks), int(book.book[0].most_lines))
    more = max(0, lines - len(book.marks)) * key_lines.line_bytes(book.tallies.shape[1])
    return byte_budget.held(state, shed) - len(state.slots) * each + more


# --- what is written down ----------------------------------------------------------------


def fitted(saved: Saved, spec: JoinSpec, shed: Shed) -> Saved:
    """A snapshot as the spec with another budget, whose empty `shed` is given, can read it."""
    assert saved.learned is not None
    slots = np.sort(_all_slots(saved))
    tables = [_renumbered(table, slots) for table in saved.tables]
    saved.records["pool"][0]["closed_until"] = 0
    learned = {row["name"]: row for row in saved.learned.to_pylist()}
    _expose_all(learned, saved, shed, np.arange(len(slots)))
    if "sampled.slot" in learned:
        _write(learned, "sampled.slot", np.arange(len(slots)))
    if "shadows.every" in learned:
        _cut_shadows(learned, shed.shadows.shadow.shape[1])
    if "rare.marks" in learned:
        _cut_log(learned, shed.frequency.log.shape[1], int(saved.records["gate"][0]["clock"]))
        book = shed.frequency
        keys = key_lines.room_for(len(book.keys) - 1)
        _cut_rare(learned, int(book.book[0].most_lines) - keys)
    watched = saved.sentinel
    return saved._replace(
        spec=spec,
        sentinel=None if watched is None else saved_sentinel.renumbered(watched, slots),
        tables=tables,
        capacity=len(slots),
        unused=np.zeros(0, UNUSED_KIND),
        learned=_table(learned, saved),
    )


_NO_SLOTS = np.zeros(0, np.int64)


def _all_slots(saved: Saved) -> NDArray[np.int64]:
    return np.concatenate([_slots_of(table) for table in saved.tables] or [_NO_SLOTS])


def _slots_of(table: pa.Table) -> NDArray[np.int64]:
    return table.column(SLOT).to_numpy().astype(np.int64)


def _renumbered(table: pa.Table, slots: NDArray[np.int64]) -> pa.Table:
    """Slots numbered without gaps, in the order they had."""
    numbers = np.searchsorted(slots, _slots_of(table)).astype(np.int32)
    return table.set_column(table.schema.get_field_index(SLOT), SLOT, pa.array(numbers))


def _table(learned: dict[str, Any], saved: Saved) -> pa.Table:
    assert saved.learned is not None
    return pa.Table.from_pylist(list(learned.values()), saved.learned.schema)


def _read(learned: dict[str, Any], name: str) -> NDArray[Any]:
    return np.frombuffer(learned[name]["data"], np.dtype(learned[name]["kind"]))


def _write(learned: dict[str, Any], name: str, values: NDArray[Any]) -> None:
    learned[name]["data"] = values.astype(np.dtype(learned[name]["kind"])).tobytes()


def _expose_all(
    learned: dict[str, Any], saved: Saved, shed: Shed, numbers: NDArray[np.int64]
) -> None:
    """Up to where the trials of members are counted, for all of them, under new numbers.

    Which of them VALUE studies follows from slots and monitors, so others may be studied now; the
    trials of those begin now.
    """
    if "exposed.slot" not in learned:
        return
    names = list(saved.schemas)
    streams = [saved.spec.streams.index(name) for name in names]
    held = [_slots_of(table) for table in saved.tables]
    slots = np.concatenate([*held, _NO_SLOTS])
    stream = np.repeat(np.array(streams, np.int64), [len(each) for each in held])
    stream, slots = stream[np.argsort(slots)], np.sort(slots)
    known = np.searchsorted(slots, _read(learned, "exposed.slot"))
    now = int(_read(learned, "rates.clock")[match_rate.NOW]) >> int(
        shed.rates.span[match_rate.SHIFT]
    )
    fresh = {
        "moment": np.full(len(slots), now & 0x7FFFFFFF),
        "seen": _read(learned, "queues.seen")[1 - stream] & 0xFFFFFFFF,
        "aged": _read(learned, "queues.now")[stream],
    }
    for name, values in fresh.items():
        if f"exposed.{name}" in learned:
            values = values.astype(np.int64)
            values[known] = _read(learned, f"exposed.{name}")
            _write(learned, f"exposed.{name}", values)
    _write(learned, "exposed.slot", numbers)


def _cut_shadows(learned: dict[str, Any], room: int) -> None:
    """Of shadows that are too many every other one is dropped, as the engine does."""
    every = _read(learned, "shadows.every").copy()
    for stream in range(len(every)):
        draws = _read(learned, f"shadows.{stream}.draw").astype(np.int64)
        stays = np.ones(len(draws), np.bool_)
        while stays.sum() > room and every[stream] < 2**31:
            every[stream] *= 2
            stays = draws & (every[stream] - 1) == 0
        for name in [name for name in learned if name.startswith(f"shadows.{stream}.")]:
            _write(learned, name, _read(learned, name)[stays][-room:])
    _write(learned, "shadows.every", every)


def _cut_log(learned: dict[str, Any], lines: int, clock: int) -> None:
    """A log that is longer than the new one is given up: counts go on as a sketch."""
    logs = [name for name in learned if name.startswith("log.")]
    is_counted = _read(learned, "rule.statistics")[0] == frequency.WINDOW
    if not is_counted or all(len(_read(learned, name)) <= lines for name in logs):
        return
    for name in logs:
        learned[name]["data"] = b""
    for name in ("rule.statistics", "book.statistics"):
        _write(learned, name, np.array([frequency.SKETCHED]))
    _write(learned, "rule.faded", np.array([clock]))
    _write(learned, "rule.quiet", np.array([0]))


def _cut_rare(learned: dict[str, Any], most: int) -> None:
    """Of rare keys that do not fit, those with the smallest counts are forgotten."""
    marks, lines = _read(learned, "rare.marks"), int(_read(learned, "rare.lines")[0])
    if lines <= max(2, most):  # the smallest table has two
        return
    tallies = _read(learned, "rare.tallies")
    tallies = tallies.reshape(len(marks), tallies.size // max(1, len(marks)))
    largest = tallies.max(axis=1, initial=0).astype(np.int64)
    kept = np.sort(np.lexsort((marks, -largest))[: 3 * most // 4])
    _write(learned, "rare.marks", marks[kept])
    _write(learned, "rare.tallies", tallies[kept].ravel())
    _write(learned, "rare.lines", np.array([most]))
