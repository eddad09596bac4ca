"""What a running join tells: counters per bucket, kept in its state, read through the query.

Law: a number that counts never goes back, not even when an engine is rebuilt or the query is
restarted, because the counters live in the checkpoint beside the rows they count. Each bucket
reports all its numbers with every micro-batch; Spark carries them to the driver as observed
metrics of the query, so reading them needs no listener, no service and no access to the JVM.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from tidegate.spec import TidegateError

PREFIX = "tidegate:"
# Numbers that describe now instead of counting since the beginning, and their highest values.
GAUGES = ("alive", "memory_rows", "memory_bytes", "state_bytes", "state_pushes")
PEAKS = ("memory_rows_peak", "memory_bytes_peak")
# A key that carries more than this part of all rows cannot be spread over buckets.
HOT_SHARE = 0.5
# A bucket with more than this multiple of the mean rows slows all the others down.
SKEW_WARNING = 3.0
HOT_KEYS_KEPT = 8


def _is_one_of(name: str, bases: Iterable[str]) -> bool:
    return any(name == base or name.startswith(base + "_") for base in bases)


def is_peak(name: str) -> bool:
    """Whether a number is the highest value that another has had."""
    return _is_one_of(name, PEAKS)


def is_gauge(name: str) -> bool:
    """Whether a number may fall as well as rise."""
    return _is_one_of(name, GAUGES) and not is_peak(name)


def advance(
    total: dict[str, float], before: Mapping[str, float], after: Mapping[str, float]
) -> None:
    """Carry counters on by what an engine has just counted, wherever its own count began.

    >>> total = {"rows_in": 100, "alive": 7}
    >>> advance(total, {"rows_in": 3, "alive": 1}, {"rows_in": 5, "alive": 2})
    >>> total
    {'rows_in': 102, 'alive': 2}
    """
    for name, value in after.items():
        if is_peak(name):
            total[name] = max(total.get(name, 0), value)
        elif is_gauge(name):
            total[name] = value
        else:
            total[name] = total.get(name, 0) + value - before.get(name, 0)


def count_hot_key(hot: dict[str, int], key: str, rows: int) -> None:
    """Add rows of a key to the few most frequent ones (Misra and Gries): no large count is lost."""
    if key in hot or len(hot) < HOT_KEYS_KEPT:
        hot[key] = hot.get(key, 0) + rows
        return
    least = min(rows, min(hot.values()))
    for name in list(hot):
        hot[name] -= least
        if hot[name] <= 0:
            del hot[name]
    if rows > least:
        hot[key] = rows - least


@dataclass(frozen=True)
class JoinMetrics:
    """The numbers of a join after its latest micro-batch, in total and for each bucket.

    Counters are those of `JoinEngine.stats()`, summed. In a grid join a row lies in several
    buckets and `rows_in` counts its copies, as the budget does; `rows_read` counts it once. A
    total peak is the sum of the buckets' peaks, an upper bound.
    """

    batch: int = -1
    total: dict[str, float] = field(default_factory=dict)
    buckets: dict[int, dict[str, float]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()

    def prometheus(self) -> str:
        """Write the numbers in Prometheus' text format."""
        return "\n".join(_prometheus_lines(self.buckets)) + "\n" if self.buckets else ""


def observed(reports: DataFrame, name: str) -> DataFrame:
    """Let Spark carry the column `report` to the driver under a name of its own."""
    return reports.observe(PREFIX + name, F.collect_list("report").alias("reports"))


def metrics(query: StreamingQuery, name: str | None = None) -> JoinMetrics:
    """Read the numbers of the join in a query, while it runs or after it stopped.

    A query with several joins needs the `name` that was given to `window_join`.
    """
    found: dict[str, dict[int, dict[str, Any]]] = {}
    batch = -1
    # Oldest first: a bucket that was silent in the latest micro-batch keeps its earlier report.
    for progress in query.recentProgress:
        for key, row in dict(progress["observedMetrics"] or {}).items():
            if key.startswith(PREFIX):
                batch = int(progress["batchId"])
                known = found.setdefault(key.removeprefix(PREFIX), {})
                known.update({report["bucket"]: report for report in _reports(row)})
    if not found:
        return JoinMetrics()
    if name is None and len(found) > 1:
        raise TidegateError(
            f"the query has {len(found)} joins; give the name of one: {', '.join(sorted(found))}"
        )
    if name is not None and name not in found:
        raise TidegateError(
            f"the query has no join named {name!r}; it has: {', '.join(sorted(found))}"
        )
    return summarise(batch, found[name or next(iter(found))])


def _reports(row: Any) -> Iterator[dict[str, Any]]:
    """The reports in an observed row, which Spark Connect writes as values beside a schema."""
    fields = row.asDict()
    return map(json.loads, fields["reports"] if "reports" in fields else fields["values"][0])


def summarise(batch: int, reports: Mapping[int, Mapping[str, Any]]) -> JoinMetrics:
    """Sum the reports of the buckets and look for skew."""
    buckets = {bucket: dict(reports[bucket]["stats"]) for bucket in sorted(reports)}
    total: dict[str, float] = {}
    for stats in buckets.values():
        for name, value in stats.items():
            total[name] = total.get(name, 0) + value
    hot = max(
        ((rows, key) for report in reports.values() for key, rows in report["hot"].items()),
        default=(0, ""),
    )
    rows = [stats.get("rows_read", 0) for stats in buckets.values()]
    mean = sum(rows) / len(rows)
    total["hot_key_share"] = min(1.0, hot[0] / sum(rows)) if sum(rows) else 0.0
    total["bucket_skew"] = max(rows) / mean if mean else 1.0
    examples = tuple(text for report in reports.values() for text in report["examples"])
    return JoinMetrics(batch, total, buckets, tuple(_warnings(total, hot[1], rows)), examples)


def _warnings(total: Mapping[str, float], hot_key: str, rows: list[float]) -> Iterator[str]:
    if total["hot_key_share"] > HOT_SHARE:
        yield (
            f"key {hot_key!r} carries {total['hot_key_share']:.0%} of all rows, and one key is "
            "joined in one bucket; join on more columns to spread it"
        )
    elif total["bucket_skew"] > SKEW_WARNING:
        yield (
            f"bucket {rows.index(max(rows))} has {total['bucket_skew']:.1f} times the rows of the "
            "mean bucket; a few keys carry most rows"
        )


def prometheus(query: StreamingQuery, name: str | None = None) -> str:
    """Write the numbers of the join in a query in Prometheus' text format."""
    return metrics(query, name).prometheus()


def _prometheus_lines(buckets: Mapping[int, Mapping[str, float]]) -> Iterator[str]:
    names = sorted({name for stats in buckets.values() for name in stats})
    for name in names:
        metric = "tidegate_" + "".join(c if c.isalnum() and c.isascii() else "_" for c in name)
        kind = "gauge" if is_gauge(name) or is_peak(name) else "counter"
        suffix = "" if kind == "gauge" else "_total"
        yield f"# TYPE {metric}{suffix} {kind}"
        for bucket, stats in buckets.items():
            if name in stats:
                yield f'{metric}{suffix}{{bucket="{bucket}"}} {stats[name]:.17g}'
