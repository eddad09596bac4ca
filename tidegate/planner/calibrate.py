"""The weight factors of this machine: search-only and update-only workloads through the engine.

Law: as in kang2003, section 4.2, a structure is measured alone. In the search-only workload the
measured window is full and stays as it is, while tuples of the other stream, which are not kept,
search it; in the update-only workload each tuple enters the measured window and another leaves it,
and the opposite window is empty. Keys hardly ever match, so no result is paid for. What an arrival
costs with two empty windows is taken off, and the rest is fitted by cost = a + P * accesses.

CPU time is measured, and of several runs the quickest counts: other work on the machine can only
add to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.engine import JoinEngine
from tidegate.planner.engine_accesses import NODE_SIZE, engine_accesses
from tidegate.planner.machine import cpu_name
from tidegate.planner.structures import INDEX_NAMES, LETTERS
from tidegate.planner.weights import Weights
from tidegate.planner.workload import Workload
from tidegate.spec import JoinSpec

Progress = Callable[[int, int], None]

_KEYS = 2**40
_RESULTS_EACH = 64


@dataclass(frozen=True)
class Effort:
    """How much is measured: window sizes, operations per run, runs of which the quickest counts."""

    windows: Sequence[int] = (64, 256, 1024, 4096, 16_384, 65_536)
    scanned: Sequence[int] = (64, 256, 1024, 4096)
    operations: int = 100_000
    scans: int = 10_000_000  # tuples that a nested loop looks at in one run
    runs: int = 3


QUICK = Effort((64, 1024, 8192), (64, 512), 20_000, 1_000_000, 2)


@dataclass(frozen=True)
class Point:
    """CPU seconds of one operation on a window of so many tuples, and its accesses."""

    letter: str
    operation: str
    window: int
    accesses: float
    seconds: float


def calibrate(effort: Effort | None = None, progress: Progress | None = None) -> Weights:
    """Measure this machine and fit its weights; takes some seconds."""
    effort = effort or Effort()
    arrival = min(_search("N", 0, effort.operations, run) for run in range(effort.runs))
    points = []
    for done, (letter, window, total) in enumerate(_cases(effort)):
        if progress is not None:
            progress(done, total)
        points += _points(letter, window, effort, arrival)
    fitted = {
        (letter, operation): fit(
            [p for p in points if (p.letter, p.operation) == (letter, operation)]
        )
        for letter in LETTERS
        for operation in ("search", "update")
    }
    weights = Weights(
        name="here",
        search={letter: fitted[letter, "search"][1] for letter in LETTERS},
        update={letter: fitted[letter, "update"][1] for letter in LETTERS},
        per_search={letter: fitted[letter, "search"][0] for letter in LETTERS},
        per_update={letter: fitted[letter, "update"][0] for letter in LETTERS},
        per_arrival=arrival,
        per_result=_result(effort),
        unit="s",
        shape="engine",
        bucket_size=0.0,
        node_size=NODE_SIZE,
        made={"by": "tidegate plan --calibrate", "cpu": cpu_name(), "points": len(points)},
    )
    return _with_saving(weights, effort)


def _cases(effort: Effort) -> Iterator[tuple[str, int, int]]:
    cases = [
        (letter, window)
        for letter in LETTERS
        for window in (effort.scanned if letter == "N" else effort.windows)
    ]
    for letter, window in cases:
        yield letter, window, len(cases)


def _points(letter: str, window: int, effort: Effort, arrival: float) -> list[Point]:
    count = effort.operations
    searches = max(200, min(count, effort.scans // window)) if letter == "N" else count
    search = min(_search(letter, window, searches, run) for run in range(effort.runs))
    update = min(_update(letter, window, count, run) for run in range(effort.runs))
    touched = engine_accesses(letter, window, Workload((window, window), (1, 1)), 0)
    return [
        Point(letter, "search", window, touched.search, max(0.0, search - arrival)),
        Point(letter, "update", window, touched.update, max(0.0, update - arrival)),
    ]


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


def _result(effort: Effort) -> float:
    """Seconds of a result: many matches of each arrival, beside none."""
    searches = max(100, effort.operations // _RESULTS_EACH)

    def run(keys: int, seed: int) -> float:
        generator = np.random.default_rng(seed)
        engine = _engine("N", "H", {"left": 0, "right": 10 * searches})
        held = _table(np.arange(4096) // _RESULTS_EACH, np.arange(4096))
        engine.push({"left": _rows(generator, 0, 1), "right": held})
        probes = _table(
            keys + np.arange(searches) % (4096 // _RESULTS_EACH), np.full(searches, 4096)
        )
        return _seconds_each(engine, {"left": probes}, searches)

    with_results, without = (
        min(run(keys, seed) for seed in range(effort.runs)) for keys in (0, _KEYS)
    )
    return max(0.0, with_results - without) / _RESULTS_EACH


def _with_saving(weights: Weights, effort: Effort) -> Weights:
    """Two hash indexes run in a loop of their own (`driver/in_order`): measure what it saves."""
    from dataclasses import replace

    from tidegate.planner.cost import pair_cost

    savings = []
    for window in effort.windows[1::2]:
        took = min(_both("HH", window, effort.operations, run) for run in range(effort.runs))
        modelled = pair_cost("HH", Workload((window, window), (0.5, 0.5)), weights)
        savings.append(modelled - took)
    # No more than what there is: a join of no cost would win everywhere.
    least = weights.per_arrival + weights.per_search["H"] + weights.per_update["H"]
    return replace(weights, saved={"HH": float(np.clip(np.median(savings), 0.0, 0.9 * least))})


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

    >>> [round(x, 6) for x in fit([Point("B", "search", 1, n, 2 + 0.5 * n) for n in (2, 4, 8)])]
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
