"""Lines and queues are one array each, shared out between the streams: nothing is lost when a
stream outgrows its stretch, whatever the other holds at that time, dead entries included.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import tidegate as tg

POLICIES = ("random", "recent", "prob", "dgl", "value")


def _rows(rng: np.random.Generator, begin: int, count: int) -> pa.Table:
    times = begin + np.sort(rng.integers(0, 200, count))
    return pa.table({"t": times, "k": rng.integers(0, 40, count), "v": rng.random(count)})


CASES = [("random", None), *((policy, memory) for policy in POLICIES for memory in (1500, "3 MB"))]


@pytest.mark.parametrize(("policy", "memory"), CASES)
def test_streams_take_turns_in_being_large(policy: str, memory: int | str | None) -> None:
    """Places move from one stream to the other and back; the streams' own counts stay right."""
    rng = np.random.default_rng(3)
    spec = tg.JoinSpec(on="k", time="t", within=400, memory=memory, policy=policy, split="shared")
    engine, exact = tg.JoinEngine(spec), tg.JoinEngine(spec.replace(memory=None))
    lines, queues = set(), set()
    for number in range(24):
        left, right = (1500, 20) if number // 4 % 2 else (20, 1500)
        pushed = {"left": _rows(rng, 200 * number, left), "right": _rows(rng, 200 * number, right)}
        found, every = engine.push(pushed), exact.push(pushed)
        stats = engine.stats()
        assert found.num_rows <= every.num_rows
        for name in ("left", "right"):
            gone = ("expired", "evicted", "refused", "too_late", "rejected")
            left_over = stats[f"rows_in_{name}"] - sum(stats[f"{why}_{name}"] for why in gone)
            assert stats[f"alive_{name}"] == left_over
        lines.add(int(engine._state.lanes[0].stop))
        if engine._shed is not None:
            queues.add(int(engine._shed.queues[0].stop))
        if memory is not None and not isinstance(memory, str):
            assert stats["memory_rows"] <= memory
    assert len(lines) > 2
    assert memory is None or policy == "recent" or len(queues) > 2
    restored = tg.JoinEngine.restore(engine.snapshot())
    pushed = {"left": _rows(rng, 4900, 900), "right": _rows(rng, 4900, 900)}
    assert restored.push(pushed).equals(engine.push(pushed))
