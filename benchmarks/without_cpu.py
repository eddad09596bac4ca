"""What CPU budgets cost a join that has none: this package beside a copy without their hooks.

Law: the copy is made from this checkout, and the bodies of the functions through which a join meets
its CPU budget are replaced in it; a function that is not found is an error. Both take turns
(`two_packages`) and have as many results.

To reach: a ratio of at most 1.03.
"""

from __future__ import annotations

import ast
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.side_by_side import Row
from benchmarks.two_packages import (
    FULL,
    HERE,
    QUICK,
    QUICK_TURNS,
    TURNS,
    exact_jobs,
    in_turns,
    limited_jobs,
)

POLICIES = ("random", "prob", "value")
# By file: the functions that ask for a CPU budget, and what they are without one.
HOOKS: Mapping[str, Mapping[str, str]] = {
    "throttle/ring.py": {"enter": "pass", "leave": "pass"},
    "driver/limiting.py": {
        "looked_at": "return candidates(state, arrivals, work, stream, arrival)"
    },
    "driver/limiting_many.py": {"prepare": "pass", "limit": "return found"},
    "driver/meeting.py": {"learn": "pass"},
}


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
    for package in ("tidegate", "benchmarks"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(HERE / package, folder / package, ignore=ignored)
    for name, hooks in HOOKS.items():
        path = folder / "tidegate" / name
        path.write_text(without_hooks(path.read_text(encoding="utf-8"), hooks), encoding="utf-8")


def run(quick: bool) -> list[Row]:
    workload, turns = (QUICK, QUICK_TURNS) if quick else (FULL, TURNS)
    jobs = exact_jobs(workload) | limited_jobs(workload, POLICIES)
    title = "this package / without the hooks of CPU budgets"
    with tempfile.TemporaryDirectory(prefix="tidegate-without-cpu-") as temporary:
        copy_without_hooks(Path(temporary))
        return in_turns(Path(temporary), jobs, workload, turns, title, same=True)
