"""Descriptions of joins: alike where they mean the same, different wherever anything differs."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidegate as tg
from tidegate.spark.fingerprint import describe, explain_change, fingerprint
from tidegate.spec import JoinSpec, Theta, band, overlap, rows, theta

SPEC = JoinSpec(on="k", time="ts", within="10 minutes")
TABLE = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
LIMIT = 2.0


def text(spec: JoinSpec, *schemas: pa.Schema) -> str:
    return fingerprint(describe(spec, schemas or (TABLE, TABLE)))


def closing_over(limit: Any) -> Callable[..., bool]:
    def near(a: float, b: float) -> bool:
        return abs(a - b) < limit

    return near


def with_default(limit: float) -> Callable[..., bool]:
    def near(a: float, b: float, most: float = limit) -> bool:
        return abs(a - b) < most

    return near


def reading_a_global(a: float, b: float) -> bool:
    return abs(a - b) < LIMIT


def calling(a: float, b: float) -> bool:
    return reading_a_global(a, b)


DIFFERENT: list[dict[str, Any]] = [
    {},
    {"memory": 2000}, {"memory": "2000 B"}, {"memory": "2000 KB"}, {"memory": "2000 KiB"},
    {"memory": 2000, "split": (1, 0)}, {"memory": 2000, "split": (1.0, 0.0)},
    {"memory": 2000, "split": (0, 1)}, {"memory": 2000, "split": "even"},
    {"within": "10 s"}, {"within": rows(10)}, {"within": 10}, {"within": "10 ms"},
    {"within": {"left": "10 s", "right": "11 s"}}, {"within": {"left": "11 s", "right": "10 s"}},
    {"lateness": "1 s"}, {"lateness": "2 s"},
    {"on": "l"}, {"on": ["k", "l"]}, {"on": {"left": "k", "right": "l"}},
    {"on": {"left": "l", "right": "k"}}, {"on": "'k' = 'l'"}, {"on": "'k' and 'l'"},
    {"on": band("x", 0, 5)}, {"on": band("x", 0, "5 s")}, {"on": band("x", 0, 5.5)},
    {"on": overlap("x", 5)}, {"on": tg.inner_product("x", 5)},
    {"importance": "w"}, {"importance": {"left": "w", "right": "k"}}, {"importance": "none"},
    {"policy": "prob"}, {"policy": tg.prob(statistics="faded")},
    {"policy": tg.prob(frequencies={"left": {1: 0.5}, "right": {}})},
    {"policy": tg.prob(frequencies={"left": {"1": 0.5}, "right": {}})},
    {"policy": tg.prob(frequencies={"left": {}, "right": {1: 0.5}})},
    {"policy": tg.age(curve=[1, 2], bucket=5)}, {"policy": tg.age(curve=[1, 2], bucket="5 s")},
    {"policy": tg.age(curve=[1, 2])}, {"policy": tg.age(curve=[2, 1])}, {"policy": "age"},
    {"policy": tg.dgl(decay=0.5)}, {"policy": tg.priority("additive", alpha=2)},
    {"time": "t"}, {"streams": ("a", "b")}, {"ties": "instant"}, {"bad_rows": "fail"}, {"seed": 1},
    {"index": "hash"}, {"output_importance": "max"},
    {"memory": 2000, "sentinel": 0.1}, {"memory": 2000, "miniatures": 0.1},
    {"memory": 2000, "target": "recall >= 0.9"}, {"memory": 2000, "target": "importance >= 0.9"},
    {"on": theta(closing_over(2.0), ["x"])}, {"on": theta(closing_over(3.0), ["x"])},
    {"on": theta(closing_over(np.float64(3.0)), ["x"])}, {"on": theta(with_default(2.0), ["x"])},
    {"on": theta(with_default(3.0), ["x"])}, {"on": theta(reading_a_global, ["x"])},
    {"on": theta(calling, ["x"])}, {"on": theta(calling, ["y"])},
]  # fmt: skip


def test_whatever_differs_shows() -> None:
    texts = [text(SPEC.replace(**changes)) for changes in DIFFERENT]
    for one, other in itertools.combinations(range(len(texts)), 2):
        assert texts[one] != texts[other], (DIFFERENT[one], DIFFERENT[other])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"within": "10 minutes"}, {"within": {"left": "600 s", "right": timedelta(minutes=10)}}),
        ({"memory": "2 MB"}, {"memory": "2000 kB"}),
        (
            {"memory": 2000, "target": "recall >= 0.9"},
            {"memory": 2000, "target": " Recall≥90.0 %"},
        ),
        ({"on": "k"}, {"on": {"left": "k", "right": "k"}}),
        ({"on": band("x", 0, 5)}, {"on": band("x", 0.0, 5.0)}),
        ({"on": band("x", "0 s", "1 min")}, {"on": band("x", 0, "60 s")}),
        ({"policy": "prob"}, {"policy": tg.prob()}),
        ({"policy": tg.dgl(decay=1)}, {"policy": tg.dgl(decay=1.0, gain=0.1)}),
        (
            {"policy": tg.prob(frequencies={"left": {1: 0.5, 2: 1}, "right": {}})},
            {"policy": tg.prob(frequencies={"right": {}, "left": {2: 1.0, 1: 0.5}})},
        ),
        (
            {"policy": tg.age(curve=[1], bucket="1 min")},
            {"policy": tg.age(curve=[1.0], bucket="60 s")},
        ),
        ({"on": theta(closing_over(2.0), ["x"])}, {"on": theta(closing_over(2.0), ["x"])}),
    ],
)
def test_the_same_wish_reads_the_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert describe(SPEC.replace(**one), (TABLE, TABLE)) == describe(
        SPEC.replace(**other), (TABLE, TABLE)
    )


def test_columns_are_told_apart() -> None:
    two = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    odd = pa.schema([("a int64, b", pa.int64())])
    assert len({text(SPEC, TABLE, two), text(SPEC, TABLE, odd), text(SPEC, two, TABLE)}) == 3


def test_a_global_that_changed_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = SPEC.replace(on=theta(calling, ["x"]))
    before = text(spec)
    monkeypatch.setitem(reading_a_global.__globals__, "LIMIT", 3.0)
    assert text(spec) != before


def test_functions_read_alike_in_every_process() -> None:
    code = (
        "import sys; sys.path[:0] = ['tests']; "
        "from spark.test_fingerprint import *; "
        "print([text(SPEC.replace(on=theta(f, ['x']))) for f in (calling, closing_over(2.0))])"
    )
    command = [sys.executable, "-c", code]
    done = [
        subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
        for _ in range(2)
    ]
    assert done[0].stdout == done[1].stdout != "", done[0].stderr


def test_changes_are_said_in_the_users_words() -> None:
    stored, asked = (
        describe(spec, (TABLE, TABLE))
        for spec in (SPEC.replace(memory=2000), SPEC.replace(memory="2 kB", within="21 minutes"))
    )
    assert str(explain_change(stored, asked)) == (
        "the checkpoint belongs to another join: memory was 2000 tuples and is now 2 kB; within "
        "was 10 minutes and is now 21 minutes; go back to that, or start from a new checkpoint "
        "location"
    )
    counts = explain_change({**stored, "buckets": "200"}, {**stored, "buckets": "7"})
    assert "has 200 buckets and this join would have 7; give window_join buckets=200" in str(counts)


def test_long_texts_are_cut_and_still_differ() -> None:
    many = [{"left": dict.fromkeys(range(count), 0.5), "right": {}} for count in (900, 901)]
    texts = [
        describe(SPEC.replace(policy=tg.prob(frequencies=f)), (TABLE, TABLE))["policy"]
        for f in many
    ]
    assert texts[0] != texts[1]
    assert max(map(len, texts)) < 400
    assert not any(isinstance(p, Theta) for p in SPEC.predicates)
