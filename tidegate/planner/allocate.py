"""`tidegate.allocate`: one memory for several joins (srivastava2004, section 5).

Law: no other division of the same memory has a greater least recall (recall / weight, if weighted;
a smaller greatest error for the metric "error"), and the shares never exceed the memory. By theorem
5.1 all joins get the same recall q, the greatest for which the memories f_i(q) fit; it is found by
halving. What is left because one join cannot use it goes on to the others in the same way.

Memory is handed out in whole tuples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tidegate.planner.curves import Curve, observed_curve, read_points, rising_curve
from tidegate.planner.recall_models import model_curve
from tidegate.spec import TidegateError
from tidegate.spec.units import nearest_hint

Metric = Literal["recall", "error"]
_HALVINGS = 60
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Memories:
    """How a memory is divided among joins.

    memory
        Tuples by join; in total at most what was given.
    expected
        Recall or error by join, as the curves have it.
    worst
        The least recall / weight, or the greatest error x weight.
    proportional, equal
        The same number if the memory were divided in proportion to what each join needs for its
        best (PROP of the paper), or equally.
    """

    metric: Metric
    memory: Mapping[str, int]
    expected: Mapping[str, float]
    worst: float
    proportional: float
    equal: float

    def __repr__(self) -> str:
        rows = ", ".join(
            f"{name}: {memory:,} tuples ({self.metric} {self.expected[name]:.3f})"
            for name, memory in self.memory.items()
        )
        word = "least recall" if self.metric == "recall" else "greatest error"
        return (
            f"{rows}; {word} {self.worst:.3f}, in proportion {self.proportional:.3f}, equally "
            f"{self.equal:.3f}"
        )


def allocate(
    joins: Mapping[str, Any] | Sequence[Any],
    memory: float,
    weights: Mapping[str, float] | Sequence[float] | None = None,
    metric: str = "recall",
) -> Memories:
    """Divide `memory` tuples among joins so that the worst join does as well as it can.

    Parameters
    ----------
    joins
        By name, or a sequence (then named "0", "1", ...): a model (`AgeModel`, `FrequencyModel`,
        `JoinModel` of `tidegate.planner.recall_models`), or observed points (memory, recall); for
        the metric "error", observed points (memory, error).
    memory
        Tuples for all joins together.
    weights
        Relative importance of each join, above 0; a join of weight 2 is to have twice the recall,
        or half the error, of one of weight 1.
    metric
        "recall" or "error".

    >>> allocate({"a": [(100, 1.0)], "b": [(50, 0.9), (100, 1.0)]}, 60).memory
    {'a': 38, 'b': 22}
    """
    if metric not in ("recall", "error"):
        raise TidegateError(
            f"metric {metric!r} is not known; {nearest_hint(metric, ('recall', 'error'))}"
        )
    named = _named(joins)
    tuples = _tuples(memory)
    importance = _weights(weights, list(named))
    scores = [_Score(name, join, importance[name], metric) for name, join in named.items()]
    shares = fill(scores, tuples)
    return _divided(metric, scores, shares, tuples)


class _Score:
    """A join as a score that rises with memory: recall / weight, or -(error x weight)."""

    def __init__(self, name: str, join: Any, weight: float, metric: str) -> None:
        self.name, self.weight, self.metric = name, weight, metric
        if metric == "error":
            self.largest, self.curve = _error_curve(join, name)
        else:
            observed = isinstance(join, Sequence) and not isinstance(join, str)
            self.curve = observed_curve(join, name) if observed else model_curve(join, name)

    @property
    def top(self) -> float:
        """The greatest score."""
        return self._score(self.curve.top)

    @property
    def bottom(self) -> float:
        """The score without memory."""
        return self._score(float(self.curve.values[0]))

    def _score(self, value: float) -> float:
        # Errors are curves upside down: value = largest error - error.
        return (
            value / self.weight if self.metric == "recall" else (value - self.largest) * self.weight
        )

    def _value(self, score: float) -> float:
        return (
            score * self.weight if self.metric == "recall" else score / self.weight + self.largest
        )

    def at(self, memory: float) -> float:
        return self._score(self.curve.value(memory))

    def expected(self, memory: float) -> float:
        value = self.curve.value(memory)
        return value if self.metric == "recall" else self.largest - value

    def need(self, score: float) -> int:
        """Whole tuples for at least this score, or for the best there is."""
        value = min(self._value(score), self.curve.top)
        memory = self.curve.memory_for(max(value, float(self.curve.values[0])))
        return math.ceil(memory - _ROUNDING)


def _error_curve(join: Any, name: str) -> tuple[float, Curve]:
    """The largest error and the curve of what memory takes off it."""
    if not isinstance(join, Sequence) or isinstance(join, str):
        raise TidegateError(
            f"join {name} is a model, which gives recall; for the metric 'error' give observed "
            "points (memory, error)"
        )
    points = read_points(join, f"the error curve of {name}", "(memory, error)")
    good = all(math.isfinite(e) and e >= 0 and math.isfinite(m) and m >= 0 for m, e in points)
    if not good:
        raise TidegateError(
            f"the error curve of {name} has a negative or infinite number; memory and error are 0 "
            "or more"
        )
    largest = max(error for _, error in points)
    # Without memory there is no error to promise: the curve begins at its first point.
    curve = rising_curve(sorted((memory, largest - error) for memory, error in points))
    return largest, curve


def fill(scores: Sequence[_Score], memory: int) -> list[int]:
    """Whole tuples for each join: the worst as good as can be, then the next worst, and so on."""
    shares = [score.need(score.bottom) for score in scores]
    if sum(shares) > memory:
        raise TidegateError(
            f"memory is {memory:,} tuples, and the error curves begin at {sum(shares):,} in total; "
            "give more, or observe errors at less"
        )
    waiting = list(range(len(scores)))
    while waiting and sum(shares) < memory:
        fixed = sum(share for k, share in enumerate(shares) if k not in waiting)
        level = _highest(scores, waiting, memory - fixed)
        for k in waiting:
            shares[k] = max(shares[k], scores[k].need(level))
        # Whoever cannot rise any further with all that is left is done; at least one is.
        left = memory - sum(shares)
        stuck = [k for k in waiting if not _can_rise(scores[k], shares[k], left)]
        worst = min(waiting, key=lambda k: scores[k].at(shares[k]))
        waiting = [k for k in waiting if k not in stuck and (stuck or k != worst)]
    return shares


def _can_rise(score: _Score, share: int, left: int) -> bool:
    return left > 0 and score.at(share + left) > score.at(share) + 1e-12


def _highest(scores: Sequence[_Score], waiting: Sequence[int], memory: int) -> float:
    """The greatest score that all of those waiting can have together, or their best."""

    def fits(level: float) -> bool:
        return sum(scores[k].need(level) for k in waiting) <= memory

    low = min(scores[k].bottom for k in waiting)
    high = max(scores[k].top for k in waiting)
    if fits(high):
        return high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _divided(metric: Any, scores: Sequence[_Score], shares: Sequence[int], memory: int) -> Memories:
    needs = [score.curve.full for score in scores]

    def worst(memories: Sequence[float]) -> float:
        found = min(score.at(m) for score, m in zip(scores, memories, strict=True))
        return found if metric == "recall" else -found

    return Memories(
        metric=metric,
        memory={score.name: share for score, share in zip(scores, shares, strict=True)},
        expected={s.name: s.expected(share) for s, share in zip(scores, shares, strict=True)},
        worst=worst(shares),
        proportional=worst(proportional(needs, memory)),
        equal=worst([memory / len(scores)] * len(scores)),
    )


def _tuples(memory: Any) -> int:
    if not isinstance(memory, int | float) or not 0 <= memory < math.inf:
        raise TidegateError(f"memory is {memory!r}; give a number of tuples, 0 or more")
    return math.floor(memory)


def _named(joins: Any) -> dict[str, Any]:
    named = dict(joins) if isinstance(joins, Mapping) else dict(_numbered(joins))
    if not named:
        raise TidegateError("there are no joins to divide the memory among; give at least one")
    return {str(name): join for name, join in named.items()}


def _numbered(joins: Any) -> list[tuple[str, Any]]:
    if not isinstance(joins, Sequence) or isinstance(joins, str):
        raise TidegateError(
            f"joins is a {type(joins).__name__}; give a dict by name, or a list, of models or of "
            "(memory, recall) points"
        )
    return [(str(number), join) for number, join in enumerate(joins)]


def _weights(weights: Any, names: list[str]) -> dict[str, float]:
    if weights is None:
        return dict.fromkeys(names, 1.0)
    given = (
        dict(weights) if isinstance(weights, Mapping) else dict(zip(names, weights, strict=False))
    )
    if set(given) != set(names) or (
        not isinstance(weights, Mapping) and len(weights) != len(names)
    ):
        raise TidegateError(f"weights must name each join once: {', '.join(names)}")
    for name, weight in given.items():
        if not isinstance(weight, int | float) or not 0 < weight < math.inf:
            raise TidegateError(f"the weight of join {name} is {weight!r}; give a number above 0")
    return {name: float(weight) for name, weight in given.items()}


def proportional(needs: Sequence[float], memory: float) -> list[float]:
    """PROP: each join the same share of what it needs."""
    factor = min(1.0, memory / (sum(needs) or 1.0))
    return [factor * need for need in needs]
