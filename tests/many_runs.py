"""A case of n streams through the engine: rows become tables, results row numbers again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from many_cases import ManyCase
from naive_many import Push

import tidegate as tg

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
