"""What an engine adds to its process, as the process sees it.

Law: growth is resident memory after a collection, before and after one engine more; nothing is
handed back to the system in between (no `malloc_trim`). A process of its own measures one kind of
engine. It runs one engine first, so that code is loaded and the allocators hold what a push needs,
and keeps every engine alive, so that none takes over the pages of another. A figure is the median
of the engines.

Run as a module it measures one case, given as JSON, and prints what it found as JSON.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]
import pyarrow as pa

from benchmarks.side_by_side import in_fresh_process
from benchmarks.workload import STREAMS
from tidegate import JoinEngine, JoinSpec, TidegateError

MEGABYTE = 1e6
PUSH = 4_000  # rows of each stream
VARIANTS = 8  # pushes with payload of their own, which then comes again: engines keep copies of it
LARGE_WINDOW = 1_000_000  # tuples per side; one engine is measured instead of three

Pushes = Iterator[dict[str, pa.Table]]


# --- rows --------------------------------------------------------------------------------


def narrow(generator: np.random.Generator) -> dict[str, Any]:
    return {"price": generator.random(PUSH)}


def wide(generator: np.random.Generator) -> dict[str, Any]:
    return {f"c{number}": generator.random(PUSH) for number in range(18)}


def strings(generator: np.random.Generator) -> dict[str, Any]:
    """A url and a name: 20 to 100 and 4 to 12 letters."""
    lengths = generator.integers((20, 4), (100, 12), (PUSH, 2))
    return {
        "url": pa.array(["u" * int(length) for length in lengths[:, 0]]),
        "name": pa.array(["n" * int(length) for length in lengths[:, 1]]),
    }


def lists(generator: np.random.Generator) -> dict[str, Any]:
    """Up to 16 numbers."""
    ends = np.concatenate([[0], generator.integers(0, 17, PUSH).cumsum()])
    values = generator.integers(0, 1000, int(ends[-1]))
    return {"items": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(values))}


ROWS: dict[str, Callable[[np.random.Generator], dict[str, Any]]] = {
    "narrow rows": narrow,
    "wide rows": wide,
    "strings": strings,
    "lists": lists,
}


def pushes(rows: str, keys: int, seed: int) -> Pushes:
    """Pushes without end: one tuple of each stream per unit of time, keys uniform."""
    generator = np.random.default_rng(seed)
    payload = [ROWS[rows](generator) for _ in range(VARIANTS)]
    for number in count():
        times = np.arange(number * PUSH, (number + 1) * PUSH)
        yield {
            stream: pa.table(
                {
                    "key": generator.integers(0, keys, PUSH),
                    "time": times,
                    **payload[(2 * number + at) % VARIANTS],
                }
            )
            for at, stream in enumerate(STREAMS)
        }


# --- one process -------------------------------------------------------------------------


def filled(policy: str, rows: str, megabytes: int, seed: int) -> JoinEngine:
    """An engine whose budget has been full for a while: a quarter of what it holds was replaced.

    The windows hold four times the tuples that 100 bytes each would leave room for.
    """
    window = int(4 * megabytes * MEGABYTE / 100)
    engine = JoinEngine(
        JoinSpec(on="key", time="time", within=window, memory=f"{megabytes} MB", policy=policy)
    )
    for number, push in enumerate(pushes(rows, window, seed)):
        engine.push(push)
        if number % 10 == 9:
            stats = engine.stats()
            if 4 * (stats["evicted"] + stats["refused"]) >= stats["memory_rows"] > 0:
                return engine
    raise AssertionError("pushes never end")


def over_windows(policy: str | None, window: int, seed: int) -> JoinEngine:
    """An engine whose windows have been full for a while; None is the exact join."""
    spec = JoinSpec(on="key", time="time", within=window)
    if policy is not None:
        spec = spec.replace(memory=2 * window // 10, policy=policy)
    engine = JoinEngine(spec)
    for push, _ in zip(pushes("narrow rows", window, seed), range(0, 3 * window // 2, PUSH)):  # noqa: B905
        engine.push(push)
    return engine


def resident() -> int:
    gc.collect()
    held: int = psutil.Process().memory_info().rss
    return held


def growth_of(make: Callable[[int], JoinEngine], engines: int, kept: list[JoinEngine]) -> Any:
    """Medians over so many engines; all of them join `kept`, which begins with one more."""
    if not kept:
        kept.append(make(0))
    growths = []
    for seed in range(1, engines + 1):
        before = resident()
        kept.append(make(seed))
        growths.append(resident() - before)
    stats = kept[-1].stats()
    return {
        "growth": statistics.median(growths),
        "memory_bytes": stats["memory_bytes"],
        "rows": stats["memory_rows"],
    }


def measure_budgets(policy: str, rows: str, budgets: dict[str, int]) -> dict[str, Any]:
    """By budget in MB, small ones first; a budget that is refused has the reason instead."""
    kept: list[JoinEngine] = []
    measured: dict[str, Any] = {}
    for budget, engines in budgets.items():
        make = partial(filled, policy, rows, int(budget))
        try:
            measured[budget] = growth_of(make, engines, kept)
        except TidegateError as error:
            measured[budget] = {"refused": str(error)}
    return measured


def measure_windows(policy: str | None, windows: Sequence[int]) -> dict[str, Any]:
    """By tuples per window, small ones first."""
    kept: list[JoinEngine] = []
    return {
        str(window): growth_of(
            partial(over_windows, policy, window), 3 if window < LARGE_WINDOW else 1, kept
        )
        for window in windows
    }


MEASURES = {"budgets": measure_budgets, "windows": measure_windows}


# --- all of them -------------------------------------------------------------------------


def measured(measure: str, cases: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """Each case in a process of its own, as many at a time as this process may use cores.

    What was found is also said at once.
    """

    def one(case: Sequence[Any]) -> dict[str, Any]:
        found = in_fresh_process("benchmarks.growth", [json.dumps([measure, *case])])
        print(f"  {measure}: {', '.join(map(str, case[:-1]))}: {json.dumps(found)}",
              file=sys.stderr, flush=True)  # fmt: skip
        return found

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(one, cases))


if __name__ == "__main__":
    measure, *arguments = json.loads(sys.argv[1])
    print(json.dumps(MEASURES[measure](*arguments)))
