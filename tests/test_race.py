"""`policy="auto"`: policies are raced on a sample, and the best of them comes into force.

Law: a push may be cut anywhere between two times, and a snapshot taken anywhere: results and
decisions are the same. Join and race together never hold more than the memory, and a switch loses
no row. Where there is no race, `auto` is VALUE row for row.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from naive_race import NaiveRace

import tidegate as tg
from tidegate.offline.repair import repair
from tidegate.race import race as races
from tidegate.race.race import Race, may_race, names_of
from tidegate.race.verdict import believed, lead

ROWS, WINDOW, MEMORY = 9_000, 1200, 900
Tables = dict[str, pa.Table]


def stream(seed: int, rows: int = ROWS, keys: int = 300) -> Tables:
    """Popular and rare keys, whose popularity changes halfway."""
    rng = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, keys + 1) ** 0.9
    tables = {}
    for name in ("left", "right"):
        key = rng.choice(keys, rows, p=weights / weights.sum())
        key[rows // 2 :] = keys - key[rows // 2 :]
        worth = rng.integers(1, 99, rows) / 8
        tables[name] = pa.table({"t": np.arange(rows), "k": key, "w": worth})
    return tables


def spec_of(**options: Any) -> tg.JoinSpec:
    return tg.JoinSpec(**{"on": "k", "time": "t", "within": WINDOW, "memory": MEMORY, **options})


def cut(tables: Tables, length: int) -> list[Tables]:
    last = max(table.num_rows for table in tables.values())
    return [
        {name: table.slice(begin, length) for name, table in tables.items()}
        for begin in range(0, last, length)
    ]


@pytest.fixture
def restless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A race that switches as often as it can."""
    quick = {"MARGIN": -3.0, "LEAST": 2, "AGAIN": 0.0, "SHORTEST": 1.5, "LOOK": 9.0}
    for name, number in {**quick, "FILLING": 0.5, "SETTLING": 0.5}.items():
        monkeypatch.setattr(races, name, number)


def begun(engine: tg.JoinEngine) -> Race:
    """The race of an engine, from its first row on."""
    engine._begin_race()
    return engine._steering.race


def run(spec: tg.JoinSpec, pushes: list[Tables], again: bool = False) -> Any:
    engine = tg.JoinEngine(spec, {name: table.schema for name, table in pushes[0].items()})
    found, policies = [], set()
    for push in pushes:
        found.append(engine.push(push))
        policies.add(engine.policy)
        stats = engine.stats()
        assert stats["memory_rows_peak"] <= MEMORY
        ends = ("alive", "expired", "evicted", "refused", "too_late", "rejected")
        assert sum(stats[name] for name in ends) == stats["rows_in"]
        if again:
            engine = tg.JoinEngine.restore(engine.snapshot())
    return pa.concat_tables(found), engine, policies


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("weighed", [False, True])
def test_cuts_and_snapshots_change_nothing(weighed: bool) -> None:
    """Also while policies change, which they do several times here."""
    spec = spec_of(importance="w" if weighed else None)
    out, engine, _ = run(spec, cut(stream(1), ROWS))
    assert engine.stats()["race_switches"] >= 3
    exact = tg.join(stream(1), spec.replace(memory=None)).table
    assert 0 < out.num_rows < exact.num_rows
    for length, again in ((1000, False), (1700, True), (333, False)):
        rows, other, policies = run(spec, cut(stream(1), length), again)
        assert rows.equals(out)
        assert len(policies) > 1
        assert other.policy == engine.policy
        for name in ("evicted", "refused", "race_switches", "rows_out"):
            assert other.stats()[name] == engine.stats()[name]


@pytest.mark.usefixtures("restless")
def test_each_result_once_and_only_those_of_the_exact_join() -> None:
    tables = {n: t.append_column("row", pa.array(range(ROWS))) for n, t in stream(2).items()}
    out, _, _ = run(spec_of(), cut(tables, 2000))
    pairs = set(zip(out["row"].to_pylist(), out["row_right"].to_pylist(), strict=True))
    assert len(pairs) == out.num_rows
    exact = tg.join(tables, spec_of(memory=None)).table
    assert pairs <= set(zip(exact["row"].to_pylist(), exact["row_right"].to_pylist(), strict=True))


@pytest.mark.parametrize(
    "options",
    [
        {"memory": 300},
        {"on": tg.band("k", 0, 0)},
        {"ties": "instant"},
        {"split": [450, 450]},
        {"memory": "2 MB"},
    ],
)
def test_where_there_is_no_race_auto_is_value(options: dict[str, Any]) -> None:
    tables, spec = stream(3, 2000), spec_of(**options)
    assert not may_race(spec)
    auto, value = (tg.JoinEngine(spec.replace(policy=name)) for name in ("auto", "value"))
    assert auto.push(tables).equals(value.push(tables))
    assert auto.policy == value.policy == "value"
    assert "race_rows" not in auto.stats()


def test_a_memory_for_whole_windows_is_the_exact_join() -> None:
    """There is no race, and so no room for one, before the join has to shed."""
    tables, spec = stream(8, 4000), spec_of(memory=2 * WINDOW + 2)
    engine = tg.JoinEngine(spec)
    assert may_race(spec)
    assert engine.push(tables).equals(tg.join(tables, spec.replace(memory=None)).table)
    assert engine.stats()["evicted"] == 0
    assert "race_rows" not in engine.stats()


def test_a_named_policy_is_never_raced() -> None:
    assert all(not may_race(spec_of(policy=name)) for name in tg.policies() if name != "auto")
    assert "race_rows" not in tg.JoinEngine(spec_of(policy="value")).stats()


@pytest.mark.parametrize("weighed", [False, True])
def test_contenders_earn_what_the_slow_twin_does(
    weighed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Race, "review", lambda self, now: self.policy)
    spec = spec_of(importance="w" if weighed else None, within=700, memory=800)
    tables = stream(4, 2500, keys=60)
    times = (
        np.sort(np.random.default_rng(9).integers(0, 2500, 4000)) ** 2 // 2500
    )  # faster and faster
    more = pa.concat_tables([tables["left"], tables["right"]]).slice(0, 4000)
    tables["left"] = more.set_column(0, "t", pa.array(times))
    engine = tg.JoinEngine(spec, {name: table.schema for name, table in tables.items()})
    race = begun(engine)
    race.course.worths[:] = np.random.default_rng(1).random(race.course.worths.shape)
    naive = NaiveRace(race.course, names_of(spec))
    engine.push(tables)
    for time in range(2500):
        for number, table in enumerate(tables.values()):
            for row in np.flatnonzero(table["t"].to_numpy() == time).tolist():
                its = table.slice(row, 1).to_pylist()[0]
                naive.take(number, time, its["k"], its["w"] if weighed else 1.0)
    found = dict(zip(race.names, race.course.contenders.found.tolist(), strict=True))
    assert found == pytest.approx(naive.found)
    assert min(found.values()) > 0
    held = [sum(name in t.holders for t in naive.tokens) for name in race.names]
    assert max(held) == naive.capacity


def test_a_contender_stands_for_its_policy() -> None:
    """What it finds, over the rate of the sample, is what the policy keeps of the whole stream."""
    tables = stream(5, 20_000)
    spec = spec_of(memory=4000, within=6000)
    engine = tg.JoinEngine(spec, {n: t.schema for n, t in tables.items()})
    race = begun(engine)
    engine.push(tables)
    for name, found in zip(race.names, race.course.contenders.found, strict=True):
        kept = tg.join(tables, spec.replace(policy=name)).stats["rows_out"]
        by_chance = 0.35 if name == "random" else 0.12
        assert found / race.course.head[0].rate == pytest.approx(kept, rel=by_chance), name


def test_a_policy_that_is_clearly_better_comes_into_force() -> None:
    """By what contenders are said to have found."""
    spec = spec_of()
    blocks = np.array([[100.0, 90.0], [110.0, 101.0], [90.0, 80.0], [100.0, 91.0]])
    ahead, error = lead(blocks[:, 0], blocks[:, 1])
    assert ahead == pytest.approx(np.log(400 / 362))
    assert 0 < error < 0.01
    assert believed(lead(blocks[:, 0], blocks[:, 0])) == 0.0
    race = begun(tg.JoinEngine(spec, {n: t.schema for n, t in stream(6).items()}))
    rate, at = float(race.course.head[0].rate), race.names.index("recent")
    for review in range(1, 20):
        race.course.contenders.found[at] += 120.0 * rate
        race.review(races.Standing(100.0 * review, review, review / 2))
    assert race.policy == "recent"
    # Now it is as good as it was said to be, and another is better still.
    other = race.names.index("prob")
    for review in range(20, 60):
        race.course.contenders.found[at] += 120.0 * rate
        race.course.contenders.found[other] += 150.0 * rate
        race.review(races.Standing(2000.0 + 120.0 * (review - 20), review, review / 2))
    assert race.policy == "prob"


@pytest.mark.usefixtures("restless")
def test_resize_and_damage() -> None:
    tables = stream(7)
    engine = tg.JoinEngine(spec_of())
    for push in cut(tables, 3000)[:2]:
        engine.push(push)
    policy = engine.policy
    engine.resize(850)
    assert engine.policy == policy
    engine.push(cut(tables, 3000)[2])
    engine.resize(40)
    assert engine.stats()["memory_rows"] <= 40
    restored = tg.JoinEngine.restore(engine.snapshot())
    assert restored.policy == engine.policy
    assert restored.stats()["memory_rows"] == engine.stats()["memory_rows"]


@pytest.mark.usefixtures("restless")
def test_a_ledger_and_a_sentinel_follow(tmp_path: Path) -> None:
    """What is shed for the room of the race, and by each policy, is repaired."""
    tables = stream(9)
    engine = tg.JoinEngine(spec_of(sentinel=0.05, memory=1000), ledger=tmp_path)
    found = sum(engine.push(push).num_rows for push in cut(tables, 900))
    engine.write_ledger()
    stats = engine.stats()
    assert stats["race_switches"] >= 2
    assert stats["memory_rows_peak"] <= 1000
    exact = tg.join(tables, spec_of(memory=None)).stats["rows_out"]
    repaired = sum(table.num_rows for table in repair(tmp_path).results())
    assert 0 < found < found + repaired == exact
    assert stats["recall"] == pytest.approx(found / exact, abs=0.15)
