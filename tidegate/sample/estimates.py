"""`tidegate.estimate`: aggregates of a sampled join, with intervals.

Law: an answer is a number with an interval that covers the truth as often as its level says, or it
says that the interval is unknown. What cannot be answered is refused in one sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidegate.columns.intake import to_arrow
from tidegate.sample import sums, tags
from tidegate.sample.aggregate import AVG, COUNT, Aggregate, parse
from tidegate.spec import TidegateError
from tidegate.spec.units import Window, parse_window

WEIGHT = "_weight"
START = "window_start"
ANSWER = ("estimate", "low", "high", "error", "rows", "tuples", "interval")
EXACT, UNKNOWN = "exact", "unknown"
_MISSED = 3.0  # standard errors between a count and what keys promise that are no chance
_TAG = "_tidegate_tag"


def estimate(
    data: Any,
    aggregate: str,
    by: str | Sequence[str] | None = None,
    every: Any = None,
    time: str | Sequence[str] | None = None,
    level: float = 0.95,
) -> Any:
    """Estimate an aggregate of the whole join from a sample of it.

    Parameters
    ----------
    data
        Results of a join with a sampling policy: what `tidegate.join` returned, a pyarrow table, a
        pandas or polars DataFrame, or a Spark DataFrame, batch or streaming.
    aggregate
        "count(*)", "count(x)", "sum(x)" or "avg(x)", where x is a column of the results. NULL is
        left out, as in SQL.
    by
        Columns to group by. A group of which no row was sampled does not show up.
    every
        A duration, or an integer for integer times: one answer for each such stretch of time,
        which begins at a multiple of it. A stream on Spark needs it.
    time
        The time column of each stream, for `every`: a result has the latest of them.
    level
        The probability with which an interval should cover the truth.

    Returns
    -------
    A table of the kind that was given (Arrow for a join), with the groups and the columns
    `estimate`, `low` and `high` (the interval), `error` (the standard error), `rows` and `tuples`
    (sampled), and `interval`: the level, "exact" where nothing had been lost, or "unknown" where
    too few tuples were sampled to say, or where the join's own counts show that the sample is far
    off, as policy `uniform` is where tuples had more results than it expected; then `low`, `high`
    and `error` are NULL.
    """
    wanted = parse(aggregate)
    groups, times = _names(by, "by"), _names(time, "time")
    level = sums.check_level(level)
    stretch = None if every is None else parse_window(every, "every", counts=False)
    if stretch is not None and stretch.size <= 0:
        raise TidegateError(f"every {every!r} is not above 0; give such as '1 hour'")
    if stretch is not None and not times:
        raise TidegateError(
            "every is given but time is not; give time=, the time column of each stream in the "
            "results, such as time=['ts', 'ts_right']"
        )
    if type(data).__module__.startswith("pyspark."):
        from tidegate.sample.spark_estimates import estimate_frame

        return estimate_frame(data, wanted, groups, stretch, times, level)
    is_result = hasattr(data, "table") and hasattr(data, "stats")
    table = data.table if is_result else data
    rows = _read(table)
    answer = _answer(rows, wanted, groups, stretch, times, level)
    if is_result and _is_far_off(rows, data.stats):
        answer = _without_intervals(answer)
    library = type(table).__module__.partition(".")[0]
    if library == "pandas":
        return answer.to_pandas()
    if library == "polars":
        import polars

        return polars.from_arrow(answer)
    return answer


def _names(given: Any, option: str) -> list[str]:
    """Column names, given as one or as several."""
    names = [given] if isinstance(given, str) else given or ()
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise TidegateError(
            f"{option} {given!r} names no columns; give one name or a list of names"
        )
    return list(names)


def _is_far_off(rows: pa.Table, stats: Mapping[str, float]) -> bool:
    """Are there so many more results than the sample stands for that it is no chance?

    The keys of all rows tell how many there are (srivastava2004, section 4.3: UNIFORM misses those
    that it did not expect).
    """
    expected = stats.get("rows_expected")
    if expected is None or rows.num_rows == 0:
        return False
    (count,) = _answer(rows, Aggregate(COUNT, None), [], None, [], 0.95).to_pylist()
    return bool(count["error"]) and expected - count["estimate"] > _MISSED * count["error"]


def _without_intervals(answer: pa.Table) -> pa.Table:
    nothing = {name: pa.nulls(answer.num_rows, pa.float64()) for name in ("low", "high", "error")}
    nothing["interval"] = pa.array([UNKNOWN] * answer.num_rows, pa.string())
    for name, column in nothing.items():
        answer = answer.set_column(answer.column_names.index(name), name, column)
    return answer


def check_columns(
    names: Sequence[str], wanted: Aggregate, groups: Sequence[str], times: Sequence[str]
) -> None:
    """Refuse what names no column of the results."""
    if WEIGHT not in names:
        raise TidegateError(
            f"the results have no column {WEIGHT!r}; join with policy 'uniform', 'eq-cluster' or "
            "'pps-cluster', and keep that column"
        )
    asked = [*groups, *times, *([] if wanted.column is None else [wanted.column])]
    for name in asked:
        if name not in names:
            raise TidegateError(
                f"the results have no column {name!r}; they have {', '.join(map(repr, names))}"
            )


def not_a_number(wanted: Aggregate, kind: Any) -> TidegateError:
    """Of a column that cannot be added up."""
    return TidegateError(
        f"{wanted.function}({wanted.column}) needs numbers, but column {wanted.column!r} has type "
        f"{kind}; give a column of numbers"
    )


def _read(table: Any) -> pa.Table:
    try:
        return to_arrow(table, "the results")
    except TidegateError:
        raise TidegateError(
            f"estimate was given {type(table).__name__}; give the results of a join: a pyarrow "
            "Table, a pandas, polars or Spark DataFrame, or what tidegate.join returned"
        ) from None


def _answer(
    table: pa.Table,
    wanted: Aggregate,
    groups: list[str],
    stretch: Window | None,
    times: list[str],
    level: float,
) -> pa.Table:
    check_columns(table.column_names, wanted, groups, times)
    weights = _weights(table)
    numbers = _numbers(table, wanted)
    keys: dict[str, Any] = {name: table.column(name) for name in groups}
    for name, column in keys.items():
        if pa.types.is_nested(column.type):
            raise TidegateError(
                f"rows cannot be grouped by column {name!r}, whose type is {column.type}; give a "
                "column of plain values"
            )
    if stretch is not None:
        keys[START] = _starts([table.column(name) for name in times], stretch)
    counted = ~np.isnan(numbers)
    with np.errstate(over="ignore", invalid="ignore"):  # infinite numbers have unknown intervals
        centre = 0.0
        if wanted.function == AVG and np.isfinite(numbers[counted]).any():
            # Keeps the digits of small differences.
            centre = float(numbers[counted][np.isfinite(numbers[counted])].mean())
        total = _totals(keys, weights, np.where(counted, numbers - centre, 0.0), counted)
        columns = {name: total.column(f"{name}_sum").to_numpy() for name in sums.TOTALS}
        beside = total.column(START).to_numpy() if stretch is not None else None
        lacking = _lacking(columns, beside)
        found = sums.finish(wanted.function, columns, level, np.where, np.sqrt, lacking)
    answer = _table(total.select(list(keys)), columns, found, centre, level)
    return answer.sort_by(START) if stretch is not None else answer


def _lacking(total: Mapping[str, NDArray[np.float64]], beside: Any) -> NDArray[np.float64]:
    """Rows that came when others had been lost, of all groups or of those of the same stretch."""
    own = total["rows"] - total["certain"]
    if beside is None:
        return np.full(len(own), own.sum())
    _, place = np.unique(beside, return_inverse=True)
    by_stretch = np.bincount(place, weights=own).astype(np.float64, copy=False)
    return by_stretch[place]


def _weights(table: pa.Table) -> NDArray[np.float64]:
    column = table.column(WEIGHT)
    if column.type != pa.float64():
        raise TidegateError(
            f"column {WEIGHT!r} has type {column.type}; keep it a double as the join made it, "
            "because its last digits say which rows were sampled together"
        )
    weights: NDArray[np.float64] = column.combine_chunks().to_numpy(zero_copy_only=False)
    if not (weights >= 1.0).all() or not np.isfinite(weights).all():
        raise TidegateError(
            f"column {WEIGHT!r} has values that are no weights; a weight is 1 or more"
        )
    return weights


def _numbers(table: pa.Table, wanted: Aggregate) -> NDArray[np.float64]:
    """What is added up, NaN where it is left out."""
    if wanted.column is None:
        return np.ones(table.num_rows)
    column = table.column(wanted.column)
    if wanted.function == COUNT:
        return np.where(column.is_null().to_numpy(), np.nan, 1.0)
    kind = column.type
    if not (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
    ):
        raise not_a_number(wanted, kind)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    # Large integers and decimals are rounded, as sums of doubles are anyway.
    as_double = column.cast(pa.float64(), safe=False).combine_chunks()
    numbers: NDArray[np.float64] = as_double.to_numpy(zero_copy_only=False)
    return numbers


def _starts(times: list[pa.ChunkedArray], stretch: Window) -> pa.Array:
    """Where the stretch of time of each result begins; its time is the latest of its tuples."""
    kind = times[0].type
    is_whole = pa.types.is_integer(kind)
    if is_whole != (stretch.kind == "integer") or not (is_whole or pa.types.is_timestamp(kind)):
        raise TidegateError(
            f"every does not fit a time column of type {kind}; give an integer for integer times "
            "and a duration such as '1 hour' for timestamps"
        )
    if not is_whole:
        kind = pa.timestamp("us", kind.tz)
    if any(column.null_count for column in times):
        raise TidegateError("a time column of the results has NULL; leave out rows without a time")
    moments = [column.cast(kind).cast(pa.int64()) for column in times]
    latest = pc.max_element_wise(*moments).combine_chunks()
    whole = latest.to_numpy(zero_copy_only=False).astype(np.int64)
    return pa.array(whole // stretch.size * stretch.size).cast(kind)


def _totals(
    keys: dict[str, Any],
    weights: NDArray[np.float64],
    numbers: NDArray[np.float64],
    counted: NDArray[np.bool_],
) -> pa.Table:
    """The sums of each group over its clusters."""
    names, pieces = list(keys), []
    for entry in _entries(weights):
        chosen = np.flatnonzero(entry.present & counted)
        parts = sums.row_parts(weights, numbers, entry, np.where)
        rows = {name: column.take(pa.array(chosen)) for name, column in keys.items()}
        added = {name: part[chosen] for name, part in zip(sums.PARTS, parts, strict=True)}
        pieces.append(pa.table({**rows, _TAG: entry.key[chosen], **added}))
    table = pa.concat_tables(pieces).group_by([*names, _TAG])
    by_cluster = table.aggregate([(name, "sum") for name in sums.PARTS])
    part = {name: by_cluster.column(f"{name}_sum").to_numpy() for name in sums.PARTS}
    terms = sums.cluster_terms(part, by_cluster.column(_TAG).to_numpy(), np.floor, np.where)
    groups = pa.table({name: by_cluster.column(name) for name in names} | terms)
    if names or groups.num_rows:
        return groups.group_by(names).aggregate([(name, "sum") for name in terms])
    return pa.table({f"{name}_sum": [0.0] for name in terms})


def _entries(weights: NDArray[np.float64]) -> list[tags.Entry]:
    bits = tags.bits_of(tags.significand_of(weights))
    layouts = np.unique(tags.layout_of(bits[weights > 1.0]))
    return tags.entries(weights, bits, np.floor, np.where, layouts)


def _table(
    keys: pa.Table, total: dict[str, Any], found: sums.Finished, centre: float, level: float
) -> pa.Table:
    estimates = np.asarray(found.estimate) + centre
    unknown = ~(found.is_known | found.is_exact)
    nothing = total["rows"] == 0
    answer = {
        "estimate": pa.array(estimates, mask=nothing),
        "low": pa.array(estimates - found.reach, mask=unknown | nothing),
        "high": pa.array(estimates + found.reach, mask=unknown | nothing),
        "error": pa.array(np.asarray(found.error), mask=unknown | nothing),
        "rows": pa.array(total["rows"].astype(np.int64)),
        "tuples": pa.array(total["clusters"].astype(np.int64)),
        "interval": pa.array(
            np.where(unknown | nothing, UNKNOWN, np.where(found.is_exact, EXACT, name_of(level)))
        ),
    }
    return pa.table({name: keys.column(name) for name in keys.column_names} | answer)


def name_of(level: float) -> str:
    """What the column `interval` says of a known interval."""
    return f"{level * 100:g} %"
