"""A grid gives the same results on Spark as in one process."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.lab.configuration import Configuration
from tidegate.lab.runner import RUNS_PER_CHUNK, Runner
from tidegate.lab.store import Store

SPEC = {"streams": ["r", "s"], "on": "key", "time": "ts", "within": 19, "split": "even"}


def test_spark_and_the_process_agree(spark: SparkSession, tmp_path: Path) -> None:
    runs = [
        Configuration(
            "keyed_streams", {"length": 200, "domain": 9}, SPEC, policy, {}, memory, seed=seed
        )
        for seed in range(RUNS_PER_CHUNK // 4 + 1)
        for policy, memory in (("exact", None), ("random", 5), ("random", 10), ("simp", 10))
    ]
    done: list[int] = []
    found = Runner(Store(tmp_path / "spark", "v"), "spark").run(
        runs, lambda now, total: done.append(now)
    )
    expected = Runner(Store(tmp_path / "here", "v"), "process").run(runs)
    assert done == [0, RUNS_PER_CHUNK, len(runs)]
    for run in runs:
        for name in ("size", "importance", "memory_rows_peak"):
            assert found[run][name] == pytest.approx(expected[run][name])
