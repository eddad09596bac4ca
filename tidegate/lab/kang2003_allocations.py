"""The allocations of kang2003, section 5.2.1, as contenders under a CPU budget.

Law: both windows are kept with all tuples, and an arrival either searches the whole opposite window
or none of it. The fuel of a buffer is split over the two directions by a fixed rule; what one
direction cannot use goes to the other. Which arrivals of a buffer search is drawn at random. A
result exists if the later of its tuples searches, so results are counted on those of the exact
join.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

MAX_A, MAX_B = "MaxA", "MaxB"
BY_RATE, BY_WINDOW, EQUAL = "proportional to rates", "proportional to windows", "equal"
ALLOCATIONS = (MAX_A, MAX_B, BY_RATE, BY_WINDOW, EQUAL)

Masks = tuple[NDArray[np.bool_], NDArray[np.bool_]]


def share_of_first(name: str, arrivals: tuple[int, int], windows: tuple[int, int]) -> float:
    """The share of the fuel that the tuples of the first stream search with."""
    if name in (MAX_A, MAX_B):
        return 1.0 if name == MAX_A else 0.0
    # Tuples of A search window B.
    parts = {BY_RATE: arrivals, BY_WINDOW: windows[::-1], EQUAL: (1, 1)}[name]
    return parts[0] / max(1, sum(parts))


def searching(
    tables: Mapping[str, pa.Table],
    windows: tuple[int, int],
    fuel_of_buffer: float,
    name: str,
    seed: int = 0,
    buffer: int = 1000,
) -> Masks:
    """Which tuples search, by stream, within the fuel of each buffer; times are integers `t`."""
    generator = np.random.default_rng([seed, 17])
    first, second = (table["t"].to_numpy() for table in tables.values())
    costs = [_costs(first, second, windows[1], True), _costs(second, first, windows[0], False)]
    chosen = [np.zeros(len(times), np.bool_) for times in (first, second)]
    begin = min((int(t[0]) for t in (first, second) if len(t)), default=0) // buffer
    end = max((int(t[-1]) for t in (first, second) if len(t)), default=0) // buffer
    for number in range(begin, end + 1):
        bounds = [
            np.searchsorted(times, [number * buffer, (number + 1) * buffer])
            for times in (first, second)
        ]
        here = [generator.permutation(np.arange(low, high)) for low, high in bounds]
        share = share_of_first(name, (len(here[0]), len(here[1])), windows)
        needed = [float(costs[side][here[side]].sum()) for side in (0, 1)]
        given = [share * fuel_of_buffer, (1.0 - share) * fuel_of_buffer]
        for side in (0, 1):  # what one cannot use goes to the other
            given[1 - side] += max(0.0, given[side] - needed[side])
        for side in (0, 1):
            spent = np.cumsum(costs[side][here[side]])
            chosen[side][here[side][spent <= given[side]]] = True
    return chosen[0], chosen[1]


def _costs(
    probes: NDArray[np.int64], held: NDArray[np.int64], window: int, first: bool
) -> NDArray[np.int64]:
    """Comparisons of each tuple with the whole opposite window; the first stream comes first."""
    arrived = np.searchsorted(held, probes, "left" if first else "right")
    alive = np.searchsorted(held, probes - window, "left")
    return np.maximum(0, arrived - alive)


def results_of(
    exact: pa.Table, rows: tuple[str, str], times: tuple[str, str], masks: Masks
) -> Masks:
    """For each result of the exact join: was it found by the first stream, by the second?

    `rows` and `times` name its columns with the tuples' row numbers and times.
    """
    numbers = [exact[name].to_numpy() for name in rows]
    left, right = (exact[name].to_numpy() for name in times)
    second_searches = left <= right
    return (
        ~second_searches & masks[0][numbers[0]],
        second_searches & masks[1][numbers[1]],
    )
