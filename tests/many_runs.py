"""A case of n streams through the engine: rows become tables, results row numbers again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from many_cases import ManyCase
from naive_many import ManyJoin, Push, Shedding

import tidegate as tg
from tidegate.driver import leaving
from tidegate.state.join_state import DEPARTURE, DEPARTURES

CAUSES = {leaving.EVICTED: "evicted", leaving.REFUSED: "refused"}
Found = list[tuple[tuple[int, ...], float]]  # row numbers, importance


class Feeder:
    """Turns the rows of pushes into tables; `row` is the number of a row in its stream."""

    def __init__(self, spec: tg.JoinSpec) -> None:
        self.spec = spec
        self.sent = dict.fromkeys(spec.streams, 0)

    def tables(self, push: Push) -> dict[str, pa.Table]:
        return {name: self.table(name, rows) for name, rows in push.tables.items()}

    def table(self, name: str, rows: Sequence[dict[str, Any]]) -> pa.Table:
        first = self.sent[name]
        self.sent[name] += len(rows)
        return table_of(rows, range(first, self.sent[name]))


def table_of(rows: Sequence[dict[str, Any]], numbers: Iterable[int]) -> pa.Table:
    columns: dict[str, Any] = {"ts": pa.array([row["ts"] for row in rows], pa.int64())}
    for name in ("weight", "k0", "k1"):
        columns[name] = pa.array([row.get(name) for row in rows], pa.float64())
    return pa.table(columns | {"row": pa.array(numbers, pa.int64())})


def schemas_of(spec: tg.JoinSpec) -> dict[str, pa.Schema]:
    return dict.fromkeys(spec.streams, table_of([], []).schema)


def engine_of(spec: tg.JoinSpec, probe: str | Sequence[str] = "auto") -> tg.JoinEngine:
    return tg.JoinEngine(spec, schemas_of(spec), probe=probe)


def found_in(spec: tg.JoinSpec, results: pa.Table) -> Found:
    names = ["row", *(f"row_{name}" for name in spec.streams[1:])]
    rows = zip(*(results.column(name).to_pylist() for name in names), strict=True)
    return list(zip(rows, results.column("_importance").to_pylist(), strict=True))


def replayed(case: ManyCase, engine: tg.JoinEngine | None = None) -> tuple[tg.JoinEngine, Found]:
    """All pushes of a case through an engine."""
    engine = engine or engine_of(case.spec)
    feeder = Feeder(case.spec)
    found: Found = []
    for push in case.pushes:
        table = engine.push(feeder.tables(push), watermark=push.watermark)
        found += found_in(case.spec, table)
    return engine, found


class Reporting(tg.JoinEngine):
    """Notes who leaves, by row number."""

    def __init__(self, spec: tg.JoinSpec, schemas: Any = None) -> None:
        super().__init__(spec, schemas or schemas_of(spec))
        self.victims: list[tuple[int, int, str]] = []
        self.report()

    def report(self) -> None:
        self._state.gate[0].reports_left = 1
        room, left = self._results.room, np.zeros((4000, DEPARTURE), np.int64)
        self._results.room = lambda scratch: room(scratch)._replace(  # type: ignore[method-assign]
            left=left, worth=np.zeros(4000)
        )

    def again(self) -> Reporting:
        """The engine that its snapshot restores; it goes on noting."""
        engine = Reporting.restore(self.snapshot())
        assert isinstance(engine, Reporting)
        engine.victims = self.victims
        engine.report()
        return engine

    def _departures(self, output: Any) -> None:
        for stream, address, why, *_ in output.left[: output.filled[DEPARTURES]].tolist():
            payload = self._payloads[stream]
            if why in CAUSES and payload is not None:
                columns = payload.gather(np.array([address]))
                self.victims.append((stream, columns.column("row")[0].as_py(), CAUSES[why]))
        super()._departures(output)


def check_victims(
    case: ManyCase, policy: Shedding | None, restarts: Random | None = None
) -> ManyJoin:
    """Engine and twin agree after each push; `restarts` says when to restore a snapshot."""
    engine, feeder, twin = Reporting(case.spec), Feeder(case.spec), ManyJoin(case.spec, policy)
    for push in case.pushes:
        table = engine.push(feeder.tables(push), watermark=push.watermark)
        expected = [(r.rows, r.importance) for r in twin.push(*push)]
        assert Counter(found_in(case.spec, table)) == Counter(expected)
        assert engine.victims == twin.victims
        if restarts is not None and restarts.random() < 0.5:
            engine = engine.again()
    stats = engine.stats()
    for name, number in twin.stats().items():
        assert stats[name] == pytest.approx(number), name
    assert case.spec.memory_rows is None or stats["memory_rows_peak"] <= case.spec.memory_rows
    return twin
