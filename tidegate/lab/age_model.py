"""The age model of srivastava2004, section 3.2: curves, k_opt, and the recall that theory gives.

Law: the equations stand here once, beside their numbers in the paper; a curve is the mean number of
matches p(k) of a tuple in each bucket of its age, k = 1, 2, ...
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import tidegate as tg

Floats = NDArray[np.float64]

THEORY = "theory (eq. 3)"


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


def observed_model(
    streams: dict[str, pa.Table], spec: tg.JoinSpec, bucket: int, columns: tuple[str, str]
) -> AgeModel:
    """The model of the first stream, from one pass of the exact join over it.

    Only tuples whose whole window lies inside the trace count. `columns` are the times of the two
    streams in the output.
    """
    result = tg.join(streams, spec).table
    born, met = (result[name].to_numpy() for name in columns)
    times = streams[spec.streams[0]][spec.time_columns[0]].to_numpy()
    window = spec.windows[0].size
    last = max(int(table["ts"].to_numpy()[-1]) for table in streams.values()) - window
    whole = born <= last
    buckets = -(-window // bucket)
    counts = np.bincount(np.minimum((met - born)[whole] // bucket, buckets - 1), minlength=buckets)
    tuples = max(1, int((times <= last).sum()))
    span: Any = max(1, int(times[-1] - times[0]))
    return AgeModel(counts / tuples, float(bucket), (len(times) - 1) / span)
