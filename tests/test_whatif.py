"""What `tg.whatif` says is what the engine does.

Law: without sampling each point is the result of `tg.join` with that memory and policy; with it the
truth lies in the interval. A need that it states is met by a real join.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate as tg
from tidegate import cli
from tidegate.planner import replays, stand_ins, whatif_view


def streams(rows: int, keys: int, seed: int = 0, skew: float = 0.8) -> dict[str, pa.Table]:
    rng = np.random.default_rng(seed)
    weight = 1.0 / np.arange(1, keys + 1) ** skew
    return {
        name: pa.table(
            {
                "t": np.arange(rows),
                "k": rng.choice(keys, rows, p=weight / weight.sum()),
                "v": rng.random(rows) + 0.1,
                "text": ["payload"] * rows,
            }
        )
        for name in ("left", "right")
    }


SPEC = tg.JoinSpec(on="k", time="t", within=200)


@pytest.mark.parametrize("importance", [None, "v"])
@pytest.mark.parametrize("split", ["auto", "even", [0.25, 0.75]])
def test_each_point_is_a_join(importance: str | None, split: Any) -> None:
    tables = streams(1500, 60)
    spec = SPEC.replace(importance=importance, split=split)
    found = tg.whatif(tables, spec, [20, 90, 10_000], ["random", tg.dgl(decay=0.9)], optimum=False)
    exact = tg.join(tables, spec.replace(split="auto")).stats
    assert found.exact["size"] == exact["rows_out"]
    assert found.exact["memory"] == exact["memory_rows_peak"]
    assert found.exact["bytes"] == exact["memory_bytes_peak"]
    assert len(found.curve) == 6
    policies = {"random": "random", "dgl": tg.dgl(decay=0.9)}
    for row in found.curve:
        limited = spec.replace(memory=row["memory"], policy=policies[row["policy"]])
        stats = tg.join(tables, limited).stats
        assert row["recall"] == stats["rows_out"] / exact["rows_out"]
        worth = stats["importance_out"] / exact["importance_out"]
        assert row["importance_recall"] == pytest.approx(worth)
        assert row["low"] == row["high"] == row["importance_recall"]


def test_needs_are_met_and_not_by_much_less() -> None:
    tables = streams(3000, 200)
    found = tg.whatif(tables, SPEC, optimum=False, objective="size")
    exact = tg.join(tables, SPEC).stats["rows_out"]
    previous = 0
    for target, need in found.needed.items():
        assert need is not None
        assert need["memory"] >= previous
        previous = need["memory"]
        limited = SPEC.replace(memory=need["memory"], policy=need["policy"])
        stats = tg.join(tables, limited).stats
        assert stats["rows_out"] >= float(target) * exact
        assert need["bytes"] == stats["memory_bytes_peak"]
        less = SPEC.replace(memory=need["memory"] * 9 // 10, policy=need["policy"])
        assert tg.join(tables, less).stats["rows_out"] < float(target) * exact


def test_no_policy_beats_the_optimum() -> None:
    tables = streams(800, 60)
    found = tg.whatif(tables, SPEC.replace(split="even"), [10, 40, 120])
    best = {row["memory"]: row for row in found.curve if row["policy"] == "optimum"}
    assert set(best) == {10, 40, 120}
    for row in found.curve:
        assert row["recall"] <= best[row["memory"]]["recall"] + 1e-12
    assert found.recommended in found.policies
    assert "simp" not in found.policies  # nothing to weigh by


@pytest.mark.parametrize("skew", [0.5, 1.0])
def test_tuples_that_stand_for_all_come_near(skew: float) -> None:
    """Also where a few keys have most results: a plain sample of keys would miss those."""
    tables = streams(30_000, 20_000, skew=skew)
    spec, asked = SPEC.replace(within=2000), ([400, 1000, 2000], ["prob", "random"])
    full = tg.whatif(tables, spec, *asked, optimum=False)
    errors, near = [], []
    for seed in range(6):
        some = tg.whatif(tables, spec.replace(seed=seed), *asked, sample=0.1, optimum=False)
        assert some.sampled == 0.1
        assert some.exact["size"] == pytest.approx(full.exact["size"], rel=0.25)
        for row, true in zip(some.curve, full.curve, strict=True):
            assert row["low"] <= row["recall"] <= row["high"]
            errors.append(abs(row["recall"] - true["recall"]))
            near.append(row["low"] <= true["recall"] <= row["high"])
    assert np.mean(errors) < 0.02
    assert np.mean(near) >= 0.85


def test_each_key_stays_with_the_same_share() -> None:
    """Frequent keys are all there and pass, rare ones are a sample and stay."""
    tables = streams(30_000, 20_000, skew=1.0)
    some = stand_ins.chosen(tables, SPEC, 0.05)
    keys = np.concatenate([table["k"].to_numpy() for table in tables.values()])
    key = np.concatenate([table["k"].to_numpy() for table in some.tables.values()])
    stays, p = (np.concatenate(list(each.values())) for each in (some.stays, some.inclusion))
    frequent = np.unique(key[p == 1.0])
    assert np.isin(key, frequent).sum() == np.isin(keys, frequent).sum() > 2_000
    assert stays[p == 1.0].mean() == pytest.approx(0.05, rel=0.3)
    assert stays[p == 0.05].all()
    seeds = [stand_ins.chosen(tables, SPEC.replace(seed=seed), 0.05) for seed in range(10)]
    assert np.mean([each.portion for each in seeds]) == pytest.approx(0.05, rel=0.1)
    assert np.mean([each.rows for each in seeds]) == pytest.approx(0.2 * 60_000, rel=0.1)


def test_what_meets_nobody_does_not_pass() -> None:
    tables = streams(5_000, 300)
    keys = pa.array(tables["left"]["k"].to_numpy(), mask=np.arange(5_000) % 2 == 0)
    tables["left"] = tables["left"].set_column(1, "k", keys)
    some = stand_ins.chosen(tables, SPEC, 0.1)
    nobody = some.tables["left"]["k"].is_null().to_numpy()
    assert some.stays["left"][nobody].all()
    assert nobody.sum() == pytest.approx(250, rel=0.4)


def test_where_nobody_may_pass_keys_are_sampled() -> None:
    assert not stand_ins.can_pass(SPEC.replace(ties="instant"))
    spec = SPEC.replace(streams=("left", "right", "third"))
    tables = streams(6_000, 3_000, skew=0.3)
    tables = {name: tables["left" if name == "third" else name] for name in spec.streams}
    found = tg.whatif(tables, spec, [100], ["random"], sample=0.2, optimum=False)
    (row,) = found.curve
    assert row["low"] < row["recall"] < row["high"]
    assert row["high"] - row["low"] < 0.3


def test_long_streams_are_sampled_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "MOST_ROWS", 1000)
    found = tg.whatif(streams(1500, 300), SPEC, [50], ["recent"], optimum=False)
    assert found.sampled == pytest.approx(1 / 12, abs=0.001)
    by_count = tg.JoinSpec(on="k", time="t", within=tg.rows(50))
    whole = tg.whatif(streams(1500, 300), by_count, [50], ["recent"], optimum=False)
    assert whole.sampled == 1.0
    assert "all 3,000 rows are replayed" in whole.notes[0]


def test_nothing_to_join_keeps_everything() -> None:
    tables = {name: table.slice(0, 0) for name, table in streams(5, 2).items()}
    found = tg.whatif(tables, SPEC, [5], ["random"])
    assert {row["recall"] for row in found.curve} == {1.0}
    assert found.exact["size"] == 0
    assert "100.0" in str(found)
    assert "no rows meet" in str(found)


def test_rows_that_cannot_be_joined_are_said() -> None:
    tables = streams(50, 2)
    times = pa.array([None] * 7 + list(range(7, 50)), pa.int64())
    tables["left"] = tables["left"].set_column(0, "t", times)
    found = tg.whatif(tables, SPEC, [5], ["random"], optimum=False)
    assert "7 of 100 rows cannot be joined (null time)" in found.notes
    twice = tables["left"].append_column("k", tables["left"]["k"])
    with pytest.raises(tg.TidegateError, match="'k'"):
        tg.whatif({**tables, "left": twice}, SPEC, [5], ["random"])


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (([0],), {}, "each at least 1"),
        ((["2 MB"],), {}, "numbers of tuples"),
        (([],), {}, "memory is empty"),
        (([5], []), {}, "policies is empty"),
        (([5], "prob"), {}, "give a list"),
        (([5], ["prbo"]), {}, "prob"),
        (([5],), {"sample": 2.0}, "more than 0 and at most 1"),
        (([5],), {"sample": 1e-9}, "have no results"),
        (([10**25],), {}, "more than any join holds"),
        (([5],), {"objective": "worth"}, "objective"),
    ],
)
def test_bad_questions_get_a_sentence(
    arguments: tuple[Any, ...], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(tg.TidegateError, match=words):
        tg.whatif(streams(50, 5), SPEC, *arguments, **options)


def test_missing_and_unknown_streams() -> None:
    tables = streams(50, 5)
    with pytest.raises(tg.TidegateError, match="'right' is missing"):
        tg.whatif({"left": tables["left"]}, SPEC)
    with pytest.raises(tg.TidegateError, match="'other' is unknown"):
        tg.whatif({**tables, "other": tables["left"]}, SPEC)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, table in streams(600, 40).items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    files = [str(tmp_path / f"{name}.parquet") for name in ("left", "right")]
    options = ["--on", "k", "--time", "t", "--within", "200", "--memory", "40,100"]
    few = [*options, "--policies", "prob,value"]
    assert cli.run(["whatif", *files, *few, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert set(answer["needed"]) == {"0.90", "0.95", "0.99"}
    assert {row["policy"] for row in answer["curve"]} == {"prob", "value", "optimum"}
    assert {"policy", "memory", "recall", "importance_recall"} <= set(answer["curve"][0])
    for ending in ("svg", "png", "html", "json"):
        chart = tmp_path / f"chart.{ending}"
        assert cli.run(["whatif", *files, *few, "--chart", str(chart)]) == 0
        assert chart.stat().st_size > 1000
    out = capsys.readouterr().out
    assert "memory" in out
    assert "90 % of the results:" in out
    assert cli.run(["whatif", *files, *options, "--chart", "x.gif"]) == 2
    assert "no known ending" in capsys.readouterr().err


def test_the_chart_has_all_lines() -> None:
    found = tg.whatif(streams(300, 20), SPEC.replace(importance="v"), [20, 60], ["simp", "value"])
    drawn = json.dumps(whatif_view.chart(found))
    for name in ("simp", "value", "optimum"):
        assert name in drawn
    assert "importance" in str(found)
    assert "<table>" in found._repr_html_()
