"""A spec is valid or refused with one sentence, equals what means the same, survives JSON."""

from __future__ import annotations

import copy
import inspect
import json
import logging
import math
import operator
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate
import tidegate.spec as spec_module
from tidegate.spec import (
    INDEX_KINDS,
    POLICY_NAMES,
    Band,
    Cpu,
    Equal,
    InnerProduct,
    JoinSpec,
    Overlap,
    Policy,
    Rows,
    SpecError,
    Theta,
    TidegateError,
    Window,
    band,
    index_serves,
    inner_product,
    overlap,
    policy,
    rows,
    theta,
)
from tidegate.spec.units import parse_bytes, parse_duration

REQUIRED: dict[str, Any] = {"on": "k", "time": "ts", "within": "10 minutes"}
MINUTE = 60_000_000


def make(**changes: Any) -> JoinSpec:
    return JoinSpec(**{**REQUIRED, **changes})


def closer(left_x: float, right_x: float) -> bool:
    return abs(left_x - right_x) < 1.0


# --- What the user wrote stays, the normal form stands beside it ---------------------------------


def test_defaults_are_those_of_the_design() -> None:
    spec = make()
    given = {field.name: getattr(spec, field.name) for field in fields(spec)}
    assert given == {
        **REQUIRED, "streams": ("left", "right"), "memory": None, "split": "auto",
        "policy": "auto", "importance": None, "output_importance": "min", "index": "auto",
        "cpu": None, "lateness": 0, "ties": "arrival", "bad_rows": "count", "seed": 0,
    }  # fmt: skip


def test_fields_keep_what_was_written() -> None:
    within = {"left": "600 s", "right": timedelta(minutes=5)}
    spec = make(within=within, memory="200 MB", index={"left": "hash", "right": "btree"})
    assert spec.within == within
    assert spec.memory == "200 MB"
    assert spec.index == {"left": "hash", "right": "btree"}


def test_normal_form_of_every_field() -> None:
    spec = make(
        on=["k", {"left": "a", "right": "b"}],
        time={"right": "r", "left": "l"},
        within={"right": "5 s", "left": "1 ms"},
        importance="weight",
        index={"left": "hash", "right": "nested-loop"},
        lateness="2 s",
        memory=100,
        split={"right": 70, "left": 30},
        policy="dgl",
    )
    assert spec.predicates == (Equal(("k", "k")), Equal(("a", "b")))
    assert spec.time_columns == ("l", "r")
    assert spec.windows == (Window("duration", 1_000), Window("duration", 5_000_000))
    assert spec.importance_columns == ("weight", "weight")
    assert spec.index_kinds == ("hash", "nested-loop")
    assert spec.lateness_window == Window("duration", 2_000_000)
    assert (spec.memory_rows, spec.memory_bytes) == (100, None)
    assert (spec.split_rows, spec.split_shares) == ((30, 70), None)
    assert spec.policy_choice == Policy("dgl")


def test_memory_is_none_tuples_or_bytes() -> None:
    assert (make().memory_rows, make().memory_bytes) == (None, None)
    assert (make(memory=0).memory_rows, make(memory=0).memory_bytes) == (0, None)
    spec = make(memory="1.5 MiB")
    assert (spec.memory_rows, spec.memory_bytes) == (None, 1_572_864)


def test_streams_may_be_many_and_a_list() -> None:
    spec = make(streams=["a", "b", "c"], within={"a": 1, "b": 0, "c": rows(7)})
    assert spec.streams == ("a", "b", "c")
    assert spec.predicates == (Equal(("k", "k", "k")),)
    assert spec.windows == (Window("integer", 1), Window("integer", 0), Window("rows", 7))


def test_zero_fits_durations_and_integers() -> None:
    assert make(within={"left": 0, "right": "1 s"}).windows[0] == Window("duration", 0)
    assert make(within=5, lateness=0) == make(within=5, lateness="0 s")
    assert make(within=0).windows == (Window("integer", 0),) * 2
    assert make(within="0 s").windows == (Window("duration", 0),) * 2


def test_count_windows_go_with_either_time() -> None:
    for other in (5, "5 s"):
        spec = make(within={"left": rows(3), "right": other}, lateness=other)
        assert spec.windows[0] == Window("rows", 3)
    assert rows(3) == Rows(3)


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        ("k", (Equal(("k", "k")),)),
        (["a", "b"], (Equal(("a", "a")), Equal(("b", "b")))),
        (
            {"left": ["a", "b"], "right": ["c", "d"]},
            (Equal(("a", "c")), Equal(("b", "d"))),
        ),
        (band("x", -1, 2.5), (Band(("x", "x"), -1, 2.5),)),
        (band({"left": "x", "right": "y"}, 0, math.inf), (Band(("x", "y"), 0, math.inf),)),
        (
            band("ts", "-5 min", 0),
            (Band(("ts", "ts"), timedelta(minutes=-5), timedelta(0)),),
        ),
        (
            band("ts", -math.inf, timedelta(seconds=1)),
            (Band(("ts", "ts"), -math.inf, timedelta(seconds=1)),),
        ),
        (overlap("tags", 3), (Overlap(("tags", "tags"), 3),)),
        (inner_product("vec", 0.8), (InnerProduct(("vec", "vec"), 0.8),)),
        (theta(closer, ["x"]), (Theta(closer, (("x",), ("x",))),)),
        (
            theta(closer, {"left": "x", "right": ["y", "z"]}),
            (Theta(closer, (("x",), ("y", "z"))),),
        ),
        (["k", band("x", 0, 0)], (Equal(("k", "k")), Band(("x", "x"), 0, 0))),
    ],
)
def test_predicates_are_resolved_to_the_streams(on: Any, expected: tuple[Any, ...]) -> None:
    assert make(on=on).predicates == expected


@pytest.mark.parametrize(
    ("split", "split_rows", "split_shares"),
    [
        ("even", None, None),
        ("shared", None, None),
        ((30, 60), (30, 60), None),
        ([1, 0], (1, 0), None),
        (50, (50, 50), None),
        ({"left": 0.25, "right": 0.75}, None, (0.25, 0.75)),
        ((0, 1.0), None, (0.0, 1.0)),
        (0.5, None, (0.5, 0.5)),
    ],
)
def test_split_is_a_name_tuples_or_shares(split: Any, split_rows: Any, split_shares: Any) -> None:
    spec = make(memory=100, split=split)
    assert (spec.split_rows, spec.split_shares) == (split_rows, split_shares)


def test_shares_that_miss_one_by_rounding_are_accepted() -> None:
    spec = make(streams=("a", "b", "c"), split=(0.1, 0.2, 0.7))
    assert spec.split_shares == (0.1, 0.2, 0.7)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.int64(7), 7),
        (pd.Timedelta("7 s"), timedelta(seconds=7)),
        (np.timedelta64(7, "s"), timedelta(seconds=7)),
    ],
)
def test_numpy_and_pandas_scalars_become_plain(value: Any, plain: Any) -> None:
    spec = make(within=value)
    assert spec.within == plain
    assert type(spec.within) is type(plain)
    assert spec == make(within=plain) == JoinSpec.from_json(spec.to_json())


# --- Quantities ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("10 minutes", 10 * MINUTE),
        ("1h 30m", 90 * MINUTE),
        ("1h30m", 90 * MINUTE),
        ("500 ms", 500_000),
        ("2 days", 2 * 24 * 60 * MINUTE),
        ("1 week", 7 * 24 * 60 * MINUTE),
        (" 0.5 Hours ", 30 * MINUTE),
        (".5s", 500_000),
        ("3 µs", 3),
        ("2000 ns", 2),
        ("-2 s", -2_000_000),
        ("+2 s", 2_000_000),
        ("PT10M", 10 * MINUTE),
        ("P1DT2H", 26 * 60 * MINUTE),
        ("p1w", 7 * 24 * 60 * MINUTE),
        ("PT0.000001S", 1),
        ("0 s", 0),
    ],
)
def test_durations(text: str, microseconds: int) -> None:
    assert parse_duration(text, "within") == microseconds


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0 B", 0),
        ("4096 bytes", 4096),
        ("1 kB", 1000),
        ("1KiB", 1024),
        ("200 MB", 200_000_000),
        ("200mb", 200_000_000),
        ("1.5 GiB", 1_610_612_736),
        ("0.1 KiB", 102),
        ("2 TB", 2_000_000_000_000),
    ],
)
def test_byte_sizes(text: str, size: int) -> None:
    assert parse_bytes(text, "memory") == size


@given(st.integers(0, 2**62))
def test_every_microsecond_is_read_exactly(microseconds: int) -> None:
    seconds, rest = divmod(microseconds, 1_000_000)
    assert parse_duration(f"{microseconds} us", "within") == microseconds
    assert parse_duration(f"{seconds}.{rest:06d} s", "within") == microseconds
    assert parse_duration(f"PT{seconds}.{rest:06d}S", "within") == microseconds


# --- Equality by meaning -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"within": "10 minutes"}, {"within": {"left": "600 s", "right": "10 min"}}),
        ({"within": "10 minutes"}, {"within": timedelta(minutes=10)}),
        ({"within": "10 minutes"}, {"within": "PT10M"}),
        ({"on": "k"}, {"on": {"left": "k", "right": "k"}}),
        ({"on": "k"}, {"on": ["k"]}),
        ({"on": band("x", 0, "1 min")}, {"on": band("x", "0 s", "60 s")}),
        ({"on": overlap("s", 2)}, {"on": overlap({"left": "s", "right": "s"}, 2)}),
        ({"on": theta(closer, "x")}, {"on": theta(closer, ["x"])}),
        ({"time": "ts"}, {"time": {"right": "ts", "left": "ts"}}),
        ({"memory": "1 MB"}, {"memory": "1000 kB"}),
        ({"importance": "w"}, {"importance": {"left": "w", "right": "w"}}),
        ({"index": "hash"}, {"index": {"left": "hash", "right": "hash"}}),
        ({"memory": 9, "split": (4, 5)}, {"memory": 9, "split": {"left": 4, "right": 5}}),
        ({"policy": "dgl"}, {"policy": Policy("dgl")}),
        ({"lateness": "1 min"}, {"lateness": "60 s"}),
        ({"cpu": Cpu(10, adapt_every="1 s")}, {"cpu": Cpu(10.0, adapt_every="1000 ms")}),
        ({"streams": ["left", "right"]}, {}),
    ],
)
def test_same_meaning_is_equal_and_hashes_alike(one: Any, other: Any) -> None:
    assert make(**one) == make(**other)
    assert hash(make(**one)) == hash(make(**other))


@pytest.mark.parametrize(
    "change",
    [
        {"on": "j"},
        {"on": band("k", 0, 1)},
        {"time": "t"},
        {"within": "11 minutes"},
        {"within": 600_000_000},
        {"within": rows(600_000_000)},
        {"within": {"left": "10 minutes", "right": "9 minutes"}},
        {"streams": ("right", "left")},
        {"memory": 100},
        {"memory": "100 B"},
        {"split": "even"},
        {"policy": "dgl"},
        {"policy": Policy.of("auto", alpha=1)},
        {"importance": "w"},
        {"output_importance": "max"},
        {"index": "hash"},
        {"cpu": Cpu(10)},
        {"lateness": "1 s"},
        {"ties": "instant"},
        {"bad_rows": "fail"},
        {"seed": 1},
    ],
)
def test_any_other_meaning_differs(change: Any) -> None:
    assert make(**change) != make()
    assert make() != "not a spec"


def test_tuples_and_shares_are_not_confused() -> None:
    # In Python (1, 0) == (1.0, 0.0), but one tuple is not all of the memory.
    assert make(memory=10, split=(1, 0)) != make(memory=10, split=(1.0, 0.0))


# --- Frozen --------------------------------------------------------------------------------------


def test_nothing_can_be_changed() -> None:
    within = {"left": "1 s", "right": "2 s"}
    columns = ["a", "b"]
    spec = make(within=within, on=columns)
    within["left"] = "9 s"
    columns.append("c")
    assert spec.within == {"left": "1 s", "right": "2 s"}
    assert len(spec.predicates) == 2
    with pytest.raises(FrozenInstanceError):
        spec.seed = 5  # type: ignore[misc]
    with pytest.raises(TypeError, match="cannot be changed"):
        spec.within["left"] = "9 s"
    with pytest.raises(TypeError, match="cannot be changed"):
        spec.within.update(left="9 s")


def test_replace_validates_anew_and_leaves_the_original() -> None:
    spec = make()
    assert spec.replace(seed=7).seed == 7
    assert spec.replace(within="600 s") == spec
    assert spec.seed == 0
    with pytest.raises(SpecError, match="memory -1 is negative"):
        spec.replace(memory=-1)
    with pytest.raises(SpecError, match="has no field 'memroy'; did you mean 'memory'"):
        spec.replace(memroy=1)


@pytest.mark.parametrize(
    "copier", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))]
)
def test_copies_and_pickles_are_equal(copier: Callable[[JoinSpec], JoinSpec]) -> None:
    spec = make(
        on=["k", band("x", 0, "1 s"), theta(operator.lt, ["y"])],
        within={"left": "1 s", "right": rows(5)},
        policy=Policy.of("age", curve=[0.5, 0.25], frequencies={"left": {1: 0.5}}),
        cpu=Cpu(100, basic_window="1 s"),
    )
    assert copier(spec) == spec
    assert hash(copier(spec)) == hash(spec)


# --- Refusals: field, value, what would be right -------------------------------------------------

BAD: list[tuple[dict[str, Any], list[str]]] = [
    # streams
    ({"streams": ("left",)}, ["streams", "fewer than 2", "give two names"]),
    ({"streams": ()}, ["streams", "fewer than 2"]),
    ({"streams": ("a", "a")}, ["streams", "'a' twice"]),
    ({"streams": ("a", "")}, ["streams", "the name ''", "not empty"]),
    ({"streams": ("a", " ")}, ["streams", "the name ' '"]),
    ({"streams": ("a", 1)}, ["streams", "the name 1"]),
    ({"streams": "left"}, ["streams 'left'", "not a list"]),
    ({"streams": None}, ["streams None"]),
    # on
    ({"on": []}, ["on is empty"]),
    ({"on": None}, ["on None is not a predicate", "band()"]),
    ({"on": 5}, ["on 5 is not a predicate"]),
    ({"on": [["a"]]}, ["on ('a',) is not a predicate"]),
    ({"on": ""}, ["on has ''", "column name"]),
    ({"on": ["a", "a"]}, ["on", "twice"]),
    ({"on": {"left": "a"}}, ["on", "nothing for stream 'right'"]),
    ({"on": {"left": "a", "rigth": "b"}}, ["unknown stream 'rigth'", "did you mean 'right'"]),
    ({"on": {"left": "a", "right": 3}}, ["on has 3", "column name"]),
    ({"on": {"left": ["a"], "right": ["b", "c"]}}, ["on", "different or no length"]),
    ({"on": {"left": [], "right": []}}, ["on", "different or no length"]),
    ({"on": overlap({"left": "s", "up": "s"}, 2)}, ["on: overlap", "unknown stream 'up'"]),
    # time and importance
    ({"time": None}, ["time has None", "column name"]),
    ({"time": ""}, ["time has ''"]),
    ({"time": {"left": "t"}}, ["time", "nothing for stream 'right'"]),
    ({"time": {"left": "t", "right": "t", "up": "t"}}, ["time", "unknown stream 'up'"]),
    ({"importance": 3}, ["importance has 3"]),
    ({"importance": {"left": "w", "right": None}}, ["importance has None"]),
    # within
    ({"within": -1}, ["within -1 is negative"]),
    ({"within": "-5 minutes"}, ["within '-5 minutes' is negative"]),
    ({"within": timedelta(seconds=-1)}, ["within", "negative"]),
    ({"within": math.inf}, ["within inf is not finite", "rows(n)"]),
    ({"within": math.nan}, ["within nan is not finite"]),
    ({"within": 1.5}, ["within 1.5 is a float", "an integer"]),
    ({"within": True}, ["within True is a bool"]),
    ({"within": None}, ["within None is not set"]),
    ({"within": 2**62 + 1}, ["within", "longer than 2**62"]),
    ({"within": "ten minutes"}, ["within 'ten minutes' is not a duration", "'10 minutes'"]),
    ({"within": ""}, ["within '' is not a duration"]),
    ({"within": "10"}, ["within '10'", "without a unit"]),
    ({"within": "5 s 10"}, ["within '5 s 10'", "without a unit"]),
    ({"within": "10 parsecs"}, ["unknown unit 'parsecs'"]),
    ({"within": "2 months"}, ["'months'", "no fixed length", "days"]),
    ({"within": "1 ns"}, ["whole number of microseconds"]),
    ({"within": "P"}, ["within 'P' is not a duration"]),
    ({"within": "PT"}, ["within 'PT' is not a duration"]),
    ({"within": "9" * 5000 + " s"}, ["is not a duration"]),
    ({"within": "1e3 s"}, ["unknown unit 'e'"]),
    ({"within": pd.Timedelta("1 ns")}, ["within", "nanoseconds"]),
    ({"within": np.timedelta64(1, "ns")}, ["within", "whole number of microseconds"]),
    ({"within": {"left": "1 s"}}, ["within", "nothing for stream 'right'"]),
    ({"within": {"left": "1 s", "right": -1}}, ["within of stream 'right' -1 is negative"]),
    ({"within": {"left": "1 s", "right": 5}}, ["'left' is a duration", "'right' is an integer"]),
    # lateness
    ({"lateness": rows(5)}, ["lateness rows(5) is a count", "a duration or an integer"]),
    ({"lateness": -1}, ["lateness -1 is negative"]),
    ({"lateness": "soon"}, ["lateness 'soon' is not a duration"]),
    ({"lateness": 5}, ["within of stream 'left' is a duration", "lateness is an integer"]),
    ({"lateness": False}, ["lateness False is a bool"]),
    # memory
    ({"memory": -1}, ["memory -1 is negative", "'200 MB'"]),
    ({"memory": 1.5}, ["memory 1.5 is a float"]),
    ({"memory": True}, ["memory True is a bool"]),
    ({"memory": math.inf}, ["memory inf is not finite"]),
    ({"memory": "lots"}, ["memory 'lots' is not a size", "'200 MB'"]),
    ({"memory": "-1 MB"}, ["memory '-1 MB' is not a size"]),
    ({"memory": "100"}, ["memory '100' has no unit"]),
    ({"memory": "1 XB"}, ["memory '1 XB' is not a size"]),
    ({"memory": "1 MB 2 kB"}, ["memory '1 MB 2 kB' is not a size"]),
    # split
    ({"split": "evn"}, ["split 'evn' is not known", "did you mean 'even'", "shared"]),
    ({"split": None}, ["split None", "even, auto, shared"]),
    ({"memory": 9, "split": (1, 2, 3)}, ["split", "3 numbers for 2 streams"]),
    ({"memory": 9, "split": (-1, 2)}, ["split", "negative number -1"]),
    ({"memory": 9, "split": (5, 5)}, ["sums to 10, above memory 9"]),
    ({"memory": 9, "split": (True, 2)}, ["split True is a bool"]),
    ({"memory": 9, "split": ("a", 2)}, ["split 'a'", "one number for each stream"]),
    ({"memory": 9, "split": {"left": 3}}, ["split", "nothing for stream 'right'"]),
    ({"split": (5, 5)}, ["split", "memory is None"]),
    ({"memory": "1 MB", "split": (5, 5)}, ["split", "memory is '1 MB'", "shares"]),
    ({"split": (0.5, 0.6)}, ["split", "shares that sum to 1.1"]),
    ({"split": (math.nan, 1.0)}, ["split nan is not finite"]),
    # policy
    ({"policy": "dgll"}, ["policy 'dgll' is not known; did you mean 'dgl'? Known: random"]),
    ({"policy": "zzz"}, ["policy 'zzz' is not known; known: random", "value, auto"]),
    ({"policy": None}, ["policy None is not a policy", "Known: random"]),
    ({"policy": 3}, ["policy 3 is not a policy"]),
    # index
    ({"index": "hsh"}, ["index 'hsh' is not known; did you mean 'hash'", "ttree"]),
    ({"index": None}, ["index None is not known"]),
    ({"index": {"left": "hash", "right": "tree"}}, ["index of stream 'right' 'tree'"]),
    ({"index": {"left": "hash"}}, ["index", "nothing for stream 'right'"]),
    ({"index": "inverted"}, ["index 'inverted' serves only overlap", "'hash'"]),
    (
        {"index": "hash", "on": band("x", 0, 1)},
        ["index 'hash' serves only equality terms", "'auto', 'nested-loop', 'btree', 'ttree'"],
    ),
    (
        {"index": {"left": "btree", "right": "ttree"}, "on": overlap("s", 1)},
        ["index of stream 'left' 'btree' serves only equality and band", "'inverted'"],
    ),
    (
        {"index": "hash", "on": theta(closer, "x")},
        ["'hash' serves only equality", "'auto', 'nested-loop'"],
    ),
    ({"index": "inverted", "on": inner_product("v", 0)}, ["'inverted' serves only", "above 0"]),
    # the rest
    ({"output_importance": "avg"}, ["output_importance 'avg' is not known", "mean"]),
    ({"ties": "instnt"}, ["ties 'instnt' is not known; did you mean 'instant'"]),
    ({"bad_rows": "ignore"}, ["bad_rows 'ignore' is not known", "count, fail"]),
    ({"bad_rows": []}, ["bad_rows () is not known"]),
    ({"seed": 1.0}, ["seed 1.0 is a float", "an integer"]),
    ({"seed": True}, ["seed True is a bool"]),
    ({"seed": None}, ["seed None is not set"]),
    ({"seed": -1}, ["seed -1 is out of range", "0 to 2**63 - 1"]),
    ({"seed": 2**63}, ["seed", "out of range"]),
    ({"cpu": 5}, ["cpu 5 is not a CPU budget; give None"]),
    ({"cpu": Cpu(5, basic_window=10)}, ["is a duration", "cpu: basic_window is an integer"]),
]


@pytest.mark.parametrize(("change", "fragments"), BAD, ids=[str(case[0])[:60] for case in BAD])
def test_bad_fields_are_refused_in_one_sentence(change: Any, fragments: list[str]) -> None:
    with pytest.raises(SpecError) as caught:
        make(**change)
    check_sentence(str(caught.value), fragments)


BAD_PARTS: list[tuple[Callable[[], Any], list[str]]] = [
    (lambda: band("x", 2, 1), ["band on 'x' has low 2 above high 1"]),
    (lambda: band("x", "2 s", "1 s"), ["band on 'x' has low '2 s' above high '1 s'"]),
    (lambda: band("x", math.inf, math.inf), ["low inf above"]),
    (lambda: band("x", math.nan, 1), ["band on 'x': low nan is not finite"]),
    (lambda: band("x", 1, "2 s"), ["band on 'x' mixes a number and a duration"]),
    (lambda: band("x", True, 2), ["band on 'x': low True is a bool"]),
    (lambda: band("x", 0, None), ["band on 'x': high None is not set"]),
    (lambda: band("x", 0, "soon"), ["band on 'x': high 'soon' is not a duration"]),
    (lambda: band("x", 0, "9" * 40 + " days"), ["high", "too long"]),
    (lambda: band("", 0, 1), ["band has ''", "column name"]),
    (lambda: band(["x", "y"], 0, 1), ["band has ('x', 'y')", "column name"]),  # type: ignore[arg-type]
    (lambda: overlap("s", 0), ["overlap on 's': at_least 0 is below 1"]),
    (lambda: overlap("s", 1.5), ["overlap on 's': at_least 1.5 is a float"]),  # type: ignore[arg-type]
    (lambda: overlap("s", True), ["overlap on 's': at_least True is a bool"]),
    (lambda: inner_product("v", math.inf), ["inner_product on 'v': at_least inf is not finite"]),
    (lambda: inner_product("v", 10**400), ["at_least", "not finite"]),
    (lambda: inner_product("v", "1"), ["at_least '1' is a str"]),  # type: ignore[arg-type]
    (lambda: theta("fn", ["x"]), ["theta 'fn' is not a function"]),  # type: ignore[arg-type]
    (lambda: theta(closer, []), ["theta has ()", "column name"]),
    (lambda: theta(closer, {"left": ["x"], "right": [3]}), ["theta has 3"]),
    (lambda: rows(-1), ["rows(-1) is negative"]),
    (lambda: rows(2.0), ["rows 2.0 is a float"]),  # type: ignore[arg-type]
    (lambda: rows(True), ["rows True is a bool"]),
    (lambda: Cpu(-1), ["cpu: comparisons_per_second -1 is out of range", "at least 0"]),
    (lambda: Cpu(math.inf), ["cpu: comparisons_per_second inf is not finite"]),
    (lambda: Cpu(True), ["cpu: comparisons_per_second True is a bool"]),
    (lambda: Cpu(1, boost=0.9), ["cpu: boost 0.9 is out of range", "at least 1"]),
    (lambda: Cpu(1, sample=1.1), ["cpu: sample 1.1 is out of range", "at most 1"]),
    (lambda: Cpu(1, adapt_every="x"), ["cpu: adapt_every 'x' is not a duration"]),
    (lambda: Cpu(1, adapt_every=0), ["cpu: adapt_every 0 is 0; give more than 0"]),
    (lambda: Cpu(1, basic_window=rows(2)), ["cpu: basic_window rows(2) is a count"]),
    (lambda: Cpu(1, direction="up"), ["cpu: direction 'up' is not known"]),  # type: ignore[arg-type]
    (lambda: Policy(""), ["policy name ''"]),
    (lambda: Policy("dgl", (("a", 1), ("a", 2))), ["'a', 'a'", "a name of its own"]),
    (lambda: Policy.of("dgl", seen={1, 2}), ["policy 'dgl'", "can change"]),
    (lambda: Policy.from_dict({"parameters": {}}), ["has no name"]),
    (lambda: Policy.from_dict({"name": "dgl", "decay": 1}), ["no field 'decay'"]),
]  # fmt: skip


@pytest.mark.parametrize(("build", "fragments"), BAD_PARTS, ids=[c[1][0] for c in BAD_PARTS])
def test_bad_parts_are_refused_where_they_are_made(
    build: Callable[[], Any], fragments: list[str]
) -> None:
    with pytest.raises(SpecError) as caught:
        build()
    check_sentence(str(caught.value), fragments)


def check_sentence(message: str, fragments: list[str]) -> None:
    for fragment in fragments:
        assert fragment in message
    assert "\n" not in message


def test_errors_are_value_errors() -> None:
    assert issubclass(SpecError, TidegateError)
    assert issubclass(TidegateError, ValueError)


# --- Which index serves what ---------------------------------------------------------------------

SERVED = {
    Equal(("k", "k")): {"nested-loop", "hash", "btree", "ttree"},
    Band(("x", "x"), 0, 1): {"nested-loop", "btree", "ttree"},
    Overlap(("s", "s"), 1): {"nested-loop", "inverted"},
    InnerProduct(("v", "v"), 0.5): {"nested-loop", "inverted"},
    InnerProduct(("v", "v"), 0.0): {"nested-loop"},
    Theta(closer, (("x",), ("x",))): {"nested-loop"},
}


@pytest.mark.parametrize(("predicate", "kinds"), SERVED.items(), ids=repr)
def test_index_serves(predicate: Any, kinds: set[str]) -> None:
    assert {kind for kind in INDEX_KINDS if index_serves(kind, predicate)} == kinds | {"auto"}


def test_one_served_term_of_a_conjunction_is_enough() -> None:
    spec = make(
        on=["k", overlap("s", 2), theta(closer, "x")],
        index={"left": "hash", "right": "inverted"},
    )
    assert spec.index_kinds == ("hash", "inverted")


# --- Policies ------------------------------------------------------------------------------------


class OwnPolicy:
    """A policy as somebody outside the package would write it."""

    name = "mine"

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "parameters": {"alpha": 0.5}}


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_every_name_is_a_policy(name: str) -> None:
    assert make(policy=name).policy_choice == Policy(name)


def test_policy_parameters_are_frozen_and_sorted() -> None:
    curve = [0.5, 0.25]
    policy = Policy.of("age", curve=curve, bucket="1 s")
    curve.append(0.0)
    assert policy.parameters == (("bucket", "1 s"), ("curve", (0.5, 0.25)))
    assert policy.get("curve") == (0.5, 0.25)
    assert policy.get("gain", 2) == 2
    assert policy == Policy("age", (("curve", np.array([0.5, 0.25])), ("bucket", "1 s")))


def test_a_policy_object_of_another_class_is_taken_and_written() -> None:
    spec = make(policy=OwnPolicy())
    assert isinstance(spec.policy, OwnPolicy)
    assert spec.policy_choice == Policy.of("mine", alpha=0.5)
    assert JoinSpec.from_json(spec.to_json()) == spec


def test_policy_keys_of_any_type_survive_json() -> None:
    keys = {1: 0.1, "1": 0.2, b"\x00": 0.3, date(2024, 1, 2): 0.1, Decimal("1.50"): 0.1, None: 0.1}
    moment = datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=timezone.utc)
    policy = Policy.of("prob", frequencies={"left": keys, "right": {moment: 1.0}}, tag={"$x": 1})
    back = Policy.from_dict(json.loads(json.dumps(policy.to_dict())))
    assert back == policy
    assert [type(key) for key in back.get("frequencies")["left"]] == [type(key) for key in keys]


# --- JSON ----------------------------------------------------------------------------------------


def test_json_is_plain_and_has_a_version() -> None:
    plain = json.loads(make().to_json())
    assert plain["version"] == 1
    assert plain["within"] == "10 minutes"
    assert set(plain) == {"version", *(field.name for field in fields(JoinSpec))}


def test_json_with_only_the_required_fields_takes_the_defaults() -> None:
    assert JoinSpec.from_json(json.dumps({"version": 1, **REQUIRED})) == make()


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        ("{", ["the spec is not JSON"]),
        (b"\xff", ["the spec is not JSON"]),
        ("[]", ["is not an object"]),
        ("{}", ["version None", '"version": 1']),
        ('{"version": 2}', ["version 2"]),
        ('{"version": 1, "on": "k"}', ["lacks 'time', 'within'"]),
        ('{"version": 1, "memroy": 1}', ["no field 'memroy'", "did you mean 'memory'"]),
        ('{"version": 1, "on": NaN}', ["has NaN", "not JSON"]),
        ({"within": {"$row": 5}}, ["tag '$row' is not known", "$rows"]),
        ({"within": {"$rows": "x"}}, ["rows 'x' is a str"]),
        ({"within": {"$microseconds": "x"}}, ["'x' of '$microseconds' cannot be read"]),
        ({"on": {"$term": {"kind": "equi", "column": "x", "parameters": []}}}, ["cannot be read"]),
        ({"on": {"$term": 3}}, ["3 of '$term' cannot be read"]),
        (
            {"on": {"$term": {"kind": "band", "column": "x", "parameters": [2, 1]}}},
            ["low 2 above high 1"],
        ),
        (
            {"on": {"$term": {"kind": "theta", "column": "x", "parameters": ["no_module:f"]}}},
            ["'no_module:f' cannot be imported"],
        ),
        (
            {"on": {"$term": {"kind": "theta", "column": "x", "parameters": ["math:pi"]}}},
            ["is not a function"],
        ),
        ({"cpu": {"$cpu": {"comparisons_per_second": 1, "bost": 2}}}, ["'bost'", "'boost'"]),
        ({"cpu": {"$cpu": {}}}, ["give comparisons_per_second="]),
        ({"cpu": {"$cpu": 3}}, ["cpu 3 is not an object"]),
        ({"policy": {"$policy": {"name": 3}}}, ["policy name 3"]),
        ({"memory": -5}, ["memory -5 is negative"]),
    ],
)
def test_bad_json_is_refused_in_one_sentence(text: Any, fragments: list[str]) -> None:
    if isinstance(text, dict):
        text = json.dumps({"version": 1, **REQUIRED, **text})
    with pytest.raises(SpecError) as caught:
        JoinSpec.from_json(text)
    check_sentence(str(caught.value), fragments)


@pytest.mark.parametrize("function", [closer, operator.lt, OwnPolicy.to_dict])
def test_theta_goes_by_name(function: Callable[..., Any]) -> None:
    spec = make(on=theta(function, ["x"]))
    back = JoinSpec.from_json(spec.to_json())
    assert back == spec
    predicate = back.predicates[0]
    assert isinstance(predicate, Theta)
    assert predicate.function is function


def test_theta_without_a_name_says_so() -> None:
    def inner(left_x: float, right_x: float) -> bool:
        return left_x < right_x

    for function in (inner, lambda a, b: a < b):
        spec = make(on=theta(function, ["x"]))
        with pytest.raises(SpecError, match="cannot be imported by name"):
            spec.to_json()


# --- Properties ----------------------------------------------------------------------------------

STREAM_NAMES = st.lists(
    st.text(min_size=1, max_size=4).filter(str.strip) | st.sampled_from(["$rows", "left", "μ"]),
    min_size=2,
    max_size=4,
    unique=True,
).map(tuple)
COLUMNS = st.text(min_size=1, max_size=4)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
NUMBERS = FINITE | st.integers(-(2**70), 2**70)
TIMEDELTAS = st.timedeltas(timedelta(0), timedelta(days=10_000))
DURATIONS = TIMEDELTAS | st.builds(
    "{} {}".format, st.integers(0, 10**6), st.sampled_from(["us", "ms", "s", "min", "hours", "d"])
)
PLAIN_PARAMETERS = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | st.text(max_size=3) | TIMEDELTAS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


def by_stream(values: st.SearchStrategy[Any], streams: tuple[str, ...]) -> st.SearchStrategy[Any]:
    return values | st.fixed_dictionaries(dict.fromkeys(streams, values))


@st.composite
def terms(draw: st.DrawFn, streams: tuple[str, ...]) -> Any:
    column = draw(by_stream(COLUMNS, streams))
    kind = draw(st.sampled_from(["equal", "number", "duration", "overlap", "inner", "theta"]))
    if kind == "number":
        return band(column, *sorted((draw(NUMBERS), draw(NUMBERS | st.just(math.inf)))))
    if kind == "duration":
        low, high = sorted((draw(TIMEDELTAS), draw(TIMEDELTAS)))
        return band(column, draw(st.sampled_from([-low, -math.inf, 0])), high)
    if kind == "overlap":
        return overlap(column, draw(st.integers(1, 2**40)))
    if kind == "inner":
        return inner_product(column, draw(FINITE))
    return theta(closer, column) if kind == "theta" else column


CPUS = st.builds(
    Cpu,
    st.floats(0, 1e12) | st.integers(0, 10**12),
    adapt_every=st.none() | TIMEDELTAS.filter(bool),
    boost=st.floats(1, 10),
    sample=st.floats(0, 1),
    direction=st.sampled_from(["adaptive", "even"]),
)
POLICIES = st.sampled_from(POLICY_NAMES) | st.builds(
    lambda name, parameters: Policy.of(name, **parameters),
    st.sampled_from([*POLICY_NAMES, "priority"]),
    st.dictionaries(st.sampled_from(["alpha", "curve", "decay"]), PLAIN_PARAMETERS),
)


@st.composite
def specs(draw: st.DrawFn) -> JoinSpec:
    streams = draw(STREAM_NAMES)
    on = draw(terms(streams) | st.lists(terms(streams), min_size=1, max_size=1))
    shares = tuple(1 / len(streams) for _ in streams)
    counts = st.lists(st.integers(0, 1000), min_size=len(streams), max_size=len(streams))
    memory = draw(st.integers(4000, 2**40) | st.sampled_from([None, "200 MB", "1.5 GiB"]))
    splits = st.sampled_from(["even", "auto", "shared", shares])
    return JoinSpec(
        on=on,
        streams=streams,
        time=draw(by_stream(COLUMNS, streams)),
        within=draw(by_stream(DURATIONS | st.builds(rows, st.integers(0, 2**40)), streams)),
        memory=memory,
        split=draw(splits | counts if isinstance(memory, int) else splits),
        policy=draw(POLICIES),
        importance=draw(st.none() | by_stream(COLUMNS, streams)),
        output_importance=draw(st.sampled_from(["min", "max", "sum", "product", "mean"])),
        index=draw(by_stream(st.sampled_from(["auto", "nested-loop"]), streams)),
        cpu=draw(st.none() | CPUS),
        lateness=draw(st.just(0) | DURATIONS),
        ties=draw(st.sampled_from(["arrival", "instant"])),
        bad_rows=draw(st.sampled_from(["count", "fail"])),
        seed=draw(st.integers(0, 2**63 - 1)),
    )


@given(specs())
@settings(max_examples=150, deadline=None)
def test_json_gives_back_the_spec_as_it_was_written(spec: JoinSpec) -> None:
    text = spec.to_json()
    back = JoinSpec.from_json(text)
    assert back == spec
    assert hash(back) == hash(spec)
    assert back.to_json() == text
    for field in fields(spec):
        # repr tells 1 from 1.0 and shows floats to the last bit, where == does not.
        assert repr(getattr(back, field.name)) == repr(getattr(spec, field.name))


@given(specs())
@settings(max_examples=50, deadline=None)
def test_writing_every_option_by_stream_changes_nothing(spec: JoinSpec) -> None:
    spread = {
        name: dict.fromkeys(spec.streams, value)
        for name in ("time", "within", "index", "importance")
        if (value := getattr(spec, name)) is not None and not isinstance(value, dict)
    }
    assert spec.replace(**spread) == spec


@given(specs())
@settings(max_examples=50, deadline=None)
def test_normal_forms_have_one_entry_per_stream(spec: JoinSpec) -> None:
    forms = [spec.time_columns, spec.windows, spec.index_kinds]
    forms += [p.columns for p in spec.predicates]
    forms += [f for f in (spec.importance_columns, spec.split_rows, spec.split_shares) if f]
    assert {len(form) for form in forms} == {len(spec.streams)}


# --- Start-up ------------------------------------------------------------------------------------


def test_importing_the_spec_loads_no_heavy_library() -> None:
    # The package's own __init__ is left out: this is about the spec and what lies below it.
    code = (
        "import sys, types; package = types.ModuleType('tidegate'); "
        f"package.__path__ = [{str(Path(spec_module.__file__).parents[1])!r}]; "
        "sys.modules['tidegate'] = package; import tidegate.spec; "
        "print(sorted({'numpy', 'numba', 'pyarrow', 'pandas', 'polars'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- what is promised --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: JoinSpec(windw=5, **REQUIRED),
            "JoinSpec has no option 'windw'; the window is wit",
        ),
        (lambda: JoinSpec(how="left", **REQUIRED), "no option 'how'; joins are inner so far"),
        (lambda: JoinSpec(memroy=5, **REQUIRED), "no option 'memroy'; did you mean 'memory'"),
        (lambda: JoinSpec(on="k"), r"missing a required argument: 'time'\); give on=, time=, wit"),
        (lambda: JoinSpec("k"), r"too many positional arguments\); give on=, time=, within="),
        (lambda: Cpu(comparisons=3), "Cpu has no option 'comparisons'; did you mean 'comparisons_"),
        (lambda: tidegate.dgl(dcay=0.9), r"tidegate\.dgl has no option 'dcay'; did you mean 'dec"),
        (lambda: tidegate.random(seed=1), r"tidegate\.random has no option 'seed'; it takes none"),
        (lambda: tidegate.priority(), r"tidegate\.priority .* 'form'\); give form="),
    ],
)
def test_wrong_arguments_get_a_sentence(call: Any, sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence) as raised:
        call()
    assert "\n" not in str(raised.value)


def test_constructors_keep_their_signatures() -> None:
    assert list(inspect.signature(tidegate.dgl).parameters) == ["decay", "gain", "statistics"]
    assert "within" in inspect.signature(JoinSpec).parameters


def test_one_list_of_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    assert POLICY_NAMES == tidegate.policies() == policy.policy_names()
    for name in policy.PARAMETERS:
        assert callable(getattr(tidegate, name.replace("-", "_")))
    with pytest.raises(SpecError, match="policy 'newest' is not known"):
        make(policy="newest")
    # A name in the one list is all that it takes.
    monkeypatch.setitem(policy.PARAMETERS, "newest", ())
    assert make(policy="newest").policy_choice == Policy("newest")
    assert "newest" in tidegate.policies()


@pytest.mark.parametrize("name", policy.PARAMETERS)
def test_every_listed_policy_works(name: str) -> None:
    chosen = tidegate.priority("additive") if name == "priority" else name
    tidegate.JoinEngine(make(policy=chosen, memory=5))


def test_nothing_is_promised_that_is_refused() -> None:
    refused = ("arrival-order", "uniform", "eq-cluster", "pps-cluster")
    for text in (JoinSpec.__doc__, tidegate.__doc__, *map(str, tidegate.policies())):
        assert not any(name in (text or "") for name in refused)
    for name in refused:
        with pytest.raises(SpecError, match="is not known; ") as raised:
            make(policy=name)
        assert name not in str(raised.value).split(";")[1]
    project = Path(tidegate.__file__).parents[1] / "pyproject.toml"
    assert "CPU" not in project.read_text(encoding="utf-8").split("[tool.")[0]


@pytest.mark.parametrize("make_policy", [tidegate.age, tidegate.value])
@pytest.mark.parametrize(
    ("within", "width"),
    [(30, 10), (31, 11), (0, 1), ("30 s", timedelta(seconds=10)), (rows(30), 10)],
)
def test_a_curve_without_a_bucket_covers_the_window(
    make_policy: Any, within: Any, width: Any
) -> None:
    spec = make(within=within, policy=make_policy(curve=[1, 2, 3]))
    told = make(
        within=within, policy=make_policy(curve=[1, 2, 3], bucket=spec.policy_choice.get("bucket"))
    )
    assert spec.policy_choice.get("bucket") == {"left": width, "right": width}
    assert spec == told
    assert JoinSpec.from_json(spec.to_json()) == spec
    uneven = make(within=within, policy=make_policy(curve={"left": [1], "right": [1, 2, 3]}))
    assert uneven.policy_choice.get("bucket")["right"] == width
    assert make(policy=make_policy()).policy_choice.get("bucket") is None


@pytest.mark.parametrize("make_policy", [tidegate.age, tidegate.value])
@pytest.mark.parametrize("numbers", [1, 3, 20, 50, 400])
@pytest.mark.parametrize("within", [30, rows(30)])
def test_a_curve_of_any_length_is_joined_by(make_policy: Any, numbers: int, within: Any) -> None:
    """Of 20 numbers and more, which an engine without their bucket had no room for."""
    table = pa.table({"k": [1, 2, 3] * 20, "t": range(60)})
    curve = [float(n % 7) for n in range(numbers)]
    spec = JoinSpec(on="k", time="t", within=within, memory=10, policy=make_policy(curve=curve))
    wide = max(1, -(-30 // numbers))
    told = spec.replace(policy=make_policy(curve=curve, bucket=wide))
    kept = [tidegate.join({"left": table, "right": table}, each) for each in (spec, told)]
    assert kept[0].table == kept[1].table
    assert kept[0].table.num_rows > 0


def test_the_package_is_typed_and_silent() -> None:
    assert (Path(tidegate.__file__).parent / "py.typed").is_file()
    assert any(isinstance(h, logging.NullHandler) for h in logging.getLogger("tidegate").handlers)


def test_a_stream_that_is_rejected_whole_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    table = pa.table({"k": [1, 2], "t": [1, 2], "w": [-1.0, -2.0]})
    spec = JoinSpec(on="k", time="t", within=5, importance={"left": "k", "right": "w"})
    with caplog.at_level(logging.WARNING, "tidegate"):
        tidegate.join({"left": table, "right": table}, spec)
    assert "all 2 rows of stream 'right' were rejected (importance)" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, "tidegate"):
        tidegate.join({"left": table, "right": table}, spec.replace(importance=None))
    assert caplog.text == ""
