"""The weight factors of this machine: search-only and update-only workloads through the engine.

Law: as in kang2003, section 4.2, a structure is measured alone. In the search-only workload the
measured window is full and stays as it is, while tuples of the other stream, which are not kept,
search it; in the update-only workload each tuple enters the measured window and another leaves it,
and the opposite window is empty. Keys hardly ever match, so no result is paid for. What an arrival
costs with two empty windows is taken off, and the rest is fitted by cost = a + P * accesses.
Matches are measured apart, as tuples of one key that all become results.

CPU time is measured in rounds over all workloads, and of each workload the quickest round counts:
other work on the machine can only add to it, and rarely lasts for all rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.engine import JoinEngine
from tidegate.planner.cost import pair_cost
from tidegate.planner.engine_accesses import NODE_SIZE, engine_accesses
from tidegate.planner.machine import cpu_name
from tidegate.planner.structures import INDEX_NAMES, LETTERS
from tidegate.planner.weights import Weights
from tidegate.planner.workload import Workload
from tidegate.spec import JoinSpec

Progress = Callable[[int, int], None]

_KEYS = 2**40
_MATCHES = 64
_HELD = 4096


@dataclass(frozen=True)
class Effort:
    """How much is measured: window sizes, operations per run, and rounds."""

    windows: Sequence[int] = (64, 256, 1024, 4096, 16_384, 65_536)
    scanned: Sequence[int] = (64, 256, 1024, 4096)
    operations: int = 50_000
    scans: int = 5_000_000  # tuples that a nested loop looks at in one run
    rounds: int = 7


QUICK = Effort((64, 1024, 8192), (64, 512), 10_000, 500_000, 2)

# What is measured: a workload, the structure, the size of the window.
Case = tuple[str, str, int]


@dataclass(frozen=True)
class Point:
    """CPU seconds of one operation, and how many accesses it makes."""

    accesses: float
    seconds: float


def calibrate(effort: Effort | None = None, progress: Progress | None = None) -> Weights:
    """Measure this machine and fit its weights; takes some seconds."""
    took = _measure(effort or Effort(), progress)
    arrival = took["arrival", "N", 0]
    fitted = {
        (operation, letter): fit(_points(operation, letter, took))
        for operation in ("search", "update")
        for letter in LETTERS
    }
    weights = Weights(
        name="here",
        search={letter: fitted["search", letter][1] for letter in LETTERS},
        update={letter: fitted["update", letter][1] for letter in LETTERS},
        per_search={letter: fitted["search", letter][0] for letter in LETTERS},
        per_update={letter: fitted["update", letter][0] for letter in LETTERS},
        per_match={letter: _match_seconds(letter, took) for letter in LETTERS},
        per_arrival=arrival,
        unit="s",
        shape="engine",
        bucket_size=0.0,
        node_size=NODE_SIZE,
        made={"by": "tidegate plan --calibrate", "cpu": cpu_name(), "workloads": len(took)},
    )
    return _with_saving(weights, took)


def _cases(effort: Effort) -> list[Case]:
    """All that is measured in one round; `arrival` first, which is taken off the others."""
    cases: list[Case] = [("arrival", "N", 0)]
    for letter in LETTERS:
        windows = effort.scanned if letter == "N" else effort.windows
        cases += [(what, letter, w) for w in windows for what in ("search", "update")]
        cases += [("matches", letter, _HELD), ("no matches", letter, _HELD)]
    return [*cases, *(("both", "H", window) for window in effort.windows[1::2])]


def _measure(effort: Effort, progress: Progress | None) -> dict[Case, float]:
    """The quickest round of each workload, in seconds per operation."""
    took: dict[Case, float] = {}
    cases = _cases(effort)
    for turn in range(effort.rounds):
        for number, case in enumerate(cases):
            if progress is not None:
                progress(turn * len(cases) + number, effort.rounds * len(cases))
            seconds = _run(case, effort, turn)
            took[case] = min(seconds, took.get(case, seconds))
    return took


def _run(case: Case, effort: Effort, seed: int) -> float:
    what, letter, window = case
    count = effort.operations
    if what in ("search", "arrival"):
        scans = letter == "N" and window > 0
        return _search(
            letter, window, max(200, min(count, effort.scans // window)) if scans else count, seed
        )
    if what == "update":
        return _update(letter, window, count, seed)
    if what == "both":
        return _both(letter + letter, window, count, seed)
    return _match(letter, what == "matches", max(100, count // _MATCHES), seed)


def _points(operation: str, letter: str, took: Mapping[Case, float]) -> list[Point]:
    arrival = took["arrival", "N", 0]
    points = []
    for (what, structure, window), seconds in took.items():
        if (what, structure) == (operation, letter):
            touched = engine_accesses(letter, window, Workload((window, window), (1, 1)), 0)
            accesses = touched.search if operation == "search" else touched.update
            points.append(Point(accesses, max(0.0, seconds - arrival)))
    return points


def _match_seconds(letter: str, took: Mapping[Case, float]) -> float:
    with_results, without = (took[what, letter, _HELD] for what in ("matches", "no matches"))
    return max(0.0, with_results - without) / _MATCHES


def _with_saving(weights: Weights, took: Mapping[Case, float]) -> Weights:
    """Two hash indexes run in a loop of their own (`driver/in_order`): what it saves."""
    savings = [
        pair_cost("HH", Workload((window, window), (0.5, 0.5)), weights) - seconds
        for (what, _, window), seconds in took.items()
        if what == "both"
    ]
    # No more than there is: a join of no cost would win everywhere.
    most = 0.9 * (weights.per_arrival + weights.per_search["H"] + weights.per_update["H"])
    return replace(weights, saved={"HH": float(np.clip(np.median(savings), 0.0, most))})


# --- workloads ----------------------------------------------------------------------------


def _engine(left: str, right: str, within: Mapping[str, int]) -> JoinEngine:
    index = {"left": INDEX_NAMES[left], "right": INDEX_NAMES[right]}
    return JoinEngine(JoinSpec(on="key", time="time", within=within, index=index))


def _rows(generator: np.random.Generator, begin: int, count: int, keys: int = _KEYS) -> pa.Table:
    return _table(generator.integers(0, keys, count), np.arange(begin, begin + count))


def _table(keys: NDArray[np.int64], times: NDArray[np.int64]) -> pa.Table:
    return pa.table({"key": keys, "time": times})


def _seconds_each(engine: JoinEngine, push: Mapping[str, pa.Table], operations: int) -> float:
    began = time.process_time()
    engine.push(push)
    return (time.process_time() - began) / operations


def _search(letter: str, window: int, searches: int, seed: int) -> float:
    """Seconds of an arrival that searches a full window and is not kept."""
    generator = np.random.default_rng(seed)
    engine = _engine("N", letter, {"left": 0, "right": window + searches})
    engine.push({"left": _rows(generator, 0, 1), "right": _rows(generator, 0, window)})
    return _seconds_each(engine, {"left": _rows(generator, window, searches)}, searches)


def _update(letter: str, window: int, updates: int, seed: int) -> float:
    """Seconds of an arrival that enters a full window, which another tuple leaves."""
    generator = np.random.default_rng(seed)
    engine = _engine("N", letter, {"left": 0, "right": window - 1})
    engine.push({"left": _rows(generator, 0, 1), "right": _rows(generator, 0, 2 * window)})
    return _seconds_each(engine, {"right": _rows(generator, 2 * window, updates)}, updates)


def _match(letter: str, matching: bool, searches: int, seed: int) -> float:
    """Seconds of an arrival that searches for a key which is there many times, or not at all."""
    generator = np.random.default_rng(seed)
    engine = _engine("N", letter, {"left": 0, "right": 2 * _HELD})
    held = _table(np.arange(_HELD) // _MATCHES, np.arange(_HELD))
    engine.push({"left": _rows(generator, 0, 1), "right": held})
    keys = np.arange(searches) % (_HELD // _MATCHES) + (0 if matching else _KEYS)
    return _seconds_each(engine, {"left": _table(keys, np.full(searches, _HELD))}, searches)


def _both(pair: str, window: int, count: int, seed: int) -> float:
    """Seconds of an arrival of a full join with two full windows."""
    generator = np.random.default_rng(seed)
    engine = _engine(pair[0], pair[1], {"left": window - 1, "right": window - 1})
    for begin, length in ((0, 2 * window), (2 * window, count // 2)):
        push = {name: _rows(generator, begin, length) for name in ("left", "right")}
        seconds = _seconds_each(engine, push, 2 * length)
    return seconds


# --- the fit ------------------------------------------------------------------------------


def fit(points: Sequence[Point]) -> tuple[float, float]:
    """The a and P, none negative, of seconds = a + P * accesses with the least relative error.

    >>> [round(x, 6) for x in fit([Point(n, 2 + 0.5 * n) for n in (2, 4, 8)])]
    [2.0, 0.5]
    """
    accesses = np.array([point.accesses for point in points])
    seconds = np.array([point.seconds for point in points])
    scale = 1.0 / np.maximum(seconds, 1e-12)
    columns = np.stack([np.ones_like(accesses), accesses], axis=1) * scale[:, None]
    both = np.linalg.lstsq(columns, seconds * scale, rcond=None)[0]
    if (both >= 0.0).all():
        return float(both[0]), float(both[1])
    # One of the two alone, whichever leaves the smaller error.
    alone = []
    for k in (0, 1):
        weight = max(
            0.0, float(columns[:, k] @ (seconds * scale) / (columns[:, k] @ columns[:, k]))
        )
        error = float(np.sum((columns[:, k] * weight - seconds * scale) ** 2))
        alone.append((error, (weight, 0.0) if k == 0 else (0.0, weight)))
    return min(alone)[1]
