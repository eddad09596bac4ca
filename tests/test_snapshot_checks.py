"""Numbers of a snapshot are not trusted, also behind a right checksum: see `crafted.py`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from crafted import SCENARIOS

TESTS = Path(__file__).parent
# Others differ in what was learned only; `python crafted.py SCENARIO 1` tries all changes.
SHARES = {"exact": 0.5, "bytes": 0.05, "policy age": 0.1, "policy prob": 0.3, "counted": 0.05}


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
