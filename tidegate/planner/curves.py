"""How recall grows with memory: curves that rise in straight pieces.

Law: a curve starts at no memory and never falls. `value(memory)` and `memory_for(value)` are each
other's inverse where the curve rises; where it is flat, `memory_for` gives the least memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.spec import TidegateError

Floats = NDArray[np.float64]
Pairs = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Curve:
    """Points of memory (rising) and value (not falling); beyond the last the value stays."""

    memory: Floats
    values: Floats

    @property
    def full(self) -> float:
        """The least memory with the greatest value."""
        return self.memory_for(self.top)

    @property
    def top(self) -> float:
        """The greatest value."""
        return float(self.values[-1])

    def value(self, memory: float) -> float:
        """The value that this memory gives."""
        return float(np.interp(memory, self.memory, self.values))

    def memory_for(self, value: float) -> float:
        """f(q): the least memory that gives at least this value; infinite if none does.

        >>> curve = observed_curve([(10, 0.5), (20, 0.5), (30, 1.0)])
        >>> curve.memory_for(0.25), curve.memory_for(0.5), curve.memory_for(0.75)
        (5.0, 10.0, 25.0)
        """
        if value > self.top * (1.0 + 1e-12):
            return math.inf
        at = int(np.searchsorted(self.values, min(value, self.top), "left"))
        if at == 0:
            return float(self.memory[0])
        low, high = self.values[at - 1], self.values[at]
        share = (min(value, self.top) - low) / (high - low)
        return float(self.memory[at - 1] + share * (self.memory[at] - self.memory[at - 1]))

    def scaled(self, factor: float) -> Curve:
        """The same curve with its values multiplied."""
        return Curve(self.memory, self.values * factor)


def observed_curve(points: Iterable[tuple[float, float]], name: str = "a join") -> Curve:
    """A curve of observed (memory, recall) points, from no recall without memory.

    Noise may let recall fall with more memory; a join may leave memory unused, so the greatest
    recall seen up to there counts.
    """
    found = sorted(read_points(points, f"the recall curve of {name}", "(memory, recall)"))
    for memory, recall in found:
        if not (math.isfinite(memory) and memory >= 0.0 and 0.0 <= recall <= 1.0):
            raise TidegateError(
                f"the recall curve of {name} has the point ({memory:g}, {recall:g}); memory is 0 "
                "or more, recall from 0 to 1"
            )
    if found[0][0] > 0.0:
        found.insert(0, (0.0, 0.0))
    return rising_curve(found)


def read_points(points: Any, what: str, form: str) -> list[tuple[float, float]]:
    """Pairs of numbers, or a sentence that says what was expected."""
    try:
        found = [(float(memory), float(value)) for memory, value in points]
    except (TypeError, ValueError):
        raise TidegateError(f"{what} is not a list of points; give pairs {form}") from None
    if not found:
        raise TidegateError(f"{what} has no points; give pairs {form}")
    return found


def rising_curve(points: Pairs) -> Curve:
    """Points in order of memory; of several with the same memory the best counts."""
    rows = np.array(points, np.float64)
    last = np.append(rows[1:, 0] != rows[:-1, 0], True)
    return Curve(rows[last, 0], np.maximum.accumulate(rows[:, 1])[last])


def concave_curve(pieces: Pairs) -> Curve:
    """Pieces (memory, gain) taken in the order of gain per memory: the best use of any memory."""
    rows = np.array([(memory, gain) for memory, gain in pieces if memory > 0.0], np.float64)
    if not len(rows):
        return Curve(np.zeros(1), np.zeros(1))
    rows = rows[np.argsort(-rows[:, 1] / rows[:, 0], kind="stable")]
    total = np.cumsum(rows, axis=0)
    return Curve(np.append(0.0, total[:, 0]), np.append(0.0, total[:, 1]))


def hull_pieces(memory: Floats, values: Floats) -> list[tuple[float, float]]:
    """The pieces of the upper concave hull of points that start at (0, 0).

    >>> hull_pieces(np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.0, 3.0, 3.0, 5.0]))
    [(1.0, 3.0), (2.0, 2.0)]
    """
    corners: list[int] = []
    for k in range(len(memory)):
        while len(corners) >= 2:
            i, j = corners[-2], corners[-1]
            rise = (values[j] - values[i]) * (memory[k] - memory[i])
            if rise > (values[k] - values[i]) * (memory[j] - memory[i]):
                break
            corners.pop()
        corners.append(k)
    return [
        (float(memory[j] - memory[i]), float(values[j] - values[i])) for i, j in pairwise(corners)
    ]
