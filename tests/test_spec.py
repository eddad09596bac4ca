"""What a spec means: the normal form of each field, and that equal meaning is equal."""

from __future__ import annotations

import copy
import math
import operator
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate.spec as spec_module
from tidegate.spec import (
    INDEX_KINDS,
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
    Window,
    band,
    index_serves,
    inner_product,
    overlap,
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
        "cpu": None, "sentinel": None, "miniatures": None, "target": None, "lateness": 0,
        "ties": "arrival", "bad_rows": "count",
        "seed": 0,
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


# --- Start-up ------------------------------------------------------------------------------------


def test_importing_the_spec_loads_no_heavy_library() -> None:
    # The package's own __init__ is left out: this is about the spec and what lies below it.
    code = (
        "import sys, types; package = types.ModuleType('tidegate'); "
        f"package.__path__ = [{str(Path(spec_module.__file__).parent.parent)!r}]; "
        "sys.modules['tidegate'] = package; import tidegate.spec; "
        "print(sorted({'numpy', 'numba', 'pyarrow', 'pandas', 'polars'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
