"""What Spark needs for a stateful join, set and checked before a query starts.

Law: whatever is missing is said in one sentence, on the driver, before the first micro-batch. Left
unsaid, a missing package ends a query with "driver worker exited unexpectedly", and a wrong state
store with an error about another class.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tidegate.spec import TidegateError

OLDEST_JAVA = 17
OLDEST_PROTOBUF = (6, 33, 5)
PROVIDER_KEY = "spark.sql.streaming.stateStore.providerClass"
PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SHUFFLE_KEY = "spark.sql.shuffle.partitions"

SETTINGS: dict[str, str] = {
    # The only state store that Spark's stateful processors in Python run on.
    PROVIDER_KEY: PROVIDER,
    # A micro-batch then uploads what it changed, not whole files of the store.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Segments that were removed stay in RocksDB's buffers until they are flushed; its default of
    # 64 MB per partition would hold many times the live state.
    "spark.sql.streaming.stateStore.rocksdb.writeBufferSizeMB": "8",
    # Spark's default of 10,000 rows makes many small packs; the bytes bound wide rows.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 * 2**20),
    # A kept worker keeps its engines and its compiled code.
    "spark.python.worker.reuse": "true",
}


def configure(
    builder: SparkSession.Builder, *, partitions: int | None = None
) -> SparkSession.Builder:
    """Set what a stateful join needs on the builder of a Spark session, and check the machine.

    Parameters
    ----------
    builder
        `SparkSession.builder`, before or after other settings.
    partitions
        How many buckets a join gets (`spark.sql.shuffle.partitions`). None leaves the number as it
        is; on one machine the number of cores is right, since every partition of every micro-batch
        costs a task, and Spark's own default is 200. A checkpoint keeps the number it began with.

    Example
    -------
    >>> from pyspark.sql import SparkSession
    >>> spark = configure(SparkSession.builder.master("local[2]"), partitions=2)
    >>> spark = spark.getOrCreate()  # doctest: +SKIP
    """
    check_protobuf()
    # Where Spark runs elsewhere, or already, it has found its Java.
    if not _runs_elsewhere(builder) and SparkSession.getActiveSession() is None:
        check_java()
    # Spark starts its workers with the first `python3` of the path unless told otherwise, and that
    # one may lack the packages of this one.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    if partitions is not None:
        if partitions < 1:
            raise TidegateError(f"partitions {partitions} is below 1; give 1 or more")
        builder = builder.config(SHUFFLE_KEY, str(partitions))
    return builder


def _runs_elsewhere(builder: SparkSession.Builder) -> bool:
    """Whether the session will be one of Spark Connect, with a server on another machine."""
    options = getattr(builder, "_options", {})
    remote = options.get("spark.remote") or os.environ.get("SPARK_REMOTE") or ""
    return str(remote).startswith("sc:")


def check_streaming(spark: SparkSession) -> None:
    """Refuse to plan a streaming join where it could only fail later."""
    check_protobuf()
    provider = spark.conf.get(PROVIDER_KEY, None)
    if provider != PROVIDER:
        raise TidegateError(
            f"the session's state store is {provider or 'the default one'}, but a streaming join "
            "needs RocksDB; make the session with tidegate.configure(SparkSession.builder), or "
            f"set {PROVIDER_KEY} to {PROVIDER}"
        )


def check_protobuf() -> None:
    """Refuse a missing or too old protobuf, which PySpark's own extras do not install."""
    needed = ".".join(map(str, OLDEST_PROTOBUF))
    try:
        found = importlib.metadata.version("protobuf")
    except importlib.metadata.PackageNotFoundError:
        raise TidegateError(
            f"the package protobuf is missing; install protobuf>={needed}, which Spark's stateful "
            "processors need"
        ) from None
    if tuple(map(int, re.findall(r"\d+", found)[:3])) < OLDEST_PROTOBUF:
        raise TidegateError(f"protobuf {found} is too old for Spark; install protobuf>={needed}")


def check_java() -> None:
    """Refuse a machine without Java 17 or newer."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None or not Path(java).exists():
        where = f"JAVA_HOME is {home!r}, where there is none" if home else "none is on the PATH"
        raise TidegateError(f"Spark needs Java {OLDEST_JAVA} or newer and {where}; install one")
    shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(?:1\.)?(\d+)', shown.stderr + shown.stdout)
    if version is None or int(version[1]) < OLDEST_JAVA:
        found = version[1] if version else "an unknown version"
        raise TidegateError(
            f"Spark needs Java {OLDEST_JAVA} or newer, but {java} is {found}; install a newer one "
            "or point JAVA_HOME to it"
        )
