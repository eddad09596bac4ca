"""The error of windowed averages, against a loop over all moments."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidegate.lab.paper_streams import TICKS
from tidegate.lab.sampling_error import AGGREGATED, aggregation_error, average


def test_against_a_loop() -> None:
    rng = np.random.default_rng(1)
    came = np.sort(rng.integers(0, 3000 * TICKS, 400))
    x = rng.normal(100, 20, 400)
    exact = pa.table({"a": came, "b": came - 5, "x": x})
    kept = rng.random(400) < 0.3
    weight = rng.uniform(1, 5, 400)
    found = exact.append_column("_weight", pa.array(weight)).filter(pa.array(kept))
    errors = []
    for moment in range(1000 * TICKS, int(came.max()) + 1, TICKS):
        inside = (came <= moment) & (came > moment - AGGREGATED * TICKS)
        both = inside & kept
        if inside.any():
            truth = x[inside].mean()
            guess = (weight * x)[both].sum() / weight[both].sum() if both.any() else None
            errors.append(1.0 if guess is None else abs(guess - truth) / truth)
    assert aggregation_error(exact, found, ("a", "b"), 1000 * TICKS) == pytest.approx(
        np.mean(errors)
    )


def test_averages_of_whole_runs() -> None:
    table = pa.table({"importance": [1.0, 4.0], "_weight": [3.0, 1.0]})
    assert average(table) == 1.75
    assert average(table.drop_columns(["_weight"])) == 2.5
    assert np.isnan(average(table.select(["_weight"])))
    assert np.isnan(average(table.slice(0, 0)))
