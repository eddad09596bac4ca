"""Measuring two or more ways to do the same work, and showing how they compare.

Law: contestants take turns (ours, theirs, ours, theirs, ...), so that whatever else the machine
does falls on all of them. Every contestant says how many results it made, and a contestant that
disagrees with the first is an error, not a row.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from rich.console import Console
from rich.table import Table


class Row(TypedDict):
    """One comparison; `ratio` is ours / theirs."""

    name: str
    ours: float
    theirs: float
    ratio: float
    unit: str


class DisagreementError(RuntimeError):
    """Two contestants that should have made the same results did not."""


@dataclass(frozen=True)
class Timing:
    """What one contestant took, repetition by repetition, and how many results it made.

    `seconds` are by the clock on the wall, `cpu_seconds` those of all threads of this process.
    """

    seconds: tuple[float, ...]
    cpu_seconds: tuple[float, ...]
    results: int

    def best_rate(self, tuples: int) -> float:
        return tuples / min(self.seconds)


def take_turns(
    contestants: Mapping[str, Callable[[], int]], repetitions: int, *, same_results: bool = True
) -> dict[str, Timing]:
    """Run each contestant once to warm up, then all of them in turn, `repetitions` times.

    A contestant is a function that does the work and returns its number of results.
    """
    results = {name: contestant() for name, contestant in contestants.items()}
    if same_results and len(set(results.values())) > 1:
        raise DisagreementError(
            f"the numbers of results differ: {results}; they should be the same"
        )
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    cpu_seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repetitions):
        for name, contestant in contestants.items():
            gc.collect()
            begin, cpu_begin = time.perf_counter(), time.process_time()
            contestant()
            seconds[name].append(time.perf_counter() - begin)
            cpu_seconds[name].append(time.process_time() - cpu_begin)
    return {
        name: Timing(tuple(seconds[name]), tuple(cpu_seconds[name]), results[name])
        for name in contestants
    }


def compared(name: str, ours: float, theirs: float, unit: str) -> Row:
    return Row(name=name, ours=ours, theirs=theirs, ratio=ours / theirs, unit=unit)


def best_of(name: str, ours: Timing, theirs: Timing, tuples: int) -> Row:
    """The best repetition of each: the machine at its quietest."""
    return compared(name, ours.best_rate(tuples), theirs.best_rate(tuples), "tuples/s")


def neighbours(name: str, ours: Timing, theirs: Timing, tuples: int) -> list[Row]:
    """The median ratio of runs that stood side by side: robust where the machine's load drifts.

    By the wall, and in CPU time, which does not count the turns that other programs took.
    """
    return [
        _median_row(f"{name}, median", ours.seconds, theirs.seconds, tuples, "tuples/s"),
        _median_row(
            f"{name}, median", ours.cpu_seconds, theirs.cpu_seconds, tuples, "tuples/CPU s"
        ),
    ]


def _median_row(
    name: str, ours: Sequence[float], theirs: Sequence[float], tuples: int, unit: str
) -> Row:
    return Row(
        name=name,
        ours=tuples / statistics.median(ours),
        theirs=tuples / statistics.median(theirs),
        ratio=statistics.median(their / our for our, their in zip(ours, theirs, strict=True)),
        unit=unit,
    )


def in_fresh_process(
    module: str, arguments: Sequence[object], environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run a module of this package in a Python of its own and read the JSON object it prints."""
    finished = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    answer: dict[str, Any] = json.loads(finished.stdout)
    return answer


def _figure(value: float) -> str:
    """A number that can be read: whole if it is large, three digits if it is small."""
    return f"{value:,.0f}" if value >= 100 or value == 0 else f"{value:.3g}"


def show(rows: Sequence[Row], console: Console) -> None:
    """Print the rows as a table."""
    table = Table("what", title=f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    for heading in ("ours", "theirs", "ratio"):
        table.add_column(heading, justify="right")
    table.add_column("unit")
    for row in rows:
        figures = (_figure(row["ours"]), _figure(row["theirs"]), f"{row['ratio']:.2f}")
        table.add_row(row["name"], *figures, row["unit"])
    console.print(table)
