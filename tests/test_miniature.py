"""Tuples that pass: they meet those that are retained, are counted, and take no memory."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidegate as tg
from tidegate.engine.miniature import Miniature
from tidegate.state.shed_arrays import LARGEST_LOG

SPEC = tg.JoinSpec(on="k", time="t", within=25)
PART = Miniature("stays", LARGEST_LOG)


def streams(seed: int, share: float = 0.5, rows: int = 120) -> dict[str, pa.Table]:
    rng = np.random.default_rng(seed)
    return {
        name: pa.table(
            {
                "t": np.sort(rng.integers(0, 100, rows)),
                "k": pa.array(rng.integers(0, 9, rows), mask=rng.random(rows) < 0.05),
                "n": np.arange(rows),
                "stays": rng.random(rows) < share,
            }
        )
        for name in ("left", "right")
    }


def rows_of(table: pa.Table) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.parametrize("seed", range(3))
def test_results_are_those_whose_first_tuple_stays(seed: int) -> None:
    tables = streams(seed)
    engine = tg.JoinEngine(SPEC, miniature=PART)
    found = engine.push(tables)
    whole = tg.join(tables, SPEC).table.to_pylist()
    expected = Counter(
        tuple(row.values())
        for row in whole
        if (row["stays"] if row["t"] <= row["t_right"] else row["stays_right"])
    )
    assert rows_of(found) == expected
    stats = engine.stats()
    kept = stats["alive"] + stats["expired"] + stats["evicted"] + stats["refused"]
    assert stats["rows_in"] == kept == 240
    assert stats["memory_rows_peak"] < tg.join(tables, SPEC).stats["memory_rows_peak"]


@pytest.mark.parametrize("policy", ["random", "prob", "value", "age"])
def test_the_budget_is_for_those_who_stay(policy: str) -> None:
    tables = streams(7)
    spec = SPEC.replace(memory=15, policy=policy)
    exact = rows_of(tg.JoinEngine(SPEC, miniature=PART).push(tables))
    engine = tg.JoinEngine(spec, miniature=PART)
    found = rows_of(engine.push(tables))
    assert 0 < found.total() < exact.total()
    assert found <= exact
    assert engine.stats()["memory_rows_peak"] == 15


def test_where_all_stay_nothing_changes() -> None:
    tables = streams(9, share=1.0)
    spec = SPEC.replace(memory=20, policy="prob")
    ours = tg.JoinEngine(spec, miniature=PART).push(tables)
    assert ours.equals(tg.JoinEngine(spec).push(tables))


def test_counts_are_sketched_as_those_of_all() -> None:
    """A short log stands for the log of the large engine, which its window has outgrown."""
    tables = streams(9, share=1.0)
    spec = SPEC.replace(memory=20, policy="prob")
    short = tg.JoinEngine(spec, miniature=Miniature("stays", 10))
    assert not short.push(tables).equals(tg.JoinEngine(spec).push(tables))
