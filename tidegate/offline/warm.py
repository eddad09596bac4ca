"""What the offline optimum compiles, as cases of `tidegate.engine.warm`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidegate.engine.warm import Case
from tidegate.offline.flow import SEGMENT
from tidegate.offline.optimum import METHODS, optimum
from tidegate.spec import JoinSpec

ROWS = 60
LONG = 4 * SEGMENT  # rows of streams that are solved in several segments


def optimum_cases() -> list[Case]:
    """The optimum by each method."""
    return [Case("optimum", run_optimum, {})]


def run_optimum() -> None:
    """The optimum of two small streams, by each method and for both ways of ties."""
    streams = _streams(ROWS)
    for method in METHODS:
        for split in ("even", "shared"):
            spec = JoinSpec(on="k", time="t", within=8, memory=4, split=split)
            optimum(streams, spec, method=method)  # type: ignore[arg-type]
    optimum(streams, spec.replace(ties="instant"))
    optimum(_streams(LONG), spec, method="flow")


def _streams(rows: int) -> dict[str, pa.Table]:
    random = np.random.default_rng(1)
    return {
        name: pa.table({"t": np.arange(rows), "k": random.integers(0, 5, rows)})
        for name in ("left", "right")
    }
