"""A join of n streams under a CPU budget: it equals its twin, and is exact with enough fuel.

The law: results, comparisons, skipped ones and the estimate are those of the twin, whichever way a
probe goes; the fuel is exceeded by at most one basic window; a snapshot in the middle changes
nothing.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from many_cases import ManyCase, many_case, names_of
from many_runs import Feeder, engine_of, found_in, replayed
from naive_cpu_many import ManyCpuJoin
from strategies import only_plain
from tries import examples

import tidegate as tg

MANY = examples(1 / 2, at_least=5)
SEEDS = st.integers(0, 2**32)


def cpu_case(seed: int, **options: Any) -> ManyCase:
    """Three or four streams, time windows, and any budget of CPU time."""
    random = Random(seed)
    cpu = tg.Cpu(
        random.choice([0, 0.5, 2, 6, 10**6]),
        adapt_every=random.choice([None, 2, 5]),
        basic_window=random.choice([None, 1, 2, 9]),
        boost=random.choice([1.0, 1.2, 3.0]),
        sample=random.choice([0.0, 0.2, 1.0]),
        order=random.choice(["learned", "youngest"]),
        direction=random.choice(["adaptive", "better-first", "even"]),
    )
    names = names_of(random.choice((3, 3, 4)))
    within = {name: random.randint(0, 6) for name in names}
    drawn = {"cpu": cpu, "ties": "arrival", "within": within, **options}
    return many_case(seed, len(names), rows=random.choice((4, 9)), **drawn)


def check_equal_to_twin(case: ManyCase, probe: Any = "auto") -> None:
    engine, found = replayed(case, engine_of(case.spec, probe))
    twin = ManyCpuJoin(case.spec)
    expected = [result for push in case.pushes for result in twin.push(*push)]
    assert sorted(found) == sorted((result.rows, result.importance) for result in expected)
    stats = engine.stats()
    for name, value in twin.stats().items():
        assert stats.get(name, 0) == pytest.approx(value), name


@pytest.mark.nojit
@settings(max_examples=MANY)
@given(SEEDS)
def test_engine_equals_twin(seed: int) -> None:
    check_equal_to_twin(cpu_case(seed))


@pytest.mark.nojit
@settings(max_examples=max(3, MANY // 4))
@given(SEEDS, st.sampled_from(["selectivity", "backwards"]))
def test_the_way_of_a_probe_changes_nothing(seed: int, probe: str) -> None:
    case = cpu_case(seed)
    check_equal_to_twin(case, case.spec.streams[::-1] if probe == "backwards" else probe)


@pytest.mark.nojit
@only_plain
@settings(max_examples=max(3, MANY // 4))
@given(SEEDS)
def test_both_budgets_and_a_snapshot(seed: int) -> None:
    """Under a budget of memory too; restored after each push."""
    case = cpu_case(seed, memory=6, split="shared", policy="recent")
    whole, expected = replayed(case)
    feeder, engine, found = Feeder(case.spec), engine_of(case.spec), []
    for push in case.pushes:
        table = engine.push(feeder.tables(push), watermark=push.watermark)
        found += found_in(case.spec, table)
        engine = tg.JoinEngine.restore(engine.snapshot())
    assert found == expected
    drop = ("bytes", "peak")
    kept = {n: v for n, v in whole.stats().items() if not any(part in n for part in drop)}
    assert {n: engine.stats()[n] for n in kept} == kept


@pytest.mark.nojit
@settings(max_examples=max(3, MANY // 4))
@given(SEEDS)
def test_enough_fuel_is_the_exact_join(seed: int) -> None:
    case = cpu_case(seed, cpu=tg.Cpu(10**9))
    engine, found = replayed(case)
    _, exact = replayed(ManyCase(case.spec.replace(cpu=None), case.pushes))
    assert found == exact
    assert engine.stats()["skipped_comparisons"] == 0
    throttle = engine._state.throttle
    assert throttle is not None
    assert engine.stats()["comparisons"] <= throttle.tank[0].rate * 10**6


@pytest.mark.nojit
@settings(max_examples=max(3, MANY // 4))
@given(SEEDS)
def test_fuel_is_kept(seed: int) -> None:
    """Comparisons <= fuel granted so far + one basic window, which holds at most all rows."""
    case = cpu_case(seed, lateness=0)
    engine, _ = replayed(case)
    throttle = engine._state.throttle
    assert throttle is not None
    tank = throttle.tank[0]
    if tank.begun:
        rows = max(sum(len(p.tables.get(n, ())) for p in case.pushes) for n in case.spec.streams)
        assert engine.stats()["comparisons"] <= tank.rate * (tank.now + 1) + tank.most + rows


@pytest.mark.nojit
@settings(max_examples=max(3, MANY // 8))
@given(SEEDS)
def test_a_snapshot_changes_nothing(seed: int) -> None:
    case = cpu_case(seed)
    _, expected = replayed(case)
    feeder, engine, found = Feeder(case.spec), engine_of(case.spec), []
    for push in case.pushes:
        table = engine.push(feeder.tables(push), watermark=push.watermark)
        found += found_in(case.spec, table)
        engine = tg.JoinEngine.restore(engine.snapshot())
    assert found == expected
