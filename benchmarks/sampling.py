"""Samples against the truth: bias over many seeds, coverage of intervals, uniformity, memory.

Law: each row has what was measured as `ours` and what it should be as `theirs`.

- **bias**: the mean estimate of count(*) and the truth; z, in the name, is the difference in
  standard errors of the mean. Without bias z is a normal number: |z| is above 1 in 32 of 100 rows,
  by chance, and no number of seeds changes that. So the rows that follow compare all z, of counts
  and of sums, with what chance gives; the mean relative bias of all settings of a policy has a
  smaller error than each; and a setting with |z| > 1 is sampled again with other seeds, twice as
  many, and eight times if |z| > 2 then: noise shrinks and a bias stays. Estimates of an average are
  ratios, which have a small bias: their rows compare it with the standard deviation of an estimate.
- **cover**: of the 95 % intervals that are known, the share that holds the truth, of all results,
  of three groups, and of each of 30 keys, most of which are small. An interval is known or not by
  the sample itself; where fewer than nine of ten samples know it, they hold more often than that,
  since the sample cannot know that it is one of few, and such groups are taken together.
- **uniform**: chi-square numbers of how often each result is included, and how often pairs of
  results are, divided by their degrees of freedom; and the same of `eq-cluster`, which is not
  independent.
- **memory**: tuples retained on average with a given fraction, and theorems 4.2 and 4.3.

`uniform` expects as many matches as `margin=20` allows here, so that no result is beyond its guess;
rows named "uniform, default" have the default margin, whose bias they show, and the intervals of
what `tidegate.join` returned, which are unknown where the bias is seen.
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
from benchmarks.sampling_cover import cover_rows, default_rows
from benchmarks.sampling_laws import memory_rows, uniform_rows
from benchmarks.sampling_runs import (
    AVERAGE,
    COUNT,
    SUM,
    Case,
    Floats,
    Measured,
    answers_of,
    cases,
    counts_of,
    judged_of,
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
    rows = bias_rows(found) + chance_rows(found, COUNT) + chance_rows(found, SUM)
    rows += policy_rows(found)
    rows += repeated_rows(again) + bias_rows(default)
    rows += cover_rows(found) + default_rows(default) + uniform_rows(quick) + memory_rows(quick)
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


def default_of(case: Case, seeds: int) -> Measured:
    began = time.process_time()
    return Measured(case, seeds, judged_of(case, seeds), time.process_time() - began)


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


def chance_rows(found: list[Measured], aggregate: str) -> list[Row]:
    """All z together. Their seeds differ, so they are independent."""
    z, name = np.array([z_of(*each.estimates(aggregate)) for each in found]), f"z of {aggregate}"
    rows = [
        compared(f"{name}: |z| < {bound:g}", float((abs(z) < bound).mean()), chance, "share")
        for bound, chance in ((1.0, 0.683), (2.0, 0.954))
    ]
    mean, square = z.mean() * math.sqrt(len(z)), (z**2).mean()
    bound, spread = 2.0, 1.0 + 2.0 * math.sqrt(2.0 / len(z))
    return [
        *rows,
        compared(f"{name}: mean in its standard errors, at most", abs(float(mean)), bound, "x"),
        compared(f"{name}: mean square, 1 by chance, at most", float(square), spread, "x"),
    ]


def policy_rows(found: list[Measured]) -> list[Row]:
    """The mean relative bias over all settings of a policy, beside two of its standard errors."""
    rows = []
    for name in POLICIES:
        for aggregate in (COUNT, SUM):
            bias, squares = [], []
            for measured in found:
                if measured.case.name == name:
                    estimates, truth = measured.estimates(aggregate)
                    bias.append(float(estimates.mean()) / truth - 1.0)
                    squares.append(float(estimates.var()) / truth**2 / len(estimates))
            error = math.sqrt(math.fsum(squares)) / len(squares)
            title = f"bias: {aggregate}, {name}, mean of {len(bias)} settings, two standard errors"
            rows.append(compared(title, abs(float(np.mean(bias))), 2.0 * error, "share"))
    return rows


def repeated_rows(found: list[Repeated]) -> list[Row]:
    rows = []
    for case, tries, _ in found:
        truth = float(case.exact().num_rows)
        for counts in tries:
            label = f"bias again: {case.label}, {len(counts)} seeds (z {z_of(counts, truth):+.2f})"
            rows.append(compared(label, float(counts.mean()), truth, "rows"))
    return rows
