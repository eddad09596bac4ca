"""The age model of srivastava2004, section 3.2, observed on streams.

Law: a curve is the mean number of matches p(k) of a tuple in each bucket of its age, k = 1, 2, ...;
the equations stand in `planner/recall_models`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import tidegate as tg
from tidegate.planner.recall_models import AgeModel

__all__ = ["THEORY", "AgeModel", "observed_model"]

THEORY = "theory (eq. 3)"


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
