"""`index="auto"` of a band join against fixed pairs, while the load moves from stream to stream.

Law: the same rows go through all engines, in turns; CPU time is compared, the least of several
rounds, and the number of results must be the same. What the cost model expects of the pair that was
chosen stands beside what it took.
"""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
import pyarrow as pa

from benchmarks.side_by_side import Row
from tidegate import JoinEngine, JoinSpec, band
from tidegate.binding.spec_records import INDEX_CODES
from tidegate.costs.cost import pair_cost
from tidegate.costs.structures import INDEX_NAMES
from tidegate.engine.indexing import IndexWatch, observed

WINDOW = 500  # tuples of both windows together
SHARES = (0.995, 0.5, 0.005)  # of the arrivals that are on the first stream, one after the other
KEYS = 2**30
PIECES = 20  # pushes for each share
FIXED = ("BB", "NN", "NB", "BN")
LETTERS = {INDEX_CODES[name]: letter for letter, name in INDEX_NAMES.items()}

Pushes = list[dict[str, pa.Table]]


def pushes(arrivals: int) -> list[Pushes]:
    """For each share some pushes, one tuple per unit of time."""
    rng = np.random.default_rng(0)
    phases: list[Pushes] = []
    for number, share in enumerate(SHARES):
        times = np.arange(arrivals) + arrivals * number
        left = rng.random(arrivals) < share
        keys = rng.integers(0, KEYS, arrivals)
        bounds = np.linspace(0, arrivals, PIECES + 1).astype(int)
        phases.append([])
        for begin, end in pairwise(bounds):
            part = slice(begin, end)
            phases[-1].append(
                {
                    name: pa.table({"t": times[part][own], "x": keys[part][own]})
                    for name, own in (("left", left[part]), ("right", ~left[part]))
                }
            )
    return phases


def spec_of(pair: str | None) -> JoinSpec:
    half = KEYS // WINDOW // 2
    spec = JoinSpec(on=band("x", -half, half), time="t", within=WINDOW)
    if pair is None:
        return spec
    names = zip(spec.streams, pair, strict=True)
    return spec.replace(index={stream: INDEX_NAMES[letter] for stream, letter in names})


def run_once(pair: str | None, phases: list[Pushes]) -> tuple[list[float], list[str], int]:
    """CPU seconds of each phase, the pair at its end, and all results."""
    engine = JoinEngine(spec_of(pair))
    seconds, pairs, results = [], [], 0
    for phase in phases:
        began = time.process_time()
        results += sum(engine.push(push).num_rows for push in phase)
        seconds.append(time.process_time() - began)
        pairs.append("".join(LETTERS[int(kind)] for kind in engine._state.lanes.index))
    return seconds, pairs, results


def run(quick: bool) -> list[Row]:
    arrivals = 200_000 if quick else 500_000
    phases = pushes(arrivals)
    best: dict[str, list[float]] = {}
    chosen: list[str] = []
    found = set()
    for _ in range(3):
        for pair in ("auto", *FIXED):
            seconds, pairs, results = run_once(None if pair == "auto" else pair, phases)
            found.add(results)
            best[pair] = [min(both) for both in zip(seconds, best.get(pair, seconds), strict=True)]
            chosen = pairs if pair == "auto" else chosen
    if len(found) > 1:
        raise RuntimeError(f"the numbers of results differ: {found}")
    rows = []
    weights = IndexWatch(spec_of(None)).weights
    for number, share in enumerate(SHARES):
        fixed = min(best[pair][number] for pair in FIXED)
        name = f"band join, {share:.1%} of the load on the left: auto took {chosen[number]}"
        rows.append(_row(f"{name}, against the best fixed pair", best["auto"][number], fixed))
        rows.append(_row(f"{name}, against BB", best["auto"][number], best["BB"][number]))
        alive = (round(share * WINDOW), round((1 - share) * WINDOW))
        rates = (round(share * arrivals), round((1 - share) * arrivals))
        results = round((rates[0] * alive[1] + rates[1] * alive[0]) / WINDOW)
        expected = pair_cost(chosen[number], observed(rates, alive, results), weights)
        rows.append(_row(f"{name}, predicted against measured", expected, best["auto"][number]))
    return rows


def _row(name: str, ours: float, theirs: float) -> Row:
    return Row(name=name, ours=ours, theirs=theirs, ratio=ours / theirs, unit="CPU s")
