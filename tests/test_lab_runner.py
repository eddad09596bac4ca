"""Runs are stored with their configuration and are not made twice."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from strategies import RARE_POLICIES

import tidegate as tg
from tidegate.lab.configuration import EXACT, OPTIMUM, Configuration, code_version
from tidegate.lab.measure import MEASURED, measure
from tidegate.lab.runner import Runner
from tidegate.lab.store import Store

SPEC = {
    "streams": ["r", "s"], "on": "key", "time": "ts", "within": 19, "importance": "importance",
    "ties": "instant", "split": "even",
}  # fmt: skip
EXACT_RUN = Configuration("keyed_streams", {"length": 200, "domain": 9}, SPEC, seed=3)


def _limited(policy: str = "simp", **changes: Any) -> Configuration:
    return replace(EXACT_RUN, policy=policy, memory=10, **changes)


def test_a_run_is_what_the_public_join_gives() -> None:
    from tidegate.lab.paper_streams import keyed_streams

    streams = keyed_streams(200, 9, seed=3)
    spec = tg.JoinSpec(
        streams=("r", "s"), on="key", time="ts", within=19, importance="importance",
        ties="instant", split="even", memory=10, policy="simp", seed=3,
    )  # fmt: skip
    expected = tg.join(streams, spec)
    found = measure(_limited())
    assert found["size"] == found["size_total"] == expected.table.num_rows
    assert found["importance"] == pytest.approx(expected.stats["importance_out"])
    assert found["memory_rows_peak"] <= 10


def test_counting_starts_where_it_is_told() -> None:
    whole, late, none = (
        measure(replace(EXACT_RUN, count_from=start)) for start in (None, 100, 10_000)
    )
    assert 0 < late["size"] < whole["size"] == late["size_total"]
    assert (none["size"], none["importance"]) == (0, 0.0)


@pytest.mark.parametrize("start", [None, 100])
def test_no_policy_keeps_more_than_the_optimum(start: int | None) -> None:
    best = measure(_limited(OPTIMUM, count_from=start))
    exact = measure(replace(EXACT_RUN, count_from=start))
    assert best["importance"] <= exact["importance"]
    for policy in set(tg.policies()) - RARE_POLICIES:  # in instants these are not compiled yet
        assert measure(_limited(policy, count_from=start))["importance"] <= best["importance"]


def test_memory_below_one_is_a_share_of_the_exact_peak() -> None:
    peak = measure(EXACT_RUN)["memory_rows_peak"]
    found = measure(replace(_limited(), memory=0.25))
    assert found["memory_rows"] == round(0.25 * peak)
    assert found["memory_rows_peak"] <= found["memory_rows"]


def test_results_are_stored_with_their_configuration_and_not_made_again(tmp_path: Path) -> None:
    runs = [EXACT_RUN, _limited(), _limited("random"), _limited()]
    calls: list[tuple[int, int]] = []
    first = Runner(Store(tmp_path, "v"), "process")
    found = first.run(runs, lambda done, total: calls.append((done, total)))
    assert calls == [(0, 3), (3, 3)]
    assert list(found) == runs[:3]
    table = parquet.read_table(tmp_path)
    assert table.column_names == ["key", "code_version", "configuration", *MEASURED]
    stored = {Configuration.from_text(text) for text in table["configuration"].to_pylist()}
    assert stored == set(runs)
    calls.clear()
    again = Runner(Store(tmp_path, "v"), "process")
    assert again.run(runs, lambda done, total: calls.append((done, total))) == found
    assert calls == []
    assert again.notes == ["3 of 3 results were stored already"]
    other = Runner(Store(tmp_path, "another version"), "process")
    assert other.store.missing(runs) == sorted(stored, key=lambda each: each.text)


def test_equal_configurations_are_equal_however_written() -> None:
    shuffled = dict(reversed(SPEC.items()))
    assert replace(EXACT_RUN, spec=shuffled) == EXACT_RUN
    assert Configuration.from_text(EXACT_RUN.text) == EXACT_RUN
    assert replace(EXACT_RUN, seed=4) != EXACT_RUN
    assert json.loads(EXACT_RUN.text)["policy"] == EXACT
    assert EXACT_RUN.key("a") != EXACT_RUN.key("b")


def test_the_version_follows_the_sources_that_decide_results() -> None:
    assert len(code_version()) == 16
    assert code_version() == code_version.__wrapped__()


def test_where_to_run_is_told(tmp_path: Path) -> None:
    runner = Runner(Store(tmp_path, "v"), "auto")
    runner.run([_limited()])
    assert runner.notes == ["1 runs in this process"]
