"""A join that goes on as another one: written down, and read back under another budget or policy.

Law: no row is lost or counted twice on the way, and what comes out is what an engine under the next
budget and policy would restore from a snapshot. Users change a budget by `resize`; targets and
races change memory and policy at reviews.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tidegate.compiled.scratch import borrowed
from tidegate.engine import resizing, snapshot, snapshot_checks, switching
from tidegate.engine.receiving import ReceivingJoin
from tidegate.engine.snapshot import Saved
from tidegate.engine.throttling import is_fuel
from tidegate.loss import saved_sentinel
from tidegate.shed import recipes
from tidegate.spec import JoinSpec
from tidegate.state import arrays, byte_budget

# What a join keeps when it becomes another.
_KEPT = ("_guard", "_examples", "_probe", "_ledger", "_miniature", "_steering", "_counts_only")


class ChangingJoin(ReceivingJoin):
    """How a join is written down and read back, and what it does to become another one."""

    _bytes_peak = 0

    @abstractmethod
    def _fresh(self, spec: JoinSpec, schemas: Mapping[str, pa.Schema]) -> ChangingJoin:
        """An empty engine."""

    @property
    def policy(self) -> str:
        """The name of the policy in force; with `policy="auto"` the one that measures best."""
        return recipes.name_of(self._in_force.policy_choice)

    def _rows_peak(self) -> int:
        """The most tuples that the join and its race ever held."""
        own = int(self._state.pool[0].peak)
        race = None if self._steering is None else self._steering.race
        return own if race is None else race.most_held(own)

    # --- written down and read back ---------------------------------------------------------

    def _dump(self, steered: bytes | None = None) -> bytes:
        counted = {
            "rows_in": self._rows_in,
            "rejected": [dict(counter) for counter in self._rejected],
            "bytes_peak": self._bytes_peak,
            "time_unit": self._binding.time_unit,
            "fuel": self._fuel,
        }
        if self._index_watch is not None:
            counted["index"] = self._state.lanes.index.tolist()
        if self._ledger is not None:
            counted["ledger"] = self._ledger.saved()
        for name in ("memory", "policy"):
            in_force = getattr(self._in_force, name)
            if in_force != getattr(self.spec, name):
                counted[f"{name}_in_force"] = in_force
        if self._steering is not None and self._steering.room_of_race:
            counted["is_racing"] = True
        watched = (
            None if self._sentinel is None else saved_sentinel.dump(self._sentinel, self._state)
        )
        return snapshot.dump(
            self.spec, self._state, self._shed, self._schemas, self._payloads, counted, watched,
            steered,
        )  # fmt: skip

    def _saved(self) -> Saved:
        return snapshot.load(self._dump(), self.spec)

    def _refill(self, saved: Saved) -> None:
        """Put what was saved into this fresh engine."""
        self._rows_in = saved.counted["rows_in"]
        self._rejected = [Counter(counts) for counts in saved.counted["rejected"]]
        self._bytes_peak = saved.counted["bytes_peak"]
        self._binding.restore_unit(saved.counted["time_unit"])
        self._refuel(saved.counted.get("fuel"))
        self._state, self._shed = snapshot.refill(
            self._state, self._shed, self._binding, self._payloads, saved
        )
        if self._sentinel is not None:
            saved_sentinel.refill(self._sentinel, saved.sentinel, self._state)
        kinds = saved.counted.get("index")
        if self._index_watch is not None and kinds is not None:
            snapshot_checks.check_indexes(kinds, self.spec)
            self._state = arrays.with_indexes(self._state, kinds)

    def _refuel(self, fuel: Any) -> None:
        """Grant what a snapshot says was granted last, on whatever machine that was."""
        if fuel is not None:
            snapshot_checks.require(is_fuel(self.spec, fuel), "its fuel is out of range")
            self._set_fuel(fuel)

    # --- reviews ----------------------------------------------------------------------------

    def _review(self, first: int) -> None:
        """See what is lost, and change the memory if a target asks for it."""
        assert self._steering is not None
        assert self._shed is not None
        glance = self._steering.review(first, self._sentinel, self._state)
        if self._steering.contract is not None:
            price = self._steering.price(self._state, self._shed)
            memory = self._steering.decide(glance, self._in_force, price)
            if memory is not None:
                self._resize(self._empty(self.spec, self._in_force.replace(memory=memory)))
        policy = self._steering.best_policy(self._state, first)
        if policy is not None and policy != self.policy:
            self._resize(self._empty(self.spec, self._in_force.replace(policy=policy)))
        elif self._steering.is_race_due(self._state):
            self._begin_race()

    def _begin_race(self) -> None:
        """Leave the race its room, and begin it."""
        assert self._steering is not None
        assert self._shed is not None
        self._steering.reserve(self.spec)
        self._limit(self._in_force)
        with borrowed() as scratch:
            output = self._room(scratch)
            resizing.shed_tuples(self._own, self._state, self._shed, output)
            self._departures(output)
        if self._ledger is not None:
            self._ledger.end(self._state, self._payloads, self._binding)
        self._steering.begin_race(self.spec, self._state, self.policy, self._rows_peak())
        self._state.pool[0].peak = self._state.pool[0].alive

    # --- another budget or policy -----------------------------------------------------------

    def _resize(self, fresh: ChangingJoin) -> None:
        """Go on as an empty engine with another budget or policy."""
        assert self._shed is not None
        assert fresh._shed is not None
        in_force = fresh._in_force
        crowded = resizing.crowded_by_monitors(self._shed, fresh._shed.curve.watch.limit)
        if len(crowded) and self.policy == fresh.policy:
            same = self._empty(self.spec, self._in_force)
            same._refill(resizing.without_monitors(self._saved(), crowded, self._shed))
            self._become(same)
        part = 1.0
        while not self._resized_into(fresh, part):
            fresh, part = self._empty(fresh.spec, in_force), part * resizing.TRY_LESS
        self._become(fresh)
        if self._ledger is not None:
            self._ledger.end(self._state, self._payloads, self._binding)

    def _empty(self, spec: JoinSpec, in_force: JoinSpec) -> ChangingJoin:
        """An engine for the streams of this one, with the memory and the policy of `in_force`."""
        known = zip(spec.streams, self._schemas, strict=True)
        schemas = {name: schema for name, schema in known if schema is not None}
        # What steers this engine goes on to steer the other, so that gets nothing of its own.
        bare = in_force.replace(miniatures=None, target=None)
        if self._steering is not None and bare.policy_choice.name == "auto":
            bare = bare.replace(policy=self.policy)  # or it would have a race of its own
        engine = self._fresh(bare, schemas)
        engine.spec = spec
        if self._steering is not None:
            engine._steering = self._steering
            engine._go_on_under(in_force)
        return engine

    def _go_on_under(self, in_force: JoinSpec) -> None:
        """Begin again, empty, under a part of the memory, or under another policy."""
        self._limit(in_force)
        self._start(self._binding)

    def _become(self, other: ChangingJoin) -> None:
        kept = {name: getattr(self, name) for name in _KEPT}
        self.__dict__.update(other.__dict__ | kept)
        self._set_reports()

    def _resized_into(self, fresh: ChangingJoin, part: float) -> bool:
        """Shed, and fill an empty engine with what is left; False if that exceeds its budget."""
        assert self._shed is not None
        assert fresh._shed is not None
        spec, by_bytes = fresh._own, fresh.spec.memory_bytes is not None
        with borrowed() as scratch:
            output = self._room(scratch)
            if by_bytes:
                fixed = resizing.fixed_bytes(fresh._state, fresh._shed, self._shed)
                resizing.shed_bytes(spec, self._state, self._shed, output, fixed, part)
            else:
                resizing.shed_tuples(spec, self._state, self._shed, output)
            self._departures(output)
            saved = self._saved()
            if self.policy != fresh.policy:
                saved = switching.switched(
                    saved, self._state, self._shed, fresh._state, fresh._shed
                )
            fresh._refill(resizing.fitted(saved, fresh.spec, fresh._shed))
            fits = not by_bytes or byte_budget.fits(spec, fresh._state, fresh._shed)
            if fits or not fresh._state.pool[0].alive:
                fresh._ledger = self._ledger
                fresh._set_reports()
                fresh._fit_budget(output)
                fresh._departures(output)
                return True
        return False
