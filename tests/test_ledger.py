"""The ledger: output and repaired results are the exact join, and every row stands in it once."""

from __future__ import annotations

import errno
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

import tidegate as tg
from tidegate.cli import run as run_command
from tidegate.loss import ledger_files
from tidegate.offline.repair import repair
from tidegate.state import arrays

JOINS: dict[str, dict[str, Any]] = {
    "by tuple": {"policy": "random"},
    "by key": {"policy": "prob", "split": "shared"},
    "by age": {"policy": "age"},
    "value": {"policy": "value", "importance": "w"},
    "late rows": {"policy": "random", "lateness": 12, "split": "even"},
    "in bytes": {"policy": "random", "memory": "127 KB"},
    "a band": {"on": tg.band("k", 0, 1), "policy": "simp", "importance": "w"},
    "three streams": {"streams": ("a", "b", "c"), "policy": "prob"},
    "with a sentinel": {"policy": "dgl", "sentinel": 0.3},
}
joins = pytest.mark.parametrize("options", JOINS.values(), ids=JOINS)


def spec_of(options: dict[str, Any]) -> tg.JoinSpec:
    usual = {"on": "k", "time": "t", "within": 30, "memory": 30, "seed": 3}
    return tg.JoinSpec(**{**usual, **options})


def pushes_of(
    spec: tg.JoinSpec, seed: int, pushes: int = 5, rows: int = 30
) -> list[dict[str, pa.Table]]:
    """Rows out of order, some too late and some that cannot be joined; `n` tells them apart."""
    rng = np.random.default_rng(seed)
    found = []
    for push in range(pushes):
        tables = {}
        for name in spec.streams:
            time = 20 * push + rng.integers(-20 if spec.lateness and push else 0, 20, rows)
            tables[name] = pa.table(
                {
                    "t": pa.array(time, mask=rng.random(rows) < 0.03),
                    "k": rng.zipf(1.7, rows) % 6,
                    "n": np.arange(rows) + push * rows,
                    "w": rng.random(rows) + 0.1,
                    "note": rng.choice(["long", "short"], rows),
                }
            )
        found.append(tables)
    return found


def rows_of(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(map(tuple, (row.values() for row in table.to_pylist())))


def check_repaired(
    spec: tg.JoinSpec,
    pushes: list[Any],
    out: pa.Table,
    folder: Path,
    clocks: list[Any] | None = None,
) -> pa.Table:
    exact = tg.JoinEngine(spec.unwatched().replace(memory=None, policy="auto", split="auto"))
    clocks = clocks or [None] * len(pushes)
    parts = [exact.push(push, watermark=at) for push, at in zip(pushes, clocks, strict=True)]
    everything = pa.concat_tables(parts)
    repaired = pa.concat_tables(repair(folder).results())
    assert repaired.schema == out.schema
    assert rows_of(out) + rows_of(repaired) == rows_of(everything)
    return repaired


@joins
def test_output_and_repaired_are_the_exact_join(options: dict[str, Any], tmp_path: Path) -> None:
    spec = spec_of(options)
    lost = 0
    for seed in range(4):
        folder, pushes = tmp_path / str(seed), pushes_of(spec, seed)
        engine = tg.JoinEngine(spec, ledger=folder)
        out = pa.concat_tables([engine.push(push) for push in pushes])
        engine.write_ledger()
        lost += check_repaired(spec, pushes, out, folder).num_rows
        counted = repair(folder).rows
        stats = engine.stats()
        for name in ("alive", "expired", "evicted", "refused"):
            assert counted[name] == stats[name]
        assert counted["too late"] == stats["too_late"]
        assert sum(counted.values()) == stats["rows_in"]
        assert stats["rejected"] == sum(n for why, n in counted.items() if "rejected" in why) > 0
    assert lost > 0 or "KB" in str(spec.memory)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from(sorted({*JOINS} - {"in bytes"})), st.booleans())
def test_after_crashes_too(seed: int, kind: str, outside: bool) -> None:
    """A process dies between two snapshots; the next one goes on from the last. Memory changes in
    between, and the clock may be kept from outside."""
    with tempfile.TemporaryDirectory() as folder:
        check_crashes(spec_of(JOINS[kind]), seed, Path(folder), outside)


def check_crashes(spec: tg.JoinSpec, seed: int, folder: Path, outside: bool = False) -> None:
    chance, pushes = np.random.default_rng(seed), pushes_of(spec, seed, rows=12)
    clocks = [20 * number - 5 if outside else None for number in range(len(pushes))]
    engine = tg.JoinEngine(spec, ledger=folder)
    outputs = [engine.push(pushes[0], watermark=clocks[0])]
    for push, clock in zip(pushes[1:], clocks[1:], strict=True):
        if chance.random() < 0.3:
            engine.resize(int(chance.integers(27, 60)))
        blob = engine.snapshot()
        engine.push(push, watermark=clock)  # nobody gets these results
        if seed % 2:
            engine.write_ledger()
        engine = tg.JoinEngine.restore(blob, ledger=folder)
        outputs.append(engine.push(push, watermark=clock))
    engine.write_ledger()
    check_repaired(spec, pushes, pa.concat_tables(outputs), folder, clocks)


@pytest.mark.parametrize("seed", [1])
def test_a_target_that_changes_the_memory(seed: int, tmp_path: Path) -> None:
    steered = {"sentinel": 0.1, "miniatures": 0.4, "target": "recall >= 0.5", "memory": 900}
    spec = spec_of({"policy": "random", "lateness": 5, "seed": seed, **steered})
    rng, pushes, memories, outputs = np.random.default_rng(seed), [], set(), []
    engine = tg.JoinEngine(spec, ledger=tmp_path)
    for number in range(12):
        times = np.sort(rng.integers(20 * number, 20 * number + 20, (2, 150)), axis=1)
        times -= (rng.random(times.shape) < 0.2) * rng.integers(0, 9, times.shape)
        columns = [
            {"t": time, "k": rng.integers(0, 60, 150), "n": np.arange(150)} for time in times
        ]
        pushes.append(dict(zip(spec.streams, map(pa.table, columns), strict=True)))
        outputs.append(engine.push(pushes[-1]))
        memories.add(engine.stats()["target_memory"])
        if number % 3 == 2:
            blob = engine.snapshot()
            engine.push(pushes[0])
            engine = tg.JoinEngine.restore(blob, ledger=tmp_path)
    engine.write_ledger()
    assert len(memories) > 2
    assert check_repaired(spec, pushes, pa.concat_tables(outputs), tmp_path).num_rows > 0


def test_orders_that_begin_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "MOST_ORDERS", 150)
    spec = spec_of({"policy": "prob"})
    pushes = pushes_of(spec, 7, pushes=12)
    engine = tg.JoinEngine(spec, ledger=tmp_path)
    outputs = []
    for push in pushes:
        outputs.append(engine.push(push))
        engine = tg.JoinEngine.restore(engine.snapshot(), ledger=tmp_path)
    assert engine._state.gate[0].order < 200 < engine.stats()["rows_in"]
    engine.write_ledger()
    check_repaired(spec, pushes, pa.concat_tables(outputs), tmp_path)


def test_an_external_watermark(tmp_path: Path) -> None:
    spec = spec_of({"policy": "random"})
    pushes = pushes_of(spec, 9)
    engine = tg.JoinEngine(spec, ledger=tmp_path)
    exact = tg.JoinEngine(spec.replace(memory=None, policy="auto"))
    outputs, everything = [], []
    for number, push in enumerate(pushes):
        outputs.append(engine.push(push, watermark=20 * number - 5))
        everything.append(exact.push(push, watermark=20 * number - 5))
    engine.write_ledger()
    repaired = pa.concat_tables(repair(tmp_path).results())
    found = rows_of(pa.concat_tables(outputs)) + rows_of(repaired)
    assert found == rows_of(pa.concat_tables(everything))


def test_what_a_row_says(tmp_path: Path) -> None:
    spec = tg.JoinSpec(
        on="k", time="t", within="10 s", memory=1, policy="simp", importance="w", split="shared"
    )
    times = pa.array([1_000_000, 2_000_000], pa.timestamp("us"))
    left = pa.table({"t": times, "k": [1, 2], "w": [0.5, 3.0]})
    engine = tg.JoinEngine(spec, ledger=tmp_path)
    engine.push({"left": left, "right": left.slice(0, 0)})
    engine.write_ledger()
    rows = ledger_files.read(tmp_path, "left", pushes=1)
    assert rows is not None
    first, second = rows.to_pylist()
    assert (first["shed_reason"], first["shed_worth"]) == ("evicted", 0.5)
    assert first["shed_at"] == times[1].as_py()
    assert second["shed_reason"] == "alive"


def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    spec = spec_of({"policy": "prob"})
    tables = pushes_of(spec, 1, pushes=1, rows=200)[0]
    for name, table in tables.items():
        parquet.write_table(table, f"{name}.parquet")
    words = ["join", "left.parquet", "right.parquet", "--on", "k", "--time", "t", "--within", "30"]
    words += ["--memory", "30", "--policy", "prob", "-q", "-o", "out.parquet", "--ledger", "shed"]
    assert run_command(words) == 0
    assert run_command(["repair", "shed", "-o", "lost.parquet", "-q"]) == 0
    assert "lost results" in capsys.readouterr().out
    exact = rows_of(tg.join(tables, spec.replace(memory=None, policy="auto")).table)
    out, lost = (rows_of(parquet.read_table(f"{name}.parquet")) for name in ("out", "lost"))
    assert out + lost == exact
    assert run_command(["repair", "shed", "--json", "-q"]) == 0
    assert json.loads(capsys.readouterr().out)["results"] == lost.total() > 0
    assert run_command(words) == 2
    assert "give an empty folder" in capsys.readouterr().err
    assert run_command(["repair", "nowhere"]) == 2
    assert "not a ledger" in capsys.readouterr().err


def test_a_full_disk_is_said_and_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The push fails in a sentence, and an engine from the last snapshot goes on."""
    spec = spec_of({"policy": "random"})
    pushes = pushes_of(spec, 5, pushes=3)
    engine = tg.JoinEngine(spec, ledger=tmp_path)
    outputs = [engine.push(pushes[0])]
    blob = engine.snapshot()
    with monkeypatch.context() as full:
        full.setattr(ledger_files.parquet, "write_table", _no_space)
        with pytest.raises(tg.TidegateError, match="cannot be written"):
            engine.push(pushes[1])
    assert not list(tmp_path.glob("*.unfinished"))
    with pytest.raises(tg.TidegateError, match="restore"):
        engine.push(pushes[1])
    engine = tg.JoinEngine.restore(blob, ledger=tmp_path)
    outputs += [engine.push(push) for push in pushes[1:]]
    engine.write_ledger()
    check_repaired(spec, pushes, pa.concat_tables(outputs), tmp_path)


def _no_space(table: pa.Table, path: Path) -> None:
    path.write_bytes(b"PAR1")
    raise OSError(errno.ENOSPC, "No space left on device")


def _remove(folder: Path) -> None:
    next(folder.glob("left-*.parquet")).unlink()


def _cut(folder: Path) -> None:
    path = next(folder.glob("left-*.parquet"))
    path.write_bytes(path.read_bytes()[:-9])


def _replace(folder: Path) -> None:
    parquet.write_table(pa.table({"x": [1]}), next(folder.glob("left-*.parquet")))


@pytest.mark.parametrize(
    "damage",
    [
        _remove,
        _cut,
        _replace,
        lambda folder: (folder / "ledger.json").write_bytes(b"\xff{"),
        lambda folder: (folder / "ledger.json").write_text("[1]"),
        lambda folder: (folder / "ledger.json").write_text(
            (folder / "ledger.json").read_text().replace('"pushes": 3', '"pushes": "x"')
        ),
    ],
)
def test_a_damaged_ledger_is_refused(
    damage: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = spec_of({"policy": "recent"})
    engine = tg.JoinEngine(spec, ledger=tmp_path)
    for push in pushes_of(spec, 3, pushes=3):
        engine.push(push)
    engine.write_ledger()
    assert run_command(["repair", str(tmp_path), "-q"]) == 0
    damage(tmp_path)
    assert run_command(["repair", str(tmp_path), "-q"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("tidegate: ")
    assert said.count("\n") == 1
    assert run_command(["repair", str(tmp_path / "ledger.json"), "-q"]) == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"streams": ("a/b", "c")}, "cannot be called"),
        ({"memory": None}, "nothing is shed"),
        ({"ties": "instant"}, "ties='arrival'"),
        ({"within": tg.rows(5)}, "time windows"),
        ({"cpu": tg.Cpu(comparisons_per_second=1)}, "cpu"),
    ],
)
def test_refused_in_a_sentence(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(tg.TidegateError, match=words):
        tg.JoinEngine(spec_of({"policy": "random", **options}), ledger=tmp_path)


def test_no_ledger_for_an_engine_that_had_none(tmp_path: Path) -> None:
    engine = tg.JoinEngine(spec_of({}))
    with pytest.raises(tg.TidegateError, match="without a ledger"):
        tg.JoinEngine.restore(engine.snapshot(), ledger=tmp_path)
