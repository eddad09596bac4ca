"""The best that any plan with the same basic windows could have done, known afterwards.

Law: in each adaptation period the true comparisons and results of every (direction, basic window)
are known; fuel goes to those with the most results per comparison, the last one in part. No plan
that is fixed for a period and spends the period's fuel has more results.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Counts = NDArray[np.float64]  # [period, side, basic window]


def results_by_window(
    exact: pa.Table, windows: tuple[int, int], basic: int, every: int, periods: int
) -> Counts:
    """Results of the exact join (columns `t` and `t_right`), by the side that was looked at."""
    left, right = exact["t"].to_numpy(), exact["t_right"].to_numpy()
    now = np.maximum(left, right)
    side = np.where(left <= right, 0, 1)  # of two tuples of one time the left comes first
    earlier = np.minimum(left, right)
    counts = _none(windows, basic, periods)
    np.add.at(counts, (now // every, side, now // basic - earlier // basic), 1.0)
    return counts


def comparisons_by_window(
    tables: Mapping[str, pa.Table], windows: tuple[int, int], basic: int, every: int, periods: int
) -> Counts:
    """Comparisons of full probes, by the side that is looked at."""
    times = [table["t"].to_numpy() for table in tables.values()]
    counts = _none(windows, basic, periods)
    for side in (0, 1):
        probes, held = times[1 - side], times[side]
        # The left stream comes first at equal times.
        arrived = np.searchsorted(held, probes, "right" if side == 0 else "left")
        alive = np.searchsorted(held, probes - windows[side], "left")
        start = (probes[:, None] // basic - np.arange(counts.shape[2])) * basic
        low = np.maximum(np.searchsorted(held, start, "left"), alive[:, None])
        high = np.minimum(np.searchsorted(held, start + basic, "left"), arrived[:, None])
        compared = np.maximum(0, high - low)
        bounds = np.searchsorted(probes, np.arange(periods + 1) * every)
        for period, (first, end) in enumerate(itertools.pairwise(bounds)):
            counts[period, side] = compared[first:end].sum(axis=0)
    return counts


def _none(windows: tuple[int, int], basic: int, periods: int) -> Counts:
    return np.zeros((periods, 2, 1 + -(-max(windows) // basic)))


def best_afterwards(results: Counts, comparisons: Counts, fuel: float) -> NDArray[np.float64]:
    """Results of each period under `fuel` comparisons per period."""
    best = np.zeros(len(results))
    for period, (gain, cost) in enumerate(zip(results, comparisons, strict=True)):
        gains, costs = gain.ravel(), cost.ravel()
        left = fuel
        for at in np.argsort(-gains / np.maximum(costs, 1.0), kind="stable"):
            share = 1.0 if costs[at] <= left else left / costs[at]
            best[period] += share * gains[at]
            left -= share * costs[at]
    return best
