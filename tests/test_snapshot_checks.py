"""Numbers of a snapshot are not trusted, also behind a right checksum: see `crafted.py`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from crafted import SCENARIOS, rows

import tidegate as tg

TESTS = Path(__file__).parent
# Others differ in what was learned only; `python crafted.py SCENARIO 1` tries all changes.
SHARES = {
    "exact": 0.2,
    "cpu": 0.15,
    "bytes": 0.05,
    "policy age": 0.1,
    "policy prob": 0.15,
    "counted": 0.05,
}


@pytest.mark.parametrize("scenario", SHARES)
def test_crafted_snapshots_are_refused_or_work(scenario: str) -> None:
    """In a process of its own, which a wrong address would take with it."""
    assert scenario in SCENARIOS
    command = [sys.executable, "crafted.py", scenario, str(SHARES[scenario])]
    ended = subprocess.run(
        command, capture_output=True, text=True, cwd=TESTS, check=False, timeout=600
    )
    last = ended.stderr.splitlines()[-1:]
    assert ended.returncode == 0, f"ended with {ended.returncode} after {last}"
    answer = json.loads(ended.stdout)
    assert answer["wrong"] == []
    assert answer["refused"] > answer["read"] / 2 > 0


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_snapshots_of_every_moment_are_read(scenario: str) -> None:
    """What an engine wrote is never taken for damage; slots and keys are used again and again."""
    engine = tg.JoinEngine(SCENARIOS[scenario])
    for begin in range(0, 300, 10):
        left, right = rows(begin, 1, 12), rows(begin, 2, 24 if begin % 40 else 6)
        engine.push({"left": left, "right": right})
        restored = tg.JoinEngine.restore(engine.snapshot())
        before, after = engine.stats(), restored.stats()
        assert all(before[name] == after[name] for name in before if "bytes" not in name)
        engine = restored if begin % 30 == 0 else engine
