"""What `tidegate.estimate` is asked of, column by column, checked before anything is added up.

Law: what cannot be answered is refused in one sentence that names the column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidegate.columns.intake import to_arrow
from tidegate.sample.aggregate import COUNT, Aggregate
from tidegate.spec import TidegateError
from tidegate.spec.units import LARGEST_TIME, Window

WEIGHT = "_weight"
START = "window_start"
_LIBRARIES = ("pyarrow", "pandas", "polars")
_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}  # of a unit; "ns" is divided
NO_WEIGHTS = f"column {WEIGHT!r} has values that are no weights; a weight is 1 or more"
ANSWER = ("estimate", "low", "high", "error", "rows", "tuples", "interval")


def check_columns(
    names: Sequence[str],
    wanted: Aggregate,
    groups: Sequence[str],
    stretch: Window | None,
    times: Sequence[str],
) -> None:
    """Refuse what names no column of the results, or several, or one of the answer."""
    if not names:
        raise TidegateError(
            "the results have no columns: until each stream has shown its own there are none; push "
            "a table of each stream, if only with no rows"
        )
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
    for name in [WEIGHT, *asked]:
        if names.count(name) > 1:
            raise TidegateError(f"the results have several columns {name!r}; rename all but one")
    for name in groups:
        if name in ANSWER or (stretch is not None and name == START):
            raise TidegateError(
                f"rows cannot be grouped by column {name!r}, because the answer has a column of "
                "that name; rename it in the results"
            )


def not_a_number(wanted: Aggregate, kind: Any) -> TidegateError:
    """Of a column that cannot be added up."""
    return TidegateError(
        f"{wanted.function}({wanted.column}) needs numbers, but column {wanted.column!r} has type "
        f"{kind}; give a column of numbers"
    )


def not_a_group(name: str, kind: Any) -> TidegateError:
    """Of a column by whose values rows cannot be grouped."""
    return TidegateError(
        f"rows cannot be grouped by column {name!r}, whose type is {kind}; give a column of plain "
        "values"
    )


def no_such_times(kind: Any) -> TidegateError:
    """Of time columns that cannot be cut into the stretches that are asked for."""
    return TidegateError(
        f"every does not fit a time column of type {kind}; give an integer for integer times and a "
        "duration such as '1 hour' for timestamps"
    )


def read(table: Any) -> pa.Table:
    if isinstance(table, list | tuple) and all(isinstance(piece, pa.Table) for piece in table):
        raise TidegateError(
            "estimate was given a list of tables; give one, such as pyarrow.concat_tables(pieces)"
        )
    library = type(table).__module__.partition(".")[0]
    if library not in _LIBRARIES and not hasattr(table, "__arrow_c_stream__"):
        raise TidegateError(
            f"estimate was given {type(table).__name__}; give the results of a join: a pyarrow "
            "Table, a pandas, polars or Spark DataFrame, or what tidegate.join returned"
        )
    return to_arrow(table, "results")


def weights_of(table: pa.Table) -> NDArray[np.float64]:
    column = table.column(WEIGHT)
    if column.type != pa.float64():
        raise TidegateError(
            f"column {WEIGHT!r} has type {column.type}; keep it a double as the join made it, "
            "because its last digits say which rows were sampled together"
        )
    weights: NDArray[np.float64] = column.combine_chunks().to_numpy(zero_copy_only=False)
    if not (weights >= 1.0).all() or not np.isfinite(weights).all():
        raise TidegateError(NO_WEIGHTS)
    return weights


def numbers_of(table: pa.Table, wanted: Aggregate) -> NDArray[np.float64]:
    """What is added up, NaN where it is left out."""
    if wanted.column is None:
        return np.ones(table.num_rows)
    column = _plain(table.column(wanted.column))
    kind = column.type
    if wanted.function == COUNT:
        left_out = column.is_null(nan_is_null=pa.types.is_floating(kind))
        return np.where(left_out.to_numpy(), np.nan, 1.0)
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


def groups_of(table: pa.Table, names: Sequence[str]) -> list[pa.ChunkedArray]:
    """The columns to group by."""
    found = []
    for name in names:
        column = table.column(name)
        kind = column.type
        if pa.types.is_nested(kind) or pa.types.is_run_end_encoded(kind):
            raise not_a_group(name, kind)
        found.append(_groupable(column))
    return found


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Categories as their values."""
    kind = column.type
    return column.cast(kind.value_type) if pa.types.is_dictionary(kind) else column


def _groupable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """As Arrow can group it: polars hands out views of strings."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        values = _viewless(kind.value_type)
        pieces = [
            pa.DictionaryArray.from_arrays(piece.indices, piece.dictionary.cast(values))
            for piece in column.chunks
        ]
        return pa.chunked_array(pieces, pa.dictionary(kind.index_type, values)).unify_dictionaries()
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return pc.add(column, pa.scalar(0.0, kind))  # -0.0 is the same group as 0.0
    return column.cast(_viewless(kind))


def _viewless(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(kind) else kind


def starts_of(table: pa.Table, times: Sequence[str], stretch: Window) -> pa.Array:
    """Where the stretch of time of each result begins; its time is the latest of its tuples."""
    columns = [table.column(name) for name in times]
    for column in columns:
        is_whole = pa.types.is_integer(column.type)
        is_time = is_whole or pa.types.is_timestamp(column.type)
        if is_whole != (stretch.kind == "integer") or not is_time:
            raise no_such_times(column.type)
    if any(column.null_count for column in columns):
        raise TidegateError("a time column of the results has NULL; leave out rows without a time")
    latest = np.maximum.reduce([_moments(column) for column in columns])
    kind = columns[0].type
    if pa.types.is_timestamp(kind):
        kind = pa.timestamp("us", kind.tz)
    return pa.array(latest // stretch.size * stretch.size).cast(kind)


def _moments(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Integers, or microseconds."""
    kind = column.type
    unit = kind.unit if pa.types.is_timestamp(kind) else "us"
    column = column if pa.types.is_integer(kind) else column.cast(pa.int64())
    ends = [end for end in pc.min_max(column).as_py().values() if end is not None]
    if any(abs(end) * _MICROSECONDS[unit] > LARGEST_TIME for end in ends):
        raise TidegateError(
            "a time column of the results has times beyond 2**62 units, which cannot be cut into "
            "stretches; leave out those rows"
        )
    whole: NDArray[np.int64] = (
        column.cast(pa.int64()).combine_chunks().to_numpy(zero_copy_only=False)
    )
    return whole // 1000 if unit == "ns" else whole * _MICROSECONDS[unit]
