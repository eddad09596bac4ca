"""Over Spark Connect: a server in a process of its own, and a client that has no JVM.

The client is a process of its own too, because one process is either a classic or a Connect one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from spark.feeds import Feed, random_batches

from tidegate.spark import window_join

pytest.importorskip("grpc_status", reason="Spark Connect needs grpcio and grpcio-status")

TESTS = Path(__file__).parents[1]


def test_streaming_and_batch(feed: Feed, tmp_path: Path) -> None:
    for seed, name in enumerate(("left", "right")):
        feed.write(name, random_batches(30 + seed, batches=2))
    left, right = (feed.stream(n).withWatermark("ts", "10 seconds") for n in ("left", "right"))
    ours = feed.run(window_join(left, right, on="k", time="ts", within="20 s"), "classic")
    still = [feed.spark.read.parquet(str(tmp_path / name)) for name in ("left", "right")]
    batch = window_join(*still, on="k", time="ts", within="20 s").select("id", "id_right").collect()
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            [str(TESTS), str(TESTS.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        ),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "spark.connect_job", str(tmp_path)],
        env=environment, capture_output=True, text=True, check=False, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["remote"]
    assert 0.0 < told["whatif"] <= 1.0
    expected = sorted([list(pair) for pair in ours.pairs("id", "id_right").elements()])
    assert len(expected) > 100
    assert told["streaming"] == expected
    assert told["streaming_metrics"]["rows_out"] == len(expected)
    assert told["streaming_metrics"]["rows_read"] == 2 * 2 * 80
    assert 'query="connected",join="ads"' in told["prometheus"]
    assert told["batch"] == sorted([row.id, row.id_right] for row in batch)
    assert told["batch_metrics"]["rows_out"] == len(batch)
    # A restart with another spec, as the client sees it.
    assert "within was 20 seconds and is now 21 seconds" in told["refused"]
    assert told["stored"] == 2
