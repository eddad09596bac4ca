"""tidegate: window joins over unbounded streams that stay inside a budget and say what they lost.

Law: `import tidegate` is cheap. What needs numba, pyarrow or Spark is imported when it is used.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Any

from tidegate.spec import (
    Cpu,
    JoinSpec,
    Policy,
    SpecError,
    TidegateError,
    band,
    inner_product,
    overlap,
    rows,
    theta,
)

__version__ = "0.1.0"

# Silent unless the application listens to the logger "tidegate".
logging.getLogger("tidegate").addHandler(logging.NullHandler())

_LAZY = {
    "JoinEngine": "tidegate.engine",
    "JoinResult": "tidegate.engine",
    "join": "tidegate.engine",
    "estimate": "tidegate.sample.estimates",
    "Optimum": "tidegate.offline.optimum",
    "optimum": "tidegate.offline.optimum",
    "Regret": "tidegate.offline.regret",
    "regret": "tidegate.offline.regret",
    "Plan": "tidegate.planner.plan",
    "plan": "tidegate.planner.plan",
    "WhatIf": "tidegate.planner.whatif",
    "whatif": "tidegate.planner.whatif",
    "Memories": "tidegate.planner.allocate",
    "allocate": "tidegate.planner.allocate",
    "policies": "tidegate.shed.recipes",
    "age": "tidegate.spec.policy",
    "arrival_order": "tidegate.spec.policy",
    "auto": "tidegate.spec.policy",
    "dgl": "tidegate.spec.policy",
    "dimpprob": "tidegate.spec.policy",
    "eq_cluster": "tidegate.spec.policy",
    "output": "tidegate.spec.policy",
    "pps_cluster": "tidegate.spec.policy",
    "priority": "tidegate.spec.policy",
    "prob": "tidegate.spec.policy",
    "random": "tidegate.spec.policy",
    "recent": "tidegate.spec.policy",
    "simp": "tidegate.spec.policy",
    "simpprob": "tidegate.spec.policy",
    "uniform": "tidegate.spec.policy",
    "until_expiry": "tidegate.spec.policy",
    "value": "tidegate.spec.policy",
    "Pool": "tidegate.spark",
    "configure": "tidegate.spark",
    "window_join": "tidegate.spark",
}

__all__ = [
    "Cpu", "JoinEngine", "JoinResult", "JoinSpec", "Memories", "Optimum", "Plan", "Policy", "Pool",
    "Regret", "SpecError", "TidegateError", "WhatIf", "age", "allocate", "arrival_order", "auto",
    "band", "configure", "dgl", "dimpprob", "eq_cluster", "estimate", "inner_product", "join",
    "optimum", "output", "overlap", "plan", "policies", "pps_cluster", "priority", "prob", "random",
    "recent", "regret", "rows", "simp", "simpprob", "theta", "uniform", "until_expiry", "value",
    "whatif", "window_join",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'tidegate' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
