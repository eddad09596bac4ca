"""Engines in other processes: real ones, which are also killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tidegate.engine import JoinEngine
from tidegate.spark import exchange
from tidegate.spark.engines import EngineKey, Entry, Outcome, Push, Resident, Residents, Taking
from tidegate.spark.exchange import Here, LostEngineError, There
from tidegate.spark.packing import encode
from tidegate.spec import JoinSpec, TidegateError

SPEC = JoinSpec(on="k", time="t", within=100)
KEY = EngineKey("join", 7)
OTHER_PROCESS = """
import sys
from tidegate.engine import JoinEngine
from tidegate.spark.engines import EngineKey, Resident
from tidegate.spark.exchange import Here
from tidegate.spec import JoinSpec
engine = JoinEngine(JoinSpec(on="k", time="t", within=100, bad_rows=sys.argv[1]))
Here(EngineKey("join", 7), Resident(engine, ("left", "right"))).release("first")
print("ready", flush=True)
sys.stdin.read()
"""


def push(times: list[int | None]) -> Push:
    table = pa.table({"k": [1] * len(times), "t": pa.array(times, pa.int64())})
    blob = encode(table).to_pybytes()
    return Push({0: [blob], 1: [blob, blob]}, None)


def taken(taking: Taking) -> tuple[list[pa.Table], Outcome]:
    """All pieces of the results of a push, and what it gave besides."""
    pieces = []
    while True:
        try:
            pieces.append(next(taking))
        except StopIteration as end:
            return pieces, end.value


@pytest.fixture
def process(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[subprocess.Popen[str]]:
    """Another process, which keeps an engine with the token "first"."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path_factory.mktemp("x")))
    monkeypatch.setattr(exchange, "residents", Residents())
    bad_rows = getattr(request, "param", "count")
    child = subprocess.Popen(
        [sys.executable, "-c", OTHER_PROCESS, bad_rows],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    yield child
    child.kill()
    child.communicate()


def test_pushes_travel(process: subprocess.Popen[str]) -> None:
    reference = Resident(JoinEngine(SPEC), SPEC.streams)
    for number, token in enumerate(("first", "second")):
        home = exchange.find(KEY, token)
        assert isinstance(home, There)
        entry = Entry(number, 10, number)
        results, there = taken(home.take(push([number, number + 1]), entry, forget_before=1))
        expected, here = taken(reference.take(push([number, number + 1]), entry, forget_before=1))
        assert pa.concat_tables(results) == pa.concat_tables(expected)
        assert there.after == here.after
        assert there.expired == here.expired
        restored = JoinEngine.restore(home.snapshot())
        assert restored.stats()["alive"] == reference.engine.stats()["alive"]
        home.release("second")


def test_pieces_travel_one_by_one(process: subprocess.Popen[str]) -> None:
    home = exchange.find(KEY, "first")
    assert isinstance(home, There)
    many = push([1] * 1300)
    pieces, _ = taken(Resident(JoinEngine(SPEC), SPEC.streams).take(many, None, None))
    assert len(pieces) > 10
    taking = home.take(many, None, None)
    assert [next(taking) for _ in range(3)] == pieces[:3]
    # A process that dies before the last piece takes the rest with it.
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with pytest.raises(LostEngineError):
        taken(taking)


def test_only_the_right_version_is_given_out(process: subprocess.Popen[str]) -> None:
    assert exchange.find(KEY, "second") is None
    # Whoever asks for another version knows better: the engine is forgotten.
    assert exchange.find(KEY, "first") is None
    assert exchange.find(EngineKey("join", 8), "first") is None
    assert exchange.find(KEY, "") is None


def test_a_claim_that_breaks_loses_the_engine(process: subprocess.Popen[str]) -> None:
    home = exchange.find(KEY, "first")
    assert isinstance(home, There)
    assert exchange.find(KEY, "first") is None
    home._wire.close()
    assert exchange.find(KEY, "first") is None


def test_a_killed_process_is_noticed(process: subprocess.Popen[str]) -> None:
    home = exchange.find(KEY, "first")
    assert isinstance(home, There)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with pytest.raises(LostEngineError):
        taken(home.take(push([1]), None, None))
    with pytest.raises(LostEngineError):
        home.snapshot()
    home.release("second")
    assert exchange.find(KEY, "second") is None
    built = Here(KEY, Resident(JoinEngine(SPEC), SPEC.streams))
    built.release("third")
    assert isinstance(exchange.find(KEY, "third"), Here)


@pytest.mark.parametrize("process", ["fail"], indirect=True)
def test_errors_travel(process: subprocess.Popen[str]) -> None:
    home = exchange.find(KEY, "first")
    assert isinstance(home, There)
    with pytest.raises(TidegateError, match="cannot be joined"):
        taken(home.take(push([None]), None, None))


def test_folders_of_others_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    monkeypatch.setattr(exchange, "_desk", exchange.Desk())
    (tmp_path / f"tidegate-{os.getuid()}").mkdir(mode=0o777)
    (tmp_path / f"tidegate-{os.getuid()}").chmod(0o777)
    Here(KEY, Resident(JoinEngine(SPEC), SPEC.streams)).release("first")
    assert list((tmp_path / f"tidegate-{os.getuid()}").iterdir()) == []
