"""The processor as it is shipped to Spark: a shell that finds the library only where it works.

Law: what Spark unpickles on the driver needs PySpark and nothing else. Spark asks a stateful
processor for its state variables in a process beside the driver, and that process sees neither
`--py-files` nor `addPyFile`; only the workers do. So the shell's class travels by value, knows the
state variables by itself, and unpacks the plan of the join when the first rows come.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from tidegate.spark.processor import JoinPlan

_BODY = T.StructType([T.StructField("body", T.BinaryType())])
_NUMBER = T.StructType([T.StructField("number", T.LongType())])


def shipped(plan: JoinPlan) -> StatefulProcessor:
    """A stateful processor for a join. A class inside a function is pickled by value."""
    packed: bytes = cloudpickle.dumps(plan)
    load, body, number = pickle.loads, _BODY, _NUMBER

    class Shipped(StatefulProcessor):
        """Runs the engines of one join; Spark makes one per partition and micro-batch."""

        def init(self, handle: Any) -> None:
            # Two variables only, since each costs milliseconds per micro-batch.
            self._meta = handle.getValueState("meta", body)
            self._segments = handle.getMapState("segments", number, body)

        def handleInputRows(  # noqa: N802
            self,
            key: Any,
            rows: Iterator[Any],
            timerValues: Any,  # noqa: N803
        ) -> Iterator[Any]:
            from tidegate.spark.processor import run_bucket

            plan = load(packed)
            yield from run_bucket(plan, int(key[0]), rows, timerValues, self._meta, self._segments)

        def close(self) -> None:
            """Leave the engines where they are: the next micro-batch may find them."""

    return Shipped()
