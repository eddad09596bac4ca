"""The README does what it says: its code blocks run, in order, and give what is written beside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from readme import blocks, execute, under

from tidegate.cli import run
from tidegate.lab import value_table
from tidegate.lab.value_settings import joins

FIRST = ("tidegate",)
ENGINE = ("In Python",)
LOSS = ("How much was lost",)
MANY = ("More than two streams",)
SAMPLING = ("Aggregates with error bars",)
PLANNING = ("Before it runs",)
SHELL = ("On the command line", "The papers, reproduced")
# Run by tests/spark/test_readme.py.
SPARK = ("On Spark", "On a cluster", "Over Spark Connect")
RUN = (*FIRST, *ENGINE, *LOSS, *MANY, *SAMPLING, *PLANNING, *SHELL, *SPARK)


def test_every_block_is_run_by_a_test() -> None:
    for block in blocks():
        assert block.heading in RUN, f"no test runs line {block.line}"
        assert block.language in ("", "python")


def test_first_screen() -> None:
    """The shares that stand beside the example are those that it gives."""
    names: dict[str, Any] = {}
    (block,) = under(*FIRST)
    execute([block], names)
    streams, join = {"left": names["asked"], "right": names["answered"]}, names["tg"].join
    every = join(streams, names["exact"]).stats["rows_out"]
    chance = join(streams, names["small"].replace(policy="random")).stats["rows_out"] / every
    said = block.text.splitlines()[-1]
    assert f"# {names['found'] / every:.2f} of the results" in said
    assert f"find {chance:.2f} (" in said


def test_python_blocks() -> None:
    names: dict[str, object] = {}
    execute(under(*ENGINE), names)
    result, kept, out = names["result"], names["kept"], names["out"]
    rows = result.table.select(["ad", "at", "at_click"]).to_pylist()  # type: ignore[attr-defined]
    assert [tuple(row.values()) for row in rows] == [(7, 1, 3), (7, 2, 3), (8, 4, 9)]
    assert out.num_rows == 3  # type: ignore[attr-defined]
    assert kept.stats["rows_out"] == 2  # type: ignore[attr-defined]
    assert kept.stats["evicted"] == 2  # type: ignore[attr-defined]
    throttled = names["throttled"].stats  # type: ignore[attr-defined]
    assert (throttled["comparisons"], throttled["skipped_comparisons"]) == (2, 1)
    import tidegate as tg

    streams = {"view": names["views"], "click": names["clicks"]}
    sentence = tg.regret(streams, names["spec"]).sentence  # type: ignore[arg-type]
    said = under(*ENGINE)[-1].text.splitlines()[-1].removeprefix("# ").removesuffix(" ...")
    assert sentence.startswith(said)
    assert names["best"].size == 2  # type: ignore[attr-defined]
    assert names["found"].exact["size"] == 3  # type: ignore[attr-defined]


def test_blocks_about_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {}
    execute([block for block in under(*LOSS) if block.language], names)
    stats, tg = names["stats"], names["tg"]
    exact = tg.join(
        {"left": names["orders"], "right": names["parcels"]},
        names["spec"].replace(memory=None, policy="auto", sentinel=None),
    )
    recall = stats["rows_out"] / exact.stats["rows_out"]
    assert stats["recall_low"] <= recall <= stats["recall_high"]
    monkeypatch.chdir(tmp_path)
    _write_streams()
    for block in under(*LOSS):
        if not block.language:
            for words in block.commands():
                assert run(words[1:]) == 0, words
    spec = tg.JoinSpec(on="k", time="t", within=100)
    a, b, kept, lost = (parquet.read_table(f"{n}.parquet") for n in ("a", "b", "kept", "lost"))
    assert kept.num_rows + lost.num_rows == tg.join({"left": a, "right": b}, spec).table.num_rows
    assert lost.num_rows > 0


def test_block_of_many_streams() -> None:
    names: dict[str, Any] = {}
    execute(under(*MANY), names)
    found = names["tg"].join(names["orders"], names["spec"]).table
    assert found["order"].to_pylist() == [1]


def test_sampling_block() -> None:
    names: dict[str, object] = {}
    execute(under(*SAMPLING), names)
    (row,) = names["answer"].to_pylist()  # type: ignore[attr-defined]
    assert row["interval"] == "95 %"
    assert row["low"] < 0.5 < row["high"]


def test_planning_block() -> None:
    names: dict[str, object] = {}
    execute(under(*PLANNING), names)
    assert names["plan"].best == "TN"  # type: ignore[attr-defined]
    assert names["shares"].memory == {"orders": 35, "clicks": 25}  # type: ignore[attr-defined]


def _write_streams() -> None:
    numbers = pa.table(
        {"k": [n % 5 for n in range(90)], "t": range(90), "x": [n % 7 for n in range(90)]}
    )
    for name in ("a", "b"):
        parquet.write_table(numbers, f"{name}.parquet")


@pytest.fixture
def _few_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of VALUE's table, the first generated join and the first of the papers, of each half."""

    def few(_: Path | None, quick: bool) -> list[Any]:
        found = {(join.group, join.is_tuning): join for join in reversed(joins(None, quick))}
        return list(found.values())

    monkeypatch.setattr(value_table, "joins", few)


@pytest.mark.usefixtures("_few_settings")
@pytest.mark.parametrize("heading", SHELL)
def test_commands(
    heading: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    moments = pa.array([0, 1_000_000], pa.timestamp("us"))
    parquet.write_table(pa.table({"ad": [7, 8], "at": moments}), "views.parquet")
    csv.write_csv(pa.table({"ad": [7, 8], "at": moments}), "clicks.csv")
    _write_streams()
    for block in under(heading):
        for program, *words in block.commands():
            assert program == "tidegate"
            assert run(words) == 0, capsys.readouterr().err
    assert capsys.readouterr().out
    if heading == SHELL[0]:
        assert parquet.read_table("joined.parquet").num_rows == 2


def test_policies_are_named() -> None:
    import tidegate as tg

    text = Path(__file__).parents[1].joinpath("README.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in tg.policies())
