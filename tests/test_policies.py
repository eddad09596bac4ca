"""Every policy names the victims that its slow twin names.

Law: after each push, what the engine retains is what the twin of `naive_policies` retains, row by
row; so is every result and the account of all rows. Pushes hold a few tuples, so this is nearly
victim by victim. Weights and decays are powers of two: no rounding, hence no excuse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise, zip_longest
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from contracts import Case, Push, results_of, tuple_by_tuple
from hypothesis import assume, currently_in_test_context, given, settings
from hypothesis import strategies as st
from naive_policies import ShedJoin
from naive_value import ValueJoin, twin_of
from naive_watched import WatchedJoin
from strategies import LARGER, SMALL, cases
from tries import examples

import tidegate as tg
from tidegate.engine import snapshot
from tidegate.estimators import match_rate
from tidegate.shed import shadows

MANY, FEW = examples(1 / 2), examples(1 / 20)

DYADIC = {"decay": 0.5, "gain": 0.25}
POLICIES: dict[str, list[Any]] = {
    "recent": ["recent"],
    "until-expiry": ["until-expiry"],
    "simp": ["simp"],
    "prob": ["prob", tg.prob(statistics="retained")],
    "output": ["output"],
    "simpprob": ["simpprob", tg.simpprob(statistics="retained")],
    "dimpprob": ["dimpprob", tg.dimpprob(statistics="retained")],
    "dgl": [tg.dgl(**DYADIC), tg.dgl(**DYADIC, statistics="retained"), tg.dgl(decay=1.0, gain=2.0)],
    "additive": [
        tg.priority("additive", alpha=2.0, beta=0.5, delta=1.0),
        tg.priority("additive", beta=3.0, statistics="retained"),
    ],
    "multiplicative": [
        tg.priority("multiplicative"),
        tg.priority("multiplicative", alpha=2.0, beta=1.0, delta=1.0),
        tg.priority("multiplicative", alpha=0.0, beta=2.0, statistics="retained"),
    ],
    "random": ["random"],
    "age": ["age"],
    "value": ["value"],
    "cumulative": [tg.priority("cumulative", alpha=2.0, beta=0.5, delta=0.25)],
}

every_policy = pytest.mark.parametrize("name", sorted(POLICIES))


def retained(engine: tg.JoinEngine) -> dict[str, list[int]]:
    """The rows that an engine retains, by their numbers."""
    saved = snapshot.load(engine.snapshot(), engine.spec)
    return {
        name: sorted(table.column(f"row_{name}").to_pylist())
        for name, table in zip(saved.schemas, saved.tables, strict=True)
    }


def nanoseconds_per_unit(schemas: dict[str, pa.Schema]) -> int:
    """Times are integers as they are, nanoseconds if some column has them, else microseconds."""
    kinds = [schema.field("ts").type for schema in schemas.values()]
    fine = any(pa.types.is_integer(kind) or getattr(kind, "unit", "") == "ns" for kind in kinds)
    return 1 if fine else 1000


def beyond_signed(case: Case, schemas: dict[str, pa.Schema]) -> bool:
    """Does an unsigned number above 2**63 - 1 stand beside a signed column? To the engine it can
    match nothing, as NULL; the twins see no types and take it for a key that never came."""
    names = [name for schema in schemas.values() for name in schema.names if name.startswith("k")]
    for name in set(names):
        kinds = {schema.field(name).type for schema in schemas.values() if name in schema.names}
        if pa.uint64() in kinds and len(kinds) > 1:
            tables = [table for push in case.pushes for table in push.tables.values()]
            for table in tables:
                if table.schema.field(name).type == pa.uint64():
                    if any(v is not None and v >= 2**63 for v in table[name].to_pylist()):
                        return True
    return False


def check_victims(case: Case, budgets: Sequence[int] = ()) -> ShedJoin:
    """Engine and twin agree after each push; returns the twin. `budgets` are those that the first
    pushes are followed by."""
    # A stream whose columns show up late may change the codes of keys; counts of keys that have no
    # retained tuple are lost then, which the twins do not follow.
    schemas = {name: table.schema for push in case.pushes for name, table in push.tables.items()}
    if currently_in_test_context():
        assume(not beyond_signed(case, schemas))
    engine = tg.JoinEngine(case.spec, schemas)
    twin = twin_of(case.spec, nanoseconds_per_unit(schemas))
    for push, budget in zip_longest(case.pushes, budgets[: len(case.pushes)]):
        table = engine.push(push.tables, watermark=push.watermark)
        rows = {name: part.to_pylist() for name, part in push.tables.items()}
        expected = twin.push(rows, watermark=push.watermark)
        if budget is not None:
            engine.resize(budget)
            twin.resize(budget)
            assert engine.stats()["memory_rows"] <= budget == engine.spec.memory
        kept = {
            name: sorted(a.row for a in twin.alive_of(stream))
            for stream, name in enumerate(case.spec.streams)
        }
        ours = retained(engine)
        assert ours == {name: kept[name] for name in ours}
        assert Counter(results_of(table, case.spec)) == Counter(expected)
    stats = engine.stats()
    for name, number in twin.stats().items():
        assert stats.get(name, 0) == number, name
    return twin


@st.composite
def shed_cases(draw: st.DrawFn, policy: Any, shape: Any = SMALL) -> Case:
    rule = draw(st.sampled_from(("equality", "equality", "several_keys", "numeric_band", "theta")))
    case = draw(cases(rule, shape=shape))
    memory = draw(st.integers(0, 8 if shape is SMALL else 60))
    split: Any = draw(st.sampled_from(("even", "shared", "auto", "explicit")))
    if split == "explicit":
        first = draw(st.integers(0, memory))
        split = {"left": first, "right": memory - first}
    return case.with_spec(memory=memory, split=split, policy=policy, seed=draw(st.integers(0, 3)))


@pytest.mark.nojit
@every_policy
@settings(max_examples=MANY)
@given(data=st.data())
def test_fast_equals_slow(name: str, data: st.DataObject) -> None:
    case = data.draw(shed_cases(data.draw(st.sampled_from(POLICIES[name]))))
    check_victims(case)


@every_policy
@settings(max_examples=FEW)
@given(data=st.data())
def test_fast_equals_slow_tuple_by_tuple(name: str, data: st.DataObject) -> None:
    case = data.draw(shed_cases(data.draw(st.sampled_from(POLICIES[name]))))
    if case.spec.ties == "arrival":
        case = tuple_by_tuple(case)
    check_victims(case)


@every_policy
@settings(max_examples=FEW)
@given(data=st.data())
def test_fast_equals_slow_on_longer_streams(name: str, data: st.DataObject) -> None:
    case = data.draw(shed_cases(data.draw(st.sampled_from(POLICIES[name])), LARGER))
    if data.draw(st.booleans()):
        case = case.with_spec(within=15 if isinstance(case.spec.within, int) else case.spec.within)
    check_victims(case)


WINDOWS: list[Any] = [
    40, {"left": 60, "right": 20}, tg.rows(30), {"left": tg.rows(20), "right": 50}
]  # fmt: skip


KEYLESS = tg.band("k", -1, 2)


def recurring(number: int, policy: str, unit: int = 1, on: Any = "k", coarse: int = 1) -> Case:
    """Two keys in three come back soon, at ages that differ between the streams; all that come in
    `coarse` units come at once."""
    random, tables = Random(number), {}
    for name, lag in (("left", 3), ("right", 12)):
        times = sorted(random.randint(0, 400) for _ in range(350))
        keys = [(t // lag) % 12 if random.random() < 0.7 else random.randint(20, 60) for t in times]
        tables[name] = pa.table(
            {
                f"row_{name}": range(len(times)),
                "ts": [unit * (time // coarse * coarse) for time in times],
                "k": keys,
                "w": [random.choice((0.25, 1.0, 4.0)) for _ in times],
            }
        )
    spec = tg.JoinSpec(
        on=on,
        time="ts", within=40 * unit if unit > 1 else WINDOWS[number], memory=40,
        policy=policy, importance="w",
        split=("auto", "shared", "even", "auto")[number],
        output_importance=("min", "mean", "max", "product")[number],
        ties=("arrival", "instant")[number % 2],
        # Partners are met in order of arrival, as by the twin: what is learned of one of them is
        # known when the next is scored.
        index="nested-loop" if on is KEYLESS else "auto",
    )  # fmt: skip
    cuts = [0, 90, 91, 200, 350]
    pushes = [{n: t.slice(a, b - a) for n, t in tables.items()} for a, b in pairwise(cuts)]
    return Case(spec, tuple(Push(push) for push in pushes))


@pytest.mark.parametrize("policy", ["age", "value"])
@pytest.mark.parametrize("number", range(len(WINDOWS)))
def test_what_is_learned_over_many_windows_names_the_same_victims(number: int, policy: str) -> None:
    twin = check_victims(recurring(number, policy))
    assert isinstance(twin, WatchedJoin)
    assert twin.lessons > 1


@pytest.mark.parametrize("on", [["k", tg.band("w", -10, 10)], KEYLESS], ids=["key", "keyless"])
@pytest.mark.parametrize("number", range(len(WINDOWS)))
def test_value_knows_tuples_by_whom_they_met_where_more_than_keys_is_compared(
    number: int, on: Any
) -> None:
    twin = check_victims(recurring(number, "value", on=on))
    assert isinstance(twin, ValueJoin)
    assert twin.lessons > 1
    assert twin.counts["evicted", 0] > 0
    assert any(rates.promised[-1] > 0.0 for rates in twin.rates)


@pytest.mark.parametrize("on", [["k", tg.band("w", -10, 10)], KEYLESS], ids=["key", "keyless"])
@pytest.mark.parametrize(("number", "unit"), [(0, 1), (0, 2**22), (2, 1)])
def test_value_learns_from_a_sample_of_its_tuples(
    number: int, unit: int, on: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a hash does not decide who meets: one slot in four, and all monitors; long times are
    kept in coarse units."""
    monkeypatch.setattr(match_rate, "STUDIED", 10)
    twin = check_victims(recurring(number, "value", unit, on))
    assert isinstance(twin, ValueJoin)
    assert twin.lessons > 1
    assert (twin.every, twin.unit) == (4, 8 if unit > 1 else 1)
    left = sum(twin.counts[why, stream] for why in ("evicted", "expired") for stream in (0, 1))
    assert 0 < len(twin.exposed) < len(twin.slots) + left


@pytest.mark.parametrize("on", ["k", ["k", tg.band("w", -10, 10)]], ids=["key", "band"])
@pytest.mark.parametrize("number", range(len(WINDOWS)))
def test_value_spreads_what_comes_in_one_instant(number: int, on: Any) -> None:
    twin = check_victims(recurring(number, "value", on=on, coarse=10))
    assert isinstance(twin, ValueJoin)
    assert twin.lessons > 1
    assert twin.together > 1 or twin.clock_of is None


@pytest.mark.parametrize("number", range(len(WINDOWS)))
def test_value_drops_shadows_when_there_are_too_many(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadows, "MOST", 12)
    monkeypatch.setattr(shadows, "FEWEST", 12)
    twin = check_victims(recurring(number, "value"))
    assert isinstance(twin, ValueJoin)
    assert twin.lessons > 1
    assert max(twin.shadow_every) > 1


CURVES = ([1, 1, 2, 1], [3, 0, 2], [4, 2, 1], [0, 0, 5, 1, 0, 7], [1, 1, 1], [0])


@pytest.mark.nojit
@settings(max_examples=MANY)
@given(data=st.data())
def test_age_equals_its_twin_on_given_curves(data: st.DataObject) -> None:
    curve = data.draw(st.sampled_from(CURVES))
    policy = tg.age(curve=curve, bucket=data.draw(st.integers(1, 3)))
    ticks = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=40))
    sides = data.draw(st.lists(st.booleans(), min_size=len(ticks), max_size=len(ticks)))
    times = [sum(ticks[: i + 1]) for i in range(len(ticks))]
    tables = {}
    for name, side in (("left", False), ("right", True)):
        own = [t for t, s in zip(times, sides, strict=True) if s == side]
        columns = {f"row_{name}": range(len(own)), "ts": own, "k": [t % 2 for t in own]}
        tables[name] = pa.table({k: pa.array(list(v), pa.int64()) for k, v in columns.items()})
    window = data.draw(st.sampled_from((3, 6, tg.rows(4))))
    spec = tg.JoinSpec(
        on="k", time="ts", within=window, memory=data.draw(st.integers(0, 6)), policy=policy,
        split=data.draw(st.sampled_from(("even", "shared", "auto"))),
        ties=data.draw(st.sampled_from(("arrival", "instant"))),
    )  # fmt: skip
    check_victims(Case(spec, (Push(tables),)))


def one_sided(curve: list[float], memory: int, within: int, arrivals: int) -> list[list[int]]:
    """What AGE retains after each arrival of one tuple per unit on the left, by time."""
    spec = tg.JoinSpec(
        on="k", time="ts", within=within, memory=memory, split={"left": memory, "right": 0},
        policy=tg.age(curve=curve, bucket=1),
    )  # fmt: skip
    engine = tg.JoinEngine(spec)
    kept = []
    for time in range(1, arrivals + 1):
        engine.push({"left": pa.table({"row_left": [time], "ts": [time], "k": [0]})})
        kept.append(retained(engine)["left"])
    return kept


@pytest.mark.nojit
def test_example_3_3_of_srivastava2004() -> None:
    # One cell: s1 for three units, then s4, then s7. Two cells are staggered.
    assert one_sided([1, 1, 2, 1], 1, 4, 8) == [[1], [1], [1], [4], [4], [4], [7], [7]]
    two = one_sided([1, 1, 2, 1], 2, 4, 8)
    assert two == [[1], [1, 2], [1, 2], [2, 4], [4, 5], [4, 5], [5, 7], [7, 8]]


@pytest.mark.nojit
def test_example_3_4_of_srivastava2004() -> None:
    # A curve with a minimum: tuples stay for 1 and 3 units by turns, which gives 4 per unit.
    kept = one_sided([3, 0, 2], 2, 3, 8)
    assert kept == [[1], [1, 2], [1, 3], [3, 4], [3, 5], [5, 6], [5, 7], [7, 8]]


@pytest.mark.nojit
def test_given_frequencies_are_taken_at_their_word() -> None:
    shares = {"left": {7: 0.9, 8: 0.1}, "right": {7: 0.2, 8: 0.8}}
    left = pa.table({"row_left": range(6), "ts": range(6), "k": [7, 8, 9, 8, 7, 8]})
    right = pa.table({"row_right": range(3), "ts": [6, 7, 8], "k": [7, 8, 9]})
    spec = tg.JoinSpec(
        on="k", time="ts", within=100, memory=4, split="even", policy=tg.prob(frequencies=shares)
    )
    assert tg.JoinSpec.from_json(spec.to_json()) == spec
    engine = tg.JoinEngine(spec)
    table = engine.push({"left": left, "right": right})
    assert sorted(table.column("row_left").to_pylist()) == [3, 5]
    assert retained(engine) == {"left": [3, 5], "right": [0, 1]}


@pytest.mark.parametrize("ties", ["arrival", "instant"])
def test_a_long_decay_is_written_down_before_it_overflows(ties: Any) -> None:
    """700 quarterings are far beyond what a float can hold as one scale."""
    rows = 700
    left = {"row_left": range(rows), "ts": range(rows), "k": [i % 7 for i in range(rows)]}
    right = {"row_right": range(rows), "ts": range(rows), "k": [i % 5 for i in range(rows)]}
    spec = tg.JoinSpec(
        on="k",
        time="ts",
        within=12,
        memory=8,
        split="even",
        ties=ties,
        policy=tg.dgl(decay=0.25, gain=0.25),
    )
    check_victims(Case(spec, (Push({"left": pa.table(left), "right": pa.table(right)}),)))


def test_replay_is_the_same_after_a_snapshot_under_every_statistic() -> None:
    rows = 400
    for policy in ("value", tg.prob(statistics="faded"), tg.dgl(statistics="faded"), "output"):
        tables = {
            name: pa.table(
                {
                    f"row_{name}": range(rows),
                    "ts": range(rows),
                    "k": [(i * i + seed) % 23 for i in range(rows)],
                    "w": [1.0 + (i * 7 + seed) % 11 for i in range(rows)],
                }
            )
            for name, seed in (("left", 1), ("right", 5))
        }
        spec = tg.JoinSpec(
            on="k", time="ts", within=30, memory=16, split="even", policy=policy, importance="w"
        )
        whole = tg.join(tables, spec)
        engine = tg.JoinEngine(spec)
        parts = []
        for begin in range(0, rows, 57):
            parts.append(engine.push({n: t.slice(begin, 57) for n, t in tables.items()}))
            engine = tg.JoinEngine.restore(engine.snapshot())
        assert pa.concat_tables(parts).equals(whole.table)


def test_a_lower_basis_that_came_while_the_key_was_worth_more() -> None:
    """The first of a group changes while its entry says less than the key is worth; when the worth
    is back at what the entry says, the new first must be queued."""
    spec = tg.JoinSpec(
        on="k", time="t", within={"left": 100, "right": 2}, memory=6, split=[3, 3],
        policy="dimpprob", importance="w",
    )  # fmt: skip
    rows = [
        ("left", 0, "Z", 1.0),
        ("left", 0, "K", 5.0),
        ("left", 0, "L", 3.0),
        ("left", 1, "Y", 4.0),  # Z goes; the others stand in the queue as worth nothing
        ("right", 2, "K", 1.0),  # K is worth more until 4
        ("left", 3, "K", 2.0),  # L goes
        ("left", 10, "M", 9.0),  # of K, K and Y, none of which has a match, the second goes
        *(("right", 11, key, 1.0) for key in "KYM"),
    ]
    tables = {
        name: pa.Table.from_pylist([{"t": t, "k": k, "w": w} for n, t, k, w in rows if n == name])
        for name in ("left", "right")
    }
    found = tg.join(tables, spec).table.to_pylist()
    assert [(r["k"], r["w"]) for r in found if r["t_right"] == 11] == [
        ("K", 5.0), ("Y", 4.0), ("M", 9.0)
    ]  # fmt: skip
