"""A join under a CPU budget: it equals its twin, keeps its fuel, and is exact with enough of it.

The law: comparisons never exceed the fuel that was granted by more than one basic window; what was
not compared is counted; the same input gives the same output under any cut into pushes between two
times, and across snapshot and restore.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from contracts import Case, Push, check_cuts, check_snapshot, replay, results_of
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_cpu import NaiveCpuJoin
from tries import examples

import tidegate as tg
from tidegate.engine import core_speed
from tidegate.state import throttle_arrays

MANY, SOME = examples(1 / 4), examples(1 / 15)

PREDICATES: dict[str, Any] = {
    "equality": ("k", "hash"),
    "scanned equality": ("k", "nested-loop"),
    "band": (tg.band("k", -1, 1), "auto"),
    "overlap": (tg.overlap("tags", 2), "inverted"),
    "scanned overlap": (tg.overlap("tags", 2), "nested-loop"),
    "inner product": (tg.inner_product("vector", 0.5), "inverted"),
    "equality and overlap": (["k", tg.overlap("tags", 1)], "auto"),
}
predicates = pytest.mark.parametrize("predicate", PREDICATES)


def table(name: str, seed: int, rows: int, times: int, out_of_order: bool = False) -> pa.Table:
    random = np.random.default_rng([seed, name == "left"])
    when = np.sort(random.integers(0, times, rows))
    if out_of_order:
        when = when[np.argsort(when + random.integers(0, 7, rows), kind="stable")]
    keys = random.integers(0, 4, rows)
    return pa.table(
        {
            "t": when,
            "k": pa.array(keys, mask=random.random(rows) < 0.05),
            "tags": pa.array(
                [random.integers(0, 5, n).tolist() for n in random.integers(0, 4, rows)],
                pa.list_(pa.int64()),
            ),
            "vector": pa.array(
                random.choice([-0.5, 0.0, 0.25, 1.0], (rows, 3)).tolist(),
                pa.list_(pa.float64()),
            ),
            "weight": random.choice([0.5, 1.0, 4.0], rows),
            f"row_{name}": np.arange(rows),
        }
    )


def cut(tables: dict[str, pa.Table], cuts: list[int]) -> tuple[Push, ...]:
    """The same rows in several pushes, cut between two times."""
    pushes = []
    for low, high in zip([-1, *cuts], [*cuts, 10**9], strict=True):
        pushes.append(
            Push(
                {
                    name: rows.filter(
                        pa.compute.and_(
                            pa.compute.greater(rows["t"], low),
                            pa.compute.less_equal(rows["t"], high),
                        )
                    )
                    for name, rows in tables.items()
                }
            )
        )
    return tuple(pushes)


def sliced(tables: dict[str, pa.Table], cuts: list[int]) -> tuple[Push, ...]:
    """The same rows in several pushes, cut at numbers of rows."""
    bounds = zip([0, *cuts], [*cuts, 10**9], strict=True)
    return tuple(
        Push({name: rows.slice(low, high - low) for name, rows in tables.items()})
        for low, high in bounds
    )


@st.composite
def cases(draw: st.DrawFn, predicate: str, **options: Any) -> Case:
    on, index = PREDICATES[predicate]
    cpu = tg.Cpu(
        draw(st.sampled_from([0, 0.5, 2, 7.5, 30, 10**6])),
        adapt_every=draw(st.sampled_from([None, 2, 5, 9])),
        basic_window=draw(st.sampled_from([None, 1, 3, 4, 50])),
        boost=draw(st.sampled_from([1.0, 1.2, 3.0])),
        sample=draw(st.sampled_from([0.0, 0.1, 0.7, 1.0])),
        order=draw(st.sampled_from(["learned", "youngest"])),
        direction=draw(st.sampled_from(["adaptive", "better-first", "even"])),
    )
    spec = tg.JoinSpec(
        on=on, index=index, time="t", cpu=cpu, seed=draw(st.integers(0, 9)),
        within=draw(st.sampled_from([12, 7, {"left": 5, "right": 14}, {"left": 9, "right": 0}])),
        importance=draw(st.sampled_from([None, "weight"])),
        **options,
    )  # fmt: skip
    times, seed = draw(st.sampled_from([10, 40, 120])), draw(st.integers(0, 10**6))
    late = spec.lateness_window.size > 0
    tables = {
        name: table(name, seed, draw(st.integers(0, 60)), times, late) for name in spec.streams
    }
    cuts = sorted(draw(st.sets(st.integers(0, times), max_size=3)))
    return Case(spec, sliced(tables, cuts) if late else cut(tables, cuts))


def check_equal_to_twin(case: Case, nanoseconds: int = 1) -> None:
    """Row for row, in order; comparisons, skipped ones, and the estimate of what is in them."""
    engine, twin = tg.JoinEngine(case.spec), NaiveCpuJoin(case.spec, nanoseconds)
    ordered = "inverted" not in case.spec.index_kinds and case.spec.index != "auto"
    for push in case.pushes:
        ours = list(results_of(engine.push(push.tables, watermark=push.watermark), case.spec))
        rows = {name: part.to_pylist() for name, part in push.tables.items()}
        theirs = twin.push(rows, watermark=push.watermark)
        assert ours == theirs if ordered else sorted(ours) == sorted(theirs)
    stats = engine.stats()
    for name, value in twin.stats().items():
        assert stats.get(name, 0) == value, name


@pytest.mark.nojit
@predicates
@settings(max_examples=MANY)
@given(data=st.data())
def test_engine_equals_twin(predicate: str, data: st.DataObject) -> None:
    check_equal_to_twin(data.draw(cases(predicate)))


@pytest.mark.nojit
@predicates
@settings(max_examples=SOME)
@given(data=st.data())
def test_engine_equals_twin_out_of_order(predicate: str, data: st.DataObject) -> None:
    check_equal_to_twin(data.draw(cases(predicate, lateness=4)))


@pytest.mark.nojit
@pytest.mark.parametrize("places", [1, throttle_arrays.MOST_PLACES])
@settings(max_examples=SOME)
@given(data=st.data())
def test_a_watermark_far_behind(places: int, data: st.DataObject) -> None:
    """As on Spark: tuples outlive their windows, whether the ring has a place for each or not."""
    case = data.draw(cases(data.draw(st.sampled_from(sorted(PREDICATES))), lateness=4))
    behind = data.draw(st.integers(0, 60))
    pushes = []
    for push in case.pushes:
        times = [t for part in push.tables.values() for t in part["t"].to_pylist()]
        pushes.append(Push(push.tables, min(times, default=0) - behind))
    with mock.patch.object(throttle_arrays, "MOST_PLACES", places):
        check_equal_to_twin(Case(case.spec, tuple(pushes)))


@pytest.mark.nojit
@settings(max_examples=SOME)
@given(data=st.data())
def test_fuel_that_comes_with_pushes(data: st.DataObject) -> None:
    """Under keep_up each push may bring its own fuel; a snapshot keeps the latest."""
    case = data.draw(cases("scanned equality"))
    assert case.spec.cpu is not None
    cpu = dataclasses.replace(case.spec.cpu, comparisons_per_second=None, keep_up=True)
    spec = case.spec.replace(cpu=cpu)
    engine, twin = tg.JoinEngine(spec), NaiveCpuJoin(spec)
    for push in case.pushes:
        fuel = data.draw(st.sampled_from([None, 0.0, 1.0, 20.0]))
        if fuel is not None:
            twin.set_fuel(fuel)
        ours = list(results_of(engine.push(push.tables, fuel=fuel), spec))
        assert ours == twin.push({n: part.to_pylist() for n, part in push.tables.items()})
        engine = tg.JoinEngine.restore(engine.snapshot())
    for name, value in twin.stats().items():
        assert engine.stats().get(name, 0) == value, name


def test_fuel_of_a_push_is_checked() -> None:
    engine = tg.JoinEngine(tg.JoinSpec(on="k", time="t", within=5, cpu=tg.Cpu(keep_up=True)))
    with pytest.raises(tg.TidegateError, match="fuel -1 is not a number of comparisons"):
        engine.push({}, fuel=-1)
    other = tg.JoinEngine(tg.JoinSpec(on="k", time="t", within=5, cpu=tg.Cpu(3)))
    with pytest.raises(tg.TidegateError, match="does not take it from its pushes"):
        other.push({}, fuel=1)


def test_a_share_of_a_core(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Measured once, kept, read back; what is of another CPU or damaged is measured again."""
    monkeypatch.setattr(core_speed, "cache_folder", lambda: tmp_path)
    measured = []
    monkeypatch.setattr(core_speed, "measure", lambda kind: measured.append(kind) or 1000.0)
    spec = tg.JoinSpec(on="k", time="t", within=5, cpu=tg.Cpu(share_of_core=0.25))

    def rate() -> float | None:
        core_speed.comparisons_per_second.cache_clear()
        return tg.JoinEngine(spec)._fuel

    assert rate() == rate() == 250.0
    assert measured == ["hash"]
    for text in ("{", '{"cpu": "another", "comparisons": {"hash": 4}}', "[]"):
        (tmp_path / core_speed.FILE).write_text(text)
        assert rate() == 250.0
    assert len(measured) == 4
    blob = tg.JoinEngine(spec).snapshot()
    monkeypatch.setattr(core_speed, "measure", lambda kind: 7.0)
    (tmp_path / core_speed.FILE).unlink()
    core_speed.comparisons_per_second.cache_clear()
    assert tg.JoinEngine.restore(blob)._fuel == 250.0
    core_speed.comparisons_per_second.cache_clear()


@pytest.mark.parametrize("kind", ["nested-loop", "hash", "inverted"])
def test_the_speed_of_a_core_is_measured(kind: str) -> None:
    assert 1e4 < core_speed.measure(kind) < 1e12


@pytest.mark.nojit
@pytest.mark.parametrize("policy", ["recent", "simp", "until-expiry"])
@settings(max_examples=MANY)
@given(data=st.data())
def test_both_budgets_at_once(policy: str, data: st.DataObject) -> None:
    memory, split = data.draw(st.sampled_from([(4, "shared"), (15, "even"), (40, "shared")]))
    predicate = data.draw(st.sampled_from(sorted(PREDICATES)))
    options = {"memory": memory, "split": split, "policy": policy}
    check_equal_to_twin(data.draw(cases(predicate, **options)))


@pytest.mark.nojit
@predicates
@settings(max_examples=SOME)
@given(data=st.data())
def test_cuts_and_snapshots_change_nothing(predicate: str, data: st.DataObject) -> None:
    options = data.draw(st.sampled_from([{}, {"memory": 20, "policy": "value"}]))
    case = data.draw(cases(predicate, **options))
    check_cuts(case)
    check_snapshot(case, data.draw(st.integers(0, len(case.pushes) - 1)))


@pytest.mark.nojit
@predicates
@settings(max_examples=SOME)
@given(data=st.data())
def test_enough_fuel_is_the_exact_join(predicate: str, data: st.DataObject) -> None:
    case = data.draw(cases(predicate))
    ample = replay(case.with_spec(cpu=tg.Cpu(10**9)))
    # A band without a CPU budget has a tree, whose candidates come in another order.
    index = "nested-loop" if predicate == "band" else case.spec.index
    exact = replay(case.with_spec(cpu=None, index=index))
    assert ample.pushes == exact.pushes
    assert ample.stats["skipped_comparisons"] == ample.stats["skipped_results_estimate"] == 0
    assert "skipped_results_estimate" not in replay(case.with_spec(cpu=tg.Cpu(1, sample=0))).stats
    limited = replay(case)
    assert set(limited.results) <= set(exact.results)
    assert len(set(limited.results)) == len(limited.results)


@pytest.mark.nojit
@predicates
@settings(max_examples=SOME)
@given(data=st.data())
def test_fuel_is_kept(predicate: str, data: st.DataObject) -> None:
    """After each tuple: comparisons <= fuel granted so far + one basic window."""
    case = data.draw(cases(predicate))
    engine = tg.JoinEngine(case.spec)
    rows = case.whole()
    moments = sorted({t for part in rows.values() for t in part["t"].to_pylist()})
    for push in cut(rows, moments[:-1]):
        engine.push(push.tables)
        throttle = engine._state.throttle
        assert throttle is not None
        tank = throttle.tank[0]
        if tank.begun:
            granted = tank.rate * (tank.now - moments[0]) + tank.most
            most = max(part.num_rows for part in rows.values())  # of one basic window
            most *= 3 if "inverted" in case.spec.index_kinds else 1
            assert engine.stats()["comparisons"] <= granted + most
            assert tank.fuel <= tank.most


def test_a_budget_in_bytes_holds_the_cpu_budget_too() -> None:
    cpu = tg.Cpu(20, adapt_every=4, basic_window=5)
    spec = tg.JoinSpec(on="k", time="t", within=300, memory="200 kB", policy="recent", cpu=cpu)
    engine = tg.JoinEngine(spec)
    for begin in range(5):
        tables = {name: table(name, begin, 400, 40) for name in spec.streams}
        engine.push(
            {
                name: rows.set_column(0, "t", pa.compute.add(rows["t"], 40 * begin))
                for name, rows in tables.items()
            }
        )
        assert engine.stats()["memory_bytes"] <= 200_000
    stats = engine.stats()
    assert stats["evicted"] > 0
    assert stats["skipped_comparisons"] > 0


def test_timestamps() -> None:
    random = np.random.default_rng(5)
    tables = {}
    for name in ("left", "right"):
        when = np.sort(random.integers(0, 60_000_000, 400)).astype("datetime64[us]")
        tables[name] = pa.table(
            {"t": when, "k": random.integers(0, 5, 400), f"row_{name}": np.arange(400)}
        )
    cpu = tg.Cpu(50, adapt_every="2 s", basic_window="700 ms")
    spec = tg.JoinSpec(on="k", index="nested-loop", time="t", within="8 seconds", cpu=cpu)
    check_equal_to_twin(Case(spec, (Push(tables),)), nanoseconds=1000)
    assert tg.join(tables, spec).stats["skipped_comparisons"] > 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ties": "instant"}, "CPU budgets need ties='arrival'"),
        ({"within": tg.rows(5)}, "a window is a number of rows"),
        ({"index": "btree"}, "is a btree, which cannot be read for a part of the window"),
        ({"cpu": tg.Cpu(1, basic_window=1), "within": 5000}, "into 5,001 parts"),
    ],
)
def test_what_a_cpu_budget_cannot_do_is_refused(options: dict[str, Any], said: str) -> None:
    spec = tg.JoinSpec(**{"on": "k", "time": "t", "within": 10, "cpu": tg.Cpu(1), **options})
    with pytest.raises(tg.TidegateError, match=said):
        tg.JoinEngine(spec)
