"""`tidegate reproduce`: what it prints and writes, and that claims which held still hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

from tidegate.cli import run
from tidegate.lab.claims import HELD, held_before
from tidegate.lab.datasets import VARIABLE


@pytest.fixture(autouse=True)
def _no_recorded_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """The claims that have to hold are those that every checkout can measure."""
    monkeypatch.delenv(VARIABLE, raising=False)


def _answer(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert run(["reproduce", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.papers
def test_claims_that_held_still_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`tidegate reproduce all --quick --accept` writes the list anew where that is wanted."""
    # On a busy machine the pilot would choose Spark, which takes longer for so little.
    here = ("--run-on", "process")
    payload = _answer(capsys, "all", "--quick", *here, "--out", str(tmp_path))
    assert payload["lost"] == []
    holding = {
        f"{row['paper']} | {row['figure']} | {row['claim']}"
        for row in payload["claims"]
        if row["holds"]
    }
    assert {each for each in held_before() if not each.startswith("recorded")} <= holding
    for row in payload["claims"]:
        assert row["holds"] or row["reason"], row["claim"]
    report = Path(payload["report"]).read_text(encoding="utf-8")
    assert report.count("<svg") >= 10


def test_one_figure_gives_claims_and_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("srivastava2004-fig5", "--quick", "--out", str(tmp_path / "new" / "folder"))
    payload = _answer(capsys, *words)
    keys = {"paper", "figure", "claim", "expected", "measured", "holds"}
    assert all(keys <= set(row) for row in payload["claims"])
    assert {row["figure"] for row in payload["claims"]} == {"Fig. 5"}
    assert Path(payload["report"]).is_file()
    assert run(["reproduce", *words]) == 0
    assert "k_opt, seconds" in capsys.readouterr().out


def test_the_numbers_of_one_figure_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As tables; with several figures they stand in the report only."""
    assert run(["reproduce", "kang2003-table3", "--quick", "--out", str(tmp_path)]) == 0
    assert "a: computed" in capsys.readouterr().out


def test_figures_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    names = [row["name"] for row in _answer(capsys, "list")["figures"]]
    assert "ojewole2006-fig8" in names
    assert run(["reproduce", "list"]) == 0
    assert "Effect of tuple lifetime" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["ojewole2007"], "did you mean 'ojewole2006'?"),
        (["srivastava2004-fig77"], "did you mean 'srivastava2004-fig7'?"),
        (["all", "--accept"], "add --quick"),
        (["all", "--run-on", "sparc"], "did you mean 'spark'?"),
        (["all", "--data", "no/such/folder"], "the data folder 'no/such/folder' does not exist"),
    ],
)
def test_a_mistake_is_one_sentence(
    words: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["reproduce", *words, "--out", str(tmp_path)]) == 2
    printed = capsys.readouterr()
    assert sentence in printed.err
    assert len(printed.err.splitlines()) == 1
    assert printed.out == ""


def test_a_folder_that_cannot_be_made_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert run(["reproduce", "srivastava2004-fig5", "--out", str(tmp_path / "file" / "x")]) == 2
    assert "cannot be made" in capsys.readouterr().err


def test_without_recorded_data_the_report_says_how_to_name_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    payload = _answer(capsys, "recorded", "--quick", "--out", str(tmp_path))
    assert payload["claims"] == []
    assert VARIABLE in Path(payload["report"]).read_text(encoding="utf-8")


def test_a_lost_claim_ends_with_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = tmp_path / "held.json"
    held.write_text(json.dumps(["srivastava2004 | Fig. 5 | the moon is round"]))
    monkeypatch.setattr("tidegate.lab.claims.HELD", held)
    words = ["reproduce", "srivastava2004-fig5", "--quick", "--out", str(tmp_path)]
    assert run(words) == 1
    assert (
        "does not hold now: srivastava2004 | Fig. 5 | the moon is round" in capsys.readouterr().err
    )
    assert run([*words, "--accept"]) == 0
    assert "the moon" not in held.read_text()
    assert run(words) == 0
    assert HELD.is_file()
