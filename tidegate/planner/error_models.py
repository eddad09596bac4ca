"""Memory and error of a sampled average, for `tidegate.allocate(..., metric="error")`.

srivastava2004, sections 4 and 5, for a stream whose tuples wait for those of another one under the
frequency model. Of each value v the window holds t(v) tuples, each with n(v) results on average;
with N = sum t n results, x of standard deviation s and mean m, the relative standard error of an
average over the results of a window is sqrt(V) / (N m), where

    uniform       V = (1/p - 1) N s^2                       p: the fraction that fits (theorem 4.2)
    eq-cluster    V = sum t (1/pi - 1) E[(sum of residuals of a cluster)^2],  pi = memory / tuples
    pps-cluster   the same, pi proportional to n, capped at 1

A cluster of n results (a Poisson number) has the squared sum (n^2 + n) s^2 where x is a column of
the waiting stream, so that its results share one x, and n s^2 where x is one of the other stream.

Law: errors fall as memory grows, to 0 with clusters once the window fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tidegate.sample.fraction import FrequencyModel, largest_fraction
from tidegate.sample.inclusion import inclusion_probabilities
from tidegate.spec import TidegateError

Sampling = Literal["uniform", "eq-cluster", "pps-cluster"]


@dataclass(frozen=True)
class SampledAverage:
    """The average of a column over one sampled join.

    tuples, matches
        By value: tuples in the full window of the waiting stream; results of each.
    variation
        Standard deviation / mean of the column.
    policy
        How the join is sampled.
    shared
        Is the column one of the waiting stream?

    >>> model = SampledAverage(tuples=[100.0], matches=[4.0], variation=1.0, policy="eq-cluster")
    >>> round(model.error(50), 4), model.error(100)
    (0.1118, 0.0)
    """

    tuples: Any
    matches: Any
    variation: float
    policy: Sampling
    shared: bool = True

    @property
    def held(self) -> float:
        """Tuples of the full window."""
        return float(np.sum(self.tuples))

    def error(self, memory: float) -> float:
        """The relative standard error with so many tuples of memory."""
        tuples, matches = (np.asarray(each, np.float64) for each in (self.tuples, self.matches))
        results = float((tuples * matches).sum())
        if not memory > 0:
            raise TidegateError(f"memory {memory:g} holds no tuple, so there is no sample")
        if self.policy == "uniform":
            fraction = largest_fraction(memory, [FrequencyModel(tuples, matches)])
            variance = (1.0 / fraction - 1.0) * results
        else:
            size = matches if self.policy == "pps-cluster" else np.ones(len(tuples))
            chance = inclusion_probabilities(size, min(memory, self.held), tuples)
            squares = matches**2 + matches if self.shared else matches
            missed = np.where(chance > 0, 1.0 / np.maximum(chance, 1e-300) - 1.0, 0.0)
            variance = float((tuples * missed * squares).sum())
        return self.variation * float(np.sqrt(max(0.0, variance))) / results

    def points(self, memories: Sequence[float]) -> list[tuple[float, float]]:
        """The curve that `allocate` takes."""
        return [(float(memory), self.error(memory)) for memory in memories]
