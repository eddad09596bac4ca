"""A hunt for what breaks: random cases of every kind, each in a process that it may take with it.

    python -m tests.hunt --cases 1000 --seed 7          # a table by kind in the end
    python -m tests.hunt --cases 1000 --kind many       # cases of one kind only
    python -m tests.hunt --seed 7 --only 123            # case 123 again, with its traceback

The law: a case ends in results that agree with the naive twin or keep the contracts, or in one
sentence of `TidegateError`. Another error, a crash, or a case that does not end is a finding. What
a case does follows from the seed and its number alone.
"""

from __future__ import annotations

import argparse
import copy
import json
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from queue import Empty, Queue
from random import Random
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "spark")]

import contracts  # noqa: E402
import crafted  # noqa: E402
import interrupts  # noqa: E402
import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
import polars as pl  # noqa: E402
import pyarrow as pa  # noqa: E402
import strategies  # noqa: E402
import test_column_types as kinds_of_columns  # noqa: E402
from contracts import Case  # noqa: E402
from hypothesis import HealthCheck, Phase, given, seed, settings  # noqa: E402
from many_cases import ManyCase, many_case, names_of  # noqa: E402
from many_runs import Feeder, check_victims, engine_of, found_in  # noqa: E402
from naive_many import Push, Shedding, definition  # noqa: E402
from naive_patterns import ArrivalOrder  # noqa: E402
from test_many_policies import POLICIES as MANY_POLICIES  # noqa: E402
from test_many_policies import planned  # noqa: E402

import tidegate as tg  # noqa: E402

# A hang is told from a slow machine by patience: a case that compiles took 200 s on a busy one.
SECONDS_PER_CASE = 600
CASES_PER_PROCESS = 300


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


KINDS: dict[str, Callable[[Random], None]] = {
    kind.__name__: kind
    for kind in (
        exact,
        shedding,
        many,
        many_exact,
        budgets,
        columns,
        bad_input,
        damaged,
        recrafted,
        interrupt,
        thread,
        restarts,
    )
}


# --- running -----------------------------------------------------------------------------


def kind_of(number: int) -> str:
    return list(KINDS)[number % len(KINDS)]


def run(seed_: int, number: int) -> None:
    KINDS[kind_of(number)](Random(f"{seed_}:{number}"))


def number_of(case: int, kind: str | None) -> int:
    """The number by which a case can be run again: all are numbered through, or those of a kind."""
    return case if kind is None else case * len(KINDS) + list(KINDS).index(kind)


def child(seed_: int, begin: int, end: int, kind: str | None) -> None:
    """Run cases and say what became of each, line by line."""
    for case in range(begin, end):
        number = number_of(case, kind)
        print(json.dumps([case, "begins"]), flush=True)
        try:
            run(seed_, number)
            said = "passed"
        except BaseException as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            text = str(error).splitlines() or [""]
            place = f"{Path(last.filename).name}:{last.lineno}"
            said = f"{type(error).__name__}: {text[0][:300]} ({place})"
        print(json.dumps([case, said]), flush=True)


@dataclass
class Hunt:
    """The cases so far, and what was found."""

    seed: int
    kind: str | None = None  # of all cases, if it is only one
    cases: Counter[str] = field(default_factory=Counter)
    findings: list[tuple[int, str, str]] = field(default_factory=list)

    def run(self, begin: int, end: int, told: Callable[[], None]) -> None:
        """Run cases in child processes; after a crash or a hang the next one goes on."""
        while begin < end:
            begin = self._run_some(begin, min(end, begin + CASES_PER_PROCESS), told)

    def _run_some(self, begin: int, end: int, told: Callable[[], None]) -> int:
        words = ["--child", str(begin), str(end), "--seed", str(self.seed)]
        words += [] if self.kind is None else ["--kind", self.kind]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.hunt", *words], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, cwd=ROOT,
        )  # fmt: skip
        number = begin
        for number, said in _answers(process):
            if said == "begins":
                continue
            self._note(number, said)
            told()
            begin = number + 1
        if begin < end:  # it ended, or was ended, inside a case
            code = process.wait()
            self._note(begin, f"the process ended with {code}")
            begin += 1
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
        return begin

    def _note(self, case: int, said: str) -> None:
        number = number_of(case, self.kind)
        self.cases[kind_of(number)] += 1
        if said != "passed":
            self.findings.append((number, kind_of(number), said))

    def table(self) -> str:
        found = Counter(kind for _, kind, _ in self.findings)
        rows = [(kind, self.cases[kind], found[kind]) for kind in KINDS if self.cases[kind]]
        rows.append(("all", self.cases.total(), len(self.findings)))
        lines = [f"{'kind':<12}{'cases':>8}{'findings':>10}"]
        lines += [f"{kind:<12}{cases:>8}{number:>10}" for kind, cases, number in rows]
        again = f"python -m tests.hunt --seed {self.seed} --only"
        lines += [f"{again} {number}  # {kind}: {said}" for number, kind, said in self.findings]
        return "\n".join(lines)


def _answers(process: subprocess.Popen[str]) -> Iterator[tuple[int, str]]:
    """What a child says; it is ended if it says nothing for too long."""
    lines: Queue[str] = Queue()
    assert process.stdout is not None
    stdout = process.stdout

    def read() -> None:
        for line in stdout:
            lines.put(line)
        lines.put("")

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=SECONDS_PER_CASE)
        except Empty:
            process.kill()
            return
        if not line:
            return
        number, said = json.loads(line)
        yield number, said


def hunt(seed_: int, cases: int, is_told: bool = False, kind: str | None = None) -> Hunt:
    found = Hunt(seed_, kind)
    last = [time.monotonic()]

    def told() -> None:
        if is_told and time.monotonic() - last[0] > 2:
            last[0] = time.monotonic()
            done = found.cases.total()
            line = f"seed {seed_}: {done} of {cases} cases, {len(found.findings)} findings"
            print(line, file=sys.stderr, flush=True)

    found.run(0, cases, told)
    return found


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=list(KINDS), help="cases of this kind only")
    parser.add_argument("--only", type=int, help="the number of one case, run in this process")
    parser.add_argument("--child", type=int, nargs=2, help=argparse.SUPPRESS)
    given_ = parser.parse_args(words)
    if given_.only is not None:
        run(given_.seed, given_.only)
        return 0
    if given_.child is not None:
        child(given_.seed, *given_.child, given_.kind)
        return 0
    found = hunt(given_.seed, given_.cases, is_told=True, kind=given_.kind)
    print(found.table())
    return int(bool(found.findings))


if __name__ == "__main__":
    sys.exit(main())
