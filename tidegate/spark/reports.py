"""What a join tells: counters per bucket, kept in its state, read through the query.

Law: a number that counts never goes back, not even when an engine is rebuilt or the query is
restarted, because the counters live in the checkpoint beside the rows they count. Each bucket
reports all its numbers with every micro-batch; Spark carries them to the driver as observed
metrics of the query, so reading them needs no listener, no service and no access to the JVM. Where
there are no numbers yet, there are zeros.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from tidegate.loss import interval
from tidegate.spark import buckets_together
from tidegate.spec import TidegateError
from tidegate.spec.notices import rejected_streams
from tidegate.watch.exposition import BASES, exposed, is_gauge, is_peak

PREFIX = "tidegate:"
# A key that carries more than this part of all rows cannot be spread over buckets.
HOT_SHARE = 0.5
# A bucket with more than this multiple of the mean rows slows all the others down.
SKEW_WARNING = 3.0
HOT_KEYS_KEPT = 8
# What an unnamed join is called where it has to be called something.
UNNAMED = "window_join"
# How long the numbers of a batch join may be on their way after its action has ended.
SECONDS_TO_WAIT = 2.0


class Counts(dict[str, float]):
    """Numbers by name; one that nothing was counted for yet is 0."""

    def __init__(self, found: Mapping[str, float] | None = None) -> None:
        super().__init__(dict.fromkeys(BASES, 0.0))
        self.update(found or {})

    def __missing__(self, name: str) -> float:
        # Streams and reasons of rejection are known when rows have come: `rows_in_left`.
        if any(name.startswith(f"{base}_") for base in BASES):
            return 0.0
        raise KeyError(name)


class Buckets(dict[int, Counts]):
    """Numbers by bucket; a bucket that has not reported yet has zeros."""

    def __missing__(self, bucket: int) -> Counts:
        return Counts()


def _no_totals() -> Counts:
    return Counts({"hot_key_share": 0.0, "bucket_skew": 1.0})


@dataclass(frozen=True)
class JoinMetrics:
    """The numbers of a join after its latest micro-batch, in total and for each bucket.

    Counters are those of `JoinEngine.stats()`, summed. In a grid join a row lies in several
    buckets and `rows_in` counts its copies, as the budget does; `rows_read` counts it once. A
    total peak is the sum of the buckets' peaks, an upper bound; `cpu_fraction` is their mean. The
    recall of a join with a sentinel is that of all buckets together, and so are the numbers of a
    target and `retention_curve`: memory of the join, and the recall that it would give of late.
    `batch` is -1 before the first micro-batch, and 0 for a batch join that has run.
    """

    batch: int = -1
    total: Counts = field(default_factory=_no_totals)
    buckets: Buckets = field(default_factory=Buckets)
    warnings: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    query: str = ""
    join: str = UNNAMED
    streams: tuple[str, ...] = ()
    hot_keys: tuple[tuple[str, float], ...] = ()  # the most frequent, with their share of the rows
    retention_curve: tuple[dict[str, float], ...] = ()  # rows of memory, recall, importance_recall

    def prometheus(self) -> str:
        """Write the numbers in Prometheus' text format, labelled by query, join and stream."""
        buckets: dict[int | str, dict[str, float]] = {
            bucket: {n: v for n, v in stats.items() if buckets_together.adds_up(n)}
            for bucket, stats in self.buckets.items()
        }
        whole = {n: v for n, v in self.total.items() if not buckets_together.adds_up(n)}
        if whole:
            buckets["all"] = whole
        return exposed(self.query, self.join, self.streams, buckets)


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


def report_text(
    bucket: int,
    streams: Sequence[str],
    stats: Mapping[str, float],
    *,
    hot: Mapping[str, int],
    examples: Sequence[str],
    warnings: Sequence[str],
    recall: Mapping[str, Any] | None = None,
    curve: Sequence[Mapping[str, float]] = (),
) -> str:
    """All numbers of a bucket, in a pool its recall curve, and with miniatures its retention curve,
    as text for the driver."""
    return json.dumps(
        {
            "bucket": bucket,
            "streams": list(streams),
            "stats": dict(stats),
            "hot": dict(hot),
            "examples": list(examples),
            "warnings": list(warnings),
        }
        | ({} if recall is None else {"recall": dict(recall)})
        | ({"curve": list(curve)} if curve else {})
    )


def observed(reports: DataFrame, name: str | Observation) -> DataFrame:
    """Let Spark carry the column `report` to the driver under a name of its own."""
    under = PREFIX + name if isinstance(name, str) else name
    return reports.observe(under, F.collect_list("report").alias("reports"))


def metrics(source: StreamingQuery | DataFrame, name: str | None = None) -> JoinMetrics:
    """Read the numbers of a join, while it runs or after it stopped.

    Parameters
    ----------
    source
        A streaming query with a join in it, or the batch DataFrame that `window_join` returned,
        whose numbers are those of its first action.
    name
        The name that was given to `window_join`; a query with several joins needs it.
    """
    if isinstance(source, DataFrame):
        return _of_batch(source)
    found: dict[str, dict[int, dict[str, Any]]] = {}
    batch = -1
    # Oldest first: a bucket that was silent in the latest micro-batch keeps its earlier report.
    for progress in source.recentProgress:
        for key, row in dict(progress["observedMetrics"] or {}).items():
            if key.startswith(PREFIX):
                batch = int(progress["batchId"])
                known = found.setdefault(key.removeprefix(PREFIX), {})
                known.update({report["bucket"]: report for report in reports_in(row)})
    query = str(source.name or source.id)
    if not found:
        return JoinMetrics(query=query, join=name or UNNAMED)
    if name is None and len(found) > 1:
        raise TidegateError(
            f"the query has {len(found)} joins; give the name of one: {', '.join(sorted(found))}"
        )
    if name is not None and name not in found:
        raise TidegateError(
            f"the query has no join named {name!r}; it has: {', '.join(sorted(found))}"
        )
    key = name or next(iter(found))
    return summarise(batch, found[key], query, shown_name(key))


def shown_name(key: str) -> str:
    """The user's name for a join; the number that an unnamed one has changes with every start."""
    return UNNAMED if key.startswith("#") else key


def reports_in(row: Any) -> Iterator[dict[str, Any]]:
    """The reports in an observed row, which Spark Connect writes as values beside a schema."""
    fields = row if isinstance(row, dict) else row.asDict()
    found = fields["reports"] if "reports" in fields else fields["values"][0]
    return map(json.loads, found or ())


class BatchReports:
    """The reports of a batch join, which come with its first action."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.observation = Observation(f"{PREFIX}{name}")
        self._found: dict[str, Any] = {}
        self._waiting: threading.Thread | None = None

    def read(self) -> list[dict[str, Any]]:
        """The reports, none where no action has ended yet."""
        if not self._found and self._waiting is None:
            # Spark's own reading blocks until there is something to read.
            self._waiting = threading.Thread(target=self._wait, daemon=True)
            self._waiting.start()
        if self._waiting is not None:
            self._waiting.join(SECONDS_TO_WAIT)
            self._waiting = self._waiting if self._waiting.is_alive() else None
        return list(reports_in(self._found)) if self._found else []

    def _wait(self) -> None:
        deadline = time.monotonic() + SECONDS_TO_WAIT
        while not self._found and time.monotonic() < deadline:
            self._found = dict(self.observation.get)
            time.sleep(0.05)


_batches: WeakKeyDictionary[DataFrame, BatchReports] = WeakKeyDictionary()


def remember_batch(joined: DataFrame, reports: BatchReports) -> DataFrame:
    """Let `metrics` find the reports of a batch join by its DataFrame."""
    _batches[joined] = reports
    return joined


def _of_batch(joined: DataFrame) -> JoinMetrics:
    reports = _batches.get(joined)
    if reports is None:
        raise TidegateError(
            "metrics takes a streaming query, or the batch DataFrame that window_join returned; "
            "give that one, not one made of it"
        )
    found = {report["bucket"]: report for report in reports.read()}
    name = shown_name(reports.name)
    return summarise(0, found, "batch", name) if found else JoinMetrics(query="batch", join=name)


def summarise(
    batch: int, reports: Mapping[int, Mapping[str, Any]], query: str = "", join: str = UNNAMED
) -> JoinMetrics:
    """Sum the reports of the buckets and look for what deserves a warning."""
    buckets = Buckets({bucket: Counts(reports[bucket]["stats"]) for bucket in sorted(reports)})
    total = _no_totals()
    total.update(total_of(buckets))
    keys = sorted(
        ((rows, key) for report in reports.values() for key, rows in report["hot"].items()),
        reverse=True,
    )
    hot = keys[0] if keys else (0, "")
    rows = [stats["rows_read"] for stats in buckets.values()]
    if sum(rows):
        total["hot_key_share"] = min(1.0, hot[0] / sum(rows))
        total["bucket_skew"] = max(rows) * len(rows) / sum(rows)
    streams = tuple(next((report["streams"] for report in reports.values()), ()))
    warnings = dict.fromkeys(text for report in reports.values() for text in report["warnings"])
    warnings |= dict.fromkeys(_warnings(total, hot[1], rows, streams))
    examples = tuple(text for report in reports.values() for text in report["examples"])
    shares = tuple((key, count / max(1, sum(rows))) for count, key in keys[:HOT_KEYS_KEPT])
    curves = [(report["stats"], report.get("curve", ())) for report in reports.values()]
    return JoinMetrics(
        batch, total, buckets, tuple(warnings), examples, query, join, streams, shares,
        tuple(buckets_together.retention_curve(curves)),
    )  # fmt: skip


def total_of(buckets: Mapping[int, Mapping[str, float]]) -> Counts:
    """The numbers of all buckets together."""
    total = Counts()
    for stats in buckets.values():
        for name, value in stats.items():
            if buckets_together.adds_up(name):
                total[name] = total[name] + value if name in total else value
    total.update(interval.of_total(total))
    total.update(buckets_together.steered(list(buckets.values())))
    if "cpu_fraction" in total:
        total["cpu_fraction"] /= len(buckets)
    return total


def _warnings(
    total: Counts, hot_key: str, rows: list[float], streams: Iterable[str]
) -> Iterator[str]:
    yield from rejected_streams(total, streams)
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


def prometheus(source: StreamingQuery | DataFrame, name: str | None = None) -> str:
    """Write the numbers of a join in Prometheus' text format."""
    return metrics(source, name).prometheus()
