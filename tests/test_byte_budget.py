"""A budget in bytes holds all that an engine keeps.

Law: after each push arrays and payload together are within the budget, whatever the rows are; every
output is a row of the exact join; nothing depends on how the input was cut into pushes.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate as tg
from tidegate.state import arrays, byte_budget, shed_arrays

SPEC = tg.JoinSpec(on="k", time="t", within=200, importance="v")
MANY_SLOTS = 5_000


def smallest(spec: tg.JoinSpec) -> int:
    """The smallest budget that is not refused, as the refusal names it."""
    with pytest.raises(tg.TidegateError, match="is too small for policy") as refusal:
        tg.JoinEngine(spec.replace(memory="1 B"))
    found = re.search(r"at least '(\d+) KB'", str(refusal.value))
    assert found is not None
    return 1000 * int(found[1])


def stream(rng: np.random.Generator, rows: int, largest: int) -> pa.Table:
    return pa.table(
        {
            "t": np.sort(rng.integers(0, 400, rows)),
            "k": rng.integers(0, 12, rows),
            "v": rng.random(rows) + 0.1,
            "p": [bytes(int(size)) for size in rng.integers(0, largest, rows)],
        }
    )


def pushes(tables: dict[str, pa.Table], cuts: list[int]) -> list[dict[str, pa.Table]]:
    """The tables cut between times."""
    bounds = [-1, *sorted(cuts), 10**6]
    parts = []
    for low, high in pairwise(bounds):
        part = {}
        for name, table in tables.items():
            t = table.column("t").to_numpy()
            begin, end = np.searchsorted(t, [low, high], side="right")
            part[name] = table.slice(begin, end - begin)
        parts.append(part)
    return parts


def run(spec: tg.JoinSpec, parts: list[dict[str, pa.Table]]) -> tuple[pa.Table, dict[str, Any]]:
    engine = tg.JoinEngine(spec)
    results = []
    for part in parts:
        results.append(engine.push(part))
        stats = engine.stats()
        assert stats["memory_bytes"] <= stats["memory_bytes_peak"] <= (spec.memory_bytes or 10**12)
    return pa.concat_tables(results), engine.stats()


@pytest.mark.parametrize("policy", tg.policies())
@settings(max_examples=8)
@given(data=st.data())
def test_all_that_is_kept_is_within_the_budget(policy: str, data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    split = data.draw(st.sampled_from(("even", "shared", "auto")))
    spec = SPEC.replace(policy=policy, split=split)
    budget = smallest(spec) + data.draw(st.integers(2_000, 60_000))
    spec = spec.replace(memory=f"{budget} B")
    largest = data.draw(st.sampled_from((50, 400, 4_000)))
    tables = {name: stream(rng, 400, largest) for name in ("left", "right")}
    cuts = data.draw(st.lists(st.integers(0, 400), max_size=5))
    table, stats = run(spec, pushes(tables, cuts))
    once, stats_once = run(spec, pushes(tables, []))
    assert table.equals(once.combine_chunks()) or table.to_pylist() == once.to_pylist()
    for name in ("evicted", "refused", "expired", "alive"):
        assert stats[name] == stats_once[name]
    lost = ("alive", "expired", "evicted", "refused", "too_late", "rejected")
    assert stats["rows_in"] == sum(stats[name] for name in lost)
    exact = run(spec.replace(memory=None), pushes(tables, []))[0]
    columns = ["t", "k", "v", "t_right", "v_right"]
    allowed = {tuple(row.values()) for row in exact.select(columns).to_pylist()}
    found = [tuple(row.values()) for row in table.select(columns).to_pylist()]
    assert set(found) <= allowed
    assert len(found) == len(set(found))


@pytest.mark.parametrize("policy", ["random", "recent", "prob", "value"])
def test_slots_and_payload_share_the_budget(policy: str) -> None:
    """Large rows leave slots unused, small rows use up the slots; both stay within the budget."""
    rng = np.random.default_rng(3)
    spec = SPEC.replace(policy=policy, within=10**6)
    budget = smallest(spec) + 200_000
    spec = spec.replace(memory=f"{budget} B")
    engine = tg.JoinEngine(spec)
    kept = []
    for step, largest in enumerate((3_000, 10, 3_000)):
        for part in range(8):
            rows = stream(rng, 500, largest)
            t = pa.array(np.sort(rng.integers(0, 100, 500)) + 100 * (8 * step + part))
            rows = rows.set_column(0, "t", t)
            engine.push({"left": rows, "right": rows})
            assert engine.stats()["memory_bytes"] <= budget
        kept.append(engine.stats()["alive"])
    assert kept[1] > 1.2 * kept[0]
    assert engine.stats()["evicted"] + engine.stats()["refused"] > 0


@pytest.mark.parametrize("policy", tg.policies())
def test_what_a_slot_takes_at_most(policy: str) -> None:
    spec = SPEC.replace(policy=policy, memory="50 MB")
    engine = tg.JoinEngine(spec)
    state, shed = engine._state, engine._shed
    assert shed is not None
    before = byte_budget.held(state, shed)
    each = arrays.slot_bytes(state) + shed_arrays.slot_bytes(shed)
    more = MANY_SLOTS - len(state.slots)
    state = arrays.with_more_slots(state, MANY_SLOTS)
    shed = shed_arrays.with_more_slots(shed, state)
    assert byte_budget.held(state, shed) - before <= each * more
