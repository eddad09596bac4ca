"""The same estimates on Spark: two levels of sums that Spark's own aggregation merges.

Law: the sums of `sample.sums`, computed by Spark's expressions; no Python worker touches a row. The
first level adds up the rows of a sampled tuple, the second those tuples. On a stream both levels
are aggregations over a stretch of time that Spark's watermark closes, so the output mode is append;
with groups a third level puts them side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidegate.sample import sums, tags
from tidegate.sample.aggregate import COUNT, Aggregate
from tidegate.sample.asked import (
    NO_WEIGHTS,
    START,
    WEIGHT,
    check_columns,
    no_such_times,
    not_a_group,
    not_a_number,
)
from tidegate.sample.estimates import EXACT, UNKNOWN, name_of
from tidegate.sample.intervals import Arithmetic
from tidegate.spec import TidegateError
from tidegate.spec.units import Window

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "boolean")
_PART, _TAG, _STRETCH = "_tidegate_part_", "_tidegate_tag", "_tidegate_stretch"
_ENTRY, _BITS, _CHECKED = "_tidegate_entry", "_tidegate_bits", "_tidegate_weight"
_STEP, _ALL = "_tidegate_step_", "_tidegate_all_"  # of values kept; of sums over all groups
_TOGETHER = ("rows", "certain", "untagged")


def estimate_frame(
    frame: Any,
    wanted: Aggregate,
    groups: Sequence[str],
    stretch: Window | None,
    times: Sequence[str],
    level: float,
) -> Any:
    """See `tidegate.estimate`."""
    from pyspark.sql import functions as f

    _check(frame, wanted, groups, stretch, times)
    weight = _checked(f.col(_quoted(WEIGHT)))
    number = f.lit(1.0) if wanted.column is None else f.col(_quoted(wanted.column)).cast("double")
    is_counted = f.lit(True) if wanted.column is None else f.col(_quoted(wanted.column)).isNotNull()
    if wanted.function == COUNT:
        number = f.lit(1.0)
    elif wanted.column is not None:
        is_counted = is_counted & ~f.isnan(number)
    keys = [f.col(_quoted(name)) for name in groups]
    if stretch is not None:
        keys.append(_stretch_of(frame, stretch, times))
    parts = sums.row_parts(f.col(_CHECKED), number, _exploded(), _where)
    by_cluster = (
        frame.where(is_counted)
        .withColumn(_CHECKED, weight)
        .withColumn(_BITS, _bits(f.col(_CHECKED)))
        .withColumn(_ENTRY, f.explode(_entries(f.col(_CHECKED), f.col(_BITS))))
        .groupBy(*keys, f.col(f"{_ENTRY}.key").alias(_TAG))
        .agg(*[f.sum(p).alias(_PART + name) for name, p in zip(sums.PARTS, parts, strict=True)])
    )
    part = {name: f.col(_PART + name) for name in sums.PARTS}
    terms = sums.cluster_terms(part, f.col(_TAG), f.floor, _where)
    again = [f.col(_quoted(name)) for name in groups]
    if stretch is not None:
        again.append(_stretch_again(stretch))
    total = by_cluster.groupBy(*again).agg(
        *[f.sum(term).alias(_PART + name) for name, term in terms.items()]
    )
    if stretch is not None or groups:
        total = _beside(total, groups, stretch if frame.isStreaming else None)
    return _answer(total, wanted, groups, stretch, level)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _check(
    frame: Any,
    wanted: Aggregate,
    groups: Sequence[str],
    stretch: Window | None,
    times: Sequence[str],
) -> None:
    check_columns(frame.columns, wanted, groups, stretch, times)
    kinds = dict(frame.dtypes)
    if kinds[WEIGHT] != "double":
        raise TidegateError(
            f"column {WEIGHT!r} has type {kinds[WEIGHT]}; keep it a double as the join made it, "
            "because its last digits say which rows were sampled together"
        )
    for name in groups:
        if kinds[name].startswith("map<"):  # which Spark cannot compare
            raise not_a_group(name, kinds[name])
    if wanted.function != COUNT and wanted.column is not None:
        kind = kinds[wanted.column]
        if kind.partition("(")[0] not in _NUMBERS:
            raise not_a_number(wanted, kind)
    if frame.isStreaming and stretch is None:
        raise TidegateError(
            "a stream has no end, so an estimate over all of it never comes; give every=, such as "
            "every='1 hour', and time="
        )
    if frame.isStreaming and stretch is not None and (stretch.kind == "integer" or len(times) > 1):
        raise TidegateError(
            "on a stream every is a duration and time is one column that has a watermark; give "
            "window_join result_time='result_time' and estimate time='result_time'"
        )


def _checked(weight: Any) -> Any:
    """The query fails at a row whose weight is none."""
    from pyspark.sql import functions as f

    is_one = (weight >= 1.0) & (weight < f.lit(float("inf")))  # NaN is above it, for Spark
    return f.when(is_one, weight).otherwise(f.raise_error(f.lit(NO_WEIGHTS)).cast("double"))


def _bits(weight: Any) -> Any:
    """The bits of a weight's significand; a column of its own, because entries ask for it often."""
    from pyspark.sql import functions as f

    power = f.pow(f.lit(2.0), f.floor(f.log2(weight)))
    power = f.when(power > weight, power / 2.0).otherwise(power)  # a logarithm may be a bit off
    power = f.when(power * 2.0 <= weight, power * 2.0).otherwise(power)
    return tags.bits_of(weight / power)


def _entries(weight: Any, bits: Any) -> Any:
    """The entries of a row, an array of structs; see `sample.tags`."""
    from pyspark.sql import functions as f

    found = []
    for entry in tags.entries(weight, bits, f.floor, _where):
        sign = entry.sign if hasattr(entry.sign, "alias") else f.lit(entry.sign)
        columns = {"key": entry.key, "sign": sign, "factor": entry.factor, "main": entry.main}
        named = [column.alias(name) for name, column in columns.items()]
        found.append(f.when(entry.present, f.struct(*named)))
    return f.filter(f.array(*found), lambda entry: entry.isNotNull())


def _exploded() -> tags.Entry:
    """An entry in a row of its own."""
    from pyspark.sql import functions as f

    key, sign, factor, main = (
        f.col(f"{_ENTRY}.{name}") for name in ("key", "sign", "factor", "main")
    )
    return tags.Entry(key, sign, factor, order=0, present=True, main=main)


def _where(condition: Any, one: Any, other: Any) -> Any:
    """As `numpy.where`."""
    from pyspark.sql import functions as f

    return f.when(condition, one).otherwise(other)


def _stretch_of(frame: Any, stretch: Window, times: Sequence[str]) -> Any:
    """The stretch of time of a result, whose time is the latest of its tuples."""
    from pyspark.sql import functions as f

    kinds = dict(frame.dtypes)
    columns = [f.col(_quoted(name)) for name in times]
    latest = columns[0] if len(columns) == 1 else f.greatest(*columns)
    if stretch.kind == "duration" and all(kinds[name].startswith("timestamp") for name in times):
        return f.window(latest, f"{stretch.size} microseconds").alias(_STRETCH)
    if stretch.kind == "integer" and all(kinds[name] in _NUMBERS[:4] for name in times):
        size = f.lit(stretch.size)
        return (latest - f.pmod(latest, size)).alias(_STRETCH)
    raise no_such_times(kinds[times[0]])


def _stretch_again(stretch: Window) -> Any:
    """The same stretch for the second level: a stream needs a time that its watermark bounds."""
    from pyspark.sql import functions as f

    if stretch.kind == "integer":
        return f.col(_STRETCH)
    return f.window(f.window_time(f.col(_STRETCH)), f"{stretch.size} microseconds").alias(_STRETCH)


class _Steps:
    """A frame that gets a column for each value that is kept.

    Without them the expressions of an interval, which name each other several times, had as many
    terms as there are ways through them, and a query took five times as long to plan and run.
    """

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self._count = 0

    def keep(self, value: Any) -> Any:
        """A value as a column of its own."""
        from pyspark.sql import functions as f

        name = f"{_STEP}{self._count}"
        self._count += 1
        self.frame = self.frame.withColumn(name, value)
        return f.col(name)


def _beside(total: Any, groups: Sequence[str], stretch: Window | None) -> Any:
    """What all groups know together, beside each: of a table, or of a stretch of a stream."""
    from pyspark.sql import Window as Over
    from pyspark.sql import functions as f

    if stretch is None:
        everything = Over.partitionBy(f.lit(0))
        sums_of = {name: f.sum(_PART + name).over(everything) for name in _TOGETHER}
        return total.withColumns({_ALL + name: added for name, added in sums_of.items()})
    if not groups:
        return total
    # A third aggregation, since a stream has no other place where groups meet.
    kept = [*map(_quoted, groups), *(_PART + name for name in sums.TOTALS)]
    together = total.groupBy(_stretch_again(stretch)).agg(
        *[f.sum(_PART + name).alias(_ALL + name) for name in _TOGETHER],
        f.collect_list(f.struct(*kept)).alias(_ENTRY),
    )
    return together.withColumn(_ENTRY, f.explode(_ENTRY)).select("*", f"{_ENTRY}.*").drop(_ENTRY)


def _answer(
    total: Any, wanted: Aggregate, groups: Sequence[str], stretch: Window | None, level: float
) -> Any:
    from pyspark.sql import functions as f

    columns = {name: f.coalesce(f.col(_PART + name), f.lit(0.0)) for name in sums.TOTALS}
    known = {
        name: f.col(_ALL + name) if _ALL + name in total.columns else columns[name]
        for name in _TOGETHER
    }
    lacking, columns["untagged"] = known["rows"] - known["certain"], known["untagged"]
    steps = _Steps(total)
    arithmetic = Arithmetic(_where, f.sqrt, f.exp, steps.keep)
    found = sums.finish(wanted.function, columns, level, arithmetic, lacking)
    has_rows = columns["rows"] > 0.0
    is_known = (found.is_known | found.is_exact) & has_rows
    keys = [f.col(_quoted(name)) for name in groups]
    if stretch is not None:
        start = f.col(_STRETCH) if stretch.kind == "integer" else f.col(_STRETCH + ".start")
        keys.append(start.alias(START))
    said = f.when(found.is_exact, f.lit(EXACT)).otherwise(f.lit(name_of(level)))
    return steps.frame.select(
        *keys,
        f.when(has_rows, found.estimate).alias("estimate"),
        f.when(is_known, found.estimate - found.below).alias("low"),
        f.when(is_known, found.estimate + found.above).alias("high"),
        f.when(is_known, found.error).alias("error"),
        columns["rows"].cast("bigint").alias("rows"),
        columns["clusters"].cast("bigint").alias("tuples"),
        f.when(is_known, said).otherwise(f.lit(UNKNOWN)).alias("interval"),
    )
