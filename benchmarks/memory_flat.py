"""Memory over a long run: it follows the window, not the length of the stream.

Law: a process of its own makes each push on the fly, joins it and forgets the results. `ours` is at
the end of the run and `theirs` early in it, when the window has long been full; a ratio of about
1.0 is flat. The kernels are compiled beforehand in another process, so that no compiler's memory
hides a growth of the engine's.
"""

from __future__ import annotations

import json
import resource
import sys
from dataclasses import asdict, dataclass

import psutil  # type: ignore[import-untyped]

from benchmarks.side_by_side import Row, compared, in_fresh_process
from benchmarks.workload import Workload, as_tables
from tidegate import JoinEngine, JoinSpec

ROWS_PER_PUSH = 10_000  # per stream
WINDOW = KEYS = 100_000
PUSHES, QUICK_PUSHES = 1_000, 200
EARLY = 100  # pushes; the window is full after WINDOW / ROWS_PER_PUSH = 10 of them
MEGABYTE = 1e6


@dataclass(frozen=True)
class Reading:
    """Bytes that the process has held at most so far, holds now, and the engine accounts for."""

    peak: int
    resident: int
    accounted: int


def read_now(engine: JoinEngine) -> Reading:
    # The kernel counts the peak in kibibytes on Linux and in bytes on macOS.
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    accounted = int(engine.stats()["memory_bytes_peak"])
    return Reading(peak, psutil.Process().memory_info().rss, accounted)


def replay(pushes: int) -> dict[str, dict[str, int]]:
    """Join so many pushes; readings after the early ones and after all."""
    workload = Workload(pushes * ROWS_PER_PUSH, KEYS, WINDOW)
    engine = JoinEngine(JoinSpec(on="key", time="time", within=WINDOW))
    readings: dict[str, dict[str, int]] = {}
    for number in range(1, pushes + 1):
        end = number * ROWS_PER_PUSH
        engine.push(as_tables(workload.columns_between(end - ROWS_PER_PUSH, end)))
        if number in (EARLY, pushes):
            readings["end" if number == pushes else "early"] = asdict(read_now(engine))
    return readings


def run(quick: bool) -> list[Row]:
    pushes = QUICK_PUSHES if quick else PUSHES
    in_fresh_process("benchmarks.memory_flat", [2])
    readings = in_fresh_process("benchmarks.memory_flat", [pushes])
    labels = {
        "peak": "peak resident memory",
        "resident": "resident memory",
        "accounted": "peak of the engine's own account",
    }
    return [
        compared(
            f"{label}, after push {pushes:,} / after push {EARLY}",
            readings["end"][name] / MEGABYTE,
            readings["early"][name] / MEGABYTE,
            "MB",
        )
        for name, label in labels.items()
    ]


if __name__ == "__main__":
    print(json.dumps(replay(int(sys.argv[1]))))
