"""The Spark blocks of the README run, in order, on data that lies where they look for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.sql import SparkSession
from readme import execute, under

REPOSITORY = Path(__file__).parents[2]
SPARK_HOME = Path(pyspark.__file__).parent
JOB = """
import sys
# The folder of the job is the clone, which holds the library too.
sys.path = [path for path in sys.path if not path.endswith("clone")]
import tidegate as tg
from pyspark.sql import SparkSession
spark = tg.configure(SparkSession.builder).getOrCreate()
frame = spark.range(20).selectExpr("id as k", "timestamp_seconds(id) as at")
joined = tg.window_join(frame, frame, on="k", time="at", within="1 second")
print("rows", joined.count(), "from", tg.__file__)
"""


def write_streams(folder: Path) -> None:
    moments = pa.array([n * 1_000_000 for n in range(300)], pa.timestamp("us", "UTC"))
    columns = {"ad": [n % 9 for n in range(300)], "at": moments}
    for name, more in (("views", {"price": [1.0] * 300}), ("clicks", {})):
        (folder / name).mkdir()
        pq.write_table(pa.table({**columns, **more}), folder / name / "0.parquet")


def test_python_blocks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_streams(tmp_path)
    # Spark resolves paths from where its JVM was started.
    names: dict[str, object] = {}
    execute(under("In Python")[:1], names)
    found = under("On Spark")
    for block in found:
        for folder in ("views", "clicks", "checkpoint"):
            text = block.text.replace(f'"{folder}")', f'"{tmp_path / folder}")')
            block = type(block)(block.heading, block.language, text, block.line)
        execute([block], names)
    metrics, pairs = names["found"], names["pairs"]
    assert metrics.total["rows_read"] == 600  # type: ignore[attr-defined]
    assert 'query="per_minute"' in metrics.prometheus()  # type: ignore[attr-defined]
    assert spark.table("per_minute").count() > 0
    assert names["tg"].spark.metrics(pairs).total["rows_out"] == pairs.count()  # type: ignore[attr-defined]


@pytest.mark.spark
def test_shipping_the_library_alone(tmp_path: Path) -> None:
    """The commands of the README in a clone, with a master inside the job's own process."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(REPOSITORY), str(clone)], check=True)
    (clone / "job.py").write_text(JOB)
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(SPARK_HOME / "bin"), os.environ["PATH"]]),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    environment.pop("PYTHONPATH", None)
    (block,) = under("On a cluster")
    for words in block.commands():
        local = ["local[1]" if word == "spark://host:7077" else word for word in words]
        done = subprocess.run(
            local, cwd=clone, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
    assert "rows 20 from" in done.stdout
    assert "tidegate.zip" in done.stdout
