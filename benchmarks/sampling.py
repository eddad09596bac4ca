"""Samples against the truth: bias over many seeds, and how often intervals cover.

Law: the same streams are sampled with many seeds; `ours` is the mean estimate of the count and
`theirs` the truth, with z, the difference in standard errors of the mean, in the name. An unbiased
estimator has |z| < 1 in 68 % of such rows and < 2 in 95 %; the last rows count that. Coverage rows
have the share of known 95 % intervals that hold the truth as `ours`, and 0.95 as `theirs`.

| streams | |
|---|---|
| repeated | 30 keys, all as frequent |
| skew | Zipf 1.3 |
| drift | Zipf 1.3, and every third of the stream other keys are the frequent ones |
| bursts | half of the tuples come in a tenth of the time, so that the hard budget evicts many |

`uniform` expects as many matches as `margin=20` allows here, so that no result is beyond its guess;
rows named "uniform, default" have the default margin, whose bias they show. Rows of three streams
are of the same kinds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tidegate as tg
from benchmarks.side_by_side import Row, compared

POLICIES = {
    "eq-cluster": tg.eq_cluster(),
    "pps-cluster": tg.pps_cluster(),
    "uniform": tg.uniform(margin=20),
    "uniform, default": tg.uniform(),
}
KINDS = ("repeated", "skew", "drift", "bursts")
KEYS, GROUPS = 30, 3
SEEDS, QUICK_SEEDS = 2000, 200


class Setting(NamedTuple):
    """Streams, a join of them and its memory."""

    streams: int
    rows: int
    within: int
    memory: int


TWO = Setting(streams=2, rows=1200, within=40, memory=30)
THREE = Setting(streams=3, rows=300, within=30, memory=36)


def tables_of(kind: str, setting: Setting) -> dict[str, pa.Table]:
    """Streams of a kind; x differs from tuple to tuple, g is a group of its key."""
    rng = np.random.default_rng(KINDS.index(kind) + 10 * setting.streams)
    rows, numbers = setting.rows, np.arange(setting.rows)
    shares = np.ones(KEYS) if kind == "repeated" else 1.0 / np.arange(1, KEYS + 1) ** 1.3
    tables = {}
    for name in names_of(setting):
        key = rng.choice(KEYS, rows, p=shares / shares.sum())
        if kind == "drift":
            key = (key + numbers * 3 // rows) % KEYS
        times = rng.integers(0, rows, rows)
        if kind == "bursts":
            crowded = rng.random(rows) < 0.5
            times = np.where(crowded, times // 100 * 100 + times % 10, times)
        tables[name] = pa.table(
            {"t": np.sort(times), "k": key, "x": rng.normal(100, 30, rows), "g": key % GROUPS}
        )
    return tables


def names_of(setting: Setting) -> tuple[str, ...]:
    return tuple("abcd"[: setting.streams])


class Asked(NamedTuple):
    """An aggregate, its groups, and the truth by group."""

    aggregate: str
    by: str | None
    truth: dict[Any, float]

    @property
    def label(self) -> str:
        return self.aggregate + (" by group" if self.by else "")


def asked_of(exact: pa.Table) -> list[Asked]:
    """Counts, sums and averages with their truths, the last two of columns of different streams."""
    found = []
    for aggregate, column, function in (
        ("count(*)", "x", "count"),
        ("sum(x)", "x", "sum"),
        ("avg(x_b)", "x_b", "mean"),
    ):
        for by in (None, "g"):
            grouped = exact.group_by([by] if by else []).aggregate([(column, function)])
            names = grouped.column(by).to_pylist() if by else [None]
            values = map(float, grouped.column(f"{column}_{function}").to_pylist())
            found.append(Asked(aggregate, by, dict(zip(names, values, strict=True))))
    return found


class Outcome(NamedTuple):
    """Of all seeds: the estimated counts, and by question (covered, known, all) intervals."""

    truth: float
    counts: list[float]
    intervals: dict[str, list[int]]

    @property
    def z(self) -> float:
        error = float(np.std(self.counts)) / math.sqrt(len(self.counts))
        return (float(np.mean(self.counts)) - self.truth) / error


def outcome_of(kind: str, setting: Setting, policy: tg.Policy, seeds: int) -> Outcome:
    """Sample the same streams with so many seeds."""
    tables = tables_of(kind, setting)
    spec = tg.JoinSpec(on="k", time="t", within=setting.within, streams=names_of(setting))
    exact = tg.join(tables, spec).table
    asked = asked_of(exact)
    counts, intervals = [], {each.label: [0, 0, 0] for each in asked}
    for seed in range(seeds):
        sampled = spec.replace(memory=setting.memory, policy=policy, seed=seed)
        table = tg.join(tables, sampled).table
        counts.append(pc.sum(table.column("_weight")).as_py() or 0.0)
        for each in asked:
            tally = intervals[each.label]
            for row in tg.estimate(table, each.aggregate, by=each.by).to_pylist():
                truth = each.truth[row["g"] if each.by else None]
                tally[2] += 1
                if row["interval"] == "95 %":
                    tally[1] += 1
                    tally[0] += row["low"] <= truth <= row["high"]
    return Outcome(float(exact.num_rows), counts, intervals)


def outcomes(seeds: int) -> Iterator[tuple[str, str, Outcome]]:
    for setting in (TWO, THREE):
        for kind in KINDS:
            for name, policy in POLICIES.items():
                if setting.streams == 2 or not name.startswith("uniform"):
                    label = f"{name}, {kind}" + (", three streams" * (setting.streams > 2))
                    yield name, label, outcome_of(kind, setting, policy, seeds)


def run(quick: bool) -> list[Row]:
    seeds = QUICK_SEEDS if quick else SEEDS
    rows, coverage, scores = [], [], []
    for name, label, found in outcomes(seeds):
        mean = float(np.mean(found.counts))
        rows.append(compared(f"bias: {label} (z {found.z:+.2f})", mean, found.truth, "rows"))
        if name in ("eq-cluster", "pps-cluster", "uniform"):
            scores.append(abs(found.z))
        for asked, (covered, known, told) in found.intervals.items():
            share = f"{known / max(1, told):.0%} known"
            shown = covered / known if known else math.nan
            coverage.append(compared(f"cover: {label}, {asked} ({share})", shown, 0.95, "share"))
    for bound, expected in ((1.0, 0.683), (2.0, 0.954)):
        within = float(np.mean([score < bound for score in scores]))
        rows.append(compared(f"rows with |z| < {bound:g}", within, expected, "share"))
    return rows + coverage
