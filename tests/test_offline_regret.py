"""Regret, from Python and on the command line.

The law: the three results are those of the engine and of `optimum`; an estimate says so.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet
from test_offline_flow import spec_of, streams
from test_worked_examples import ojewole_spec, ojewole_tables

import tidegate as tg
from tidegate.cli import run
from tidegate.offline import key_sample


def test_regret_of_the_worked_example() -> None:
    spec = ojewole_spec(memory=4, split="even", policy="simp")
    found = tg.regret(ojewole_tables(), spec)
    stats = tg.join(ojewole_tables(), spec).stats
    assert found.exact == {"size": 9, "importance": 32}
    assert found.optimum == {"size": 7, "importance": 30}
    assert found.policy == {"size": stats["rows_out"], "importance": stats["importance_out"]}
    assert found.kept == pytest.approx(found.possible * found.reached)
    assert found.sentence == (
        f"kept {100 * found.kept:.0f} % of the exact result; the best possible under this budget "
        f"was 94 %; so {100 * found.reached:.0f} % of what was possible"
    )


def test_regret_of_streams_that_never_meet() -> None:
    tables = {name: table.slice(0, 1) for name, table in ojewole_tables().items()}
    found = tg.regret(tables, ojewole_spec(memory=0))
    assert (found.kept, found.possible, found.reached) == (1, 1, 1)


@pytest.mark.parametrize("split", ["even", "shared"])
def test_an_estimate_from_a_sample_of_keys(split: str) -> None:
    """The interval holds the truth in most samples: 95 of 100 are promised, 15 of 20 asked for."""
    tables = streams(12_000, 3000, seed=5, skew=0.0)
    spec = spec_of(2000, 1500, split=split)
    truth = tg.regret(tables, spec).possible
    inside = 0
    for seed in range(20):
        found = tg.regret(tables, spec.replace(seed=seed), sample=0.25)
        assert found.interval is not None
        low, high = found.interval
        assert low <= found.possible <= high
        assert high - low < 0.2
        inside += low <= truth <= high
    assert inside >= 15
    assert "with 95 % confidence, from 25 % of the keys" in found.sentence


def test_a_sample_of_all_keys_is_the_truth() -> None:
    tables, spec = streams(2000, 300, seed=6), spec_of(100, 100)
    found = tg.regret(tables, spec, sample=1.0)
    assert found.optimum == tg.regret(tables, spec).optimum
    assert found.interval == pytest.approx((found.possible, found.possible))


def test_samples_of_neighbouring_seeds_do_not_depend_on_each_other() -> None:
    """Once seed 1 took the keys beside those of seed 0."""
    codes = np.arange(20_000, dtype=np.uint64)
    first, second = (key_sample.mixed(codes, seed) < np.uint64(2**62) for seed in (0, 1))
    for offset in (0, 1):
        both = np.mean(first & second[codes ^ np.uint64(offset)])
        assert both == pytest.approx(1 / 16, abs=0.01)


def test_samples_that_cannot_be_taken() -> None:
    tables, spec = streams(50, 5, seed=0), spec_of(10, 10)
    with pytest.raises(tg.TidegateError, match="sample 2 is not a share"):
        tg.regret(tables, spec, sample=2)
    with pytest.raises(tg.TidegateError, match="sample needs an equality"):
        tg.regret(tables, spec.replace(on=tg.band("key", 0, 1)), sample=0.5)
    with pytest.raises(tg.TidegateError, match="sample needs time windows"):
        tg.regret(tables, spec.replace(within=tg.rows(5)), sample=0.5)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    paths = []
    for name, table in ojewole_tables().items():
        paths.append(str(tmp_path / f"{name}.parquet"))
        parquet.write_table(table, paths[-1])
    return paths


OPTIONS = [
    "--on", "key", "--time", "ts", "--within", "3", "--importance", "importance",
    "--ties", "instant", "--memory", "4", "--split", "even",
]  # fmt: skip


def test_command(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["optimum", *files, *OPTIONS, "--policy", "simp", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["exact"] == {"size": 9, "importance": 32.0}
    assert shown["optimum"] == {"size": 7, "importance": 30.0}
    assert shown["policy"]["importance"] <= 30.0
    assert run(["optimum", *files, *OPTIONS, "--objective", "size", "--method", "dp"]) == 0
    assert "the best possible under this budget was 89 %" in capsys.readouterr().out


def test_command_refuses_what_is_unknown(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["optimum", *files, *OPTIONS, "--method", "fow"]) == 2
    assert "method 'fow' is not known; did you mean 'flow'" in capsys.readouterr().err
