"""Small random cases for the window join: a spec, and the pushes that feed it.

The law: a case is small enough to be read when it fails and made so that edges are common. There
are few distinct times and keys, so ties, duplicates and boundaries of windows occur in nearly
every case. Each row is drawn as a few small integers that pick from pools of values, so that
hypothesis shrinks a case towards few rows with the first values of the pools.

Rows carry their number in the column `row_<stream>`: the position in which their stream sends
them, over all pushes.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from contracts import Case, Push
from hypothesis import strategies as st
from numba.core import config as numba_config
from pools import (
    EQUALITY,
    FLOATS,
    INNER_PRODUCT,
    OVERLAP,
    SIGNED_INTEGERS,
    TEMPORAL,
    THETA,
    UNSIGNED_INTEGERS,
    WEIGHTS,
    Pools,
    column_of,
)

import tidegate as tg
from tidegate.engine.sample_checks import check_sample

STREAMS = ("left", "right")

# Policies with types of the driver of their own. Compiled, they are tried with the one type that is
# ready (`engine.warm`); all others as plain Python, which takes less time than compiling them.
RARE_POLICIES = frozenset({"arrival-order", "eq-cluster", "pps-cluster", "uniform"})
COMPILED = not numba_config.DISABLE_JIT
only_plain = pytest.mark.skipif(COMPILED, reason="plain Python is quicker than compiling its types")


def with_marks(policies: Iterable[str]) -> list[Any]:
    """Policies as parameters of a test; those of rare types run as plain Python too."""
    nojit = pytest.mark.nojit
    return [pytest.param(p, marks=nojit) if p in RARE_POLICIES else p for p in policies]


def plain_if_rare(policies: Iterable[str]) -> list[Any]:
    """The same where types of rare policies are not compiled: those run as plain Python only."""
    marks = [pytest.mark.nojit, only_plain]
    return [pytest.param(p, marks=marks) if p in RARE_POLICIES else p for p in policies]


def is_hopeless(spec: tg.JoinSpec) -> bool:
    """Is it a sample that has no memory for some results? Such joins are refused."""
    try:
        check_sample(spec)
    except tg.TidegateError:
        return True
    return False


@st.composite
def cases_for(draw: st.DrawFn, policy: str, ordered: bool = False) -> Case:
    """A case of any rule, or of those for which the driver of a policy is compiled."""
    ready = COMPILED and policy in RARE_POLICIES
    names = ["equality", "several_keys"] if ready else sorted(RULES)
    case = draw(cases(draw(st.sampled_from(names)), ordered=ordered))
    return case.with_spec(index="hash", ties="arrival") if ready else case


# --- time --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Timeline:
    """How ticks 0, 1, 2, ... become values of the streams' time columns, and durations."""

    types: tuple[pa.DataType, ...]
    start: int  # of tick 0: plain, or in ticks since 1970
    nanoseconds: int | None  # per tick; None for integer times

    def column(self, stream: int, ticks: Sequence[int | None]) -> pa.Array:
        kind = self.types[stream]
        if self.nanoseconds is None:
            beyond = 2**63 - 1 if kind in (pa.int64(), pa.uint64()) else None
            values = [beyond if t == BEYOND else t if t is None else self.start + t for t in ticks]
            return pa.array(values, kind)
        unit = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}.get(getattr(kind, "unit", ""), 1)
        values = [
            None if t is None or t == BEYOND else (self.start + t) * self.nanoseconds for t in ticks
        ]
        if pa.types.is_date(kind):
            instants = pa.array([v if v is None else v // 10**9 for v in values], pa.int64())
            return instants.cast(pa.timestamp("s")).cast(kind)
        return pa.array([v if v is None else v // unit for v in values], pa.int64()).cast(kind)

    def instant(self, tick: int) -> int | datetime.datetime:
        """The tick as a caller would write a watermark."""
        if self.nanoseconds is None:
            return self.start + tick
        zoned = getattr(self.types[0], "tz", None) is not None
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc if zoned else None)
        microseconds = (self.start + tick) * self.nanoseconds // 1000
        return epoch + datetime.timedelta(microseconds=microseconds)

    def duration(self, ticks: int, as_text: bool = False, half: bool = False) -> Any:
        """That many ticks as a window or a bound of a band; `half` adds half a tick."""
        if self.nanoseconds is None:
            return ticks
        microseconds = max(1, self.nanoseconds // 1000)
        total = ticks * microseconds + (microseconds // 2 if half else 0)
        return f"{total} us" if as_text else datetime.timedelta(microseconds=total)


@st.composite
def timelines(draw: st.DrawFn) -> Timeline:
    kind = draw(st.sampled_from(("integer", "integer", "second", "zoned", "micro", "nano", "date")))
    if kind == "integer":
        one = st.sampled_from((pa.int64(), pa.int32(), pa.int8(), pa.uint16(), pa.uint64()))
        return Timeline((draw(one), draw(one)), draw(st.sampled_from((0, 100))), None)
    if kind == "date":
        one = st.sampled_from((pa.date32(), pa.date64()))
        start = draw(st.sampled_from((0, -4, 19_000)))
        return Timeline((draw(one), draw(one)), start, 86_400 * 10**9)
    units = {"micro": ("us", "ns"), "nano": ("ns",)}.get(kind, ("us", "s", "ms", "ns"))
    # 1698541195 s is five seconds before Berlin leaves summer time: local hours repeat.
    zones = ("UTC", "Europe/Berlin", "+05:30") if kind == "zoned" else (None,)
    one = st.builds(pa.timestamp, st.sampled_from(units), st.sampled_from(zones))
    start = draw(st.sampled_from((0, -4, 1_698_541_195)))
    nanoseconds = {"micro": 1000, "nano": 500}.get(kind, 10**9)
    return Timeline((draw(one), draw(one)), start, nanoseconds)


def windows(draw: st.DrawFn, timeline: Timeline) -> Any:
    """One window for all or one each: ticks, durations, counts, zero."""

    def one() -> Any:
        kind = draw(st.integers(0, 5))
        if kind == 0:
            return tg.rows(draw(st.integers(0, 4)))
        return timeline.duration(draw(st.integers(0, 4)), as_text=kind < 3, half=kind == 3)

    return one() if draw(st.booleans()) else {name: one() for name in STREAMS}


# --- predicates --------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """A predicate, the columns it needs on each stream, and the indexes that serve it."""

    on: Any
    columns: dict[str, Pools]  # besides the time column
    indexes: tuple[str, ...]


Rules = Callable[[st.DrawFn, Timeline, str], Rule]


def equality(draw: st.DrawFn, timeline: Timeline, name: str) -> Rule:
    domain = draw(st.sampled_from(EQUALITY))
    return Rule(name, {name: domain}, ("hash", "btree", "ttree"))


def numeric_band(draw: st.DrawFn, timeline: Timeline, name: str) -> Rule:
    domain = draw(st.sampled_from([SIGNED_INTEGERS, UNSIGNED_INTEGERS, FLOATS]))
    steps = (-0.1, 0.0, 0.1, 0.2, 1.5) if domain is FLOATS else (-2, -1, 0, 1, 2)
    low, high = sorted(draw(st.tuples(st.sampled_from(steps), st.sampled_from(steps))))
    return Rule(tg.band(name, low, high), {name: domain}, ("btree", "ttree"))


def time_band(draw: st.DrawFn, timeline: Timeline, name: str) -> Rule:
    low, high = sorted(draw(st.tuples(st.integers(-3, 3), st.integers(-3, 3))))
    text = draw(st.booleans())
    bounds = timeline.duration(low, text), timeline.duration(high, text)
    return Rule(tg.band("ts", *bounds), {}, ("btree", "ttree"))


def timestamp_band(draw: st.DrawFn, timeline: Timeline, name: str) -> Rule:
    low, high = sorted(draw(st.tuples(st.integers(-3, 3), st.integers(-3, 3))))
    bounds = f"{low} seconds", datetime.timedelta(seconds=high)
    return Rule(tg.band(name, *bounds), {name: draw(st.sampled_from(TEMPORAL))}, ("btree", "ttree"))


def overlap(draw: st.DrawFn, timeline: Timeline, name: str) -> Rule:
    domain = draw(st.sampled_from(OVERLAP))
    return Rule(tg.overlap(name, draw(st.integers(1, 3))), {name: domain}, ("inverted",))


def inner_product(draw: st.DrawFn, timeline: Timeline, name: str) -> Rule:
    domain = draw(st.sampled_from(INNER_PRODUCT))
    at_least = draw(st.sampled_from((0.5, 1, 2.25, 0, -0.5)))
    indexes = ("inverted",) if at_least > 0 else ()
    return Rule(tg.inner_product(name, at_least), {name: domain}, indexes)


def near(left_x: Any, right_x: Any) -> Any:
    return abs(left_x - right_x) <= 1


def crossed(left_x: Any, left_y: Any, right_x: Any, right_y: Any) -> Any:
    return left_x + right_y < left_y * 2 - right_x


def theta(draw: st.DrawFn, timeline: Timeline, name: str) -> Rule:
    if draw(st.booleans()):
        return Rule(tg.theta(near, [name]), {name: draw(st.sampled_from(THETA))}, ())
    other = f"{name}_other"
    columns: dict[str, Pools] = {n: draw(st.sampled_from(THETA)) for n in (name, other)}
    return Rule(tg.theta(crossed, [name, other]), columns, ())


SINGLE_RULES: dict[str, Rules] = {
    "equality": equality,
    "numeric_band": numeric_band,
    "time_band": time_band,
    "timestamp_band": timestamp_band,
    "overlap": overlap,
    "inner_product": inner_product,
    "theta": theta,
}


def several_keys(draw: st.DrawFn, timeline: Timeline, name: str) -> Rule:
    rules = [equality(draw, timeline, f"{name}{i}") for i in range(draw(st.integers(2, 3)))]
    # Two values a column, or keys of several columns would hardly ever be equal.
    columns = {
        name: {kind: pool[:2] for kind, pool in kinds.items()}
        for rule in rules
        for name, kinds in rule.columns.items()
    }
    return Rule([rule.on for rule in rules], columns, rules[0].indexes)


def conjunction(draw: st.DrawFn, timeline: Timeline, name: str) -> Rule:
    kinds = draw(
        st.lists(st.sampled_from(sorted(SINGLE_RULES)), min_size=2, max_size=3, unique=True)
    )
    rules = [SINGLE_RULES[kind](draw, timeline, f"{name}{i}") for i, kind in enumerate(kinds)]
    columns = {key: domain for rule in rules for key, domain in rule.columns.items()}
    indexes = sorted({index for rule in rules for index in rule.indexes})
    return Rule([rule.on for rule in rules], columns, tuple(indexes))


RULES: dict[str, Rules] = {**SINGLE_RULES, "several_keys": several_keys, "conjunction": conjunction}


def budgets(draw: st.DrawFn) -> dict[str, Any]:
    """A memory, a split and a policy the naive twin can follow victim by victim."""
    policy = draw(st.sampled_from(("recent", "until-expiry", "simp")))
    split = draw(st.sampled_from(("even", "shared", "explicit")))
    memory = draw(st.integers(0, 7))
    if split == "explicit":
        first = draw(st.integers(0, memory))
        shares = {"left": first, "right": memory - first}
        return {"memory": memory, "policy": policy, "split": shares}
    return {"memory": memory, "policy": policy, "split": split}


# --- cases -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """How many rows, over how many ticks: small cases shrink, larger ones make arrays grow."""

    rows: int = 14
    ticks: int = 7
    drawn: bool = True  # row by row; otherwise from one seed


SMALL, LARGER = Shape(), Shape(rows=300, ticks=20, drawn=False)
BEYOND = -1  # stands for a time out of range


@st.composite
def cases(
    draw: st.DrawFn, rule: str, budget: bool = False, ordered: bool = False, shape: Shape = SMALL
) -> Case:
    """A case for one rule; `ordered` cuts a time-ordered input only between two times."""
    timeline = draw(timelines())
    chosen = RULES[rule](draw, timeline, "k")
    disorder = not ordered and draw(st.booleans())
    importance = draw(st.sampled_from((None, "weight")))
    indexes = st.sampled_from(("auto", "nested-loop", *chosen.indexes))
    spec = tg.JoinSpec(
        on=chosen.on,
        time="ts",
        within=windows(draw, timeline),
        importance=importance,
        output_importance=draw(st.sampled_from(("min", "max", "sum", "product", "mean"))),
        index={name: draw(indexes) for name in STREAMS},
        lateness=timeline.duration(draw(st.integers(0, 3))) if disorder else 0,
        ties=draw(st.sampled_from(("arrival", "instant"))),
        **(budgets(draw) if budget else {}),
    )
    pushes = draw(st.integers(1, 4))
    cuts = None
    if not disorder:
        cuts = sorted(draw(st.sets(st.integers(1, shape.ticks - 1), max_size=pushes - 1)))
    tables = [
        stream_tables(draw, stream, timeline, chosen, importance, shape, pushes, cuts)
        for stream in range(len(STREAMS))
    ]
    watermarks: list[Any] = [None] * pushes
    if not ordered and draw(st.integers(0, 3)) == 3:
        # They come with some pushes and not with others; one that would move back changes nothing.
        ticks = st.none() | st.integers(0, shape.ticks)
        marks = draw(st.lists(ticks, min_size=pushes, max_size=pushes))
        watermarks = [None if tick is None else timeline.instant(tick) for tick in marks]
    sent = [dict(zip(STREAMS, parts, strict=True)) for parts in zip(*tables, strict=True)]
    present = [{name: part for name, part in parts.items() if part is not None} for parts in sent]
    return Case(spec, tuple(Push(*push) for push in zip(present, watermarks, strict=True)))


Picks = tuple[int, ...]  # one small number for the tick, the push and each further column


def drawn_rows(draw: st.DrawFn, shape: Shape, columns: int) -> list[Picks]:
    if shape.drawn:
        one = st.binary(min_size=columns + 2, max_size=columns + 2)
        return [tuple(row) for row in draw(st.lists(one, max_size=shape.rows))]
    random = Random(draw(st.integers(0, 2**32)))
    return [tuple(random.randbytes(columns + 2)) for _ in range(random.randint(0, shape.rows))]


def stream_tables(
    draw: st.DrawFn,
    stream: int,
    timeline: Timeline,
    rule: Rule,
    importance: str | None,
    shape: Shape,
    pushes: int,
    cuts: list[int] | None,
) -> list[pa.Table | None]:
    """The stream's rows of every push: slices of one table, so offsets are not zero."""
    columns = rule.columns if importance is None else {**rule.columns, importance: WEIGHTS}
    # A stream may be silent at first: its types are not known before it has sent a table.
    silent = min(pushes - 1, draw(st.sampled_from((0, 0, 1, 2))))
    rows = []
    for tick, push, *picks in drawn_rows(draw, shape, len(columns)):
        time = {30: None, 31: BEYOND}.get(tick % 32, tick % 32 % shape.ticks)
        turn = max(silent, push % pushes)
        if cuts is not None:
            turn = sum(cut <= (time or 0) for cut in cuts)
        rows.append((turn, time, picks))
    rows.sort(key=lambda row: row[0])
    arrays = {f"row_{STREAMS[stream]}": pa.array(range(len(rows)), pa.int64())}
    arrays["ts"] = timeline.column(stream, [time for _, time, _ in rows])
    for position, (name, kinds) in enumerate(columns.items()):
        kind, pool = draw(st.sampled_from(sorted(kinds.items(), key=str)))
        arrays[name] = column_of(kind, pool, [picks[position] for _, _, picks in rows])
    table = pa.table(arrays)
    parts: list[pa.Table | None] = []
    for push in range(pushes):
        turns = [turn for turn, _, _ in rows]
        absent = push not in turns and draw(st.booleans())
        begin = sum(turn < push for turn in turns)
        parts.append(None if absent else table.slice(begin, turns.count(push)))
    return parts
