"""The sentinel: a sample of tuples that is never shed, and so knows what the join loses.

Law: a sentinel changes no result. It holds at most its share of the budget, which the join does
without (`join_part`). All its choices follow from the seed and the order of arrival.

A tuple of the sample (a *witness*) is watched for its whole life: which results it has, and which
of them the join gave out (`watching`); `interval` makes the recall of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.columns.payload import Settlement
from tidegate.compiled.layout import Records, records
from tidegate.loss import interval, watching
from tidegate.loss.witness_records import (
    CHANGE,
    MOST_CHANGES,
    NOBODY,
    NOWHERE,
    SENTINEL,
    WITNESS,
)
from tidegate.spec import Equal, JoinSpec, TidegateError
from tidegate.state.join_state import RESULTS, Output, State
from tidegate.windows.arrivals import Arrivals

FEWEST_WITNESSES = 8
RECENT = 4  # longest windows: the stretch over which the recent recall is measured
_SUMS = ("exact", "kept", "exact_worth", "kept_worth", "count")
_WHOLE, _RECENT = range(2)
# Bytes of a witness: its record, what it had in all and recently, and its places in tables.
WITNESS_BYTES = WITNESS.itemsize + 2 * 8 * len(_SUMS) + 8 + 4 * 4
_LONG_AGO = -(2**63)


def why_not(spec: JoinSpec) -> str | None:
    """Why this join can have no sentinel, or None if it can."""
    if spec.memory is None:
        return "sentinel takes a share of the memory, and memory is None; give a memory"
    if len(spec.streams) != 2:
        return f"sentinel watches joins of two streams, and these are {len(spec.streams)}"
    if not all(isinstance(predicate, Equal) for predicate in spec.predicates):
        return "sentinel watches joins on equal columns only so far, and on= has another predicate"
    if any(window.kind == "rows" for window in spec.windows):
        return "sentinel needs time windows so far, and within= is a number of rows"
    return None


def check(spec: JoinSpec) -> None:
    """An error if the join asks for a sentinel that it cannot have."""
    if spec.sentinel is None:
        return
    reason = why_not(spec)
    if reason is not None:
        raise TidegateError(reason + "; or leave sentinel out")
    if witnesses_of(spec) < FEWEST_WITNESSES:
        each = 1 if spec.memory_bytes is None else WITNESS_BYTES
        least = FEWEST_WITNESSES * each / max(1, spec.memory_rows or spec.memory_bytes or 0)
        raise TidegateError(
            f"sentinel {spec.sentinel} of memory {spec.memory!r} is room for "
            f"{witnesses_of(spec)} tuples, which say nothing; give "
            + (f"sentinel={least:.2g} or more" if least <= 0.5 else "more memory")
        )
    if spec.split_rows is not None and sum(spec.split_rows) > _left(spec):
        raise TidegateError(
            f"split {spec.split!r} leaves no room for the sentinel; give numbers that sum to at "
            f"most {_left(spec)}, or shares"
        )


def witnesses_of(spec: JoinSpec) -> int:
    """How many tuples a sentinel may hold."""
    if spec.sentinel is None:
        return 0
    if spec.memory_bytes is not None:
        return int(spec.sentinel * spec.memory_bytes) // WITNESS_BYTES
    return int(spec.sentinel * (spec.memory_rows or 0))


def _left(spec: JoinSpec, reserved: int = 0) -> int:
    """What of the budget is left for the join."""
    if spec.memory_bytes is not None:
        return spec.memory_bytes - int((spec.sentinel or 0.0) * spec.memory_bytes) - reserved
    return (spec.memory_rows or 0) - witnesses_of(spec) - reserved


def join_part(spec: JoinSpec, reserved: int = 0) -> JoinSpec:
    """The join with what its sentinel leaves of its budget; `reserved` is left for others."""
    if spec.sentinel is None and not reserved:
        return spec
    left = _left(spec, reserved)
    memory: Any = left if spec.memory_bytes is None else f"{left} B"
    return spec.unwatched().replace(memory=memory)


class Sentinel:
    """What a join knows about its loss.

    `watch` is told the arrivals of a push before the join takes them, `credit` each time the join
    has results, `close` at the end of the push, and `moved` where rows of the join move.
    """

    def __init__(self, spec: JoinSpec, state: State) -> None:
        most = witnesses_of(spec)
        self._record: Records = records(SENTINEL, 1)
        self._windows = state.lanes.window.astype(np.int64)
        record, gate = self._record[0], state.gate[0]
        record.rate, record.most = 1.0, most
        record.longest = int(self._windows.max())
        record.check_at = record.clock = record.watermark = _LONG_AGO
        record.lateness, record.seed = gate.lateness, spec.seed
        record.has_importance, record.combine = gate.has_importance, gate.combine
        self._numbers = np.zeros(2, np.int64)  # tuples of each stream that have come
        self.roster: Records = records(WITNESS, 0)
        self.totals = np.zeros((0, 2, len(_SUMS)))  # [witness, (_WHOLE, _RECENT), _SUMS]
        # Of witnesses that are gone: [(_WHOLE, _RECENT), (results, importance), moments].
        self._finished = np.zeros((2, 2, interval.MOMENTS))
        # Results, importance and tuples taken, when each stretch began.
        self._begun = np.zeros((2, 3))
        self._last = np.zeros((2, interval.MOMENTS))  # of the last whole stretch
        self._last_counted = np.zeros(3)
        self._stretch_ends = _LONG_AGO
        self._blind_until = _LONG_AGO  # results of tuples from before the sentinel say nothing

    # --- a push ---------------------------------------------------------------------------

    def watch(self, arrivals: Arrivals, state: State, ends: Sequence[int]) -> None:
        """Take the arrivals of a push; `ends` are the addresses that the next rows would get."""
        record, gate = self._record[0], state.gate[0]
        self._was_blind = self.is_blind(state)
        record.clock, record.watermark, record.external = gate.clock, gate.watermark, gate.external
        self._start_push(arrivals)
        most, old = int(record.most), len(self.roster)
        alive = np.arange(most, dtype=np.int64)
        buckets = np.empty(_power_of_two(4 * most), np.int32)
        self._changes: Records = records(CHANGE, MOST_CHANGES)
        watching.place_all(self.roster, alive, old, buckets)
        cursor = arrivals.begin.copy()
        need = watching.NEEDS_ROOM
        while need == watching.NEEDS_ROOM:
            self.roster = _longer(self.roster)
            need = int(
                watching.watch(
                    self._record, self.roster, alive, buckets, self._windows, self._changes,
                    arrivals, cursor, self._numbers,
                )
            )  # fmt: skip
        self._alive = alive[: int(record.held)]
        self._list_rows(arrivals, old, ends)

    def _start_push(self, arrivals: Arrivals) -> None:
        record = self._record[0]
        record.held = record.listed = len(self.roster)
        record.changes = 0
        self.roster.rate_at_first = self.roster.rate
        self.roster.first_change = 0
        for name in _SUMS:
            self.roster[name] = 0.0
        self._arrivals = arrivals
        if self._stretch_ends == _LONG_AGO:
            self._stretch_ends = int(arrivals.time.min()) + self._stretch

    @property
    def _stretch(self) -> int:
        return RECENT * max(1, int(self._record[0].longest))

    def _list_rows(self, arrivals: Arrivals, old: int, ends: Sequence[int]) -> None:
        """Where the rows of witnesses stand: by address, or by place among the arrivals."""
        listed = int(self._record[0].listed)
        parts = [arrivals.row[b:e] for b, e in zip(arrivals.begin, arrivals.end, strict=True)]
        self._base = np.array(
            [part.min() if len(part) else end for part, end in zip(parts, ends, strict=True)]
        ).astype(np.int64)
        turns = np.zeros(0, np.int64)
        if any(len(part) > 1 and (part[1:] < part[:-1]).any() for part in parts):
            turns = np.empty(len(arrivals.row), np.int64)
            for stream, begin in enumerate(arrivals.begin):
                turns[begin + parts[stream] - self._base[stream]] = begin + np.arange(
                    len(parts[stream])
                )
        self._turns = turns
        self._places = np.empty(_power_of_two(4 * old + 4), np.int32)
        watching.list_places(self._places, self.roster, 0, old, self._base)
        self._who = np.empty(len(arrivals.row), np.int32)
        watching.list_recent(self._who, self.roster, old, listed, arrivals, self._base, turns)

    def credit(self, output: Output) -> None:
        """The join has results, not yet drained."""
        watching.credit(
            self._record, self.roster, self._places, self._changes, self._arrivals, self._base,
            self._turns, self._who, output, int(output.filled[RESULTS]),
        )  # fmt: skip

    def close(self, state: State) -> None:
        """The push is over."""
        record = self._record[0]
        listed = int(record.listed)
        roster = self.roster[:listed]
        totals = np.zeros((listed, 2, len(_SUMS)))
        totals[: len(self.totals)] = self.totals
        if self._was_blind:
            self._begun[:] = self._counted(state)
        else:
            totals += np.stack([roster[name] for name in _SUMS], axis=1)[:, None, :]
        gone = roster.dead != 0
        self._finished += _moments(totals[gone], roster.rate[gone])
        self.roster = roster[self._alive].copy()
        self.totals = totals[self._alive]
        self.roster.older = NOBODY
        self._end_stretch(state)
        for name in ("_arrivals", "_alive", "_changes", "_places", "_who", "_turns", "_base"):
            delattr(self, name)

    def is_blind(self, state: State) -> bool:
        """Are tuples retained that came before it watched?"""
        return self._blind_until > _LONG_AGO and (int(state.gate[0].watermark) <= self._blind_until)

    def _end_stretch(self, state: State) -> None:
        """Begin a new stretch when the last one has lasted for RECENT windows."""
        clock = int(self._record[0].clock)
        length = self._stretch
        if clock < self._stretch_ends or self._was_blind:
            return
        now = self._counted(state)
        self._last = self._sums()[_RECENT]
        self._last_counted = now - self._begun[_RECENT]
        self._finished[_RECENT] = 0.0
        self.totals[:, _RECENT] = 0.0
        self._begun[_RECENT] = now
        self._stretch_ends = clock + length

    def moved(self, stream: int, alive: NDArray[np.int64], settlement: Settlement) -> None:
        """The rows `alive` of a stream stay, some of them at new addresses; others are gone."""
        own = np.flatnonzero(self.roster.stream == stream)
        after = np.append(alive, NOWHERE)  # where those go that are not found, at -1
        after[settlement.moved] = settlement.addresses
        self.roster.address[own] = after[positions_of(alive, self.roster.address[own])]

    def begin_later(self, state: State) -> None:
        """Tuples are retained that were not watched: wait until all of them are dead."""
        clock = int(state.gate[0].clock)
        if clock > _LONG_AGO:
            self._blind_until = clock + int(self._record[0].longest)

    # --- keeping --------------------------------------------------------------------------

    def numbers(self) -> dict[str, Any]:
        """All that it remembers besides its witnesses and their totals, for a snapshot."""
        record = self._record[0]
        return {
            "rate": float(record.rate),
            "peak": int(record.peak),
            "taken": int(record.taken),
            "check_at": int(record.check_at),
            "clock": int(record.clock),
            "numbers": self._numbers.tolist(),
            "finished": self._finished.tolist(),
            "begun": self._begun.tolist(),
            "last": self._last.tolist(),
            "last_counted": self._last_counted.tolist(),
            "stretch_ends": self._stretch_ends,
            "blind_until": self._blind_until,
        }

    def take(self, roster: Records, totals: NDArray[np.float64], numbers: dict[str, Any]) -> None:
        """Go on with what a snapshot held."""
        record = self._record[0]
        self.roster, self.totals = roster, totals
        for name in ("rate", "peak", "taken", "check_at", "clock"):
            record[name] = numbers[name]
        record.held = len(roster)
        self._numbers = np.array(numbers["numbers"], np.int64)
        self._finished = np.array(numbers["finished"])
        self._begun = np.array(numbers["begun"])
        self._last = np.array(numbers["last"])
        self._last_counted = np.array(numbers["last_counted"])
        self._stretch_ends = int(numbers["stretch_ends"])
        self._blind_until = int(numbers["blind_until"])
        if len(roster) > self.most:
            self._shrink()

    def _shrink(self) -> None:
        """The share has become smaller: lower the rate until the witnesses fit."""
        rate = float(np.sort(self.roster.draw)[self.most])
        stay = self.roster.draw < rate
        self._finished += _moments(self.totals[~stay], self.roster.rate[~stay])
        self.roster, self.totals = self.roster[stay].copy(), self.totals[stay]
        self.roster.rate = np.minimum(self.roster.rate, rate)
        self._record[0].rate = min(float(self._record[0].rate), rate)
        self._record[0].held = len(self.roster)

    # --- reading --------------------------------------------------------------------------

    @property
    def most(self) -> int:
        """Tuples that it may hold."""
        return int(self._record[0].most)

    @property
    def rate(self) -> float:
        """The share of tuples that are taken into the sample."""
        return float(self._record[0].rate)

    @property
    def held(self) -> int:
        """Tuples held."""
        return len(self.roster)

    @property
    def peak(self) -> int:
        """The most that were ever held."""
        return int(self._record[0].peak)

    @property
    def nbytes(self) -> int:
        """Bytes held between two pushes."""
        return WITNESS_BYTES * self.held

    def _counted(self, state: State) -> NDArray[np.float64]:
        """What the join has counted: results, their importance, and tuples."""
        gate = state.gate[0]
        taken = self._record[0].taken
        return np.array([float(gate.results), float(gate.importance_out), float(taken)])

    @property
    def results(self) -> NDArray[np.float64]:
        """Of the whole run [(results, importance), (all there are, those given out)]."""
        return self._sums()[_WHOLE][:, :2]

    def _sums(self) -> NDArray[np.float64]:
        return self._finished + _moments(self.totals, self.roster.rate)

    def stats(self, state: State) -> dict[str, int | float]:
        """Recall with its interval, as far as it is known."""
        known: dict[str, int | float] = {
            "sentinel_rows": self.held,
            "sentinel_rate": float(self._record[0].rate),
        }
        if self.is_blind(state):
            return known
        counted = self._counted(state) - self._begun[_WHOLE]
        known[interval.TAKEN] = int(counted[2])
        sums = self._sums()[_WHOLE]
        measures = interval.MEASURES[: 2 if self._record[0].has_importance else 1]
        for at, (name, _, prefix) in enumerate(measures):
            known |= interval.named_sums(prefix, sums[at])
            if not _has_lost(state):
                known |= {name: 1.0, f"{name}_low": 1.0, f"{name}_high": 1.0}
                continue
            known |= interval.described(name, interval.recall_of(sums[at], counted[at], counted[2]))
            last = self._last_counted
            recent = interval.recall_of(self._last[at], last[at], last[2])
            known |= interval.described(f"{name}_recent", recent)
        return known


def _has_lost(state: State) -> bool:
    lost = int(state.lanes.evicted.sum() + state.lanes.refused.sum())
    if state.throttle is not None:
        lost += int(state.throttle.sides.skipped.sum())
    return lost > 0


def _moments(totals: NDArray[np.float64], rate: NDArray[np.float64]) -> NDArray[np.float64]:
    """[(_WHOLE, _RECENT), (results, importance), moments]"""
    return np.array(
        [
            [
                interval.moments(
                    totals[:, span, 2 * at], totals[:, span, 2 * at + 1], totals[:, span, 4], rate
                )
                for at in range(2)
            ]
            for span in range(2)
        ]
    )


def positions_of(among: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each wanted number stands among others, which differ; -1 where it does not."""
    if not len(among):
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(among)
    at = np.minimum(np.searchsorted(among, wanted, sorter=order), len(among) - 1)
    return np.where(among[order[at]] == wanted, order[at], -1)


def _longer(roster: Records) -> Records:
    longer = records(WITNESS, max(1024, 2 * len(roster)))
    longer[: len(roster)] = roster
    return longer


def _power_of_two(least: int) -> int:
    return 1 << max(3, (least - 1).bit_length())
