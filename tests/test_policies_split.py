"""Memory between the streams under `split="auto"`.

Law: memory goes where another tuple earns most: to the slower stream where tuples are alike
(kang2003, section 5.2.2), to the stream whose keys or ages earn more where a policy knows them
(srivastava2004, sections 3.2.2 and 3.3); with budget enough for both nobody loses anything.
Streams are long, so few tests run as plain Python too; `test_policies` does that for every split.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidegate as tg

ROWS = 900
WITHIN = 60


def stream(name: str, every: int, keys: int, seed: int, first_key: int = 0) -> pa.Table:
    """One tuple every so many units of time, keys uniform."""
    times = np.arange(0, ROWS, every)
    codes = np.random.default_rng(seed).integers(first_key, first_key + keys, len(times))
    return pa.table({f"row_{name}": np.arange(len(times)), "ts": times, "k": codes})


def joined(left: pa.Table, right: pa.Table, policy: Any, split: Any, memory: int = 40) -> Any:
    spec = tg.JoinSpec(on="k", time="ts", within=WITHIN, memory=memory, policy=policy, split=split)
    return tg.join({"left": left, "right": right}, spec).stats


@pytest.mark.parametrize("policy", ["random", "until-expiry", "simp", "value"])
def test_the_slower_stream_gets_the_memory(policy: str) -> None:
    slow, fast = stream("left", 6, 5, 1), stream("right", 1, 5, 2)
    auto, even = (joined(slow, fast, policy, split, 8) for split in ("auto", "even"))
    assert auto["alive_left"] >= 6
    assert auto["rows_out"] > even["rows_out"]


@pytest.mark.parametrize("policy", ["prob", "dimpprob", "value"])
def test_memory_goes_to_the_stream_whose_tuples_meet_more(policy: str) -> None:
    # Half of the keys on the left never come on the right; every key on the right comes often.
    left, right = stream("left", 1, 20, 1), stream("right", 1, 10, 2)
    stats = joined(left, right, policy, "auto")
    assert stats["rows_out"] >= joined(left, right, policy, {"left": 1.0, "right": 0.0})["rows_out"]
    assert stats["memory_rows_peak"] <= 40


@pytest.mark.nojit
def test_age_moves_memory_to_the_curve_that_earns_more() -> None:
    left, right = stream("left", 1, 5, 1), stream("right", 1, 5, 2)
    curve = {"left": [5.0, 5.0, 5.0], "right": [1.0, 1.0, 1.0]}
    stats = joined(left, right, tg.age(curve=curve, bucket=20), "auto")
    assert stats["alive_left"] == 40
    assert stats["alive_right"] == 0


@pytest.mark.parametrize("policy", sorted(tg.policies()))
def test_where_there_is_room_for_all_nothing_is_lost(policy: str) -> None:
    left, right = stream("left", 7, 5, 1), stream("right", 1, 5, 2)
    stats = joined(left, right, policy, "auto", memory=80)
    assert stats["evicted"] == stats["refused"] == 0


def at_once(rows: int, keys: int, seed: int | None) -> dict[str, pa.Table]:
    """Tuples of one time: keys in turn, or shuffled on each stream."""
    tables = {}
    for name in ("left", "right"):
        codes = np.arange(rows) % keys
        if seed is not None:
            np.random.default_rng([seed, len(name)]).shuffle(codes)
        tables[name] = pa.table({"ts": np.zeros(rows, np.int64), "k": codes})
    return tables


@pytest.mark.parametrize("policy", sorted(tg.policies()))
def test_inside_an_instant_no_stream_is_faster(policy: str) -> None:
    """Tuples of equal time are taken stream by stream; that says nothing about their rates."""
    for rows, keys, seed in ((100, 50, None), (100, 50, 1), (150, 150, 2)):
        tables = at_once(rows, keys, seed)
        auto, shared = (joined(**tables, policy=policy, split=s) for s in ("auto", "shared"))
        assert auto["rows_out"] == shared["rows_out"]
        assert auto["alive_left"] == shared["alive_left"]


@pytest.mark.nojit
def test_value_learns_inside_an_instant_that_counts_mislead() -> None:
    """Each key comes twice on each stream, so a key that has come is no better than another."""
    tables = at_once(100, 50, None)
    kept = {
        policy: joined(**tables, policy=policy, split="auto", memory=100)["rows_out"]
        for policy in ("value", "random", "recent")
    }
    assert kept["value"] > max(kept["random"], kept["recent"])
