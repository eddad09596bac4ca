"""Policies inside a spec, and a spec as JSON: it comes back as it was written."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable
from dataclasses import fields
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_spec import REQUIRED, closer, make
from test_spec_refusals import check_sentence

from tidegate.spec import (
    POLICY_NAMES,
    Cpu,
    JoinSpec,
    Policy,
    SpecError,
    Theta,
    band,
    inner_product,
    overlap,
    rows,
    theta,
)

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
    kinds = ["equal", "number", "duration", "overlap", "inner", "theta"]
    kind = draw(st.sampled_from(kinds if len(streams) == 2 else ["equal"]))
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


FUELS = st.one_of(
    st.builds(dict, comparisons_per_second=st.floats(0, 1e12) | st.integers(0, 10**12)),
    st.builds(dict, share_of_core=st.floats(0.001, 8)),
    st.builds(dict, keep_up=st.just(True), interval=st.none() | TIMEDELTAS.filter(bool)),
)
CPUS = st.builds(
    lambda fuel, **options: Cpu(**fuel, **options),
    FUELS,
    adapt_every=st.none() | TIMEDELTAS.filter(bool),
    boost=st.floats(1, 10),
    sample=st.floats(0, 1),
    direction=st.sampled_from(["adaptive", "better-first", "even"]),
    order=st.sampled_from(["learned", "youngest"]),
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
    indexes = ["auto", "nested-loop" if len(streams) == 2 else "hash"]
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
        index=draw(by_stream(st.sampled_from(indexes), streams)),
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
