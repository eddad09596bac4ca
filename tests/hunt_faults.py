"""Faults that the hunt tries: calls that are interrupted, state that is damaged, bad input.

Law: what a case does follows from its random generator alone. Each ends as if nothing had happened,
or in one sentence.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import contracts
import crafted
import interrupts
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import strategies
from hunt_joins import POLICIES, drawn

import tidegate as tg

Known = tuple[interrupts.Scenario, list[interrupts.Moment], interrupts.Expected]


def _known_of(scenario: interrupts.Scenario) -> Known:
    """A scenario, the moments of its push, and what comes of it."""
    return scenario, interrupts.push_moments(scenario), interrupts.undisturbed(scenario)


@cache
def _known(name: str) -> Known:
    return _known_of(interrupts.SCENARIOS[name])


def _scenario(random: Random) -> Known:
    """Pushes that make arrays grow, or any small join."""
    if random.random() < 0.3:
        return _known(random.choice(sorted(interrupts.SCENARIOS)))
    rule = random.choice(sorted(strategies.RULES))
    case = drawn(random, strategies.cases(rule, budget=random.random() < 0.5))
    at = random.randrange(len(case.pushes))
    pushes = case.pushes
    return _known_of(interrupts.Scenario(case.spec, pushes[:at], pushes[at], pushes[at + 1 :]))


def interrupt(random: Random) -> None:
    """An exception at any moment of a push."""
    scenario, moments, expected = _scenario(random)
    stop = random.choice((KeyboardInterrupt, MemoryError, RuntimeError))
    moment = random.choice(moments)

    def call(engine: tg.JoinEngine) -> Any:
        return interrupts.pushed(engine, scenario.push)

    engine = interrupts.prepared(scenario)
    interrupts.interrupted(scenario, engine, call, moment, stop, expected)


def thread(random: Random) -> None:
    """A second thread at any moment of a push."""
    scenario, moments, expected = _known(random.choice(sorted(interrupts.SCENARIOS)))
    call = interrupts.CALLS[random.choice(sorted(interrupts.CALLS))]
    moment = random.choice(moments)
    interrupts.entered(scenario, interrupts.prepared(scenario), moment, call, expected)


def restarts(random: Random) -> None:
    """Micro-batches of a bucket on Spark: tasks that die, workers that are gone."""
    import test_state as bucket

    spec = random.choice((bucket.EXACT, bucket.BUDGET, bucket.COUNTS))
    if spec is bucket.BUDGET:
        name = random.choice(POLICIES)
        spec = spec.replace(policy=crafted.POLICIES[name], memory=random.randrange(5, 60))
    for limit in ("SMALLEST_LOG_BYTES", "PIECE_BYTES", "EXACT_LOG_BYTES"):
        setattr(bucket.bucket_store, limit, random.choice((500, 2_000, 10_000)))
    batches = bucket.batches_of(random.randrange(10**6), 8)
    plan = bucket.plan_of(spec, batches[0][0])
    plan = replace(plan, clocked=all(window.kind != "rows" for window in spec.windows))
    engine = tg.JoinEngine(bucket.bucket_spec(spec, 0, 1), plan.schemas)
    cells, watermark = bucket.Cells(), 0
    bucket.exchange.residents = bucket.Residents()
    for number, tables in enumerate(batches):
        named = {spec.streams[stream]: table for stream, table in tables.items()}
        bound = watermark * 1000 + 1 if plan.clocked else None
        expected = engine.push(named, watermark=bound)
        if random.random() < 0.3:
            bucket.step(plan, copy.deepcopy(cells), tables, number)
        if random.random() < 0.3:
            bucket.exchange.residents = bucket.Residents()
        got = bucket.step(plan, cells, tables, number).results
        rows = bucket.lines(pa.concat_tables(got)) if got else []
        assert rows == bucket.lines(expected), "the results differ"
        watermark = (bucket.EPOCH + 20 * number - 5) * 1000


@cache
def _blob(scenario: str) -> bytes:
    return crafted.fed(scenario).snapshot()


def damaged(random: Random) -> None:
    """Bytes of a snapshot changed, cut off, inserted, repeated, swapped."""
    blob = bytearray(_blob(random.choice(sorted(crafted.SCENARIOS))))
    for _ in range(random.choice((1, 1, 2, 5))):
        begin = random.randrange(len(blob) + 1)
        end = min(len(blob), begin + random.choice((0, 1, 4, 64, 10**9)))
        kind = random.randrange(4)
        if kind == 0 and begin < len(blob):
            blob[begin] ^= 1 << random.randrange(8)
        elif kind == 1:
            del blob[begin:end]
        elif kind == 2:
            blob[begin:begin] = random.randbytes(random.choice((1, 8, 100)))
        else:
            blob[begin:begin] = blob[end : end + 50]
    if bytes(blob) in map(_blob, crafted.SCENARIOS):
        return
    try:
        tg.JoinEngine.restore(bytes(blob))
    except tg.TidegateError as error:
        _one_sentence(error)
    else:
        raise AssertionError("damage was not noticed")


def recrafted(random: Random) -> None:
    """Numbers of a snapshot changed, and the snapshot sealed again."""
    scenario = random.choice(sorted(crafted.SCENARIOS))
    change = random.choice(crafted.CHANGES)
    some = zip(range(random.randrange(1, 150)), change(_blob(scenario), random), strict=False)
    blobs = [blob for _, (_, blob) in some] or [_blob(scenario)]
    blob = blobs[-1]
    try:
        engine = tg.JoinEngine.restore(blob)
        for begin in (50, 75, 400):
            engine.push({"left": crafted.rows(begin, 1), "right": crafted.rows(begin, 2)})
        tg.JoinEngine.restore(engine.snapshot()).stats()
    except tg.TidegateError as error:
        _one_sentence(error)


def _one_sentence(error: Exception) -> None:
    text = str(error)
    assert text, "an error says nothing"
    assert "\n" not in text, f"an error has several lines: {text!r}"
    assert len(text) < 2000, f"an error has {len(text)} characters"


NONSENSE: tuple[Any, ...] = (
    None, 0, -1, 2**70, float("nan"), "text", b"bytes", [], [1], {}, {"t": 1}, object(),
    np.zeros(3), np.datetime64("NaT"), pa.table({}), pa.table({"t": [1]}), pa.array([1]),
    pl.DataFrame(), pl.Series([1]), pl.LazyFrame({"t": [1]}), pl.col("t"), pl.Int64, range(3), type,
    pd.Series([1]), pd.Index([1]), pd.DataFrame({1: [1]}), pd.Timestamp("2020"), lambda: None,
)  # fmt: skip
COLUMNS: tuple[Any, ...] = (
    [1, 2, 3], [1.5, None, float("nan")], ["a", "b", None], [None] * 3, [b"a", b"b", b"c"],
    [[1], [], None], [{"a": 1}, {"a": 2}, None], [2**63 - 1, -(2**63), 0], [True, False, None],
    np.array(["2024-01-01", "NaT", "2262-01-01"], "datetime64[ns]"),
    np.array([1, 2, 3], "timedelta64[s]"), pa.array([2**64 - 1, 0, 1], pa.uint64()),
    pa.array(["9" * 30, "1", None]).cast(pa.decimal128(38, 2)), pa.array([1, 2, 3], pa.float16()),
    pa.UnionArray.from_sparse(pa.array([0, 0, 0], pa.int8()), [pa.array([1, 2, 3])]),
    pa.array([0, 10**18, -(10**18)], pa.timestamp("us", "UTC")),
    pa.array([0, 2**62, -(2**62)], pa.timestamp("ms")), pa.nulls(3), pa.array([[], [1], [2]]),
)  # fmt: skip


def bad_input(random: Random) -> None:
    """Anything at all as columns, tables, watermarks; what is refused has changed nothing."""
    predicates: list[Any] = [
        "k", ["k", "x"], tg.band("x", -1, 1), tg.overlap("k", 1), tg.inner_product("x", 0.5),
        tg.theta(strategies.near, ["x"]), tg.band("k", "-1 s", "1 s"),
    ]  # fmt: skip
    try:
        spec = tg.JoinSpec(
            on=random.choice(predicates), time="t", within=random.choice((5, "5 s", tg.rows(3))),
            memory=random.choice((None, 3, "2 MB")), policy=random.choice(sorted(tg.policies())),
            importance=random.choice((None, "x")), ties=random.choice(("arrival", "instant")),
            bad_rows=random.choice(("count", "fail")),
        )  # fmt: skip
        engine = tg.JoinEngine(spec)
    except tg.TidegateError as error:
        _one_sentence(error)
        return
    for _ in range(random.randrange(1, 5)):
        before = interrupts.account(engine)
        try:
            if random.random() < 0.2:
                given = random.choice(
                    ({}, {"odd": pa.table({})}, {"left": _any(random)}, _any(random))
                )
                engine.push(given, watermark=_any(random))
            else:
                engine.push(_bad_tables(random), watermark=random.choice((None, None, 7)))
        except tg.TidegateError as error:
            _one_sentence(error)
            assert interrupts.account(engine) == before, "a refused push changed something"
        contracts.check_conservation(engine.stats(), spec.streams)
    restored = tg.JoinEngine.restore(engine.snapshot(), spec)
    assert interrupts.account(restored) == interrupts.account(engine), "the account differs"


def _any(random: Random) -> Any:
    return random.choice(NONSENSE)


def _bad_tables(random: Random) -> dict[str, Any]:
    tables: dict[str, Any] = {}
    for name in ("left", "right"):
        if random.random() < 0.1:
            tables[name] = _any(random)
        elif random.random() < 0.9:
            columns = {column: random.choice(COLUMNS) for column in ("t", "k", "x")}
            if random.random() < 0.7:
                columns["t"] = [1, 2, 3]
            tables[name] = pa.table(columns)
    return tables
