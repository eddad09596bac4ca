"""`tidegate.estimate`: aggregates of a sampled join, with intervals.

Law: an answer is a number with an interval that covers the truth as often as its level says, or it
says that the interval is unknown. What cannot be answered is refused in one sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.sample import sums, tags
from tidegate.sample.aggregate import AVG, COUNT, Aggregate, parse
from tidegate.sample.asked import (
    START,
    check_columns,
    groups_of,
    numbers_of,
    read,
    starts_of,
    weights_of,
)
from tidegate.sample.intervals import Arithmetic
from tidegate.spec import TidegateError
from tidegate.spec.units import Window, parse_window

EXACT, UNKNOWN = "exact", "unknown"
_MISSED = 1.5  # standard errors of a count that may be missing by chance
_NUMPY = Arithmetic(np.where, np.sqrt, np.exp)
_TAG, _KEY, _START = "_tidegate_tag", "_tidegate_key_", "_tidegate_start"


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
        "count(*)", "count(x)", "sum(x)" or "avg(x)", where x is a column of the results. NULL and
        NaN are left out.
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
    (sampled), and `interval`: the level, "exact" if nothing had been lost, or "unknown" where
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
    rows = read(table)
    lost = bool(data.stats.get("rows_lost")) if is_result else False
    answer = _answer(rows, wanted, groups, stretch, times, level, lost)
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
    return list(dict.fromkeys(names))


def _is_far_off(rows: pa.Table, stats: Mapping[str, float]) -> bool:
    """Are there so many more results than the sample stands for that it is no chance?

    The keys of all rows tell how many there are (srivastava2004, section 4.3: UNIFORM misses those
    that it did not expect). With a bias that is smaller than this bound, the intervals that remain
    are of samples which chance made larger.
    """
    missed = stats.get("rows_missed", 0.0)
    if missed <= 0.0 or rows.num_rows == 0:
        return False
    (count,) = _answer(rows, Aggregate(COUNT, None), [], None, [], 0.95).to_pylist()
    return count["error"] is None or missed > _MISSED * count["error"]


def _without_intervals(answer: pa.Table) -> pa.Table:
    nothing = {name: pa.nulls(answer.num_rows, pa.float64()) for name in ("low", "high", "error")}
    nothing["interval"] = pa.array([UNKNOWN] * answer.num_rows, pa.string())
    for name, column in nothing.items():
        answer = answer.set_column(answer.column_names.index(name), name, column)
    return answer


def _answer(
    table: pa.Table,
    wanted: Aggregate,
    groups: list[str],
    stretch: Window | None,
    times: list[str],
    level: float,
    lost: bool = False,
) -> pa.Table:
    """`lost`: had rows been shed, also if no row of the table came after that?"""
    check_columns(table.column_names, wanted, groups, stretch, times)
    weights, numbers = weights_of(table), numbers_of(table, wanted)
    # Columns of the results may have the names of sums; these have not.
    keys: dict[str, Any] = {
        _KEY + str(at): column for at, column in enumerate(groups_of(table, groups))
    }
    if stretch is not None:
        keys[_START] = starts_of(table, times, stretch)
    counted = ~np.isnan(numbers)
    with np.errstate(over="ignore", invalid="ignore"):  # infinite numbers have unknown intervals
        centre = _centre(numbers) if wanted.function == AVG else 0.0
        total = _totals(keys, weights, np.where(counted, numbers - centre, 0.0), counted)
        columns = {name: total.column(f"{name}_sum").to_numpy() for name in sums.TOTALS}
        # Groups are judged together: of rows that were not sampled, a group itself knows nothing.
        lacking = columns["rows"].sum() - columns["certain"].sum() + lost
        columns["untagged"] = np.full(len(columns["rows"]), columns["untagged"].sum())
        found = sums.finish(wanted.function, columns, level, _NUMPY, lacking)
        columns_of_answer = _columns(columns, found, centre, level)
    names = [*groups, *([START] if stretch is not None else [])]
    named = {name: total.column(key) for name, key in zip(names, keys, strict=True)}
    answer = pa.table(named | columns_of_answer)
    return answer.sort_by(START) if stretch is not None else answer


def _centre(numbers: NDArray[np.float64]) -> float:
    """The mean of the finite numbers. Around it small differences keep their digits."""
    finite = numbers[np.isfinite(numbers)]
    largest = float(np.abs(finite).max(initial=0.0))
    return float((finite / largest).mean()) * largest if largest > 0.0 else 0.0


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


def _columns(
    total: dict[str, Any], found: sums.Finished, centre: float, level: float
) -> dict[str, pa.Array]:
    """The answer beside its groups."""
    estimates = np.asarray(found.estimate) + centre
    unknown = ~(found.is_known | found.is_exact)
    nothing = total["rows"] == 0
    return {
        "estimate": pa.array(estimates, mask=nothing),
        "low": pa.array(estimates - found.below, mask=unknown | nothing),
        "high": pa.array(estimates + found.above, mask=unknown | nothing),
        "error": pa.array(np.asarray(found.error), mask=unknown | nothing),
        "rows": pa.array(total["rows"].astype(np.int64)),
        "tuples": pa.array(total["clusters"].astype(np.int64)),
        "interval": pa.array(
            np.where(unknown | nothing, UNKNOWN, np.where(found.is_exact, EXACT, name_of(level)))
        ),
    }


def name_of(level: float) -> str:
    """What the column `interval` says of a known interval."""
    return f"{level * 100:g} %"
