"""Samples against the truth: bias over many seeds, coverage of intervals, uniformity, memory.

Law: each row has what was measured as `ours` and what it should be as `theirs`.

- **bias**: the mean estimate of count(*) and the truth; z, in the name, is the difference in
  standard errors of the mean. Without bias z is a normal number: |z| is above 1 in 32 of 100 rows,
  by chance. So the rows that follow compare all z with what chance gives, and a setting with
  |z| > 1 is sampled again with other seeds, twice as many, and eight times if |z| > 2 then: noise
  shrinks and a bias stays. Estimates of an average are ratios, which have a small bias: their
  rows compare it with the standard deviation of an estimate.
- **cover**: of the 95 % intervals that are known, the share that holds the truth. An interval is
  known or not by the sample itself. Where about half of the samples say "unknown", those that do
  not are the ones with more rows than others; so what counts there is the share of samples with an
  interval that is wrong, which must not be above 5 %.
- **uniform**: chi-square numbers of how often each result is included, and how often pairs of
  results are, divided by their degrees of freedom; and the same of `eq-cluster`, which is not
  independent.
- **memory**: tuples retained on average with a given fraction, and theorems 4.2 and 4.3.

`uniform` expects as many matches as `margin=20` allows here, so that no result is beyond its guess;
rows named "uniform, default" have the default margin, whose bias they show.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np

import tidegate as tg
from benchmarks.sampling_laws import memory_rows, uniform_rows
from benchmarks.sampling_runs import (
    AGGREGATES,
    Answers,
    Asked,
    Case,
    Floats,
    answers_of,
    cases,
    counts_of,
    z_of,
)
from benchmarks.side_by_side import Row, compared

POLICIES = {
    "eq-cluster": tg.eq_cluster(),
    "pps-cluster": tg.pps_cluster(),
    "uniform": tg.uniform(margin=20),
}
DEFAULT = {"uniform, default": tg.uniform()}
SEEDS, QUICK_SEEDS = 2000, 200
# A setting with |z| above a bound is sampled again, with so many times more seeds.
AGAIN = ((1.0, 2), (2.0, 8))
COUNT, AVERAGE = AGGREGATES[0], AGGREGATES[2]


class Measured(NamedTuple):
    case: Case
    seeds: int
    answers: dict[Asked, Answers]
    cpu: float  # seconds

    def estimates(self, aggregate: str) -> tuple[Floats, float]:
        """Of all results, with the truth."""
        for asked, answers in self.answers.items():
            if asked.aggregate == aggregate and asked.group is None:
                estimates = np.concatenate(answers.estimates)
                assert len(estimates) == self.seeds  # no sample was empty
                return estimates, asked.truth
        raise KeyError(aggregate)

    @property
    def z(self) -> float:
        return z_of(*self.estimates(COUNT))

    @property
    def summary(self) -> str:
        """One line while others are still measured."""
        shares = [
            f"{answers.covered / max(1, answers.known):.3f} of {answers.known}"
            for answers in self.answers.values()
        ]
        return f"{self.case.label}, z {self.z:+.2f}, covered {', '.join(shares)}"


class Repeated(NamedTuple):
    """More seeds of a setting: estimated counts."""

    case: Case
    counts: list[Floats]
    cpu: float

    @property
    def summary(self) -> str:
        truth = float(self.case.exact().num_rows)
        return f"{self.case.label}, z {', '.join(f'{z_of(c, truth):+.2f}' for c in self.counts)}"


def run(quick: bool) -> list[Row]:
    """Settings are measured side by side, one process for each core."""
    seeds, began = (QUICK_SEEDS if quick else SEEDS), time.process_time()
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        found = list(told(pool.map(measured_of, cases(POLICIES), repeat(seeds))))
        tries = AGAIN[:1] if quick else AGAIN
        doubted = [each for each in found if abs(each.z) > AGAIN[0][0]]
        again = list(told(pool.map(repeated_of, doubted, repeat(tries))))
        default = list(told(pool.map(default_of, cases(DEFAULT), repeat(seeds // 4))))
    rows = bias_rows(found) + chance_rows(found)
    rows += repeated_rows("bias again", again) + repeated_rows("bias", default)
    rows += cover_rows(found) + uniform_rows(quick) + memory_rows(quick)
    spent = sum(each.cpu for each in (*found, *again, *default)) + time.process_time() - began
    return [*rows, compared("CPU time of all of this, at most", spent / 60, 10.0, "minutes")]


def told(measured: Iterable[Any]) -> Iterator[Any]:
    for each in measured:
        print(f"{each.cpu:5.0f} CPU s: {each.summary}", file=sys.stderr, flush=True)
        yield each


def measured_of(case: Case, seeds: int) -> Measured:
    began = time.process_time()
    answers = answers_of(case, 0, seeds)
    return Measured(case, seeds, answers, time.process_time() - began)


def repeated_of(measured: Measured, tries: Sequence[tuple[float, int]]) -> Repeated:
    """Other seeds, more of them, as long as z is above a bound."""
    began, counts, first = time.process_time(), [], measured.seeds
    z, (_, truth) = measured.z, measured.estimates(COUNT)
    for bound, times in tries:
        if abs(z) > bound:
            counts.append(counts_of(measured.case, first, first + times * measured.seeds))
            first += len(counts[-1])
            z = z_of(counts[-1], truth)
    return Repeated(measured.case, counts, time.process_time() - began)


def default_of(case: Case, seeds: int) -> Repeated:
    began = time.process_time()
    return Repeated(case, [counts_of(case, 0, seeds)], time.process_time() - began)


# --- bias --------------------------------------------------------------------------------


def bias_rows(found: list[Measured]) -> list[Row]:
    rows = []
    for measured in found:
        estimates, truth = measured.estimates(COUNT)
        name = f"bias: {measured.case.label} (z {measured.z:+.2f})"
        rows.append(compared(name, float(estimates.mean()), truth, "rows"))
    for measured in found:
        estimates, truth = measured.estimates(AVERAGE)
        estimates = estimates[~np.isnan(estimates)]
        name = f"bias: {AVERAGE}, {measured.case.label}, beside its standard deviation"
        rows.append(compared(name, abs(estimates.mean() - truth), estimates.std(), "x"))
    return rows


def chance_rows(found: list[Measured]) -> list[Row]:
    """All z together. Their seeds differ, so they are independent."""
    z = np.array([measured.z for measured in found])
    rows = [
        compared(f"z: share of |z| < {bound:g}", float((abs(z) < bound).mean()), chance, "share")
        for bound, chance in ((1.0, 0.683), (2.0, 0.954))
    ]
    mean, square = z.mean() * math.sqrt(len(z)), (z**2).mean()
    bound, spread = 2.0, 1.0 + 2.0 * math.sqrt(2.0 / len(z))
    return [
        *rows,
        compared("z: mean in its standard errors, at most", abs(float(mean)), bound, "x"),
        compared("z: mean square, 1 by chance, at most", float(square), spread, "x"),
    ]


def repeated_rows(name: str, found: list[Repeated]) -> list[Row]:
    rows = []
    for case, tries, _ in found:
        truth = float(case.exact().num_rows)
        for counts in tries:
            label = f"{name}: {case.label}, {len(counts)} seeds (z {z_of(counts, truth):+.2f})"
            rows.append(compared(label, float(counts.mean()), truth, "rows"))
    return rows


# --- coverage ----------------------------------------------------------------------------


def cover_rows(found: list[Measured]) -> list[Row]:
    rows, shares, wrong = [], [], []
    for measured in found:
        for asked, answers in measured.answers.items():
            known = answers.known / measured.seeds
            share = answers.covered / answers.known if answers.known else math.nan
            if known >= 0.5:
                shares.append(share)
            wrong.append((answers.known - answers.covered) / measured.seeds)
            name = f"cover: {measured.case.label}, {asked.label} ({known:.0%} known)"
            rows.append(compared(name, share, 0.95, "share"))
    inside = float(np.mean([0.93 <= share <= 0.97 for share in shares]))
    where = "where half of the intervals are known"
    return [
        *rows,
        compared(f"cover: least {where}", min(shares), 0.93, "share"),
        compared(f"cover: greatest {where}", max(shares), 0.97, "share"),
        compared(f"cover: share of 93 to 97 % {where}", inside, 1.0, "share"),
        compared("cover: samples with a wrong interval, at most", max(wrong), 0.05, "share"),
    ]
