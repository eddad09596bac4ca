"""What is wrong with a spec is said at once, in one sentence: field, value, what would be right."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_spec import closer, make

from tidegate.spec import (
    Cpu,
    Policy,
    SpecError,
    TidegateError,
    band,
    inner_product,
    overlap,
    rows,
    theta,
)

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
    ({"streams": tuple(map(str, range(17)))}, ["streams are 17", "at most 16"]),
    (
        {"streams": ("a", "b", "c"), "on": ["k", band("x", 0, 1)]},
        ["a predicate other than equality", "joins two streams only", "on equal columns"],
    ),
    (
        {"streams": ("a", "b", "c"), "index": "btree"},
        ["index 'btree'", "two streams", "'hash' or 'auto'"],
    ),
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
    ({"memory": 2**62 + 1}, ["more than any machine has"]),
    ({"memory": "9999999999 TB"}, ["more than any machine has"]),
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
    ({"cpu": 5}, ["cpu 5 is not a CPU budget; give None or tidegate.Cpu(...)"]),
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
    (lambda: Cpu(), ["cpu limits nothing; give comparisons_per_second=, share_of_core="]),
    (lambda: Cpu(5, keep_up=True), ["cpu has comparisons_per_second and keep_up; give"]),
    (lambda: Cpu(5, share_of_core=1), ["cpu has comparisons_per_second and share_of_core; give"]),
    (lambda: Cpu(share_of_core=0), ["cpu: share_of_core 0 is out of range", "at most 1024"]),
    (lambda: Cpu(keep_up=1), ["cpu: keep_up 1 is not a bool"]),  # type: ignore[arg-type]
    (lambda: Cpu(1, interval="1 s"), ["cpu: interval is given without keep_up"]),
    (lambda: Cpu(keep_up=True, interval=5), ["cpu: interval 5 is not a duration"]),
    (lambda: Cpu(keep_up=True, interval="0 s"), ["cpu: interval '0 s' is 0; give more than 0"]),
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
