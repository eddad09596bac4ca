"""Which features of a retained tuple predict its next match: likelihoods on recorded joins.

Law: for each stream of a join, tuples of a sample are followed through the full window. Each
arrival of the opposite stream is a trial for all of them and a hit for those that it meets. A model
is a product of factors, one per feature, fitted to the first half of the stream by iterative
proportional fitting; its gain is the log-likelihood per hit on the second half over that of a
constant rate, in nats. A better prediction of the next match is not yet a better policy: what
counts is `tidegate reproduce value`.

    level     how often the key came on the opposite stream
    age       how old the tuple is
    wait      how long the key was not seen on any stream
    side      the same, with two curves: it was last seen on the own or on the opposite stream
    known     the same, with two curves: the key did or did not come on the opposite stream
    opposite  how long the key was not seen on the opposite stream
    own       how often the key came on its own stream
    results   how many results the tuple has produced

VALUE uses level, age and side. `side` gains hardly anything here, but together with finer waits
VALUE kept more of the recorded joins. `opposite` beside wait gains most, and is not built.

`ours` is the gain of the named features, `theirs` that of level, age and wait.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.side_by_side import Row, compared
from tidegate.lab.datasets import JOINS, MORE_JOINS, folder_of, recorded_streams

MODELS = (
    ("level",), ("age",), ("wait",), ("level", "age"), ("level", "age", "wait"),
    ("level", "age", "side"), ("level", "age", "known"), ("level", "age", "wait", "opposite"),
    ("level", "age", "wait", "own"), ("level", "age", "wait", "results"),
)  # fmt: skip
PLAIN = ("level", "age", "wait")
ROWS = 12_000  # of a file
FOLLOWED = 600  # tuples of a stream
QUICK_JOINS = ("nasa-host", "loans", "dns")
_NAMES = ("level", "age", "wait", "side", "known", "opposite", "own", "results")


def _place(elapsed: float, span: float) -> int:
    """A wait in doublings of 1/1024 of the span."""
    return 0 if elapsed <= 0 else max(0, min(11, int(np.floor(np.log2(elapsed / span * 1024))) + 1))


def _level(count: int) -> int:
    return count if count < 8 else min(20, 8 + int(2 * np.log2(count / 8)))


def cells_of(tables: list[pa.Table], window: float) -> tuple[list[dict], list[dict]]:
    """Trials and hits by cell of all features, for the first and the second half of the time."""
    times = [table["ts"].cast(pa.int64()).to_numpy() for table in tables]
    codes = pa.concat_arrays(
        [
            pa.chunked_array(table["key"].chunks).combine_chunks().cast(pa.string())
            for table in tables
        ]
    ).dictionary_encode()
    keys = np.split(np.asarray(codes.indices), [len(times[0])])
    begin, end = min(t[0] for t in times), max(t[-1] for t in times)
    seen_on: list[dict[int, list[int]]] = [defaultdict(list), defaultdict(list)]
    for stream in range(2):
        for time, key in zip(times[stream].tolist(), keys[stream].tolist(), strict=True):
            seen_on[stream][key].append(time)
    trials: list[dict] = [defaultdict(float), defaultdict(float)]
    hits: list[dict] = [defaultdict(float), defaultdict(float)]
    rate = len(times[1]) / (end - begin)
    every = max(1, len(times[0]) // FOLLOWED)
    for time, key in zip(times[0][::every].tolist(), keys[0][::every].tolist(), strict=True):
        _follow(time, key, window, seen_on, rate, (begin + end) / 2, trials, hits)
    return trials, hits


def _follow(time, key, window, seen_on, rate, middle, trials, hits):
    """One tuple through its life: features change where its key is seen and where ages do."""
    own, opposite = np.array(seen_on[0][key]), np.array(seen_on[1][key])
    both = np.sort(np.concatenate([own, opposite]))
    met = opposite[(opposite > time) & (opposite <= time + window)]
    waits = window / 1024 * 2.0 ** np.arange(11)
    inside = both[(both > time) & (both <= time + window)]
    stops = [time + window * np.arange(1, 21) / 20, inside]
    stops += [last + waits for last in (time, *inside)]
    stops = np.unique(np.concatenate(stops))
    stops = stops[(stops > time) & (stops <= time + window)]
    before = float(time)
    for stop in stops:
        count = int(np.searchsorted(opposite, before, side="right"))
        last = both[np.searchsorted(both, before, side="right") - 1]
        other = opposite[count - 1] if count else -np.inf
        wait = _place(before - last, window)
        level = _level(count)
        features = (
            level,
            min(19, int((before - time) / window * 20)),
            wait,
            wait + 12 * bool(other == last),
            wait + 12 * (level > 0),
            12 if other == -np.inf else _place(before - other, window),
            _level(int(np.searchsorted(own, before, side="right"))),
            min(5, int(np.searchsorted(met, before, side="right"))),
        )
        half = int(before > middle)
        trials[half][features] += (stop - before) * rate
        number = np.searchsorted(met, stop, side="right") - np.searchsorted(
            met, before, side="right"
        )
        if number:
            hits[half][features] += number
        before = stop


def gain(model: tuple[str, ...], trials: list[dict], hits: list[dict]) -> float:
    """Nats per hit on the second half over a constant rate."""
    columns = [_NAMES.index(name) for name in model]
    factors: list[dict[int, float]] = [defaultdict(lambda: 1.0) for _ in model]
    base = (sum(hits[0].values()) + 1) / (sum(trials[0].values()) + 1)
    for _ in range(8):
        for at, column in enumerate(columns):
            expected: dict[int, float] = defaultdict(float)
            found: dict[int, float] = defaultdict(float)
            for cell, number in trials[0].items():
                rate = base * np.prod(
                    [
                        f[cell[c]]
                        for k, (f, c) in enumerate(zip(factors, columns, strict=True))
                        if k != at
                    ]
                )
                expected[cell[column]] += number * rate
            for cell, number in hits[0].items():
                found[cell[column]] += number
            for place in {*expected, *found}:
                factors[at][place] = (found[place] + 2.0) / (expected[place] + 2.0)
    total, promised, score = sum(hits[1].values()), 0.0, 0.0
    for cell, number in trials[1].items():
        rate = np.prod([f[cell[c]] for f, c in zip(factors, columns, strict=True)])
        promised += number * rate
        score += hits[1].get(cell, 0.0) * np.log(rate)
    if not total or not promised:
        return 0.0
    return float(score / total - np.log(promised / sum(trials[1].values())))


def run(quick: bool) -> list[Row]:
    folder = folder_of() or Path("../shared/data")
    rows = []
    for name, join in {**JOINS, **MORE_JOINS}.items():
        if (quick and name not in QUICK_JOINS) or not all(
            (folder / f).is_file() for f in join.files
        ):
            continue
        streams = recorded_streams(name, str(folder), ROWS)
        tables = [streams[stream] for stream in join.spec["streams"]]
        span = max(t["ts"].cast(pa.int64()).to_numpy()[-1] for t in tables)
        for first in range(2):
            within = join.spec["within"]
            asked = within[join.spec["streams"][first]] if isinstance(within, dict) else within
            window = _units(asked, tables[0])
            if window <= 0 or span <= 0:
                continue
            trials, hits = cells_of([tables[first], tables[1 - first]], window)
            plain = gain(PLAIN, trials, hits)
            for model in MODELS:
                label = f"{name}, {join.spec['streams'][first]}: {' x '.join(model)}"
                rows.append(compared(label, gain(model, trials, hits), plain, "nats per hit"))
    return rows


def _units(asked: object, table: pa.Table) -> float:
    """A window in the units of the time column."""
    if isinstance(asked, int):
        return float(asked)
    number, unit = str(asked).split()
    seconds = {"s": 1, "minutes": 60, "hour": 3600, "hours": 3600, "days": 86_400}[unit]
    kind = table["ts"].type
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[getattr(kind, "unit", "us")]
    return float(number) * seconds * per_second
