"""Memory and recall of one join under the two models of srivastava2004.

Law: a model gives pieces (memory, results per unit of time) in which a stream's memory is best
spent; the best division of any memory between the two windows takes the pieces of both streams in
the order of results per memory. So equation 3 and section 3.3 with "we simply find M1 and M2" are
one greedy step, and its result is concave.

Age model (equations 2 and 3). A tuple kept to age k takes k of memory per arrival and yields C(k).
Different tuples may be kept to different ages, so every point of the upper concave hull of
(r k, r C(k)) can be reached, and none above it. For curves without minima that is equation 3: a
straight line to k_opt, then r C(M / r). For curves with minima it is what example 3.4 reaches.

Frequency model (section 3.3). All tuples of a value v take r1 W1 f1(v) of memory and yield
r1 r2 W1 f1(v) f2(v); PROB keeps the values with the greatest f2 first, a part of the last one too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.planner.curves import Curve, concave_curve, hull_pieces
from tidegate.spec import TidegateError

Floats = NDArray[np.float64]
Piece = tuple[float, float]


def _floats(values: Any) -> Floats:
    return np.asarray(values, np.float64)


@dataclass(frozen=True)
class AgeModel:
    """What is known of one stream: its curve, the width of a bucket, and its rate per unit time.

    >>> model = AgeModel(np.array([1.0, 1.0, 2.0, 1.0]), 1.0, 1.0)  # example 3.3 of the paper
    >>> model.best_age, round(model.result_rate(1), 3)
    (3.0, 1.333)
    """

    curve: Floats
    bucket: float
    rate: float

    @property
    def cumulative(self) -> Floats:
        """C(k), the matches of a tuple up to age k."""
        total: Floats = np.cumsum(self.curve)
        return total

    @property
    def best_age(self) -> float:
        """k_opt, the age at which C(k) / k is greatest."""
        ages = np.arange(1, len(self.curve) + 1)
        return float(ages[np.argmax(self.cumulative / ages)] * self.bucket)

    def matches_until(self, age: float) -> float:
        """C at any age, straight between two buckets."""
        ages = np.arange(len(self.curve) + 1) * self.bucket
        return float(np.interp(age, ages, np.concatenate(([0.0], self.cumulative))))

    def result_rate(self, memory: float) -> float:
        """R of equation 3: results per unit of time with `memory` tuples of this stream."""
        held, best = memory / self.rate, self.best_age
        if held <= best:
            return memory * self.matches_until(best) / best
        return self.rate * self.matches_until(held)

    def recall(self, memory: float) -> float:
        """Equation 3 as a share of all results."""
        return self.result_rate(memory) / (self.rate * float(self.curve.sum()))

    def pieces(self) -> list[Piece]:
        """The hull of memory and results per unit of time."""
        ages = self.bucket * np.arange(len(self.curve) + 1)
        matches = np.concatenate(([0.0], self.cumulative))
        return hull_pieces(_floats(self.rate * ages), _floats(self.rate * matches))


@dataclass(frozen=True)
class FrequencyModel:
    """One window under the frequency model: `own` and `opposite` are f1 and f2 by value.

    >>> model = FrequencyModel([0.5, 0.5], [0.9, 0.1], rate=1.0, opposite_rate=5.0, window=10)
    >>> model.pieces()
    [(5.0, 22.5), (5.0, 2.5)]
    """

    own: Sequence[float] | Floats
    opposite: Sequence[float] | Floats
    rate: float
    opposite_rate: float
    window: float

    def pieces(self) -> list[Piece]:
        """For each value the memory of its tuples and the results they yield."""
        held = self.rate * self.window * np.asarray(self.own, np.float64)
        gained = self.opposite_rate * held * np.asarray(self.opposite, np.float64)
        order = np.argsort(-np.asarray(self.opposite, np.float64), kind="stable")
        return [(float(held[v]), float(gained[v])) for v in order]


WindowModel = AgeModel | FrequencyModel


@dataclass(frozen=True)
class JoinModel:
    """Both windows of a join; None for a stream whose tuples need not wait."""

    first: WindowModel | None
    second: WindowModel | None = None

    @property
    def windows(self) -> tuple[WindowModel, ...]:
        """The windows that take memory."""
        return tuple(each for each in (self.first, self.second) if each is not None)

    def curve(self) -> Curve:
        """Recall by memory, divided in the best way between the two windows."""
        whole = concave_curve([piece for window in self.windows for piece in window.pieces()])
        if whole.top <= 0.0:
            raise TidegateError("the model of a join has no results at all; check its frequencies")
        return whole.scaled(1.0 / whole.top)

    def divide(self, memory: float) -> tuple[float, float]:
        """M1 and M2 with the greatest recall, M1 + M2 <= memory."""
        shares = {0: 0.0, 1: 0.0}
        pieces = [
            (gain / held, stream, held)
            for stream, window in enumerate((self.first, self.second))
            if window is not None
            for held, gain in window.pieces()
            if held > 0.0
        ]
        left = memory
        for _, stream, held in sorted(pieces, key=lambda piece: -piece[0]):
            given = min(held, left)
            shares[stream] += given
            left -= given
        return shares[0], shares[1]

    def recall(self, memories: Sequence[float]) -> float:
        """Recall with so much memory for each window."""
        gained = whole = 0.0
        for window, memory in zip((self.first, self.second), memories, strict=True):
            if window is not None:
                curve = concave_curve(window.pieces())
                gained, whole = gained + curve.value(memory), whole + curve.top
        return gained / whole


def model_curve(join: Any, name: str) -> Curve:
    """The recall curve of a model of one window or of a join."""
    if isinstance(join, AgeModel | FrequencyModel):
        join = JoinModel(join)
    if isinstance(join, JoinModel):
        return join.curve()
    raise TidegateError(
        f"join {name} is a {type(join).__name__}; give a model, or a list of (memory, recall)"
    )
