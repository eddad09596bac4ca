"""This checkout beside the package at another commit: has a change made joins slower?

Law: both join the same tables in the same run (`two_packages`). Exact joins must have as many
results; under a budget a policy may have become better, so only times are compared.

The other commit is the last one before the house was rebuilt, or what `AGAINST` names:
`AGAINST=HEAD~3 python -m benchmarks against`. To reach: a ratio of at most 1.03.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
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
from tidegate import TidegateError

BEFORE_THE_HOUSE = "7559593"
POLICIES = ("random", "recent", "prob", "dgl", "value")


def copy_of(commit: str, folder: Path) -> None:
    """The package as it was, and the benchmarks as they are."""
    archive = subprocess.run(
        ["git", "archive", "--format=tar", commit, "tidegate"],
        cwd=HERE,
        capture_output=True,
        check=False,
    )
    if archive.returncode:
        raise TidegateError(
            f"commit {commit!r} cannot be read; name another with AGAINST=... "
            f"({archive.stderr.decode().strip().splitlines()[0]})"
        )
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    shutil.copytree(
        HERE / "benchmarks", folder / "benchmarks", ignore=shutil.ignore_patterns("__pycache__")
    )


def run(quick: bool) -> list[Row]:
    commit = os.environ.get("AGAINST", BEFORE_THE_HOUSE)
    workload, turns = (QUICK, QUICK_TURNS) if quick else (FULL, TURNS)
    title = f"this checkout / {commit}"
    with tempfile.TemporaryDirectory(prefix="tidegate-against-") as temporary:
        copy_of(commit, Path(temporary))
        exact = in_turns(Path(temporary), exact_jobs(workload), workload, turns, title, same=True)
        limited = limited_jobs(workload, POLICIES)
        return exact + in_turns(Path(temporary), limited, workload, turns, title, same=False)
