"""Joins that the hunt tries: random cases against their twins, in every way to give the same rows.

Law: what a case does follows from its random generator alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import contracts
import crafted
import pandas as pd
import polars as pl
import pyarrow as pa
import strategies
import test_column_types as kinds_of_columns
from contracts import Case
from hypothesis import HealthCheck, Phase, given, seed, settings
from many_cases import ManyCase, many_case, names_of
from many_runs import Feeder, check_victims, engine_of, found_in
from naive_many import Push, Shedding, definition
from naive_patterns import ArrivalOrder
from test_many_policies import POLICIES as MANY_POLICIES
from test_many_policies import planned

import tidegate as tg


def drawn(random: Random, strategy: Any) -> Any:
    """One value of a strategy; the first that hypothesis tries is always the simplest."""
    found: list[Any] = []

    @seed(random.randrange(2**32))
    @settings(
        max_examples=3, database=None, phases=[Phase.generate], deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(strategy)
    def take(value: Any) -> None:
        found.append(value)

    take()
    return found[-1]


# --- ways to give the same rows ----------------------------------------------------------


def chunked(table: pa.Table, random: Random) -> pa.Table:
    cuts = sorted(random.randrange(table.num_rows + 1) for _ in range(3))
    bounds = zip([0, *cuts], [*cuts, table.num_rows], strict=True)
    return pa.concat_tables([table.slice(begin, end - begin) for begin, end in bounds])


def sliced(table: pa.Table, random: Random) -> pa.Table:
    return pa.concat_tables([table.slice(0, 1), table, table]).slice(
        min(1, table.num_rows), table.num_rows
    )


def as_batch(table: pa.Table, random: Random) -> Any:
    return table.combine_chunks().to_batches()[0] if table.num_rows else table


CONTAINERS: tuple[Callable[[pa.Table, Random], Any], ...] = (
    lambda table, random: table,
    chunked,
    sliced,
    as_batch,
)


def in_polars(tables: Sequence[pa.Table]) -> Sequence[Any]:
    """As frames of polars, if it has all the types; dates in milliseconds would become times."""
    kinds = {kind for table in tables for kind in table.schema.types}
    if any(kind == pa.date64() or pa.types.is_decimal256(kind) for kind in kinds):
        return tables
    try:
        return [pl.from_arrow(table) for table in tables]
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, pa.ArrowException):
        return tables


def in_containers(case: Case, random: Random) -> Case:
    """The same rows; polars has types of its own, so it gets all tables of a stream."""
    whole = [dict(push.tables) for push in case.pushes]
    for name in case.spec.streams:
        holders = [tables for tables in whole if name in tables]
        given = [tables[name] for tables in holders]
        if random.random() < 0.2:
            given = list(in_polars(given))
        else:
            given = [random.choice(CONTAINERS)(table, random) for table in given]
        for tables, table in zip(holders, given, strict=True):
            tables[name] = table
    pairs = zip(case.pushes, whole, strict=True)
    return replace(case, pushes=tuple(replace(push, tables=tables) for push, tables in pairs))


def replayed(case: Case, random: Random) -> contracts.Outcome:
    """A replay that is snapshot and restored between some of its pushes."""
    engine = tg.JoinEngine(case.spec)
    found = []
    for push in case.pushes:
        table = engine.push(push.tables, watermark=push.watermark)
        found.append(contracts.results_of(table, case.spec))
        contracts.check_conservation(engine.stats(), case.spec.streams)
        if random.random() < 0.4:
            engine = tg.JoinEngine.restore(engine.snapshot(), case.spec)
    return contracts.Outcome(tuple(found), dict(engine.stats()))


# --- kinds of cases ----------------------------------------------------------------------


def exact(random: Random) -> None:
    """Any predicate, window, order of ties and lateness, against the naive twin."""
    rule = random.choice(sorted(strategies.RULES))
    case = drawn(random, strategies.cases(rule))
    _against_twin(case, random)


def shedding(random: Random) -> None:
    """The policies that the naive twin follows victim by victim."""
    rule = random.choice(sorted(strategies.RULES))
    _against_twin(drawn(random, strategies.cases(rule, budget=True)), random)


def many(random: Random) -> None:
    """Two to five streams, exact or under a budget, with snapshots; victim by victim."""
    streams = random.randint(2, 5)
    rows = {2: 30, 3: 12, 4: 6, 5: 4}[streams]
    seed_, limited = random.randrange(2**32), random.random() < 0.7
    case = many_case(seed_, streams, rows=rows, budget=limited)
    twin: Shedding | None = None
    if limited and random.random() < 0.3:
        fade = random.choice((None, 2, 5, 1024))
        case = ManyCase(case.spec.replace(policy=tg.arrival_order(fade=fade)), case.pushes)
        twin = ArrivalOrder(streams, fade)
    elif limited:
        case, twin = planned(case, random.choice(sorted(MANY_POLICIES)))
    check_victims(case, twin, random if random.random() < 0.5 else None)


def many_exact(random: Random) -> None:
    """Nested loops over two to five windows, however a probe goes; half of them all in order."""
    streams = random.randint(2, 5)
    rows = {2: 30, 3: 12, 4: 6, 5: 4}[streams]
    options: dict[str, Any] = {}
    ordered = random.random() < 0.5
    if ordered:
        within = {name: random.randint(0, 6) for name in names_of(streams)}
        options = {"ties": "arrival", "lateness": 0, "within": within}
    case = many_case(random.randrange(2**32), streams, rows=rows, **options)
    if ordered:
        case = ManyCase(case.spec, tuple(Push(push.tables) for push in case.pushes))
    expected = Counter((r.rows, r.importance) for r in definition(case.spec, case.pushes))
    shuffled = random.sample(case.spec.streams, streams)
    for probe in ("auto", "selectivity", shuffled):
        engine, feeder, found = engine_of(case.spec, probe), Feeder(case.spec), []
        for push in case.pushes:
            table = engine.push(feeder.tables(push), watermark=push.watermark)
            found += found_in(case.spec, table)
            if random.random() < 0.2:
                engine = tg.JoinEngine.restore(engine.snapshot())
        assert Counter(found) == expected, f"results differ from nested loops, probe {probe}"
        alive = engine.stats()["alive"]
        engine.push({}, watermark=10**6)
        gone = all(window.kind != "rows" for window in case.spec.windows)
        left = engine.stats()["alive"]
        assert left == 0 if gone else left <= alive, "windows are not empty"
        assert not gone or (engine._state.buckets < 0).all(), "a bit did not fall"


def _against_twin(case: Case, random: Random) -> None:
    ours, theirs = replayed(in_containers(case, random), random), contracts.replay_naive(case)
    for found, expected in zip(ours.pushes, theirs.pushes, strict=True):
        assert Counter(found) == Counter(expected), "the results differ"
    for name, value in theirs.stats.items():
        assert ours.stats.get(name, 0) == value, f"{name} differs"


POLICIES = [name for name in crafted.POLICIES if name not in ("given", "curve")]


def budgets(random: Random) -> None:
    """Every policy: budget, subset, conservation, cuts, snapshots and repetition."""
    ordered = random.random() < 0.5
    rule = random.choice(("equality", "several_keys", "numeric_band", "overlap"))
    case = drawn(random, strategies.cases(rule, ordered=ordered))
    memory: Any = random.randrange(8)
    split: Any = random.choice(("even", "shared", "auto"))
    if random.random() < 0.3:
        memory = "2 MB"
    case = case.with_spec(
        memory=memory, split=split, policy=crafted.POLICIES[random.choice(POLICIES)],
        seed=random.randrange(9),
    )  # fmt: skip
    if strategies.is_hopeless(case.spec):
        return
    given = in_containers(case, random)
    outcome = replayed(given, random)
    again = replayed(case, random)
    assert (outcome.pushes, outcome.account) == (again.pushes, again.account), "not repeatable"
    contracts.check_subset(case)
    if ordered:
        contracts.check_cuts(case)
    if memory != "2 MB":
        contracts.check_budget(case)
    else:
        most = tg.JoinEngine(case.spec).spec.memory_bytes
        assert most is not None
        assert outcome.stats["memory_bytes"] <= most, "the budget is broken"


def columns(random: Random) -> None:
    """Payload of any type in any container, in pushes whose categories grow."""
    if random.random() < 0.3:
        _frames(random)
        return
    kind = random.choice(list(kinds_of_columns.PLAIN))
    values = kinds_of_columns.PLAIN[kind]
    wrapped = kinds_of_columns._wrapped(kind, values)
    form = random.choice(sorted(wrapped))
    payload = wrapped[form]
    count = random.randrange(1, 12)
    picks = [random.randrange(3) for _ in range(count)]
    times: list[int | None] = [random.choice((1, 2, None)) for _ in range(count)]
    pieces = [payload.slice(pick, 1) for pick in picks]
    table = pa.table(
        {
            "t": pa.array(times, pa.int64()),
            "k": range(count),
            "p": pa.chunked_array(pieces, type=payload.type),
        }
    )
    memory = random.choice((None, 20, "2 MB"))
    spec = tg.JoinSpec(on="k", time="t", within=9, memory=memory, policy="recent", lateness=9)
    cut = random.randrange(count + 1)
    parts = [table.slice(0, cut), table.slice(cut)]
    if not pa.types.is_run_end_encoded(payload.type):
        parts = [random.choice(CONTAINERS[:2])(part, random) for part in parts]
    engine = tg.JoinEngine(spec)
    for part in parts:
        engine.push({"left": part})
        if random.random() < 0.5:
            engine = tg.JoinEngine.restore(engine.snapshot())
    other = {"t": [3] * count, "k": range(count)}
    out = engine.push({"right": pa.table(other)})
    expected = {n: payload[pick].as_py() for n, pick in enumerate(picks) if times[n] is not None}
    got = dict(zip(out["k"].to_pylist(), out["p"].to_pylist(), strict=True))
    assert got == expected, f"{form} of {kind}: {got} instead of {expected}"
    contracts.check_conservation(engine.stats(), spec.streams)


def _frames(random: Random) -> None:
    """Frames of pandas and polars, the key a category that grows."""
    pool = random.choice((kinds_of_columns.POLARS, kinds_of_columns.PANDAS))
    name = random.choice(sorted(pool))
    texts = [random.choice("abcdefgh") for _ in range(6)]
    engine = tg.JoinEngine(tg.JoinSpec(on="c", time="t", within=100))
    joined = 0
    for begin in (0, 3):
        keys = texts[begin : begin + 3]
        if pool is kinds_of_columns.POLARS:
            frame: Any = pl.DataFrame({"t": [begin] * 3, "p": pool[name]})
            frame = frame.with_columns(pl.Series("c", keys, dtype=pl.Categorical))
        else:
            frame = pd.DataFrame({"t": [begin] * 3, "p": pool[name]})
            frame["c"] = pd.Categorical(keys)
        joined += engine.push({"left": frame}).num_rows
        if random.random() < 0.5:
            engine = tg.JoinEngine.restore(engine.snapshot())
    distinct = sorted(set(texts))
    out = engine.push({"right": pa.table({"t": [5] * len(distinct), "c": distinct})})
    assert joined + out.num_rows == len(texts), "rows are lost"
    assert sorted(map(str, out["c"].to_pylist())) == sorted(texts), "keys are lost"
