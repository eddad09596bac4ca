"""`window_join` of four streams beside a chain of three of Spark's own joins.

Law: as `spark_join`: the same files in the same micro-batches, each contestant in a process of its
own. The chain's intermediate results are state of Spark's; the engine has none. Contestants must
agree on the number of results, or there is no row.

Spark refuses to plan a join of streams behind another one unless its check is switched off, since
results of the first may be older than its watermark; with windows on all streams and rows in order
none is lost, as the equal numbers of results say. Spark's chain makes some thousand rows per
second, which decides how large the streams are.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.side_by_side import DisagreementError, Row
from benchmarks.spark_join import rows_of
from benchmarks.spark_run import Contestant, Measured, run_contestant
from benchmarks.spark_workload import FileWorkload, need_spark

FULL = FileWorkload(8, 80_000, keys=8_000, window_seconds=8, streams=4)
QUICK = FileWorkload(6, 40_000, keys=4_000, window_seconds=4, streams=4)
UNCHECKED = {"spark.sql.streaming.unsupportedOperationCheck": "false"}


def run(quick: bool) -> list[Row]:
    need_spark("spark_many")
    workload = QUICK if quick else FULL
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        workload.write(Path(folder))
        found = {name: _run(name, folder, workload) for name in ("tidegate", "rocksdb")}
    results = {name: measured.results for name, measured in found.items()}
    if len(set(results.values())) > 1:
        raise DisagreementError(f"the numbers of results differ: {results}")
    return rows_of("4 streams, exact,", found["tidegate"], "rocksdb", found["rocksdb"])


def _run(operator: str, folder: str, workload: FileWorkload) -> Measured:
    print(f"  {operator} ...", file=sys.stderr, flush=True)
    settings = {} if operator == "tidegate" else UNCHECKED
    measured = run_contestant(
        Contestant(operator, folder, workload.window_seconds, settings=settings, streams=4)
    )
    if measured.ended != "finished":
        raise RuntimeError(f"{operator} {measured.ended}")
    return measured
