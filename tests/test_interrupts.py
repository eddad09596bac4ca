"""An interrupt at any line, and a second thread at any line, break nothing: see `interrupts.py`."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from interrupt_scenarios import SCENARIOS, account, prepared, pushed

import tidegate as tg

ROOT = Path(__file__).parent.parent


def what_went_wrong(check: str, scenario: str) -> list[str]:
    """In a process of its own, which a broken engine may take with it."""
    code = f"import sys; sys.path[:0] = ['tests']; sys.argv[1:] = [{check!r}, {scenario!r}]; "
    code += "import runpy; runpy.run_module('interrupts', run_name='__main__')"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert ended.returncode == 0, f"ended with {ended.returncode}: {ended.stderr[-2000:]}"
    wrong: list[str] = json.loads(ended.stdout)
    return wrong


@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_an_interrupted_push_can_be_given_again_or_the_engine_says_so(scenario: str) -> None:
    assert what_went_wrong("push", scenario) == []


@pytest.mark.parametrize("scenario", ["value"])
def test_an_interrupted_snapshot_leaves_the_engine_as_it_was(scenario: str) -> None:
    assert what_went_wrong("snapshot", scenario) == []


@pytest.mark.parametrize("scenario", ["exact"])
def test_a_second_thread_is_refused(scenario: str) -> None:
    assert what_went_wrong("thread", scenario) == []


def test_two_engines_work_in_two_threads() -> None:
    names = ("exact", "value", "instant")
    alone = {name: replayed(name, Barrier(1)) for name in names}
    together = Barrier(len(names))
    with ThreadPoolExecutor(len(names)) as pool:
        found = dict(zip(names, pool.map(lambda n: replayed(n, together), names), strict=True))
    assert found == alone


def replayed(name: str, barrier: Barrier) -> tuple[list[dict[str, object]], dict[str, float]]:
    """All pushes of a scenario; those of several threads begin together."""
    scenario = SCENARIOS[name]
    barrier.wait()
    engine: tg.JoinEngine = prepared(scenario)
    results: list[dict[str, object]] = []
    for push in (scenario.push, *scenario.after):
        barrier.wait()
        results += pushed(engine, push).to_pylist()
    return results, account(engine)
