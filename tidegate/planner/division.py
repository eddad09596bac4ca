"""One memory for several joins, each spread over buckets, from observed recall curves.

Law: the shares of all buckets never sum to more than the memory, and every bucket has its floor.
Between joins the least recall counts (`allocate`); inside one join all of its results count, so
memory goes to the buckets in which it finds most (the pieces of their curves, steepest first).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tidegate.planner.allocate import allocate
from tidegate.planner.curves import concave_curve, hull_pieces, observed_curve

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Seen:
    """What a bucket shows: (memory, recall) points, and what its results are worth."""

    points: Points
    results: float

    def pieces(self) -> list[tuple[float, float]]:
        """(memory, results) in the order in which memory is best spent."""
        if not self.points or not self.results:
            return []
        curve = observed_curve(self.points)
        return hull_pieces(curve.memory, curve.values * self.results)

    def recalled(self, memory: float) -> float:
        """Results that this memory finds."""
        return observed_curve(self.points).value(memory) * self.results if self.points else 0.0


Buckets = Mapping[int, Seen]
Shares = dict[str, dict[int, int]]


def divide(
    joins: Mapping[str, Buckets],
    memory: int,
    floor: int = 0,
    weights: Mapping[str, float] | None = None,
) -> Shares:
    """The share of each bucket of each join.

    >>> steep, flat = Seen([(10, 0.9), (100, 1.0)], 50.0), Seen([(100, 1.0)], 50.0)
    >>> divide({"a": {0: steep}, "b": {0: flat}}, 100)
    {'a': {0: 10}, 'b': {0: 90}}
    """
    numbers = {name: len(buckets) for name, buckets in joins.items()}
    spare = memory - floor * sum(numbers.values())
    if spare < 0:
        floor, spare = 0, memory
    curves = {name: _curve(buckets) for name, buckets in joins.items()}
    weighed = None if weights is None else {name: weights.get(name, 1.0) for name in joins}
    found = allocate(curves, spare, weighed).memory
    shares: Shares = {}
    for name, buckets in joins.items():
        inside = _inside(buckets, found[name])
        shares[name] = {bucket: floor + inside[bucket] for bucket in buckets}
    rest = memory - sum(sum(buckets.values()) for buckets in shares.values())
    places = [(name, bucket) for name in shares for bucket in shares[name]]
    for at, (name, bucket) in enumerate(places):  # what nobody needs is room for all
        shares[name][bucket] += rest // len(places) + (at < rest % len(places))
    return shares


def recalls(
    joins: Mapping[str, Buckets], shares: Mapping[str, Mapping[int, int]]
) -> dict[str, float]:
    """The recall of each join with such shares, by what was seen."""
    found = {}
    for name, buckets in joins.items():
        whole = sum(seen.results for seen in buckets.values())
        got = sum(seen.recalled(shares[name].get(bucket, 0)) for bucket, seen in buckets.items())
        found[name] = got / whole if whole else 1.0
    return found


def _curve(buckets: Buckets) -> list[tuple[float, float]]:
    """The recall of a join whose memory is divided between its buckets as well as can be."""
    curve = concave_curve([piece for seen in buckets.values() for piece in seen.pieces()])
    if not curve.top:
        return [(0.0, 1.0)]  # no results, so nothing is lost
    values = np.minimum(1.0, curve.values / curve.top)
    return list(zip(curve.memory.tolist(), values.tolist(), strict=True))


def _inside(buckets: Buckets, memory: int) -> dict[int, int]:
    """Whole shares of a join's buckets: the steepest pieces first."""
    pieces = [(bucket, *piece) for bucket, seen in buckets.items() for piece in seen.pieces()]
    pieces.sort(key=lambda piece: -piece[2] / piece[1])
    shares, left = dict.fromkeys(buckets, 0.0), float(memory)
    for bucket, size, _ in pieces:
        shares[bucket] += min(size, left)
        left -= min(size, left)
    return {bucket: int(share) for bucket, share in shares.items()}
