"""The pair of indexes that the planner chooses, against the quickest of all pairs.

Law: a grid of workloads (predicate, windows, rates, keys); each is run with every pair that may
win, in turns, and the pair that the calibrated cost model names is compared with the measured best.
CPU time is compared, the least of several rounds. A pair that the model has at more than 4 times
the cost of the best is left out: running it would only take time.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.side_by_side import Row
from tidegate import JoinEngine, JoinSpec, band
from tidegate.costs.choice import Choice, choose
from tidegate.costs.structures import index_of
from tidegate.costs.weights import Weights
from tidegate.costs.workload import Workload
from tidegate.planner.calibrate import Effort, calibrate

ARRIVALS = 30_000
CLOSE = 1.10
HOPELESS = 4.0
KEYS = 2**40


@dataclass(frozen=True)
class Case:
    """A workload with windows in tuples, a share of the arrivals on the first stream, and matches.

    `matches` is how many tuples an arrival finds in the larger window.
    """

    predicate: str
    windows: tuple[int, int]
    share: float
    matches: float

    @property
    def workload(self) -> Workload:
        sigma = self.matches / max(self.windows)
        # The number of keys with this selectivity; with bands keys hardly ever repeat.
        keys = 1.0 / sigma if self.predicate == "equality" else float(KEYS)
        return Workload(
            self.windows,
            (self.share, 1.0 - self.share),
            keys=(keys, keys),
            selectivity=sigma,
            predicate=self.predicate,
        )

    @property
    def lengths(self) -> list[int]:
        """Of the windows, in thousandths of the time in which one tuple arrives."""
        rates = (self.share, 1.0 - self.share)
        return [round(w / r * 1_000) for w, r in zip(self.windows, rates, strict=True)]

    def tables(self, seed: int) -> list[dict[str, pa.Table]]:
        """Two pushes: what fills the windows, and the arrivals that are measured."""
        generator = np.random.default_rng(seed)
        domain = KEYS if self.predicate == "band" else round(max(self.windows) / self.matches)
        pushes: list[dict[str, pa.Table]] = [{}, {}]
        rates = (self.share, 1.0 - self.share)
        begin = max(self.lengths)
        for stream, name in enumerate(("left", "right")):
            for push, (first, last) in enumerate(
                ((begin - self.lengths[stream], begin), (begin, begin + 1_000 * ARRIVALS))
            ):
                count = round(rates[stream] * (last - first) / 1_000)
                times = np.linspace(first, last, count, endpoint=False).astype(np.int64)
                keys = generator.integers(0, domain, count)
                pushes[push][name] = pa.table({"key": keys, "time": times})
        return pushes

    def spec(self, pair: str) -> JoinSpec:
        half = round(KEYS * self.matches / max(self.windows) / 2)
        return JoinSpec(
            on="key" if self.predicate == "equality" else band("key", -half, half),
            time="time",
            within=dict(zip(("left", "right"), self.lengths, strict=True)),
            index=index_of(pair, ("left", "right")),
        )


def grid(quick: bool) -> list[Case]:
    """200 workloads; 16 with --quick."""
    sizes = (100, 1_000, 20_000) if quick else (50, 200, 1_000, 5_000, 20_000)
    windows = list(itertools.product(sizes, repeat=2))
    shares = (0.01, 0.2, 0.5, 0.99)
    cases = [
        Case(predicate, pair, share, matches)
        for predicate, matches in (("equality", 1.0), ("equality", 20.0), ("band", 1.0))
        for pair, share in itertools.product(windows, shares)
    ]
    wanted = 16 if quick else 200
    chosen = np.random.default_rng(0).choice(len(cases), wanted, replace=False)
    return [cases[k] for k in sorted(chosen)]


def seconds(case: Case, pair: str, pushes: list[dict[str, pa.Table]]) -> tuple[float, int]:
    """CPU seconds of the arrivals after the windows are full, and the results of all."""
    engine = JoinEngine(case.spec(pair))
    results = engine.push(pushes[0]).num_rows
    began = time.process_time()
    results += engine.push(pushes[1]).num_rows
    return time.process_time() - began, results


def contenders(choice: Choice) -> Iterator[str]:
    least = min(choice.costs.values())
    for pair, cost in choice.costs.items():
        if cost <= HOPELESS * least or pair == choice.pair:
            yield pair


def measured(case: Case, choice: Choice, rounds: int) -> dict[str, float]:
    took: dict[str, float] = {}
    pairs = list(contenders(choice))
    tables = case.tables(0)
    found = set()
    for _ in range(rounds):
        for pair in pairs:
            spent, results = seconds(case, pair, tables)
            took[pair] = min(spent, took.get(pair, spent))
            found.add(results)
    if len(found) > 1:
        raise RuntimeError(f"the numbers of results of {case} differ: {found}")
    return took


def run(quick: bool) -> list[Row]:
    weights: Weights = calibrate(Effort(rounds=3) if quick else Effort())
    rounds = 3
    cases = grid(quick)
    within: dict[str, list[bool]] = {}
    bests: dict[str, Counter[str]] = {}
    errors, losses = [], []
    for number, case in enumerate(cases):
        choice = choose(case.workload, weights)
        took = measured(case, choice, rounds)
        best = min(took, key=lambda pair: took[pair])
        loss = took[choice.pair] / took[best]
        within.setdefault(case.predicate, []).append(loss <= CLOSE)
        bests.setdefault(case.predicate, Counter())[best] += 1
        losses.append(loss)
        errors.append(choice.cost * ARRIVALS / took[choice.pair])
        if loss > CLOSE:
            print(
                f"{number}: {case}: chose {choice.pair} {1e9 * took[choice.pair] / ARRIVALS:.0f} ns"
                f" an arrival, best {best} {1e9 * took[best] / ARRIVALS:.0f} ns",
                file=sys.stderr,
            )
    for predicate, counted in bests.items():
        most = ", ".join(f"{pair} {times}" for pair, times in counted.most_common())
        print(f"measured best, {predicate}: {most}", file=sys.stderr)
    every = [each for found in within.values() for each in found]
    rows = [
        _row(f"chosen pair within 10 % of the measured best, {name}", found)
        for name, found in (("all", every), *within.items())
    ]
    rows.append(
        Row(
            name="time of the chosen pair / measured best, mean",
            ours=float(np.mean(losses)),
            theirs=1.0,
            ratio=float(np.mean(losses)),
            unit="x",
        )
    )
    rows.append(
        Row(
            name="predicted / measured time of the chosen pair, median",
            ours=float(np.median(errors)),
            theirs=1.0,
            ratio=float(np.median(errors)),
            unit="x",
        )
    )
    return rows


def _row(name: str, found: list[bool]) -> Row:
    share = sum(found) / len(found)
    return Row(name=name, ours=sum(found), theirs=len(found), ratio=share, unit="workloads")
