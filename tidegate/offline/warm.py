"""What the offline optimum compiles, as cases of `tidegate.engine.warm`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidegate.engine.warm import Case
from tidegate.offline.optimum import METHODS, optimum
from tidegate.spec import JoinSpec

ROWS = 60


def optimum_cases() -> list[Case]:
    """The optimum by each method."""
    return [Case("optimum", run_optimum, {})]


def run_optimum() -> None:
    """The optimum of two small streams, by each method and for both ways of ties."""
    random = np.random.default_rng(1)
    streams = {
        name: pa.table({"t": np.arange(ROWS), "k": random.integers(0, 5, ROWS)})
        for name in ("left", "right")
    }
    for method in METHODS:
        for split in ("even", "shared"):
            spec = JoinSpec(on="k", time="t", within=8, memory=4, split=split)
            optimum(streams, spec, method=method)  # type: ignore[arg-type]
    optimum(streams, spec.replace(ties="instant"))
