"""Orders of arrival have 32 bits: when they are used up, tuples are numbered again from 0.

Law: nobody can tell. The rows, their order and what is retained are those of a join whose orders
never end, under every policy, with late tuples and after a snapshot.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import tidegate as tg
from tests.strategies import only_plain
from tidegate.index import numbered
from tidegate.state import arrays

CASES = [
    {"memory": None},
    {"memory": None, "lateness": 20},
    {"memory": None, "within": tg.rows(30), "ties": "instant"},
    *({"memory": 60, "policy": policy, "split": "shared"} for policy in tg.policies()),
    {"memory": 60, "policy": "dimpprob", "importance": "v", "lateness": 20},
    {"memory": 60, "policy": "until-expiry", "ties": "instant"},
    {"memory": "300 kB", "policy": "prob"},
]


def pushes() -> list[dict[str, pa.Table]]:
    rng = np.random.default_rng(8)
    return [
        {
            name: pa.table(
                {
                    "t": 50 * number + np.sort(rng.integers(-15 if number else 0, 50, 60)),
                    "k": rng.integers(0, 25, 60),
                    "v": rng.random(60) + 0.1,
                }
            )
            for name in ("left", "right")
        }
        for number in range(12)
    ]


def run(spec: tg.JoinSpec, restores: bool) -> tuple[list[pa.Table], dict[str, object], int]:
    engine, found, most = tg.JoinEngine(spec), [], 0
    for number, tables in enumerate(pushes()):
        found.append(engine.push(tables))
        most = max(most, int(engine._state.gate[0].order))
        if restores and number % 3 == 2:
            engine = tg.JoinEngine.restore(engine.snapshot())
    return found, engine.stats(), most


@pytest.mark.parametrize("options", CASES, ids=str)
@pytest.mark.parametrize("restores", [False, True])
def test_nobody_sees_that_tuples_were_numbered_again(
    options: dict[str, object], restores: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = tg.JoinSpec(**({"on": "k", "time": "t", "within": 100} | options))  # type: ignore[arg-type]
    expected, stats, most = run(spec, restores)
    assert most > 900
    monkeypatch.setattr(arrays, "MOST_ORDERS", 700)
    found, found_stats, most = run(spec, restores)
    assert most <= 700
    assert [table.to_pylist() for table in found] == [table.to_pylist() for table in expected]
    assert found_stats == stats


def in_order(streams: int) -> list[dict[str, pa.Table]]:
    """Keys that come again after a while, so that buckets are left alone for long."""
    rng = np.random.default_rng(streams)
    return [
        {
            f"s{stream}": pa.table(
                {
                    "t": 20 * number + np.arange(20),
                    "k": rng.integers(0, 40, 20) + 40 * (number // 4 % 8),
                }
            )
            for stream in range(streams)
        }
        for number in range(100)
    ]


@only_plain
@pytest.mark.nojit
@pytest.mark.parametrize("streams", [2, 3])
def test_numbers_that_come_again_name_nobody_who_is_gone(
    streams: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the numbers of `index.numbered` have 8 bits instead of 31."""
    names = tuple(f"s{stream}" for stream in range(streams))
    spec = tg.JoinSpec(on="k", time="t", within=60, streams=names)
    other_loop = tg.JoinEngine(spec.replace(lateness=1))
    monkeypatch.setattr(numbered, "_MASK", 255)
    monkeypatch.setattr(arrays, "MOST_ORDERS", 255)
    engine, total = tg.JoinEngine(spec), 0
    for tables in in_order(streams):
        rows, expected = engine.push(tables).to_pylist(), other_loop.push(tables).to_pylist()
        assert sorted(map(str, rows)) == sorted(map(str, expected))
        total += len(rows)
    assert numbered.is_table_of(engine._state.buckets)
    assert total > 500


@pytest.mark.parametrize("policy", [None, "prob", "dgl", "recent"])
def test_orders_of_more_bits_are_read(policy: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot may hold orders beyond those that are given now."""
    spec = tg.JoinSpec(on="k", time="t", within=100, lateness=20)
    if policy is not None:
        spec = spec.replace(memory=60, policy=policy)
    *first, last = pushes()
    engine = tg.JoinEngine(spec)
    for tables in first:
        engine.push(tables)
    blob, expected = engine.snapshot(), engine.push(last)
    monkeypatch.setattr(arrays, "MOST_ORDERS", 700)
    restored = tg.JoinEngine.restore(blob)
    assert restored._state.gate[0].order <= 700
    assert restored.push(last).to_pylist() == expected.to_pylist()
