"""`tidegate state`: what the checkpoint of a join on Spark holds, without running its query.

Law: reading changes nothing. Every number is one that the next micro-batch would find.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli import arguments, local_spark
from tidegate.cli.screen import answer, console
from tidegate.spec import TidegateError

if TYPE_CHECKING:
    from tidegate.spark import StoredBucket

SHOWN = ("rows_in", "rows_out", "alive", "evicted", "memory_bytes")  # columns of the table

Checkpoint = Annotated[
    str, typer.Argument(metavar="CHECKPOINT", help="The query's checkpointLocation.")
]
Operator = Annotated[
    int,
    typer.Option(
        "--operator", metavar="N", min=0, help="Which stateful operator, if the query has several."
    ),
]


def state(checkpoint: Checkpoint, operator: Operator = 0, json: arguments.Json = False) -> None:
    """Show what the checkpoint of a join on Spark holds: its spec, its counters, its size.

    \b
    Examples
      tidegate state checkpoint
      tidegate state checkpoint --json
    """
    _check(checkpoint)
    buckets = _read(checkpoint, operator)
    if not buckets:
        raise TidegateError(
            f"operator {operator} of checkpoint '{checkpoint}' holds no bucket of a tidegate join "
            "yet; give the checkpoint of a query that has ended a micro-batch"
        )
    found = _described(buckets)
    if json:
        answer(found)
    else:
        _show(found)


def _check(checkpoint: str) -> None:
    reason = local_spark.missing()
    if reason is not None:
        raise TidegateError(f"a checkpoint is read by Spark, and {reason}")
    if "://" not in checkpoint and not (Path(checkpoint) / "state").is_dir():
        raise TidegateError(
            f"'{checkpoint}' has no folder 'state', so it is no checkpoint of a join; give the "
            "checkpointLocation of a query with window_join"
        )


def _read(checkpoint: str, operator: int) -> list[StoredBucket]:
    from pyspark.errors import PySparkException

    from tidegate.spark import read_state

    # As an address: Spark would look for a relative path in a folder of its own.
    place = checkpoint if "://" in checkpoint else Path(checkpoint).resolve().as_uri()
    with local_spark.running("tidegate state") as spark:
        try:
            return read_state(spark, place, operator)
        except PySparkException as error:
            sentence = str(error).strip().splitlines()[0]
            raise TidegateError(
                f"operator {operator} of checkpoint '{checkpoint}' holds no state of a tidegate "
                f"join; Spark says: {sentence}"
            ) from error


def _described(buckets: Sequence[StoredBucket]) -> dict[str, Any]:
    from tidegate.spark.reports import total_of

    return {
        "join": buckets[0].origin,
        "batch": max(bucket.meta.batch for bucket in buckets),
        "total": total_of({bucket.label: bucket.meta.stats for bucket in buckets}),
        "buckets": [
            {
                "bucket": bucket.label,
                "stats": bucket.meta.stats,
                "snapshot_bytes": bucket.meta.snapshot_bytes,
                "log_bytes": bucket.meta.log_bytes,
                "log_pushes": bucket.meta.log_pushes,
            }
            for bucket in buckets
        ],
    }


def _show(found: Mapping[str, Any]) -> None:
    from rich.table import Table

    screen = console()
    for name, text in found["join"].items():
        if text:
            screen.print(f"{name}: {text}", soft_wrap=True, markup=False)
    titles = ("bucket", *(name.replace("_", " ") for name in SHOWN), "stored bytes")
    table = Table(title=f"after micro-batch {found['batch']}", title_justify="left")
    for title in titles:
        table.add_column(title, justify="right")
    stored = 0
    for bucket in found["buckets"]:
        size = bucket["snapshot_bytes"] + bucket["log_bytes"]
        stored += size
        table.add_row(*_row(str(bucket["bucket"]), bucket["stats"], size))
    table.add_section()
    table.add_row(*_row("all", found["total"], stored))
    screen.print(table)


def _row(name: str, stats: Mapping[str, float], size: int) -> list[str]:
    return [name, *(f"{stats.get(column, 0):,.0f}" for column in SHOWN), f"{size:,}"]
