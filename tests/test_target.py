"""A target instead of a budget: it is kept, with little more memory than that needs.

Law: a push may be cut anywhere between two times, and a snapshot taken anywhere: results, memory in
force and what is said of the target are the same. What is retained never exceeds `memory`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import tidegate as tg
from tidegate.cli import run as run_command
from tidegate.engine.contract import Contract, Glance
from tidegate.engine.live_miniatures import Curve, drawn
from tidegate.spec.target import Target

ROWS, WINDOW, KEYS = 12_000, 1500, 400
Tables = dict[str, pa.Table]


def stream(seed: int, change: str = "") -> Tables:
    """Popular and rare keys; halfway others become popular, or rows come closer together."""
    rng = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, KEYS + 1) ** 0.8
    tables = {}
    for name in ("left", "right"):
        key = rng.choice(KEYS, ROWS, p=weights / weights.sum())
        steps = np.full(ROWS, 2)
        if change == "keys":
            key[ROWS // 2 :] = (key[ROWS // 2 :] + KEYS // 3) % KEYS
        if change == "rate":
            steps[ROWS // 2 :] = 1
        worth = rng.integers(1, 9, ROWS) / 2
        tables[name] = pa.table({"t": np.cumsum(steps) // 2, "k": key, "w": worth})
    return tables


def spec_of(**options: Any) -> tg.JoinSpec:
    usual = {"on": "k", "time": "t", "within": WINDOW, "memory": 4000, "sentinel": 0.04}
    return tg.JoinSpec(**{**usual, "miniatures": 0.15, "target": "recall >= 0.9", **options})


def cut(tables: Tables, length: int) -> list[Tables]:
    last = max(int(table["t"].to_numpy().max()) for table in tables.values())
    return [
        {
            name: table.filter(pa.array((table["t"].to_numpy() // length) == number))
            for name, table in tables.items()
        }
        for number in range(last // length + 1)
    ]


def run(spec: tg.JoinSpec, pushes: list[Tables]) -> tuple[tg.JoinEngine, pa.Table]:
    engine = tg.JoinEngine(spec, {name: table.schema for name, table in pushes[0].items()})
    return engine, pa.concat_tables([engine.push(push) for push in pushes])


def said(engine: tg.JoinEngine) -> dict[str, float]:
    """What does not depend on when rows that wait are joined."""
    left_out = ("bytes", "miniature_rows", "memory_rows", "visits", "recent")
    return {n: v for n, v in engine.stats().items() if not any(part in n for part in left_out)}


@pytest.fixture(scope="module")
def whole() -> tuple[tg.JoinEngine, pa.Table]:
    return run(spec_of(), cut(stream(1, "keys"), 10**6))


def test_any_cut_gives_the_same(whole: tuple[tg.JoinEngine, pa.Table]) -> None:
    engine, out = whole
    assert engine.stats()["target_memory"] < 4000
    for length in (10**6, 1000, 370):
        other, rows = run(spec_of(), cut(stream(1, "keys"), length))
        assert rows.equals(out)
        assert said(other) == pytest.approx(said(engine))
        assert other.retention_curve() == engine.retention_curve()


def test_a_snapshot_changes_nothing(whole: tuple[tg.JoinEngine, pa.Table]) -> None:
    expected, out = whole
    engine = tg.JoinEngine(spec_of())
    tables = []
    for push in cut(stream(1, "keys"), 1700):
        tables.append(engine.push(push))
        engine = tg.JoinEngine.restore(engine.snapshot())
    assert pa.concat_tables(tables).equals(out)
    assert said(engine) == pytest.approx(said(expected))
    assert engine.retention_curve() == expected.retention_curve()


@pytest.mark.parametrize("change", ["", "keys", "rate"])
def test_it_is_kept_with_little_more_than_it_needs(change: str) -> None:
    tables = stream(2, change)
    exact = tg.join(tables, spec_of(memory=None, sentinel=None, miniatures=None, target=None))
    engine, memories = tg.JoinEngine(spec_of(memory=6000)), []
    for push in cut(tables, 500):
        engine.push(push)
        memories.append(engine.stats()["target_memory"])
    stats = engine.stats()
    ends = ("alive", "expired", "evicted", "refused", "too_late", "rejected")
    assert sum(stats[name] for name in ends) == stats["rows_in"]
    assert stats["rows_out"] / exact.stats["rows_out"] >= 0.9
    assert stats["target_met"] == 1
    assert stats["memory_rows_peak"] <= 6000
    # What a fixed memory needs for 0.9 of the second half, where the memory has settled.
    tried = [500, 1000, 2000, 3000]
    found = tg.whatif(tables, spec_of(), tried, ["value"], objective="size", optimum=False)
    needed = found.needed["0.90"]
    assert needed is not None
    own = 0.96 * np.array(memories) - 900  # what sentinel and miniatures leave
    assert own[len(own) // 2 :].mean() < 1.8 * needed["memory"]


def test_by_importance() -> None:
    tables = stream(3)
    options = {"importance": "w", "target": "importance >= 90%", "memory": 6000}
    plain = {"memory": None, "sentinel": None, "miniatures": None, "target": None}
    exact = tg.join(tables, spec_of(**{**options, **plain})).stats
    engine, _ = run(spec_of(**options), cut(tables, 10**6))
    stats = engine.stats()
    assert stats["importance_out"] / exact["importance_out"] >= 0.9
    assert stats["target_memory"] < 3000


def test_a_target_that_cannot_be_met() -> None:
    tables = stream(4)
    spec = spec_of(memory=900, sentinel=0.1, target="recall >= 0.99")
    engine, _ = run(spec, cut(tables, 10**6))
    exact = tg.join(
        tables, spec.replace(memory=None, sentinel=None, miniatures=None, target=None)
    ).stats["rows_out"]
    stats = engine.stats()
    assert stats["target_met"] == 0
    assert stats["target_memory"] == 900
    assert stats["target_missing_by"] == pytest.approx(0.99 - stats["rows_out"] / exact, abs=0.08)


def test_in_bytes() -> None:
    tables = stream(5)
    spec = spec_of(memory="8 MB", sentinel=None, miniatures=0.4)
    engine = tg.JoinEngine(spec)
    for push in cut(tables, 700):
        engine.push(push)
        assert engine.stats()["memory_bytes_peak"] <= 8_000_000
    stats = engine.stats()
    assert stats["target_memory"] < 6_000_000
    exact = tg.join(tables, spec_of(memory=None, sentinel=None, miniatures=None, target=None))
    assert stats["rows_out"] / exact.stats["rows_out"] >= 0.9
    assert said(tg.JoinEngine.restore(engine.snapshot())) == pytest.approx(said(engine))


def test_the_curve_is_that_of_whole_replays() -> None:
    """Without a target: only the curve is wanted."""
    tables = stream(6)
    spec = spec_of(target=None, memory=3000, sentinel=0.05, miniatures=0.4)
    engine, _ = run(spec, cut(tables, 10**6))
    exact = tg.join(tables, spec_of(memory=None, sentinel=None, miniatures=None, target=None))
    errors = []
    # The first point stands for popular keys that no miniature has; a rough one.
    for point in engine.retention_curve()[1:-1]:
        plain = spec.replace(memory=None, sentinel=None, miniatures=None)
        left = point["memory"] * 0.95 - 0.4 * 3000  # for the join itself
        kept = tg.join(tables, plain.replace(memory=max(1, round(left)))).stats["rows_out"]
        errors.append(abs(kept / exact.stats["rows_out"] - point["recall"]))
    assert np.mean(errors) < 0.04
    assert "target" not in engine.stats()
    assert engine.stats()["memory_rows_peak"] <= 3000


def test_a_ledger_and_a_memory_that_changes(tmp_path: Path) -> None:
    """What a smaller memory sheds stands in the ledger too."""
    tables = stream(7)
    engine = tg.JoinEngine(spec_of(), ledger=tmp_path)
    out = engine.push(tables)
    engine.write_ledger()
    assert engine.stats()["target_memory"] < 4000
    from tidegate.offline.repair import repair

    repaired = sum(table.num_rows for table in repair(tmp_path).results())
    exact = tg.join(tables, spec_of(memory=None, sentinel=None, miniatures=None, target=None))
    assert out.num_rows + repaired == exact.table.num_rows
    assert repaired > 0


@pytest.mark.nojit
def test_decisions() -> None:
    curve = Curve(np.array([0.0, 100.0, 200.0]), np.array([0.0, 0.8, 1.0]))
    contract = Contract(Target(0.9, False))
    nothing = Glance(0.0, 0.0, 0.0)
    assert contract.decide(None, nothing, 500.0, 500.0) is None
    assert contract.decide(curve, nothing, 500.0, 500.0) is None  # not before a window has passed
    assert contract.decide(curve, nothing, 500.0, 500.0) == pytest.approx(300.0)  # 0.6 at a time
    for _ in range(3):
        wanted = contract.decide(curve, nothing, 300.0, 500.0)
    assert wanted == pytest.approx(180.0)
    # The sentinel sees three times the loss of the curve: more memory, at once.
    wanted = contract.decide(curve, Glance(1000.0, 700.0, 1000.0), 180.0, 500.0)
    assert wanted is not None
    assert wanted > 180.0
    assert contract.factor > 2.0
    assert contract.stats(curve, 500.0, 500.0)["target_met"] == 1
    assert contract.stats(curve, 100.0, 100.0)["target_missing_by"] > 0.1


@pytest.mark.nojit
def test_keys_are_drawn_evenly() -> None:
    """Also those that are small numbers, which hashes like to leave as they are."""
    share = drawn(np.arange(100_000), 0)
    assert abs((share < 0.01).mean() - 0.01) < 0.002
    assert share[0] > 0.001
    assert (drawn(np.arange(9), 1) != share[:9]).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target": "recall > 95"}, "is not a target"),
        ({"target": "recall >= 95"}, "between 0 and 1"),
        ({"target": "recall >= 1"}, "memory=None"),
        ({"target": 0.95}, "is not a target"),
        ({"memory": None}, "memory is None"),
        ({"on": tg.band("k", 0, 1)}, "no keys for equality"),
        ({"within": tg.rows(10)}, "last rows of all keys"),
        ({"streams": ("a", "b", "c"), "policy": "random"}, "two streams"),
        ({"cpu": tg.Cpu(comparisons_per_second=9.0)}, "CPU budget"),
        ({"split": [2000, 1000]}, "give shares"),
        ({"memory": 400, "miniatures": 0.05}, "too little to say anything"),
        ({"memory": "1 MB"}, "give more memory"),
        ({"miniatures": 0.9}, "at most 0.5"),
    ],
)
def test_refused_in_a_sentence(options: dict[str, Any], words: str) -> None:
    with pytest.raises(tg.TidegateError, match=words):
        tg.JoinEngine(
            spec_of(**options),
            {name: stream(1)["left"].schema for name in options.get("streams", ("left", "right"))},
        )


def test_a_curve_that_nobody_asked_for() -> None:
    with pytest.raises(tg.TidegateError, match=r"give its spec miniatures=0\.05"):
        tg.JoinEngine(spec_of(target=None, miniatures=None)).retention_curve()


def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, table in stream(1).items():
        parquet.write_table(table, f"{name}.parquet")
    words = ["join", "left.parquet", "right.parquet", "--on", "k", "--time", "t", "-q"]
    words += ["--within", str(WINDOW), "--memory", "6000", "--target", "recall >= 0.9"]
    words += ["--sentinel", "0.04", "--miniatures", "0.15", "--log", "run.jsonl"]
    assert run_command(words) == 0
    assert "target: recall >= 0.9, kept with" in capsys.readouterr().out
    assert run_command([*words, "--json"]) == 0
    stats = json.loads(capsys.readouterr().out)["stats"]
    assert stats["target"] == 0.9
    assert stats["target_memory"] < 6000
    last = json.loads(Path("run.jsonl").read_text().splitlines()[-1])
    assert last["curve"][-1]["recall"] == 1.0
