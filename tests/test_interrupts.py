"""An interrupt at any line, and a second thread at any line, break nothing: see `interrupts.py`."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from interrupt_scenarios import SCENARIOS, account, prepared, pushed

import tidegate as tg

ROOT = Path(__file__).parent.parent


def test_interrupts_and_second_threads() -> None:
    """In a process of its own, which a broken engine may take with it."""
    code = "import sys; sys.path[:0] = ['tests']; "
    code += "import runpy; runpy.run_module('interrupts', run_name='__main__')"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert ended.returncode == 0, f"ended with {ended.returncode}: {ended.stderr[-2000:]}"
    assert json.loads(ended.stdout) == {"push": [], "snapshot": [], "thread": []}


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
