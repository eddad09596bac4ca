"""The engine joins n streams as the twins of `naive_many` do.

Law: every result of nested loops over n windows once, and nothing else, for all kinds of windows,
ties, lateness and watermarks; however a probe goes, however the input is cut, across snapshots, and
in pieces of any size. Results that are only counted are as many and worth as much.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from many_cases import ManyCase, many_case, names_of
from many_runs import Feeder, Found, engine_of, found_in, replayed
from naive_many import ManyJoin, Push, definition
from tries import examples

import tidegate as tg
from tidegate.columns.encoding import KeyCoder
from tidegate.driver import in_order_many
from tidegate.engine import results

SEEDS = st.integers(0, 2**32)
STREAMS = st.integers(2, 5)
TIES = ("arrival", "instant")


def exact_case(seed: int, streams: int, **options: Any) -> ManyCase:
    return many_case(seed, streams, rows=9 - streams, **options)


def expected_of(case: ManyCase) -> Counter[Any]:
    return Counter((r.rows, r.importance) for r in definition(case.spec, case.pushes))


def check_against_twin(case: ManyCase, engine: tg.JoinEngine, found: Found) -> None:
    twin = ManyJoin(case.spec)
    expected = [(r.rows, r.importance) for push in case.pushes for r in twin.push(*push)]
    assert Counter(found) == Counter(expected)
    stats = engine.stats()
    for name, number in twin.stats().items():
        assert stats[name] == pytest.approx(number), name


@pytest.mark.nojit
@pytest.mark.parametrize("ties", TIES)
@settings(deadline=None, max_examples=examples(1))
@given(seed=SEEDS, streams=STREAMS)
def test_the_engine_equals_nested_loops(ties: Any, seed: int, streams: int) -> None:
    case = exact_case(seed, streams, ties=ties)
    engine, found = replayed(case)
    assert Counter(found) == expected_of(case)
    check_against_twin(case, engine, found)


@pytest.mark.nojit
@settings(deadline=None, max_examples=examples(1 / 2))
@given(seed=SEEDS, streams=st.integers(3, 5), cut=st.booleans())
def test_the_loop_for_streams_in_order(seed: int, streams: int, cut: bool) -> None:
    """Time windows, nothing late but what came before the clock; one key, so that all meet."""
    within = {name: 1 + (seed >> at) % 5 for at, name in enumerate(names_of(streams))}
    case = exact_case(seed, streams, ties="arrival", lateness=0, within=within)
    pushes = [Push(push.tables) for push in case.pushes]
    case = ManyCase(case.spec, tuple(map(one_key, pushes) if cut else pushes))
    engine, found = replayed(case)
    assert in_order_many.serves(engine._state)
    check_against_twin(case, engine, found)


@pytest.mark.nojit
@settings(deadline=None, max_examples=60)
@given(seed=SEEDS, streams=st.integers(3, 4), at=st.integers(0, 3), moment=st.integers(0, 9))
def test_a_watermark_ends_the_loop_for_streams_in_order(
    seed: int, streams: int, at: int, moment: int
) -> None:
    """From then on tuples may leave in another order, so the index is of the other kind."""
    case = exact_case(seed, streams, ties="arrival", lateness=0, within=4)
    pushes = [Push(push.tables) for push in case.pushes]
    at = min(at, len(pushes) - 1)
    pushes[at] = Push(pushes[at].tables, moment)
    case = ManyCase(case.spec, tuple(pushes))
    engine, found = replayed(case)
    assert not in_order_many.serves(engine._state)
    check_against_twin(case, engine, found)


@pytest.mark.nojit
@settings(deadline=None, max_examples=40)
@given(seed=SEEDS, streams=st.integers(2, 4), before=st.integers(0, 12))
def test_the_numbers_of_tuples_start_again(seed: int, streams: int, before: int) -> None:
    """They have 31 bits; results do not notice."""
    case = exact_case(seed, streams, ties="arrival", lateness=0, within=3)
    case = ManyCase(case.spec, tuple(Push(push.tables) for push in case.pushes))
    _, expected = replayed(case)
    engine = engine_of(case.spec)
    engine._state.lanes.taken = 2**31 - before
    _, found = replayed(case, engine)
    assert found == expected


def one_key(push: Push) -> Push:
    keys = {"k0": 1.0, "k1": 1.0}
    tables = {name: [row | keys for row in rows] for name, rows in push.tables.items()}
    return Push(tables, push.watermark)


@pytest.mark.parametrize("ties", TIES)
@settings(deadline=None, max_examples=examples(1 / 3))
@given(seed=SEEDS, streams=st.integers(3, 4))
def test_with_one_key_everybody_meets(ties: Any, seed: int, streams: int) -> None:
    case = exact_case(seed, streams, ties=ties)
    case = ManyCase(case.spec, tuple(map(one_key, case.pushes)))
    engine, found = replayed(case)
    check_against_twin(case, engine, found)


@pytest.mark.parametrize("streams", [6, 9, 16])
def test_many_streams(streams: int) -> None:
    total = 0
    for seed in range(10):
        case = many_case(seed, streams, rows=2, within=6, ties=TIES[seed % 2])
        case = ManyCase(case.spec, tuple(map(one_key, case.pushes)))
        engine, found = replayed(case)
        check_against_twin(case, engine, found)
        total += len(found)
    assert total > 20


@settings(deadline=None, max_examples=examples(1 / 2))
@given(seed=SEEDS, streams=st.integers(3, 5), data=st.data())
def test_every_way_of_probing_gives_the_same_rows(
    seed: int, streams: int, data: st.DataObject
) -> None:
    case = exact_case(seed, streams)
    order = data.draw(st.permutations(case.spec.streams))
    _, looked_first = replayed(case)
    for probe in ("selectivity", order):
        _, found = replayed(case, engine_of(case.spec, probe))
        assert found == looked_first


def test_a_probe_stops_where_nobody_can_be_met() -> None:
    """s2 has nobody: looking first compares nothing, a walk in order compares those of s1."""
    spec = tg.JoinSpec(on="k", time="ts", within=99, streams=names_of(3))
    tables = {"s1": pa.table({"ts": range(50), "k": [1] * 50}), "s2": None}
    tables["s3"] = pa.table({"ts": range(50, 100), "k": [1] * 50})
    counted = []
    for probe in ("auto", names_of(3), ("s2", "s1", "s3"), "selectivity"):
        engine = tg.JoinEngine(spec, probe=probe)
        engine.push(tables)
        counted.append(engine.stats()["comparisons"])
    assert counted == [0, 50 * 50, 0, 0]


@settings(deadline=None, max_examples=examples(1 / 2))
@given(seed=SEEDS, streams=STREAMS, data=st.data())
def test_snapshots_change_nothing(seed: int, streams: int, data: st.DataObject) -> None:
    case = exact_case(seed, streams)
    whole, expected = replayed(case)
    engine = engine_of(case.spec)
    feeder = Feeder(case.spec)
    found: Found = []
    for push in case.pushes:
        table = engine.push(feeder.tables(push), watermark=push.watermark)
        found += found_in(case.spec, table)
        if data.draw(st.booleans()):
            engine = tg.JoinEngine.restore(engine.snapshot())
    assert found == expected
    ours, theirs = engine.stats(), whole.stats()
    for stats in (ours, theirs):
        for name in ("memory_bytes", "memory_bytes_peak"):
            del stats[name]
    assert ours == theirs


@settings(deadline=None, max_examples=examples(1 / 2))
@given(seed=SEEDS, streams=STREAMS, cuts=st.lists(st.integers(0, 12), max_size=4))
def test_cuts_between_times_change_nothing(seed: int, streams: int, cuts: list[int]) -> None:
    case = exact_case(seed, streams, lateness=0)
    names = case.spec.streams
    rows = {name: [r for p in case.pushes for r in p.tables.get(name, [])] for name in names}
    for name in names:
        rows[name].sort(key=lambda row: -1 if row["ts"] is None else row["ts"])
    whole = ManyCase(case.spec, (Push(rows),))
    bounds = [-10, *sorted(cuts), 100]
    pieces = [
        Push({n: [r for r in rows[n] if low <= (-1 if r["ts"] is None else r["ts"]) < high]
              for n in names})
        for low, high in itertools.pairwise(bounds)
    ]  # fmt: skip
    _, expected = replayed(whole)
    _, found = replayed(ManyCase(case.spec, tuple(pieces)))
    assert found == expected


@pytest.mark.parametrize("room", [1, 2, 7])
@pytest.mark.parametrize("ties", TIES)
def test_results_of_one_arrival_in_many_pieces(
    room: int, ties: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(30):
        case = exact_case(seed, 3 + seed % 2, ties=ties)
        case = ManyCase(case.spec, tuple(map(one_key, case.pushes)))
        whole, expected = replayed(case)
        with monkeypatch.context() as patched:
            patched.setattr(results, "OUTPUT_ROOM", room)
            engine = engine_of(case.spec)
            feeder = Feeder(case.spec)
            found: Found = []
            for push in case.pushes:
                pieces = engine.results(feeder.tables(push), watermark=push.watermark)
                for piece in pieces:
                    assert piece.num_rows <= room
                    found += found_in(case.spec, piece)
        assert found == expected
        assert engine.stats()["rows_out"] == whole.stats()["rows_out"]
        assert engine.stats()["importance_out"] == pytest.approx(whole.stats()["importance_out"])


@pytest.mark.parametrize("kind", ["min", "max", "sum", "product", "mean"])
@pytest.mark.parametrize("ties", TIES)
def test_results_are_only_counted(kind: Any, ties: Any) -> None:
    for seed in range(40):
        case = exact_case(
            seed, 3 + seed % 2, ties=ties, importance="weight", output_importance=kind
        )
        case = ManyCase(case.spec, tuple(map(one_key, case.pushes)))
        whole, expected = replayed(case)
        engine = engine_of(case.spec)
        engine._state.gate[0].only_counts = 1
        _, found = replayed(case, engine)
        assert not found
        assert engine.stats()["rows_out"] == len(expected)
        assert engine.stats()["importance_out"] == pytest.approx(whole.stats()["importance_out"])


def dense(streams: int, rows: int) -> dict[str, pa.Table]:
    """One key, `rows` tuples in each window."""
    return {name: pa.table({"ts": range(rows), "k": [1] * rows}) for name in names_of(streams)}


def test_results_are_counted_without_enumeration() -> None:
    """10^10 results of one key: nobody enumerates these."""
    spec = tg.JoinSpec(on="k", time="ts", within=10_000, streams=names_of(5))
    tables = dense(5, 100)
    engine = tg.JoinEngine(spec, {name: table.schema for name, table in tables.items()})
    engine._state.gate[0].only_counts = 1
    assert engine.push(tables).num_rows == 0
    assert engine.stats()["rows_out"] == 100**5


def test_more_results_than_memory_come_piece_by_piece() -> None:
    """A thousand tuples of one key in each of five windows have 10^15 results."""
    spec = tg.JoinSpec(on="k", time="ts", within=10_000, streams=names_of(5))
    engine = tg.JoinEngine(spec)
    pieces = engine.results(dense(5, 1000))
    assert [next(pieces).num_rows for _ in range(3)] == [results.OUTPUT_ROOM] * 3


def test_hashed_keys_are_verified_on_all_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """All keys get one code; only the third stream tells that they differ."""
    original = KeyCoder.encode

    def with_one_code(coder: KeyCoder, columns: Any) -> Any:
        codes, good = original(coder, columns)
        return codes * 0, good

    monkeypatch.setattr(KeyCoder, "encode", with_one_code)
    engine = tg.JoinEngine(tg.JoinSpec(on="k", time="ts", within=5, streams=names_of(3)))
    keys = {"s1": "a", "s2": "a", "s3": "b"}
    tables = {name: pa.table({"ts": [1], "k": [key]}) for name, key in keys.items()}
    assert engine.push(tables).num_rows == 0
    assert engine.stats()["rows_out"] == 0
    assert engine.push({"s3": pa.table({"ts": [2], "k": ["a"]})}).num_rows == 1


def test_chains_are_empty_when_windows_are() -> None:
    """A bit of BiHT falls when the last tuple of its bucket leaves."""
    for ties in TIES:
        case = exact_case(5, 4, ties=ties, within=3, lateness=0)
        engine, _ = replayed(case)
        engine.push({}, watermark=99)
        assert engine.stats()["alive"] == 0
        assert (engine._state.buckets == -1).all()
