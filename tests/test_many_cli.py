"""`tidegate join A B C ...`, and what is refused for more than two streams."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from many_cases import names_of
from pyarrow import parquet

import tidegate as tg
from tidegate.cli import run


def table(shift: int) -> pa.Table:
    rows = range(60)
    return pa.table(
        {
            "ts": [row + shift for row in rows],
            f"key{shift}": [row * (1 + shift) % 7 for row in rows],
            "key": [row * (1 + shift) % 7 for row in rows],
            "price": [float(1 + row % 4) for row in rows],
        }
    )


TABLES = {f"s{number}": table(number - 1) for number in range(1, 5)}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    for name, rows in TABLES.items():
        parquet.write_table(rows, f"{name}.parquet")
    return [f"{name}.parquet" for name in TABLES]


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert run(list(words)) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        (["--on", "key", "--within", "5"], {"on": "key", "within": 5}),
        (
            ["--on", "key0=key1=key2=key3", "--within", "s1=9,s2=5,s3=0,s4=3 rows"],
            {
                "on": {f"s{n}": f"key{n - 1}" for n in range(1, 5)},
                "within": {"s1": 9, "s2": 5, "s3": 0, "s4": tg.rows(3)},
            },
        ),
        (
            ["--on", "key", "--within", "9", "--memory", "20", "--policy", "arrival-order",
             "--split", "5,6,4,5", "--importance", "price", "--output-importance", "sum"],
            {"on": "key", "within": 9, "memory": 20, "policy": "arrival-order",
             "split": [5, 6, 4, 5], "importance": "price", "output_importance": "sum"},
        ),
    ],
)  # fmt: skip
def test_many_files(
    files: list[str], options: list[str], changes: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answer(capsys, "join", *files, "--time", "ts", *options, "-o", "out.parquet", "--json")
    expected = tg.join(TABLES, tg.JoinSpec(time="ts", streams=names_of(4), **changes))
    assert found["stats"]["rows_out"] == expected.stats["rows_out"] > 0
    assert found["stats"]["evicted_s4"] == expected.stats["evicted_s4"]
    assert parquet.read_table("out.parquet").equals(expected.table)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--on", "a=b"], "write NAME, or S1_NAME=S2_NAME=S3_NAME=S4_NAME"),
        (["--on", "band:ts:0:1"], "a predicate other than equality"),
        (["--on", "key", "--memory", "9", "--policy", "uniform"], "samples joins of two streams"),
        (["--on", "key", "--within", "s1=3,s2=4"], "says nothing for stream 's3', 's4'"),
        (["--on", "key", "--within", "s1=3,5"], "has the part '5'"),
    ],
)
def test_bad_options_are_one_sentence(
    files: list[str], options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    within = [] if "--within" in options else ["--within", "5"]
    assert run(["join", *files, "--time", "ts", *within, *options]) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("tidegate: ")
    assert errors.count("\n") == 1
    assert sentence in errors


def test_the_optimum_is_of_two_streams() -> None:
    spec = tg.JoinSpec(
        on="key", time="ts", within=5, streams=names_of(3), memory=9, policy="recent"
    )
    tables = {name: TABLES[name] for name in names_of(3)}
    for ask in (tg.optimum, tg.regret):
        with pytest.raises(tg.TidegateError, match="the optimum is known for two"):
            ask(tables, spec)


def test_whatif_takes_more_than_two_files(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    said = answer(
        capsys, "whatif", *files[:3], "--on", "key", "--time", "ts", "--within", "9",
        "--memory", "5,40", "--policies", "recent", "--json", "--quiet",
    )  # fmt: skip
    streams = {name: TABLES[name] for name in names_of(3)}
    spec = tg.JoinSpec(on="key", time="ts", within=9, streams=names_of(3))
    assert said["curve"] == tg.whatif(streams, spec, [5, 40], ["recent"]).curve


def test_the_optimum_is_for_two_files(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--on", "key", "--time", "ts", "--within", "9", "--memory", "5"]
    assert run(["optimum", *files[:3], *words]) == 2
    assert "the optimum is known for two" in capsys.readouterr().err


def test_a_cpu_budget(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    said = answer(
        capsys, "join", *files[:2], "--on", "key", "--time", "ts", "--within", "9",
        "--comparisons-per-second", "0.5", "--json",
    )["stats"]  # fmt: skip
    streams = {"left": TABLES["s1"], "right": TABLES["s2"]}
    spec = tg.JoinSpec(on="key", time="ts", within=9, cpu=tg.Cpu(0.5))
    assert said == tg.join(streams, spec).stats
    assert said["skipped_comparisons"] > 0
