"""Two copies of the package that join the same tables, each in a process of its own, in turns.

Law: what counts is CPU time, the median ratio of runs that stood side by side, so what else the
machine does falls on both. A job is the keyword arguments of a `JoinSpec`, which both copies must
know. Nothing else of the package is used, so a copy may be much older than this file.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from benchmarks.side_by_side import DisagreementError, Row
from benchmarks.workload import Workload, cut
from tidegate import JoinEngine, JoinSpec, TidegateError

HERE = Path(__file__).resolve().parent.parent  # this checkout
FULL = Workload(rows_per_stream=500_000, keys=100_000, window=100_000)
QUICK = Workload(rows_per_stream=100_000, keys=20_000, window=20_000)
PUSHES = 10
MEMORY = 5  # a window of one stream is this many times the budget
LATENESS = 10
TURNS, QUICK_TURNS = 9, 3

Job = Mapping[str, Any]


def exact_jobs(workload: Workload) -> dict[str, Job]:
    """Joins without a budget: one in the loop that it has for itself, one in that of all others."""
    exact = {"on": "key", "time": "time", "within": workload.window}
    return {"exact": exact, "exact, with lateness": exact | {"lateness": LATENESS}}


def limited_jobs(workload: Workload, policies: tuple[str, ...]) -> dict[str, Job]:
    """Joins under a budget."""
    exact = exact_jobs(workload)["exact"]
    memory = workload.window // MEMORY
    return {
        policy: {**exact, "memory": memory, "policy": policy, "split": "even"}
        for policy in policies
    }


class Contestant:
    """A process with the package of one folder, which joins when it is told to."""

    def __init__(self, folder: Path, workload: Workload) -> None:
        command = [sys.executable, "-m", "benchmarks.two_packages"]
        self._process = subprocess.Popen(
            [*command, *map(str, (workload.rows_per_stream, workload.keys, workload.window))],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, job: Job) -> tuple[float, int]:
        """CPU seconds of a join, and its results."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(job), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise TidegateError("a copy of the package cannot do this job; its error stands above")
        seconds, results = json.loads(answer)
        return seconds, results

    def stop(self) -> None:
        self._process.communicate()


def in_turns(
    other: Path, jobs: Mapping[str, Job], workload: Workload, turns: int, title: str, *, same: bool
) -> list[Row]:
    """This package / the one in `other`, job by job; `same` if both must have as many results."""
    pair = [Contestant(folder, workload) for folder in (HERE, other)]
    try:
        return [_row(f"{name}: {title}", job, pair, workload, turns, same)
                for name, job in jobs.items()]  # fmt: skip
    finally:
        for contestant in pair:
            contestant.stop()


def _row(
    name: str, job: Job, pair: list[Contestant], workload: Workload, turns: int, same: bool
) -> Row:
    results = [contestant.run(job)[1] for contestant in pair]  # compiles, or loads code
    if same and len(set(results)) > 1:
        raise DisagreementError(f"{name}: the numbers of results differ: {results}")
    found: list[list[float]] = [[], []]
    for turn in range(turns):
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            found[side].append(pair[side].run(job)[0])
    ratio = statistics.median(our / their for our, their in zip(*found, strict=True))
    ours, theirs = (1e9 * statistics.median(seconds) / workload.tuples for seconds in found)
    return Row(name=name, ours=ours, theirs=theirs, ratio=ratio, unit="CPU ns/tuple")


def contest(workload: Workload, orders: IO[str]) -> None:
    """Join as often as told; print CPU seconds and results."""
    pushes = cut(workload.tables(), workload.rows_per_stream // PUSHES)
    for order in orders:
        spec = JoinSpec(**json.loads(order))
        gc.collect()
        began = time.process_time()
        engine = JoinEngine(spec)
        results = [engine.push(push) for push in pushes]
        seconds = time.process_time() - began
        print(json.dumps([seconds, sum(table.num_rows for table in results)]), flush=True)


if __name__ == "__main__":
    contest(Workload(*map(int, sys.argv[1:])), sys.stdin)
