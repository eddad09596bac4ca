"""An engine goes on under another policy, with what is retained and what the next one can use.

Law: no tuple leaves by a switch, and every count of rows goes on. What was learned of keys is kept
where both policies count them, in the scale of the next one; the rest is learned again. What comes
out is a snapshot that an engine under the next policy restores.

Priorities that follow from tuple and key are computed from what is known now; VALUE rescores all
members at the next arrival.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.engine import saved_estimates
from tidegate.engine.snapshot import MEMBER_COLUMNS, SLOT, Saved
from tidegate.estimators import frequency, match_rate
from tidegate.shed import shed_records
from tidegate.shed.shed_records import BY_TUPLE, Shed
from tidegate.state.join_state import State
from tidegate.windows.lifetime import NOT_INDEXED, ORDINARY

_FADED_WINDOWS = 5.0  # so many windows weigh in a faded count; in the others one
_QUEUES = ("seen", "now", "pace", "period", "period_seen", "arrived")
_RULE = ("first", "begun", "quiet", "instant")
_KEYS = ("keys.code", "keys.next_free", "counts", "rare.lines", "rare.marks", "rare.tallies")


def switched(saved: Saved, state: State, shed: Shed, fresh: State, fresh_shed: Shed) -> Saved:
    """The snapshot of an engine as one with the policy of `fresh_shed`, still empty, reads it."""
    assert saved.learned is not None
    before = {row["name"]: _array(row) for row in saved.learned.to_pylist()}
    learned = {
        row["name"]: _array(row) for row in saved_estimates.dump(fresh_shed, fresh).to_pylist()
    }
    for name in (*(f"queues.{name}" for name in _QUEUES), *(f"rule.{name}" for name in _RULE)):
        learned[name] = before[name]
    slots = [table.column(SLOT).to_numpy().astype(np.int64) for table in saved.tables]
    keys = [np.zeros(len(its), np.int32) for its in slots]
    if fresh_shed.rule[0].keyed:
        keys = _count_on(before, learned, state, shed, fresh_shed, slots)
    names = list(saved.schemas)
    tables = []
    for at, table in enumerate(saved.tables):
        stream = saved.spec.streams.index(names[at])
        columns = _members(learned, state, fresh_shed, stream, slots[at], keys[at])
        for name, values in columns.items():
            place = table.schema.get_field_index(MEMBER_COLUMNS[name])
            table = table.set_column(place, MEMBER_COLUMNS[name], pa.array(values))
        tables.append(table)
    return saved._replace(tables=tables, learned=_table(learned, saved))


def _array(row: dict[str, Any]) -> NDArray[Any]:
    return np.frombuffer(row["data"], np.dtype(row["kind"]))


def _table(learned: dict[str, NDArray[Any]], saved: Saved) -> pa.Table:
    assert saved.learned is not None
    rows = [
        {"name": name, "kind": array.dtype.str, "data": np.ascontiguousarray(array).tobytes()}
        for name, array in learned.items()
    ]
    return pa.Table.from_pylist(rows, saved.learned.schema)


# --- keys --------------------------------------------------------------------------------


def _count_on(
    before: dict[str, NDArray[Any]],
    learned: dict[str, NDArray[Any]],
    state: State,
    shed: Shed,
    fresh: Shed,
    slots: list[NDArray[np.int64]],
) -> list[NDArray[np.int32]]:
    """Write down the counts for the next policy; returns the keys of the members by stream."""
    was, becomes = int(shed.rule[0].statistics), int(fresh.rule[0].statistics)
    if _counts_arrivals(shed):
        scale = _windows_in(becomes) / _windows_in(was)
        for name in _KEYS:
            learned[name] = before[name]
        learned["counts"] = np.floor(scale * before["counts"] * 16.0) / 16.0
        tallies = np.minimum(scale * before["rare.tallies"], 65_535).astype(np.uint16)
        tallies = tallies.reshape(len(before["rare.marks"]), len(state.lanes))
        counted = tallies.any(axis=1)
        learned["rare.marks"] = before["rare.marks"][counted]
        learned["rare.tallies"] = tallies[counted].ravel()
        keys = [shed.members.key[its].astype(np.int32) for its in slots]
        if becomes == frequency.WINDOW and was != frequency.WINDOW:
            becomes = frequency.SKETCHED  # there is no log of the window to go on with
        elif becomes == frequency.WINDOW:
            for name in (name for name in before if name.startswith("log.")):
                learned[name] = before[name]
    else:
        keys = _count_members(learned, state, slots)
        becomes = frequency.SKETCHED if becomes == frequency.WINDOW else becomes
    if fresh.rule[0].kind == shed_records.OUTPUT:
        _expect_results(learned, len(state.lanes))
    learned["rule.statistics"] = learned["book.statistics"] = np.array([becomes])
    learned["rule.faded"], learned["rule.quiet"] = state.gate["clock"].copy(), np.array([0])
    if fresh.rule[0].kind == shed_records.VALUE:
        never = np.full(2 * len(learned["keys.code"]), match_rate.NEVER)
        learned["rates.activity"] = never.astype(np.uint32)
    return keys


def _expect_results(learned: dict[str, NDArray[Any]], streams: int) -> None:
    """OUTPUT counts results of keys: as many as their tuples would have had among each other."""
    counts = learned["counts"].reshape(-1, streams).copy()
    counts[:, 0], counts[:, 1:] = np.floor(counts.prod(axis=1)), 0.0
    learned["counts"] = counts.ravel()
    learned["rare.marks"], learned["rare.tallies"] = (
        learned[f"rare.{name}"][:0] for name in ("marks", "tallies")
    )


def _counts_arrivals(shed: Shed) -> bool:
    """Does a policy count how often keys come?"""
    rule = shed.rule[0]
    known = (frequency.WINDOW, frequency.SKETCHED, frequency.FADED)
    return bool(rule.keyed and rule.kind != shed_records.OUTPUT and rule.statistics in known)


def _windows_in(statistics: int) -> float:
    return _FADED_WINDOWS if statistics == frequency.FADED else 1.0


def _count_members(
    learned: dict[str, NDArray[Any]], state: State, slots: list[NDArray[np.int64]]
) -> list[NDArray[np.int32]]:
    """Where nothing was counted: keys of the retained tuples, and how many of these they have."""
    everyone = np.concatenate([*slots, np.zeros(0, np.int64)])
    codes, place = np.unique(state.slots.code[everyone], return_inverse=True)
    place = np.where(state.slots.older[everyone] == NOT_INDEXED, -1, place) + 1
    counts = np.zeros((len(codes) + 1, len(state.lanes)))
    np.add.at(counts, (place, state.notes.stream[everyone]), 1.0)
    counts[frequency.NO_KEY] = 0.0
    learned["keys.code"] = np.append(np.int64(0), codes)
    learned["keys.next_free"] = np.full(len(codes) + 1, -1, np.int32)
    learned["counts"] = counts.ravel()
    return list(np.split(place.astype(np.int32), np.cumsum([len(its) for its in slots])[:-1]))


# --- members -----------------------------------------------------------------------------


def _members(
    learned: dict[str, NDArray[Any]],
    state: State,
    fresh: Shed,
    stream: int,
    slots: NDArray[np.int64],
    keys: NDArray[np.int32],
) -> dict[str, NDArray[Any]]:
    """What the next policy knows of the members of a stream."""
    rule = fresh.rule[0]
    own = state.importance[slots] if state.gate[0].has_importance else np.ones(len(slots))
    matches = np.zeros(len(slots))
    if rule.keyed:
        counts = learned["counts"].reshape(-1, len(state.lanes))
        others = [other for other in range(len(state.lanes)) if other != stream]
        matches = counts[keys][:, others].prod(axis=1)
    basis = own
    if rule.kind in (shed_records.PROB, shed_records.OUTPUT):
        basis = np.ones(len(slots))
    elif rule.kind in (shed_records.RANDOM, shed_records.CUMULATIVE):
        basis = np.zeros(len(slots))
    priority = np.zeros(len(slots))
    if rule.standing == BY_TUPLE:
        priority = _priority(rule, own, matches, state.notes.order[slots])
    return {
        "priority": np.minimum(priority, np.finfo(np.float64).max),
        "basis": basis,
        "born": state.slots.time[slots],
        "key": keys,
        "monitor": np.full(len(slots), ORDINARY, np.int32),
    }


def _priority(
    rule: Any, own: NDArray[np.float64], matches: NDArray[np.float64], order: NDArray[Any]
) -> NDArray[np.float64]:
    """As at arrival; what a policy learned of tuples while they were retained, it learns again."""
    if rule.kind == shed_records.RANDOM:
        return np.random.default_rng(0).permutation(len(order)) / max(1, len(order))
    if rule.kind == shed_records.SIMP:
        return own
    if rule.kind == shed_records.SIMPPROB:
        return own * matches
    if rule.kind == shed_records.CUMULATIVE:
        return np.asarray(rule.alpha * own * (1.0 + rule.beta * matches))
    return np.zeros(len(own))
