"""Which sampling policy is recommended, and whether the errors behind it are right.

Law: clusters are those of the join, counted by brute force; each policy wins where the paper says.
"""

from __future__ import annotations

from typing import Any

import naive
import numpy as np
import pyarrow as pa
import pytest

import tidegate as tg
from tidegate.planner import sampling_advice as advice_of
from tidegate.planner.sampling_advice import sampling_advice

SPEC = tg.JoinSpec(on="k", time="t", within={"left": 30, "right": 15})


def streams(rows: int, seed: int, skew: float = 0.0, spread: float = 30.0) -> dict[str, pa.Table]:
    rng = np.random.default_rng(seed)
    shares = 1.0 / np.arange(1, 21) ** skew
    tables = {}
    for name in ("left", "right"):
        # Opposite orders of frequency: the rare keys of one stream are common on the other.
        order = np.arange(20) if name == "left" else np.arange(20)[::-1]
        tables[name] = pa.table(
            {
                "t": np.sort(rng.integers(0, rows, rows)),
                "k": order[rng.choice(20, rows, p=shares / shares.sum())],
                f"x_{name}": rng.normal(100, spread, rows),
            }
        )
    return tables


@pytest.mark.parametrize("seed", range(5))
def test_clusters_are_those_of_the_join(seed: int) -> None:
    tables = streams(80, seed)
    rows = {name: table.to_pylist() for name, table in tables.items()}
    pairs = naive.join(rows, SPEC).pairs
    sums: list[dict[int, float]] = [{}, {}]
    sizes: list[dict[int, int]] = [{}, {}]
    for pair in pairs:
        left, right = rows["left"][pair[0]], rows["right"][pair[1]]
        waits = 0 if left["t"] <= right["t"] else 1
        at = pair[waits]
        sizes[waits][at] = sizes[waits].get(at, 0) + 1
        sums[waits][at] = sums[waits].get(at, 0.0) + right["x_right"]
    lines = []
    for name in ("left", "right"):
        values = tables[name].column("x_right").to_numpy() if name == "right" else None
        keys, times = (tables[name].column(c).to_numpy().astype(float) for c in ("k", "t"))
        lines.append(advice_of._line(keys, times, values))
    for stream in (0, 1):
        found = advice_of._clusters(lines, SPEC, stream, 0.0)
        assert sorted(found.sizes[found.sizes > 0]) == sorted(sizes[stream].values())
        assert sorted(found.sums[found.sizes > 0]) == pytest.approx(sorted(sums[stream].values()))


def test_unequal_clusters_want_pps() -> None:
    found = sampling_advice(streams(3000, 1, skew=2.0), SPEC, 12, "count(*)")
    assert found.errors["pps-cluster"] < found.errors["eq-cluster"]
    assert found.size_variation > 1


def test_a_bad_guess_rules_uniform_out() -> None:
    """Bursts: what the last window showed says nothing of the next."""
    rng = np.random.default_rng(2)
    burst = np.sort(rng.integers(0, 3000, 3000) // 300 * 300 + rng.integers(0, 30, 3000))
    keys = burst // 300
    tables = {
        name: pa.table({"t": burst, "k": keys, f"x_{name}": rng.normal(100, 5, 3000)})
        for name in ("left", "right")
    }
    found = sampling_advice(tables, SPEC, 50, "avg(x_left)")
    assert found.missed > 0.1
    assert found.policy != "uniform"
    assert "uniform would miss" in found.sentence


def test_where_the_values_stand_decides() -> None:
    """Where all results of a tuple have its own value, a cluster says little more than one row;
    where their values come from the other stream, they average out (section 6.2.4)."""
    spec = SPEC.replace(within={"left": 200, "right": 0})
    tables = streams(4000, 3)
    on_left, on_right = (sampling_advice(tables, spec, 40, f"avg(x_{n})") for n in spec.streams)
    assert on_left.errors["eq-cluster"] > 1.5 * on_right.errors["eq-cluster"]
    assert on_left.errors["uniform"] == pytest.approx(on_right.errors["uniform"], rel=0.1)
    assert on_right.policy != "uniform"
    calm = sampling_advice(streams(4000, 3, spread=1.0), spec, 40, "avg(x_left)")
    assert calm.errors["eq-cluster"] < 0.1 * on_left.errors["eq-cluster"]


@pytest.mark.parametrize(
    ("changes", "memory", "aggregate", "sentence"),
    [
        ({}, 0, "count(*)", "holds no tuple"),
        ({}, 10, "avg(z)", "have no column 'z'"),
        ({"within": tg.rows(5)}, 10, "count(*)", "counts rows"),
        ({"on": tg.band("k", 0, 1)}, 10, "count(*)", "equality joins"),
        ({}, 10, "median(x_left)", "is not known"),
    ],
)
def test_refusals(changes: dict[str, Any], memory: int, aggregate: str, sentence: str) -> None:
    with pytest.raises(tg.TidegateError, match=sentence):
        sampling_advice(streams(60, 1), SPEC.replace(**changes), memory, aggregate)


def test_a_plan_carries_the_advice() -> None:
    tables = streams(500, 4)
    made = tg.plan(tables, SPEC, memory=20, aggregate="avg(x_left)", weights="paper")
    assert made.sampling == sampling_advice(tables, SPEC, 20, "avg(x_left)")
    assert made.sampling.sentence in repr(made)
    assert tg.plan(tables, SPEC, memory=20, weights="paper").sampling is None
    with pytest.raises(tg.TidegateError, match="samples of both streams and a memory"):
        tg.plan(tables, SPEC, aggregate="count(*)", weights="paper")
