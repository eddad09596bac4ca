"""The sampling policies of the engine equal their slow twin, row for row, weights included.

Law: the same seed gives the same sample in engine and twin, however the input is cut and whatever
was restored in between; with memory for everything all weights are 1. The estimates have no bias
and their intervals are honest.
"""

from __future__ import annotations

import math
import os
from typing import Any

import naive
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from naive_sampling import CERTAIN, SampledJoin
from strategies import only_plain

import tidegate as tg
from tidegate.sample.fraction import AgeModel, FrequencyModel

POLICIES = {
    "eq-cluster": tg.eq_cluster(),
    "pps-cluster": tg.pps_cluster(),
    "uniform": tg.uniform(),
    "uniform, given": tg.uniform(fraction=0.4, margin=1),
    "uniform, no margin": tg.uniform(margin=0),
    "uniform, told": tg.uniform(matches={"left": 3, "right": 5}),
}
every_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
WINDOWS: list[Any] = [
    5, 20, {"left": 5, "right": 12}, tg.rows(7), {"left": tg.rows(7), "right": tg.rows(3)}, 0,
    {"left": 20, "right": tg.rows(5)}, {"left": 20, "right": 0},
]  # fmt: skip


# Kernels run as plain Python are slow: then each kind of window is tried once.
SEEDS = len(WINDOWS) if os.environ.get("NUMBA_DISABLE_JIT") == "1" else 3 * len(WINDOWS)


def streams(rows: int, seed: int, keys: int = 5, drift: bool = False) -> dict[str, pa.Table]:
    rng = np.random.default_rng(seed)
    shares = 1.0 / np.arange(1, keys + 1) ** 1.3
    tables = {}
    for name in ("left", "right"):
        numbers = np.arange(rows)
        key = rng.choice(keys, rows, p=shares / shares.sum())
        if drift:
            key = (key + numbers * 3 // rows) % keys
        columns = {"t": np.sort(rng.integers(0, rows, rows)), "k": key, f"row_{name}": numbers}
        tables[name] = pa.table(columns | {f"x_{name}": rng.normal(100, 30, rows)})
    return tables


def weights_of(table: pa.Table) -> list[tuple[tuple[int, int], float]]:
    if table.num_rows == 0:
        return []
    left, right, weight = (
        table.column(n).to_pylist() for n in ("row_left", "row_right", "_weight")
    )
    return sorted(zip(zip(left, right, strict=True), weight, strict=True))


@pytest.mark.nojit
@every_policy
@pytest.mark.parametrize("ties", ["arrival", pytest.param("instant", marks=only_plain)])
def test_engine_and_twin(policy: tg.Policy, ties: str) -> None:
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        spec = tg.JoinSpec(
            on="k", time="t", within=WINDOWS[seed % len(WINDOWS)], policy=policy, ties=ties,
            memory=int(rng.integers(2, 14)), split=("shared", "auto", "even")[rng.integers(3)],
            lateness=int(rng.integers(0, 2)) * 3, seed=seed,
        )  # fmt: skip
        tables = streams(int(rng.integers(5, 70)), seed)
        twin, engine = SampledJoin(spec), tg.JoinEngine(spec)
        twin.push({name: table.to_pylist() for name, table in tables.items()})
        found, expected = weights_of(engine.push(tables)), sorted(twin.weights)
        assert [rows for rows, _ in found] == [rows for rows, _ in expected]
        weights = [weight for _, weight in expected]
        # Of a weight the last bits are a tag, but of those of certain results.
        assert [weight for _, weight in found] == pytest.approx(weights, rel=2.0**-24)
        certain = [[w for w in each if w <= CERTAIN] for each in (weights, [w for _, w in found])]
        assert certain[0] == certain[1]
        account = twin.stats()
        for name in ("alive", "expired", "evicted", "refused"):
            assert engine.stats()[name] == account[name]


@every_policy
@pytest.mark.parametrize("memory", [9, "300 KB"])
def test_cuts_and_snapshots_change_nothing(policy: tg.Policy, memory: Any) -> None:
    for seed, within in enumerate([20, tg.rows(9)]):
        spec = tg.JoinSpec(on="k", time="t", within=within, memory=memory, policy=policy, seed=seed)
        tables = streams(120, seed)
        whole = tg.JoinEngine(spec)
        expected = whole.push(tables)
        engine = tg.JoinEngine(spec, {name: table.schema for name, table in tables.items()})
        parts = []
        for begin in range(0, 120, 30):
            piece = {
                name: table.filter((pc.field("t") >= begin) & (pc.field("t") < begin + 30))
                for name, table in tables.items()
            }
            parts.append(engine.push(piece))
            engine = tg.JoinEngine.restore(engine.snapshot())
        assert pa.concat_tables(parts).to_pylist() == expected.to_pylist()
        assert engine.stats()["rows_estimated"] == whole.stats()["rows_estimated"]


@pytest.mark.nojit
@pytest.mark.parametrize("policy", ["eq-cluster", "pps-cluster", "uniform"])
@pytest.mark.parametrize("memory", [None, 1000, "4 MB"])
def test_with_memory_for_all_it_is_the_exact_join(policy: str, memory: Any) -> None:
    tables = streams(80, 3)
    spec = tg.JoinSpec(on="k", time="t", within=20, memory=memory, policy=policy)
    found = tg.join(tables, spec)
    assert found.table.column_names[-2:] == ["_importance", "_weight"]
    assert set(found.table.column("_weight").to_pylist()) == {1.0}
    exact = tg.join(tables, tg.JoinSpec(on="k", time="t", within=20)).table
    assert found.table.drop_columns(["_weight"]).to_pylist() == exact.to_pylist()
    (row,) = tg.estimate(found, "count(*)").to_pylist()
    assert (row["estimate"], row["interval"]) == (exact.num_rows, "exact")


@every_policy
def test_exact_is_exact(policy: tg.Policy) -> None:
    """Also where windows are empty, tuples of one moment meet and few of them are lost."""
    said = []
    for seed in range(3 * len(WINDOWS)):
        rng = np.random.default_rng(seed)
        rows = int(rng.integers(4, 40))
        tables = streams(rows, seed, keys=2)
        tables = {
            name: table.set_column(0, "t", pc.divide(table["t"], pa.scalar(1 + seed % 9)))
            for name, table in tables.items()
        }
        spec = tg.JoinSpec(
            on="k", time="t", within=(0, {"left": 0, "right": 5}, 4)[seed % 3], seed=seed,
            split="shared", lateness=seed % 2 * 5,
        )  # fmt: skip
        truth = tg.join(tables, spec).table.num_rows
        for memory in (2, 9, rows):
            result = tg.join(tables, spec.replace(memory=memory, policy=policy))
            (row,) = tg.estimate(result, "count(*)").to_pylist()
            said.append(row["interval"])
            if row["interval"] == "exact":
                assert (row["estimate"], result.stats["rows_lost"]) == (truth, 0)
            else:
                assert result.stats["rows_lost"] > 0 or truth == 0 or policy.get("fraction")
    assert set(said) >= ({"unknown"} if policy.get("fraction") else {"unknown", "exact"})


@pytest.mark.nojit
def test_many_falling_thresholds_are_folded() -> None:
    """More thresholds than there are steps: what a tuple was above is not forgotten."""
    from tidegate.shed import sample_records

    rows = 4 * sample_records.ROOM
    table = pa.table(
        {"t": np.arange(rows), "k": np.zeros(rows, np.int64), "row_left": np.arange(rows)}
    )
    other = pa.table({"t": [rows], "k": [0], "row_right": [0]})
    spec = tg.JoinSpec(
        on="k", time="t", within=rows, memory=600, policy="eq-cluster", split="shared"
    )
    engine, twin = tg.JoinEngine(spec), SampledJoin(spec)
    expected = twin.push({"left": table.to_pylist(), "right": other.to_pylist()})
    found = weights_of(engine.push({"left": table, "right": other}))
    assert len(found) == len(expected) == 600
    assert [w for _, w in found] == pytest.approx([w for _, w in sorted(twin.weights)], rel=1e-7)


def estimates(tables: Any, policy: tg.Policy, seeds: int, **options: Any) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for seed in range(seeds):
        spec = tg.JoinSpec(on="k", time="t", within=40, policy=policy, seed=seed, **options)
        result = tg.join(tables, spec)
        assert result.stats["memory_rows_peak"] <= spec.memory_rows
        for aggregate in ("count(*)", "sum(x_left)", "avg(x_right)"):
            found.setdefault(aggregate, []).extend(tg.estimate(result, aggregate).to_pylist())
    return found


SURE = {name: POLICIES[name] for name in ("eq-cluster", "pps-cluster")} | {
    "uniform": tg.uniform(margin=20)
}


@pytest.mark.parametrize("policy", SURE.values(), ids=SURE)
@pytest.mark.parametrize("drift", [False, True])
@pytest.mark.parametrize("split", ["shared", "even"])
def test_no_bias_over_many_seeds(policy: tg.Policy, drift: bool, split: str) -> None:
    """Repeated keys, skew and forced evictions; with drift the counts of keys mislead. With 2,000
    seeds: `python -m benchmarks sampling`."""
    tables = streams(300, 7, keys=12, drift=drift)
    exact = tg.join(tables, tg.JoinSpec(on="k", time="t", within=40)).table
    totals = []
    for seed in range(200):
        spec = tg.JoinSpec(
            on="k", time="t", within=40, policy=policy, seed=seed, memory=20, split=split
        )
        result = tg.join(tables, spec)
        totals.append(pc.sum(result.table.column("_weight")).as_py() or 0.0)
    error = np.std(totals) / math.sqrt(len(totals))
    assert abs(np.mean(totals) - exact.num_rows) < 3 * error


@pytest.mark.parametrize("name", ["eq-cluster", "pps-cluster", "uniform"])
def test_intervals_of_joins_are_honest(name: str) -> None:
    """As far as 200 samples can tell; `python -m benchmarks sampling` has 2,000, and groups."""
    tables = streams(1500, 8, keys=40)
    exact = tg.join(tables, tg.JoinSpec(on="k", time="t", within=40)).table
    truths = {
        "count(*)": exact.num_rows,
        "sum(x_left)": pc.sum(exact.column("x_left")).as_py(),
        "avg(x_right)": pc.mean(exact.column("x_right")).as_py(),
    }
    for aggregate, rows in estimates(tables, SURE[name], 200, memory=24).items():
        # Now and then a tuple that was hardly expected outweighs the others: then it is unknown.
        known = [row for row in rows if row["interval"] == "95 %"]
        assert len(known) > 0.9 * len(rows)
        covered = [row["low"] <= truths[aggregate] <= row["high"] for row in known]
        assert 0.90 <= np.mean(covered) <= 0.99, aggregate


SEEDS_OF_SAMPLES, SHARE = 600, 0.3


def included_rows(policy: tg.Policy, memory: int) -> tuple[np.ndarray, np.ndarray]:
    """Which results of the exact join are in the sample of each seed; and all weights."""
    tables = streams(100, 9)
    rows = {name: table.to_pylist() for name, table in tables.items()}
    exact = naive.join(rows, tg.JoinSpec(on="k", time="t", within=20)).pairs
    place = {pair: at for at, pair in enumerate(exact)}
    included, weights = np.zeros((SEEDS_OF_SAMPLES, len(exact)), np.int64), []
    for seed in range(SEEDS_OF_SAMPLES):
        spec = tg.JoinSpec(on="k", time="t", within=20, policy=policy, seed=seed, memory=memory)
        for pair, weight in weights_of(tg.join(tables, spec).table):
            weights.append(weight)
            included[seed, place[pair]] = 1
    return included, np.array(weights)


def excess(included: np.ndarray, share: float) -> tuple[float, float]:
    """Chi-square of results and of pairs of them, how far above their means, in their deviations.

    Pairs share rows, so their numbers vary together; the bounds below allow for it.
    """

    def of(counts: np.ndarray, p: float) -> float:
        seeds = len(included)
        chi_square = ((counts - seeds * p) ** 2).sum() / (seeds * p * (1 - p))
        return float((chi_square - len(counts)) / math.sqrt(2 * len(counts)))

    watched = included[:, :: max(1, included.shape[1] // 12)]
    together = (watched.T @ watched)[np.triu_indices(watched.shape[1], 1)]
    return of(included.sum(axis=0), share), of(together, share**2)


def test_uniform_means_uniform_and_independent() -> None:
    included, weights = included_rows(tg.uniform(fraction=SHARE, margin=30), memory=1000)
    np.testing.assert_allclose(weights, 1 / SHARE, rtol=1e-6)
    of_rows, of_pairs = excess(included, SHARE)
    assert abs(of_rows) < 4
    assert abs(of_pairs) < 6
    # The numbers of rows of a sample vary as those of coins do.
    variance = included.shape[1] * SHARE * (1 - SHARE)
    spread = 4 * math.sqrt(2 / SEEDS_OF_SAMPLES)
    assert included.sum(axis=1).var() == pytest.approx(variance, rel=spread)


def test_clusters_are_neither() -> None:
    """The same numbers tell a sample that is not uniform, and one that is not independent."""
    included, _ = included_rows(tg.eq_cluster(), memory=20)
    of_rows, of_pairs = excess(included, float(included.mean()))
    assert of_rows > 20
    assert of_pairs > 20


def mean_memory(tables: dict[str, pa.Table], policy: tg.Policy, within: int, end: int) -> float:
    """How many tuples are retained, on average over all moments after the first window."""
    spec = tg.JoinSpec(
        on="k", time="t", within={"left": within, "right": 0}, policy=policy, memory=100_000
    )
    engine = tg.JoinEngine(spec, {name: table.schema for name, table in tables.items()})
    held = []
    for moment in range(end):
        piece = {name: table.filter(pc.field("t") == moment) for name, table in tables.items()}
        engine.push(piece)
        if moment > within:
            held.append(engine.stats()["alive_left"])
    return float(np.mean(held))


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_expected_memory_is_that_of_the_theorems(p: float) -> None:
    """One tuple per unit, whose partners come at ages 10, 20, 30 and 40 (theorem 4.2), or at ages
    1, 2, 20 and 40 (theorem 4.3)."""
    tuples, rng = 1200, np.random.default_rng(4)
    for ages in ([10, 20, 30, 40], [1, 2, 20, 40]):
        born = np.repeat(np.arange(tuples), len(ages))
        moments = born + np.tile(ages, tuples)
        order = np.lexsort((rng.random(len(moments)), moments))
        tables = {
            "left": pa.table({"t": np.arange(tuples), "k": np.arange(tuples)}),
            "right": pa.table({"t": moments[order], "k": born[order]}),
        }
        found = mean_memory(tables, tg.uniform(p, margin=0, matches=len(ages)), 40, tuples)
        # A tuple of age 0 counts, and one that is discarded at an age does not count at it.
        assert found == pytest.approx(AgeModel(1.0, ages).expected_memory(p), rel=0.03)
        if ages[0] == 10:
            model = FrequencyModel([40.0], [4.0])
            assert AgeModel(1.0, ages).expected_memory(p) == pytest.approx(model.expected_memory(p))


def test_a_biased_guess_shows() -> None:
    """The counts of keys tell how many results the exact join has; estimates fall short of it
    where tuples have more results than UNIFORM expected, and then have no intervals."""
    tables = streams(300, 10, keys=8)
    exact = tg.join(tables, tg.JoinSpec(on="k", time="t", within=40)).stats["rows_out"]
    found, known = {}, {}
    for margin in (0, 20):
        runs = [
            tg.join(
                tables,
                tg.JoinSpec(
                    on="k", time="t", within=40, policy=tg.uniform(margin=margin), seed=seed,
                    memory=25,
                ),
            )
            for seed in range(12)
        ]  # fmt: skip
        assert all(run.stats["rows_expected"] == exact for run in runs)
        found[margin] = np.mean([run.stats["rows_estimated"] for run in runs]) / exact
        said = [tg.estimate(run, "count(*)").to_pylist()[0] for run in runs]
        known[margin] = [row for row in said if row["interval"] == "95 %"]
        if margin == 0:
            assert all(row["low"] <= exact <= row["high"] for row in known[margin])
            assert "rows_missed" in runs[0].stats
    assert found[0] < 0.93
    assert 0.85 < found[20] < 1.15
    assert len(known[0]) < 8 < len(known[20])  # of 12


@pytest.mark.nojit
def test_refusals() -> None:
    with pytest.raises(tg.SpecError, match="fraction 0 is none"):
        tg.uniform(fraction=0)
    with pytest.raises(tg.SpecError, match="margin"):
        tg.uniform(margin=-1)
    join = tg.JoinSpec(on="k", time="t", within=5, memory=9, policy="eq-cluster")
    three = join.replace(streams=("a", "b", "c"))
    with pytest.raises(tg.TidegateError, match="samples joins of two streams"):
        tg.JoinEngine(three.replace(policy="uniform"))
    hopeless = {  # some results could never be in the sample, and estimates would not show it
        "memory 0 holds no result": join.replace(memory=0),
        "needs 2 retained tuples": three.replace(memory=1),
        "refused under cpu=": join.replace(cpu=tg.Cpu(comparisons_per_second=9)),
        "leaves stream 'right' no memory": join.replace(split={"left": 9, "right": 0}),
    }
    for sentence, spec in hopeless.items():
        with pytest.raises(tg.TidegateError, match=sentence):
            tg.JoinEngine(spec)
    waiting = join.replace(split={"left": 9, "right": 0}, within={"left": 5, "right": 0})
    tg.JoinEngine(waiting)
