"""The workloads of a calibration, each a few thousand arrivals through a real engine.

Law: what is timed is one push into an engine that was filled before, in CPU seconds per operation.
In the search-only workload tuples that are not kept search a window that stays as it is; in the
update-only workload each tuple enters a full window and another leaves it, and nobody searches.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.costs.structures import INDEX_NAMES
from tidegate.engine import JoinEngine
from tidegate.spec import JoinSpec, band

KEYS = 2**40  # so many that two tuples hardly ever match
MATCHES = 64  # of a search, where matches are measured
HELD = 512  # tuples of the window that they are found in


def _engine(left: str, right: str, within: Mapping[str, int], banded: bool = False) -> JoinEngine:
    index = {"left": INDEX_NAMES[left], "right": INDEX_NAMES[right]}
    on = band("key", 0, 0) if banded else "key"
    return JoinEngine(JoinSpec(on=on, time="time", within=within, index=index))


def _rows(generator: np.random.Generator, begin: int, count: int, keys: int = KEYS) -> pa.Table:
    return _table(generator.integers(0, keys, count), np.arange(begin, begin + count))


def _table(keys: NDArray[np.int64], times: NDArray[np.int64]) -> pa.Table:
    return pa.table({"key": keys, "time": times})


def _seconds_each(engine: JoinEngine, push: Mapping[str, pa.Table], operations: int) -> float:
    began = time.process_time()
    engine.push(push)
    return (time.process_time() - began) / operations


def search(letter: str, window: int, searches: int, seed: int, banded: bool = False) -> float:
    """Seconds of an arrival that searches a full window and is not kept."""
    generator = np.random.default_rng(seed)
    engine = _engine("N", letter, {"left": 0, "right": window + searches}, banded)
    engine.push({"left": _rows(generator, 0, 1), "right": _rows(generator, 0, window)})
    return _seconds_each(engine, {"left": _rows(generator, window, searches)}, searches)


def update(letter: str, window: int, updates: int, seed: int) -> float:
    """Seconds of an arrival that enters a full window, which another tuple leaves."""
    generator = np.random.default_rng(seed)
    engine = _engine("N", letter, {"left": 0, "right": window - 1})
    engine.push({"left": _rows(generator, 0, 1), "right": _rows(generator, 0, 2 * window)})
    return _seconds_each(engine, {"right": _rows(generator, 2 * window, updates)}, updates)


def match(letter: str, matching: bool, searches: int, seed: int) -> float:
    """Seconds of an arrival that searches for a key which is there many times, or not at all."""
    generator = np.random.default_rng(seed)
    engine = _engine("N", letter, {"left": 0, "right": 2 * HELD})
    held = _table(np.arange(HELD) // MATCHES, np.arange(HELD))
    engine.push({"left": _rows(generator, 0, 1), "right": held})
    keys = np.arange(searches) % (HELD // MATCHES) + (0 if matching else KEYS)
    return _seconds_each(engine, {"left": _table(keys, np.full(searches, HELD))}, searches)


def full_join(pair: str, window: int, count: int, seed: int) -> float:
    """Seconds of an arrival of a full join with two full windows."""
    generator = np.random.default_rng(seed)
    engine = _engine(pair[0], pair[1], {"left": window - 1, "right": window - 1})
    for begin, length in ((0, 2 * window), (2 * window, count // 2)):
        push = {name: _rows(generator, begin, length) for name in ("left", "right")}
        seconds = _seconds_each(engine, push, 2 * length)
    return seconds
