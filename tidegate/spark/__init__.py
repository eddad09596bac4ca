"""The join as an operator of Spark's DataFrames.

Law: only this room and those above it know Spark; `import tidegate` alone does not load it. What a
worker unpickles loads what it needs and no more: workers that only pack rows never load numba.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.spark.operator import window_join
    from tidegate.spark.pool import Pool
    from tidegate.spark.readback import StoredBucket, read_state
    from tidegate.spark.reports import JoinMetrics, metrics, prometheus
    from tidegate.spark.session import configure
    from tidegate.spark.watching import watch

_LAZY = {
    "JoinMetrics": "reports",
    "Pool": "pool",
    "StoredBucket": "readback",
    "configure": "session",
    "metrics": "reports",
    "prometheus": "reports",
    "read_state": "readback",
    "watch": "watching",
    "window_join": "operator",
}

__all__ = [
    "JoinMetrics", "Pool", "StoredBucket", "configure", "metrics", "prometheus", "read_state",
    "watch",
    "window_join",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"tidegate.spark.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'tidegate.spark' has no attribute {name!r}")
