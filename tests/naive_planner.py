"""The planner's models, slowly and obviously: formulas as printed, searches by trying.

Nothing here is shared with `tidegate/planner`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np


def ceil_log(base: int, number: int) -> int:
    """By trying powers."""
    return next(k for k in range(200) if base**k >= number)


def one_way_cost(
    letter: str, window: int, searching: float, own: float, bucket: int = 10, node: int = 100
) -> float:
    """Equation 7 of kang2003 with the bracket that its Table 3 needs, weights written out."""
    leaves = math.ceil(window / node)
    halvings = ceil_log(2, node)
    if letter == "N":
        return searching * window * 3e-4 + 2 * own * 1e-4
    if letter == "H":
        return searching * bucket * 5.5e-4 + 2 * own * 7.8e-4
    if letter == "B":
        height = ceil_log(node + 1, leaves) + 1
        return searching * height * halvings * 2.6e-4 + own * 2 * height * halvings * 2.6e-4
    touched = 1.5 * (ceil_log(2, leaves) - 1) + halvings
    return searching * touched * 2.6e-4 + own * 2 * touched * 2.7e-4


def full_cost(pair: str, windows: Sequence[int], rates: Sequence[float]) -> float:
    first = one_way_cost(pair[0], windows[0], rates[1], rates[0])
    return first + one_way_cost(pair[1], windows[1], rates[0], rates[1])


def cheapest_by_trying(
    pairs: Sequence[str], windows: Sequence[int], total: float, steps: int
) -> list[str]:
    """The cheapest pair at `steps` + 1 shares of the first stream."""
    return [
        min(
            pairs,
            key=lambda p: full_cost(p, windows, (total * i / steps, total - total * i / steps)),
        )
        for i in range(steps + 1)
    ]


def best_of_random(
    value: Callable[[np.ndarray], float], draw: Callable[[np.random.Generator], np.ndarray],
    tries: int, seed: int,
) -> float:  # fmt: skip
    """The greatest value among random feasible points."""
    generator = np.random.default_rng(seed)
    return max(value(draw(generator)) for _ in range(tries))
