"""The error of a windowed average over a sampled join (srivastava2004, section 6.2.4).

Law: at each unit of time the average of x over the results of the last W_agg units is compared with
that of the exact join; the mean of |estimate - truth| / truth over the run is the error. Results of
a sampled join count with their weights, those of any other policy alike. A moment at which the
sample has no result, and the exact join has some, has an error of 1: nothing is known.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.lab.paper_streams import TICKS

AGGREGATED = 500  # units of time: W_agg

Floats = NDArray[np.float64]


def aggregation_error(
    exact: pa.Table, found: pa.Table, times: tuple[str, str], count_from: int
) -> float:
    """The mean relative error of the windowed average of column x."""
    last = int(_moments(exact, times).max())
    moments = np.arange(count_from, last + 1, TICKS)
    truth, has_truth = _averages(exact, times, moments)
    estimate, has_estimate = _averages(found, times, moments)
    known = has_truth & (truth != 0.0)
    error = np.where(has_estimate, np.abs(estimate - truth) / np.where(known, np.abs(truth), 1), 1)
    return float(error[known].mean())


def average(found: pa.Table) -> float:
    """The average of column x over all results, of `importance` of the first stream where there is
    no x, by their weights where they have some; NaN where there is nothing to take it of."""
    name = next((each for each in ("x", "importance") if each in found.column_names), None)
    if name is None or found.num_rows == 0:
        return float("nan")
    weights = found["_weight"].to_numpy() if "_weight" in found.column_names else None
    return float(np.average(found[name].to_numpy(), weights=weights))


def _moments(table: pa.Table, times: tuple[str, str]) -> NDArray[np.int64]:
    """When each result came: the later of its tuples' times."""
    first, second = (table[name].to_numpy() for name in times)
    return np.maximum(first, second)


def _averages(
    table: pa.Table, times: tuple[str, str], moments: NDArray[np.int64]
) -> tuple[Floats, NDArray[np.bool_]]:
    """The average at each moment, and whether there was anything to take it of."""
    came = _moments(table, times)
    order = np.argsort(came, kind="stable")
    weights = np.ones(len(came))
    if "_weight" in table.column_names:
        weights = table["_weight"].to_numpy()
    x = table["x"].to_numpy()
    ends = np.searchsorted(came[order], moments, "right")
    begins = np.searchsorted(came[order], moments - AGGREGATED * TICKS, "right")
    numbers = _run(weights[order])
    total = _run((weights * x)[order])
    number = numbers[ends] - numbers[begins]
    has_any = ends > begins
    return (total[ends] - total[begins]) / np.where(has_any, number, 1.0), has_any


def _run(values: Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(values)])
