"""The join as an operator of Spark's DataFrames.

Law: only this room and those above it know Spark; `import tidegate` alone does not load it.
"""

from tidegate.spark.metrics import JoinMetrics, metrics, prometheus
from tidegate.spark.operator import window_join
from tidegate.spark.readback import StoredBucket, read_state
from tidegate.spark.session import configure

__all__ = [
    "JoinMetrics", "StoredBucket", "configure", "metrics", "prometheus", "read_state",
    "window_join",
]  # fmt: skip
