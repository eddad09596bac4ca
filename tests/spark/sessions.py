"""What every Spark session of the tests sets, so that it costs little and asks no network."""

from __future__ import annotations

from pyspark.sql import SparkSession

SETTINGS = {
    # No test looks at the pages of the UI or at progress bars.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Names of machines without a network do not resolve.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Spark's default for local files starts processes (chmod, readlink) at every step of every
    # file: 340 in a query of four small micro-batches, a third of its CPU time.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming."
    "checkpointing.FileSystemBasedCheckpointFileManager",
}


def with_settings(builder: SparkSession.Builder) -> SparkSession.Builder:
    """A builder with these settings."""
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    return builder
