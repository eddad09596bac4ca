"""How far the recall of a sample may lie from that of the whole.

Law: half = sqrt((1.96 s)^2 + e^2).

s is the standard error of the chance that took keys and tuples. A key k is included with p_k, its
tuples stay with r_k = rate / p_k, and the residual of tuple i is y_i = kept_i - recall * all_i, in
results whose first tuple is i; so s^2 is the sum over keys of

    (1 - p_k) (sum_i y_i)^2 + p_k (1 - r_k) sum_i y_i^2, divided by (sum all_i)^2.

e allows for what a memory of few tuples does otherwise than a large one: numbers of tuples vary by
their root, so a small memory is now a little large and now a little small for its streams. That
matters where recall rises steeply with memory:

    e = LEAST_ERROR + SMALL_MEMORY_ERROR * d recall / d log memory / sqrt(tuples retained)

with constants from streams that were replayed as a whole (`python -m benchmarks whatif`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidegate.planner.stand_ins import StandIns, encoded
from tidegate.spec import JoinSpec

TWO_SIDED_95 = 1.96
LEAST_ERROR, SMALL_MEMORY_ERROR = 0.003, 1.0
FAR = 0.15  # apart, of logarithms of memories: nearer points say nothing of a slope

Floats = NDArray[np.float64]
Orders = Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True)
class Chance:
    """Who could have been in the sample: the key of each tuple, in order of arrival, and of each
    key the probabilities."""

    key: NDArray[np.int64]
    included: Floats
    staying: Floats

    @classmethod
    def of(cls, some: StandIns, orders: Orders, passes: bool) -> Chance:
        """What is known of a sample whose tuples come in these orders."""
        arrival = np.concatenate(list(orders.values()))
        code, p = np.empty(some.rows, np.uint64), np.empty(some.rows)
        code[arrival] = np.concatenate([some.code[name] for name in orders])
        p[arrival] = np.concatenate([some.inclusion[name] for name in orders])
        key = np.unique(code, return_inverse=True)[1]
        included = np.ones(key.max(initial=-1) + 1)
        included[key] = p
        staying = np.minimum(1.0, some.rate / included) if passes else np.ones(len(included))
        return cls(key, included, staying)

    def half_width(self, parts: Floats, wholes: Floats, recall: float) -> float:
        """1.96 standard errors of sum(parts) / sum(wholes), given by first tuple."""
        total = float(wholes.sum())
        if total <= 0.0:
            return 0.0
        residual = parts - recall * wholes
        sums = np.bincount(self.key, residual)
        squares = np.bincount(self.key, residual * residual)
        p, r = self.included, self.staying
        variance = (1.0 - p) * sums**2 + p * (1.0 - r) * squares
        return TWO_SIDED_95 * float(np.sqrt(variance.sum())) / total


def widened(chance: Floats, memory: Floats, recall: Floats, retained: Floats) -> Floats:
    """Half of the intervals of one policy's recalls, from what chance does to each."""
    small = LEAST_ERROR + SMALL_MEMORY_ERROR * steepness(memory, recall) / np.sqrt(
        np.maximum(1.0, retained)
    )
    return np.hypot(chance, small)


def steepness(memory: Floats, recall: Floats) -> Floats:
    """How fast recall rises with the logarithm of memory, on the steeper side of each point.

    >>> steepness(np.array([10.0, 100.0, 1000.0]), np.array([0.2, 0.6, 0.9])).round(2).tolist()
    [0.17, 0.17, 0.13]
    """
    logs, found = np.log(memory), recall.copy()  # a concave curve rises no faster than that
    for at, here in enumerate(logs):
        below, above = np.flatnonzero(logs <= here - FAR), np.flatnonzero(logs >= here + FAR)
        others = np.concatenate([below[-1:], above[:1]])
        if len(others):
            found[at] = np.abs((recall[others] - recall[at]) / (logs[others] - here)).max()
    return found


def orders_of_arrival(some: StandIns, spec: JoinSpec) -> dict[str, NDArray[np.int64]]:
    """The place of each tuple among all that are replayed."""
    times = [each.time for each in encoded(some.tables, spec).values()]
    stream = np.repeat(np.arange(len(times)), [len(time) for time in times])
    place = np.empty(some.rows, np.int64)
    place[np.lexsort((stream, np.concatenate(times)))] = np.arange(some.rows)
    ends = np.cumsum([len(time) for time in times])[:-1]
    return dict(zip(spec.streams, np.split(place, ends), strict=True))
