"""Memory as the process sees it: what an engine adds to it, against its budget and the exact join.

Law: growth is resident memory after a collection, before and after one engine more; nothing is
handed back to the system in between (no `malloc_trim`). A process of its own measures one policy on
one kind of rows. It runs one engine first, so that code is loaded and the allocators hold what a
push needs, and keeps every engine alive, so that none takes over the pages of another. A figure is
the median of the engines.

First table, budgets in bytes: `ours` is the growth less 3 MB, `theirs` the budget. To reach: 1.1.
Second table, a tenth of the tuples: `ours` under the budget, `theirs` the exact join of the same
tuples, in `memory_bytes` and in growth. To reach: 0.5 with windows of 10,000 tuples per side, 0.2
above. Then bytes per retained row beyond its payload (24 bytes), `theirs` being what is allowed:
160 for policies that count keys, 96 for others.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]
import pyarrow as pa

from benchmarks.side_by_side import Row, compared, in_fresh_process
from benchmarks.workload import STREAMS
from tidegate import JoinEngine, JoinSpec, TidegateError, policies

MEGABYTE = 1e6
BUDGETS = {1: 5, 10: 5, 50: 3, 500: 1}  # MB -> engines that are measured
QUICK_BUDGETS = {1: 5, 10: 3}
WINDOWS = {10_000: 0.5, 100_000: 0.2, 1_000_000: 0.2}  # tuples per side -> share to reach
QUICK_WINDOWS = {10_000: 0.5}
QUICK_POLICIES = ("random", "value")
CONSTANT = 3 * MEGABYTE  # what an engine may add whatever its budget,
MOST = 1.1  # and the share of its budget that it may add besides
PUSH = 4_000  # rows of each stream
PAYLOAD = 24  # bytes of a narrow row: three columns of 8
WITHOUT_KEYS = ("random", "recent", "until-expiry", "simp", "age")
ALLOWED_WITHOUT_KEYS, ALLOWED_WITH_KEYS = 96, 160  # bytes per row beyond the payload

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
    for number in count():
        times = np.arange(number * PUSH, (number + 1) * PUSH)
        yield {
            stream: pa.table(
                {"key": generator.integers(0, keys, PUSH), "time": times, **ROWS[rows](generator)}
            )
            for stream in STREAMS
        }


# --- one process -------------------------------------------------------------------------


def filled(policy: str, rows: str, megabytes: int, seed: int) -> JoinEngine:
    """An engine whose budget has been full for a while: half of what it holds was replaced.

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
            if 2 * (stats["evicted"] + stats["refused"]) >= stats["memory_rows"] > 0:
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
    """Medians over so many engines after a first one; all of them join `kept`."""
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
        megabytes = int(budget)
        try:
            measured[budget] = growth_of(
                lambda seed, megabytes=megabytes: filled(policy, rows, megabytes, seed),
                engines,
                kept,
            )
        except TidegateError as error:
            measured[budget] = {"refused": str(error)}
    return measured


def measure_windows(policy: str | None, windows: Sequence[int]) -> dict[str, Any]:
    """By tuples per window, small ones first."""
    kept: list[JoinEngine] = []
    return {
        str(window): growth_of(
            lambda seed, window=window: over_windows(policy, window, seed),
            3 if window < 1_000_000 else 1,
            kept,
        )
        for window in windows
    }


MEASURES = {"budgets": measure_budgets, "windows": measure_windows}


# --- all of them -------------------------------------------------------------------------


def measured(measure: str, cases: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """Each case in a process of its own, as many at a time as this process may use cores.

    What was found is also said at once: the whole takes an hour or two.
    """

    def one(case: Sequence[Any]) -> dict[str, Any]:
        found = in_fresh_process("benchmarks.memory_bytes", [json.dumps([measure, *case])])
        print(f"  {measure}: {', '.join(map(str, case[:-1]))}: {json.dumps(found)}",
              file=sys.stderr, flush=True)  # fmt: skip
        return found

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(one, cases))


def against_budgets(names: Sequence[str], budgets: dict[int, int]) -> list[Row]:
    cases = [(policy, rows, budgets) for rows in ROWS for policy in names]
    result = []
    for (policy, rows, _), answer in zip(cases, measured("budgets", cases), strict=True):
        for megabytes in budgets:
            found = answer[str(megabytes)]
            name = f"{policy}, {rows}, memory {megabytes} MB"
            if "refused" in found:
                print(f"{name}: {found['refused']}", file=sys.stderr, flush=True)
                continue
            held, growth = found["memory_bytes"] / MEGABYTE, found["growth"] / MEGABYTE
            name += f" (memory_bytes {held:.2f}, growth {growth:.2f}): beyond 3 MB, <= {MOST}"
            result.append(compared(name, growth - CONSTANT / MEGABYTE, megabytes, "MB"))
    return result


def against_exact(names: Sequence[str], windows: dict[int, float]) -> list[Row]:
    cases = [(policy, list(windows)) for policy in (None, *names)]
    exact, *others = measured("windows", cases)
    result, beyond = [], []
    for policy, answer in zip(names, others, strict=True):
        for window, target in windows.items():
            ours, theirs = answer[str(window)], exact[str(window)]
            for what in ("memory_bytes", "growth"):
                name = f"{policy}, a tenth of 2 x {window:,}: {what} / exact join, <= {target}"
                both = [side[what] / MEGABYTE for side in (ours, theirs)]
                result.append(compared(name, *both, "MB"))
            allowed = ALLOWED_WITHOUT_KEYS if policy in WITHOUT_KEYS else ALLOWED_WITH_KEYS
            name = f"{policy}, a tenth of 2 x {window:,}: beyond the payload / allowed, <= 1"
            per_row = ours["memory_bytes"] / ours["rows"] - PAYLOAD
            beyond.append(compared(name, per_row, allowed, "bytes per row"))
    return result + beyond


def run(quick: bool) -> list[Row]:
    # `auto` is another name of one of the others.
    names = QUICK_POLICIES if quick else [name for name in policies() if name != "auto"]
    rows = against_budgets(names, QUICK_BUDGETS if quick else BUDGETS)
    return rows + against_exact(names, QUICK_WINDOWS if quick else WINDOWS)


if __name__ == "__main__":
    measure, *arguments = json.loads(sys.argv[1])
    print(json.dumps(MEASURES[measure](*arguments)))
