"""Spark inside this process, for commands that need one.

Law: it runs on two cores, opens no page, and its messages go to a file, so that standard output
carries the answer of the command and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.cli.screen import say
from tidegate.spec import TidegateError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = 2
LOG = "spark.log"


def missing() -> str | None:
    """Why Spark cannot be used here, in a few words; None if it can."""
    try:
        import pyspark  # noqa: F401

        from tidegate.spark.session import check_java, check_protobuf

        check_protobuf()
        check_java()
    except ModuleNotFoundError as error:
        return f"the package {error.name!r} is missing; install tidegate[spark]"
    except TidegateError as error:
        return str(error)
    return None


def session(folder: Path, name: str) -> SparkSession:
    """Spark inside this process; its messages go to spark.log in the folder."""
    from pyspark.sql import SparkSession

    from tidegate.spark import configure

    builder = (
        SparkSession.builder.master(f"local[{CORES}]")
        .appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        # Names of machines without a network do not resolve.
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
    )
    say("Starting Spark on two cores of this machine ...")
    with _messages_to(folder / LOG):
        spark = configure(builder, partitions=CORES).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
    return spark


@contextlib.contextmanager
def running(name: str) -> Iterator[SparkSession]:
    """Spark for a while. A session that this process has already is used, and goes on."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    with tempfile.TemporaryDirectory(prefix="tidegate-") as folder:
        spark = session(Path(folder), name)
        try:
            yield spark
        finally:
            spark.stop()


@contextlib.contextmanager
def _messages_to(path: Path) -> Iterator[None]:
    """Let what is started meanwhile write its messages to a file, for as long as it lives."""
    kept = {number: os.dup(number) for number in (1, 2)}
    with path.open("wb") as log:
        for number in kept:
            os.dup2(log.fileno(), number)
    try:
        yield
    finally:
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)
