"""JoinEngine: tables in, results out; expire -> probe -> emit -> admit -> shed inside.

Law: a push is all or nothing. Everything that can be wrong with its input is found before the first
tuple is taken; from then on every row is accounted for:
rows in = alive + expired + evicted + refused + too late + rejected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidegate.binding.binding import Binding, Encoded
from tidegate.columns.intake import to_arrow
from tidegate.columns.storage import declared, empty_table
from tidegate.compiled.scratch import Scratch, borrowed
from tidegate.engine import resizing, saved_steering, snapshot, snapshot_checks, steering
from tidegate.engine.accounting import stats_of
from tidegate.engine.changing import ChangingJoin
from tidegate.engine.guard import Call, Guard
from tidegate.engine.miniature import Miniature
from tidegate.engine.probes import probe_of
from tidegate.engine.sample_checks import check_sample
from tidegate.engine.steering import Steering
from tidegate.engine.throttling import check_cpu, check_fuel
from tidegate.loss import ledger as ledgers
from tidegate.loss import sentinel
from tidegate.loss.ledger_files import Files
from tidegate.shed import recipes
from tidegate.spec import JoinSpec, TidegateError
from tidegate.spec.given import by_name, check_spec


def check_supported(spec: JoinSpec) -> None:
    """An error if this version cannot run such a join."""
    check_sample(spec)
    if len(spec.streams) > 2 and spec.memory is not None:
        recipes.check_for_many(spec.policy_choice)
    check_cpu(spec)
    steering.check(spec)
    sentinel.check(steering.with_watchers(spec))
    recipes.recipe_of(spec.policy_choice, len(spec.streams))


class JoinEngine(ChangingJoin):
    """A window join that is fed push by push.

    Parameters
    ----------
    spec
        What to join; see `JoinSpec`.
    schemas
        The pyarrow schema of each stream, where known beforehand. Otherwise a stream's schema is
        that of its first push.
    probe
        How an arrival looks for partners on more than two streams; results do not depend on it.
        "auto" looks first whether every stream can have one (kwon2011's bit-vector hash table).
        "selectivity" goes from stream to stream until one has none, first to the one that most
        often has none, and a list of all streams goes in that order (MJoin).
    ledger
        An empty folder to which every row is written when it leaves the join, with the reason;
        `tidegate repair` computes from it exactly the results that were lost.
    miniature
        Makes the engine a small copy of a large one, in which some tuples only pass.

    Example
    -------
    >>> import pyarrow as pa, tidegate as tg
    >>> engine = tg.JoinEngine(tg.JoinSpec(on="k", time="t", within=10))
    >>> left = pa.table({"t": [1, 5], "k": ["a", "b"]})
    >>> right = pa.table({"t": [2, 30], "k": ["a", "b"]})
    >>> engine.push({"left": left, "right": right}).to_pylist()
    [{'t': 1, 'k': 'a', 't_right': 2, 'k_right': 'a', '_importance': 1.0}]
    >>> engine.stats()["expired"]
    3
    """

    def __init__(
        self,
        spec: JoinSpec,
        schemas: Mapping[str, pa.Schema] | None = None,
        *,
        probe: str | Sequence[str] = "auto",
        ledger: str | Path | Files | None = None,
        miniature: Miniature | None = None,
    ) -> None:
        check_spec(spec)
        check_supported(spec)
        if ledger is not None:
            ledgers.check(spec, ledger)
        super().__init__(spec, probe_of(probe, spec.streams), ledger, miniature)
        self._guard = Guard()
        watched = steering.with_watchers(spec)
        if steering.is_steered(watched) and miniature is None:
            self._steering = Steering(watched, type(self))
        for name, schema in by_name(schemas or {}, "schemas").items():
            stream = self._stream(name)
            if not isinstance(schema, pa.Schema):
                raise TidegateError(
                    f"schemas has {type(schema).__name__} for stream {name!r}; give a pyarrow "
                    "Schema, such as table.schema"
                )
            self._schemas[stream] = declared(schema, name)
        self._start(Binding(spec, list(self._schemas)))
        if self._steering is not None:
            self._steering.open(self._binding)

    # --- pushing --------------------------------------------------------------------------

    def push(
        self, tables: Mapping[str, Any], *, watermark: Any = None, fuel: float | None = None
    ) -> pa.Table:
        """Take new rows and return the results they complete.

        Before all streams have shown their columns there are no results, and the table has no
        columns either; `pa.concat_tables(tables, promote_options="default")` joins it with those
        of later pushes. With `schemas` given to the engine all tables have the same columns.

        Parameters
        ----------
        tables
            Rows by stream name; a stream may be missing. pyarrow, pandas or polars.
        watermark
            A moment before which no more rows come, kept from outside (Spark): it replaces
            `clock - lateness` as the bound of expiry and lateness. It never moves back.
        fuel
            With `cpu=Cpu(keep_up=True)`: comparisons per second of event time from this push on.
            Without it as before; before the first, as many as are asked for.
        """
        with self._guard.using() as call:
            pieces = list(self._take(call, tables, watermark, fuel))
            return pa.concat_tables(pieces) if pieces else empty_table(self._results.schema)

    def results(
        self, tables: Mapping[str, Any], *, watermark: Any = None, fuel: float | None = None
    ) -> Iterator[pa.Table]:
        """The same in pieces of bounded size, each made when it is asked for.

        The rows are taken when the first piece is asked for; take all pieces, since the engine can
        do nothing else before the last.
        """
        with self._guard.using() as call:
            yield from self._take(call, tables, watermark, fuel)

    def _take(
        self, call: Call, tables: Mapping[str, Any], watermark: Any, fuel: float | None
    ) -> Iterator[pa.Table]:
        check_fuel(self.spec, fuel)
        given = {
            self._stream(name): to_arrow(table, name, self._schemas[self._stream(name)])
            for name, table in by_name(tables, "push").items()
            if table is not None
        }
        binding = self._binding_with({stream: table.schema for stream, table in given.items()})
        if self._ledger is not None:
            ledgers.check_columns(binding.schemas)
        moment = None if watermark is None else binding.moment(watermark)
        encoded = {stream: self._encode(binding, stream, table) for stream, table in given.items()}
        self._refuse_bad_rows(given, encoded)
        # All that can be wrong with the input was found; from here on a push is finished, or the
        # engine is not used again.
        with self._undone_by_failures(call, binding):
            call.changes = True
            if binding is not self._binding:
                self._rebind(binding)
            if fuel is not None:
                self._set_fuel(fuel)
            if moment is not None:
                with borrowed() as scratch:
                    self._set_watermark(moment, self._room(scratch))
                self._binding.opened_by(watermark)
                if self._steering is not None:
                    self._steering.move(watermark)
            if self._steering is None:
                yield from self._take_rows(given, encoded)
                return
            for rows, parts, first in self._steering.stretches(given, encoded):
                if first is not None and self._steering.is_due(first):
                    self._review(first)
                self._steering.add(rows, parts)
                yield from self._take_rows(rows, parts)

    def _take_rows(
        self, given: Mapping[int, pa.Table], encoded: Mapping[int, Encoded]
    ) -> Iterator[pa.Table]:
        with borrowed() as scratch:
            arrivals = self._arrivals(given, encoded, scratch)
            if arrivals is not None:
                pieces = self._run(arrivals, scratch)
                # What may still be undone is not given out.
                yield from list(pieces) if self._binding.may_raise else pieces
        self._settle()
        self._choose_indexes()
        if self._ledger is not None:
            self._ledger.end(self._state, self._payloads, self._binding)
        self._bytes_peak = max(self._bytes_peak, self._bytes_now())

    @contextmanager
    def _undone_by_failures(self, call: Call, binding: Binding) -> Iterator[None]:
        """If a theta function raises, the engine is what it was before the push.

        Most of them cannot raise (`Binding.may_raise`), and then nothing is written down.
        """
        before = self._dump() if binding.may_raise else None
        examples = list(self._examples)
        try:
            yield
        except Exception:
            if before is not None:
                self._examples = examples
                self._become(JoinEngine.restore(before, self.spec))
                self._set_reports()
                if self._ledger is not None:
                    self._ledger.forget_push()
                call.changes = False
            raise

    def _rebind(self, binding: Binding) -> None:
        """Take a new binding into use; what is retained is encoded again.

        That happens when a stream shows its columns after others were pushed: what is retained is
        written down under the old binding and read back under the new one.
        """
        if self._steering is not None:
            self._steering.open(binding)
        if not any(self._rows_in) and not self._state.gate[0].external:
            self._start(binding)  # nothing came so far, so nothing is compiled to read it back
            return
        saved = snapshot.load(self._dump(), self.spec)
        finer = (self._binding.time_unit, binding.time_unit) == ("us", "ns")
        self._start(binding)
        known = [
            payload if name in saved.schemas else None
            for name, payload in zip(self.spec.streams, self._payloads, strict=True)
        ]
        scale = 1000 if finer else 1
        self._state, self._shed = snapshot.refill(
            self._state, self._shed, binding, known, saved, scale
        )
        if self._sentinel is not None:
            self._sentinel.begin_later(self._state)
        self._count_arrays()

    def _fresh(self, spec: JoinSpec, schemas: Mapping[str, pa.Schema]) -> JoinEngine:
        return JoinEngine(spec, schemas)

    # --- reading --------------------------------------------------------------------------

    def stats(self) -> dict[str, int | float]:
        """What became of every row, and what it cost: totals, and per stream as `name_stream`."""
        with self._guard.using():
            return stats_of(
                self.spec, self._state, self._shed, self._sentinel, self._steered(),
                self._rows_in, self._rejected, self._rows_peak(),
                (self._bytes_now(), self._bytes_peak),
            )  # fmt: skip

    def _steered(self) -> dict[str, int | float]:
        if self._steering is None or self._shed is None:
            return {}
        price = self._steering.price(self._state, self._shed)
        return self._steering.stats(self._in_force, price)

    def retention_curve(self) -> list[dict[str, float]]:
        """Memory in the unit of the budget, and the recall that it would give of late.

        Rows of `memory, recall, importance_recall`, with rising memory, from the miniatures
        (`JoinSpec(miniatures=0.05)`); none before their first whole window.
        """
        with self._guard.using():
            if self._steering is None or self._shed is None or not self._steering.has_curve:
                raise TidegateError(
                    "this join has no miniatures to tell its retention curve; give its spec "
                    "miniatures=0.05, or a target"
                )
            return self._steering.points(self._steering.price(self._state, self._shed))

    def count_only(self) -> None:
        """From now on results are counted and not made: pushes return no rows."""
        if self._sentinel is not None:
            raise TidegateError("a sentinel reads the results; count them with sentinel=None")
        self._counts_only = True
        self._set_reports()

    def rejected_examples(self) -> list[dict[str, Any]]:
        """A few rejected rows of each reason."""
        return list(self._examples)

    # --- keeping --------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """All that the engine remembers, as Arrow IPC: one table of retained rows per stream."""
        with self._guard.using():
            self._write_ledger()
            steered = None if self._steering is None else saved_steering.dump(self._steering)
            return self._dump(steered)

    def write_ledger(self) -> None:
        """Write the rows that are alive too, so that the ledger is complete as of now.

        `snapshot` does the same. To be called when a stream has ended.
        """
        with self._guard.using():
            self._write_ledger()

    def _write_ledger(self) -> None:
        if self._ledger is not None:
            self._ledger.write_out(self._state, self._payloads, self._binding)

    @classmethod
    def restore(
        cls,
        blob: bytes,
        spec: JoinSpec | None = None,
        *,
        ledger: str | Path | Files | None = None,
    ) -> JoinEngine:
        """The engine that `snapshot` wrote; it goes on as if nothing had happened.

        `spec` is needed only where the snapshot's own cannot be read back (a theta function that
        is not importable), and must be the one the snapshot was made with. `ledger` is the folder
        of the engine's ledger, if it had one; what was written there after the snapshot is removed.
        """
        with snapshot_checks.reading():
            saved = snapshot.load(blob, spec)
            engine = cls(saved.spec, saved.schemas)
            if engine._steering is not None and saved.counted.get("is_racing"):
                engine._steering.reserve(engine.spec)
            if any(name in saved.counted for name in resizing.IN_FORCE):
                engine._go_on_under(resizing.within(engine._in_force, saved.counted))
            if engine._steering is not None and engine._steering.room_of_race:
                engine._steering.begin_race(engine.spec, engine._state, engine.policy, 0)
            engine._refill(saved)
            if engine._steering is not None:
                saved_steering.refill(engine._steering, saved.steering, cls)
            if ledger is not None:
                engine._ledger = ledgers.reopened(ledger, saved.spec, saved.counted.get("ledger"))
                engine._set_reports()
            output = engine._room(Scratch())
            engine._fit_budget(output)
            engine._departures(output)
            return engine

    def resize(self, memory: int | str) -> None:
        """Go on with another budget, in the unit of the first.

        A smaller one sheds at once, by the policy, and counts what goes as evicted; a larger one is
        room. `spec.memory` is the budget in force. To be called between two pushes: it costs about
        as much as a snapshot and its restore.

        >>> import pyarrow as pa, tidegate as tg
        >>> spec = tg.JoinSpec(on="k", time="t", within=9, memory=4, policy="recent")
        >>> engine = tg.JoinEngine(spec)
        >>> _ = engine.push({"left": pa.table({"t": [1, 2, 3, 4], "k": [1, 2, 3, 4]})})
        >>> engine.resize(2)
        >>> engine.stats()["memory_rows"], engine.stats()["evicted"], engine.spec.memory
        (2, 2, 2)
        """
        with self._guard.using() as call:
            spec = resizing.resized_spec(self.spec, memory)
            if spec.memory == self.spec.memory:
                return
            in_force = self._in_force.replace(memory=spec.memory)
            room = 0 if self._steering is None else self._steering.room_of_race
            if self._steering is not None and room:
                self._steering.reserve(spec)
            try:
                fresh = self._empty(spec, in_force)  # refuses a budget that is too small
            except TidegateError:
                if self._steering is not None:
                    self._steering.room_of_race = room
                raise
            call.changes = True
            self._resize(fresh)
            if room:
                self._begin_race()  # again, with another room
