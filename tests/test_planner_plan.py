"""`tidegate.plan` and `tidegate plan`: what a plan says is what its parts say.

The law: costs are those of the model, bytes are near what the engine counts, samples are measured
as a slow look at every window would measure them, and bad input gets one sentence.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate as tg
from tidegate.cli import run
from tidegate.costs import machine
from tidegate.costs.choice import choose
from tidegate.costs.state_bytes import state_bytes
from tidegate.costs.structures import index_of
from tidegate.costs.weights import PAPER
from tidegate.costs.workload import Workload
from tidegate.planner import calibrate, plan_view
from tidegate.planner.sample import sample_of
from tidegate.spec import TidegateError

EXAMPLE = ["plan", "--windows", "9500", "500", "--rates", "2", "998", "--weights", "paper"]


def answered(capsys, *arguments):
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


# --- the command line ---------------------------------------------------------------------


def test_the_command_of_the_design(capsys):
    found = answered(capsys, *EXAMPLE)
    assert len(found["costs"]) == 16
    assert f"{found['costs']['TN']:.2f}" == "4.67"
    assert f"{found['costs']['NT']:.2f}" == "2849.69"
    assert found["best"] == "TN"
    assert found["considered"] == "NHT"
    assert found["indexes"] == {"left": "ttree", "right": "nested-loop"}
    assert found["cpu_per_second"] is None


def test_b_trees_compete_when_asked(capsys):
    assert answered(capsys, *EXAMPLE, "--structures", "NHBT")["best"] == "BN"


def test_scarce_resources_on_the_command_line(capsys):
    found = answered(
        capsys, "plan", "--windows", "500", "1000", "--rates", "1000", "1000", "--weights", "paper",
        "--service-rate", "100", "--least-rates", "10", "10", "--keys", "100", "200",
    )  # fmt: skip
    assert found["allocation"]["rates"] == [90.0, 10.0]
    assert found["allocation"]["scarce"] == "cpu"
    assert found["output_rate"] == pytest.approx((1000 * 1000 + 1000 * 500) / 200)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--windows", "1", "2"], "--rates is missing; give --windows A B and --rates A B"),
        (["--rates", "1", "2", "--windows", "1", "-2"], "windows has the value -2.0"),
        (["--rates", "0", "0", "--windows", "1", "2"], "rates are both 0"),
        (["--rates", "1", "nan", "--windows", "1", "2"], "rates has the value nan"),
        (["--calibrate", "--rates", "1", "1"], "--calibrate measures the machine and takes no"),
        (["a.parquet", "--rates", "1", "1"], "--rates is measured on the samples"),
        (["a.parquet", "b.parquet", "--on", "k"], "--time is missing; samples need two files"),
        ([*EXAMPLE[1:-1], "papr"], "did you mean 'paper'"),
        ([*EXAMPLE[1:], "--structures", "Q"], "write letters of NHBT"),
        ([*EXAMPLE[1:], "--predicate", "bond"], "did you mean 'band'"),
        ([*EXAMPLE[1:], "--predicate", "band", "--structures", "H"], "do not serve a band join"),
        ([*EXAMPLE[1:], "--selectivity", "2"], "selectivity is 2; it is the share"),
        ([*EXAMPLE[1:], "--keys", "0", "5"], "keys has the value 0.0"),
        ([*EXAMPLE[1:], "--memory", "-1"], "memory is -1.0; give tuples"),
        ([*EXAMPLE[1:], "--service-rate", "10", "--least-rates", "1", "20"], "need 21, which is"),
        ([*EXAMPLE[1:], "--chart", "plan.gif"], "use .svg, .png, .html or .json"),
    ],
)
def test_bad_input_gets_one_sentence(capsys, options, sentence):
    assert run(["plan", *options]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def test_help_has_examples(capsys):
    assert run(["plan", "--help"]) == 0
    assert "tidegate plan --windows 9500 500 --rates 2 998" in capsys.readouterr().out


# --- the object ---------------------------------------------------------------------------


def test_a_plan_prints_itself():
    plan = tg.plan(windows=(9500, 500), rates=(2, 998), weights="paper", memory=1000)
    assert "TN (left: ttree, right: nested-loop)" in repr(plan)
    assert "scarce memory" in repr(plan)
    page = plan._repr_html_()
    assert "<table>" in page
    assert "left: ttree" in page


def test_the_chart_holds_the_numbers_of_the_plan():
    plan = tg.plan(windows=(9500, 500), rates=(2, 998), weights="paper")
    chart = plan.chart()
    assert chart["hconcat"][0]["data"]["values"][1] == {
        "pair": "TN", "cost": plan.costs["TN"], "label": "4.67", "best": True
    }  # fmt: skip
    assert len(chart["hconcat"][1]["data"]["values"]) == 2 * len(plan.scarcer)
    assert plan_view.png(plan).startswith(b"\x89PNG")


def test_less_never_gives_more_and_equal_never_beats_the_plan():
    plan = tg.plan(windows=(700, 100), rates=(3, 90), weights="paper")
    for resource in ("memory", "cpu"):
        rows = [row for row in plan.scarcer if row["resource"] == resource]
        shares = [row["output_share"] for row in rows]
        assert shares[0] == 1.0
        assert shares == sorted(shares, reverse=True)
        assert all(row["equal_share"] <= row["output_share"] + 1e-12 for row in rows)
    assert any(row["equal_share"] < row["output_share"] - 0.05 for row in plan.scarcer)


def test_the_choice_is_the_cheapest_that_serves():
    workload = Workload((300, 4000), (50, 5), predicate="band")
    choice = choose(workload, PAPER, "NHBT")
    assert set("".join(choice.costs)) == set("NBT")
    assert choice.cost == min(choice.costs.values())
    assert choice.bytes == state_bytes(choice.pair, workload.windows)


# --- bytes --------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", ["NN", "HH", "TT", "BB", "TH"])
@pytest.mark.parametrize("rows", [9_000, 16_000])
def test_bytes_are_near_what_the_engine_counts(pair, rows):
    """If this fails after a change of the engine's arrays: correct `planner/state_bytes`."""
    window, each = rows // 2, 250
    spec = tg.JoinSpec(
        on="key", time="time", within=window - 1, index=index_of(pair, ("left", "right"))
    )
    engine = tg.JoinEngine(spec)
    generator = np.random.default_rng(0)
    for begin in range(0, 3 * window, each):
        times = np.arange(begin, begin + each)
        engine.push(
            {
                name: pa.table({"key": generator.integers(0, 2**40, each), "time": times})
                for name in ("left", "right")
            }
        )
    stats = engine.stats()
    assert stats["memory_rows"] == rows
    assert state_bytes(pair, (window, window)) == pytest.approx(stats["memory_bytes"], rel=0.1)


# --- samples ------------------------------------------------------------------------------


def sample_tables(stamped):
    generator = np.random.default_rng(1)
    tables = {}
    for name, rows, keys in (("left", 4_000, 40), ("right", 1_000, 60)):
        times = np.sort(generator.integers(0, 1_000_000, rows))
        column = pa.array(times * 1_000, pa.timestamp("us")) if stamped else pa.array(times)
        tables[name] = pa.table({"key": generator.integers(0, keys, rows), "time": column})
    return tables


@pytest.mark.parametrize("stamped", [True, False])
def test_samples_are_measured(stamped):
    tables = sample_tables(stamped)
    within = "50 seconds" if stamped else 50_000
    sample = sample_of(tables, tg.JoinSpec(on="key", time="time", within=within))
    found, unit = sample.workload, 1_000 if stamped else 1
    assert sample.time_unit == ("second" if stamped else "unit")
    assert found.rates[0] == pytest.approx(4_000 / 1_000_000 * unit, rel=0.01)
    assert found.rates[1] == pytest.approx(1_000 / 1_000_000 * unit, rel=0.01)
    assert found.windows == pytest.approx((200, 50), rel=0.1)
    assert found.keys[0] == pytest.approx(40, rel=0.05)
    first, second = (table["key"].to_numpy() for table in tables.values())
    assert found.selectivity == pytest.approx((first[:, None] == second[None, :]).mean())
    assert found.predicate == "equality"
    assert sample.row_bytes == 16


def test_samples_of_bands_counts_and_rows_that_no_join_takes():
    tables = sample_tables(False)
    spec = tg.JoinSpec(on=tg.band("key", -2, 3), time="time", within=tg.rows(100))
    found = sample_of(tables, spec).workload
    assert found.windows == (100, 100)
    assert found.predicate == "band"
    first, second = (table["key"].to_numpy() for table in tables.values())
    difference = second[None, :] - first[:, None]
    assert found.selectivity == pytest.approx(((difference >= -2) & (difference <= 3)).mean())
    holes = pa.array([None] * 3_000 + [7] * 1_000, pa.int64())
    tables["left"] = tables["left"].set_column(0, "key", holes)
    after = sample_of(tables, tg.JoinSpec(on="key", time="time", within=tg.rows(100))).workload
    assert after.selectivity == pytest.approx((second == 7).mean())


def test_two_equalities_are_one_key():
    tables = {
        name: table.append_column("more", pa.array(["x", "y"] * (table.num_rows // 2)))
        for name, table in sample_tables(False).items()
    }
    found = sample_of(tables, tg.JoinSpec(on=["key", "more"], time="time", within=tg.rows(500)))
    sides = [
        table["key"].to_numpy() * 2 + (np.array(table["more"].to_pylist()) == "y")
        for table in tables.values()
    ]
    assert found.workload.selectivity == pytest.approx(
        (sides[0][:, None] == sides[1][None, :]).mean()
    )


def test_samples_on_the_command_line(capsys, tmp_path):
    for name, table in sample_tables(True).items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    chart = tmp_path / "plan.html"
    found = answered(
        capsys, "plan", str(tmp_path / "left.parquet"), str(tmp_path / "right.parquet"), "--on",
        "key", "--time", "time", "--within", "50 seconds", "--weights", "paper", "--chart",
        str(chart),
    )  # fmt: skip
    assert found["workload"]["windows"] == pytest.approx([200, 50], rel=0.1)
    assert "<svg" in chart.read_text()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"within": "2 hours"}, "longer than its sample"),
        ({"within": 50}, "durations such as '10 minutes' go with timestamps"),
        ({"within": tg.rows(5_000)}, "holds 5000 rows and its sample only"),
        ({"time": "when", "within": 5}, "stream 'left' has no column 'when'; it has key, time"),
        ({"on": tg.overlap("key", 2), "within": "1 s"}, "has neither"),
    ],
)
def test_samples_that_cannot_be_used(options, sentence):
    spec = tg.JoinSpec(**{"on": "key", "time": "time", **options})
    with pytest.raises(TidegateError, match=sentence):
        tg.plan(sample_tables(True), spec)


# --- weights of this machine --------------------------------------------------------------


@pytest.fixture
def own_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "cache_folder", lambda: tmp_path)
    return tmp_path


def test_weights_are_kept_and_read_back(own_folder, capsys):
    with pytest.raises(TidegateError, match="run: tidegate plan --calibrate"):
        machine.weights_of("here")
    assert machine.weights_of("auto") is PAPER
    here = replace(PAPER, name="here", unit="s", made={"cpu": machine.cpu_name()})
    assert machine.store(here).parent == own_folder
    assert machine.weights_of("here") == here == machine.weights_of("auto")
    found = answered(capsys, *EXAMPLE[:-1], "here")
    assert found["cpu_per_second"] == found["cost"]


def test_weights_that_cannot_be_used_are_refused(own_folder):
    file = own_folder / machine.FILE
    good = asdict(replace(PAPER, made={"cpu": machine.cpu_name()}))
    for bad, sentence in (
        ("{", "cannot be read as weights"),
        ("[]", "does not hold weights of this version"),
        (json.dumps({**good, "search": {"N": 1.0}}), "does not hold weights"),
        (json.dumps({**good, "per_arrival": -1.0}), "does not hold weights"),
        (json.dumps({**good, "per_arrival": float("inf")}), "does not hold weights"),
        (json.dumps({**good, "made": {"cpu": "Z80"}}), "are of another CPU \\(Z80"),
    ):
        file.write_text(bad)
        with pytest.raises(TidegateError, match=sentence):
            machine.weights_of("here")


def test_calibration_through_the_engine(own_folder, capsys, monkeypatch):
    """Small, so nothing is said about how good the weights are; only that they are usable."""
    monkeypatch.setattr(calibrate, "Effort", lambda: calibrate.QUICK)
    found = answered(capsys, "plan", "--calibrate", "--quiet")["weights"]
    assert found["unit"] == "s"
    assert found["made"]["cpu"] == machine.cpu_name()
    assert found["search"]["N"] > 0
    plan = tg.plan(windows=(2000, 2000), rates=(10, 10), weights="here")
    assert "N" not in plan.best
    assert plan.cpu_per_second > 0


def test_the_fit_finds_the_line_and_nothing_negative():
    generator = np.random.default_rng(0)
    for _ in range(200):
        constant, each = generator.uniform(0, 3, 2)
        exact = [calibrate.Point(n, constant + each * n) for n in (1.0, 5.0, 20.0)]
        assert calibrate.fit(exact) == pytest.approx((constant, each), abs=1e-9)
        noisy = [calibrate.Point(n, generator.uniform(0.1, 1)) for n in (1.0, 5.0, 20.0)]
        assert min(calibrate.fit(noisy)) >= 0
