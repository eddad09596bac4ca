"""What CPU budgets cost a join that has none: this package beside a copy without their hooks.

Law: the copy is made from this checkout, and the bodies of the functions through which a join meets
its CPU budget are replaced in it; a function that is not found is an error. Each of the two runs in
a process of its own and takes turns with the other on the same tables; what counts is CPU time, the
median ratio of runs that stood side by side. Both have as many results.

To reach: a ratio of at most 1.03.
"""

from __future__ import annotations

import ast
import gc
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from benchmarks.equi_join import engine_over
from benchmarks.side_by_side import DisagreementError, Row
from benchmarks.workload import Workload, cut
from tidegate import JoinSpec

FULL = Workload(rows_per_stream=500_000, keys=100_000, window=100_000)
QUICK = Workload(rows_per_stream=100_000, keys=20_000, window=20_000)
PUSHES = 10
MEMORY = 5  # a window of one stream is this many times the budget
LATENESS = 10
TURNS, QUICK_TURNS = 9, 3
# By file: the functions that ask for a CPU budget, and what they are without one.
HOOKS: Mapping[str, Mapping[str, str]] = {
    "throttle/ring.py": {"enter": "pass", "leave": "pass"},
    "driver/limiting.py": {
        "looked_at": "return candidates(state, arrivals, work, stream, arrival)"
    },
    "driver/limiting_many.py": {"prepare": "pass", "limit": "return found"},
    "driver/meeting.py": {"learn": "pass"},
}


def specs(window: int) -> dict[str, JoinSpec]:
    """The joins; the first has a loop of its own, the others the loop that has the hooks."""
    exact = JoinSpec(on="key", time="time", within=window)
    budgets = {
        policy: exact.replace(memory=window // MEMORY, policy=policy, split="even")
        for policy in ("random", "prob", "value")
    }
    return {"exact": exact, "exact, with lateness": exact.replace(lateness=LATENESS), **budgets}


def without_hooks(source: str, hooks: Mapping[str, str]) -> str:
    """The text of a module, the bodies of these functions replaced."""
    lines = source.splitlines()
    functions = {
        node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)
    }
    missing = set(hooks) - set(functions)
    if missing:
        raise RuntimeError(f"{', '.join(missing)} is not where the benchmark looks for it")
    for name in sorted(hooks, key=lambda name: -functions[name].lineno):
        body = functions[name].body
        lines[body[0].lineno - 1 : body[-1].end_lineno] = [f"    {hooks[name]}"]
    return "\n".join(lines) + "\n"


def copy_without_hooks(folder: Path) -> None:
    """Copy this checkout's packages, and take the hooks out."""
    here = Path(__file__).resolve().parent.parent
    for package in ("tidegate", "benchmarks"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(here / package, folder / package, ignore=ignored)
    for name, hooks in HOOKS.items():
        path = folder / "tidegate" / name
        path.write_text(without_hooks(path.read_text(encoding="utf-8"), hooks), encoding="utf-8")


class Contestant:
    """A process that joins when it is told to."""

    def __init__(self, folder: Path, quick: bool) -> None:
        command = [sys.executable, "-m", "benchmarks.without_cpu", "quick" if quick else "full"]
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, name: str) -> tuple[float, int]:
        """CPU seconds of a join, and its results."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(name, file=self._process.stdin, flush=True)
        seconds, results = json.loads(self._process.stdout.readline())
        return seconds, results

    def stop(self) -> None:
        self._process.communicate()


def run(quick: bool) -> list[Row]:
    workload, turns = (QUICK, QUICK_TURNS) if quick else (FULL, TURNS)
    with tempfile.TemporaryDirectory(prefix="tidegate-without-cpu-") as temporary:
        copy_without_hooks(Path(temporary))
        folders = (Path(__file__).resolve().parent.parent, Path(temporary))
        pair = [Contestant(folder, quick) for folder in folders]
        try:
            return [_compared(name, pair, workload, turns) for name in specs(workload.window)]
        finally:
            for contestant in pair:
                contestant.stop()


def _compared(name: str, pair: list[Contestant], workload: Workload, turns: int) -> Row:
    for contestant in pair:
        contestant.run(name)  # compiles, or loads code
    found: list[list[tuple[float, int]]] = [[], []]
    for turn in range(turns):
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            found[side].append(pair[side].run(name))
    if len({results for each in found for _, results in each}) > 1:
        raise DisagreementError(f"{name}: the numbers of results differ")
    ours, theirs = ([seconds for seconds, _ in each] for each in found)
    ratio = statistics.median(our / their for our, their in zip(ours, theirs, strict=True))
    each = [1e9 * statistics.median(seconds) / workload.tuples for seconds in (ours, theirs)]
    return Row(
        name=f"{name}: this package / without the hooks of CPU budgets",
        ours=each[0], theirs=each[1], ratio=ratio, unit="CPU ns/tuple",
    )  # fmt: skip


def contest(workload: Workload, orders: IO[str]) -> None:
    """Join as often as told; print CPU seconds and results."""
    pushes = cut(workload.tables(), workload.rows_per_stream // PUSHES)
    joins: dict[str, Any] = {
        name: engine_over(spec, pushes) for name, spec in specs(workload.window).items()
    }
    for order in orders:
        gc.collect()
        began = time.process_time()
        results = joins[order.strip()]()
        print(json.dumps([time.process_time() - began, results]), flush=True)


if __name__ == "__main__":
    contest(QUICK if sys.argv[1] == "quick" else FULL, sys.stdin)
