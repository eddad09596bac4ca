"""Tables of other libraries become Arrow tables that can be trusted.

Law: whatever comes out of `to_arrow` has been checked: buffers are as long as they must be, and
every offset, view and index of a category lies inside of what it points into. Compiled loops and
Arrow's own kernels read them without asking again. What a library has and Arrow has not is turned
into the nearest type that Arrow has, or refused by name.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.columns.encoding import family
from tidegate.spec import TidegateError

_WITH_OFFSETS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_map)
_BYTES = (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())


def to_arrow(table: Any, stream: str, known: pa.Schema | None = None) -> pa.Table:
    """A pyarrow table from what users push: pyarrow, pandas or polars.

    `known` is the schema that the stream has shown before, if any.
    """
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    library = type(table).__module__.partition(".")[0]
    if not isinstance(table, pa.Table):
        if library == "pandas" and type(table).__name__ == "DataFrame":
            table = _from_pandas(table, stream)
        elif library == "polars" and hasattr(table, "lazy"):
            table = _from_polars(table, stream)
        elif hasattr(table, "__arrow_c_stream__") and library not in ("pandas", "polars"):
            table = pa.table(table)
        else:
            raise TidegateError(
                f"stream {stream!r} was given {type(table).__name__}; give a pyarrow Table or "
                "RecordBatch, or a pandas or polars DataFrame"
            )
    checked(table, stream)
    return table if known is None else _like(table, known, library == "pandas")


def _from_pandas(frame: Any, stream: str) -> pa.Table:
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = str(error.args[0] if error.args else error).splitlines()[0]
        column = _column_in(error, [str(name) for name in frame.columns])
        raise TidegateError(
            f"{column} of stream {stream!r} cannot become an Arrow column ({reason}); convert it "
            "to numbers, strings, times or lists of one type"
        ) from error


def _column_in(error: Exception, names: list[str]) -> str:
    text = " ".join(map(str, error.args))
    found = [name for name in names if f"column {name} " in text or f"column {name})" in text]
    return f"column {found[0]!r}" if found else "a column"


def _from_polars(frame: Any, stream: str) -> pa.Table:
    import polars as pl

    frame = frame.lazy().collect()
    for name, kind in frame.schema.items():
        if kind in (pl.Int128, pl.UInt128):  # Arrow's whole numbers end at 64 bits
            frame = frame.with_columns(pl.col(name).cast(pl.Decimal(38, 0)))
        elif "Object" in str(kind) or "Int128" in str(kind):
            raise TidegateError(
                f"column {name!r} of stream {stream!r} has the polars type {kind}, which Arrow "
                "does not have; cast it to numbers, strings or lists of these"
            )
    try:
        return pa.table(frame)
    except pl.exceptions.PanicException as error:
        reason = (str(error).splitlines() or [""])[0]
        raise TidegateError(
            f"polars cannot hand over the columns of stream {stream!r} ({reason}); cast those of "
            "unusual types, such as decimals of more than 38 digits"
        ) from error


def _like(table: pa.Table, known: pa.Schema, is_inferred: bool) -> pa.Table:
    """Columns that hold nothing, or whose type was guessed, in the type known from before."""
    if table.schema.names != known.names:
        return table
    for at, field in enumerate(known):
        kind = table.schema.field(at).type
        if kind == field.type or pa.types.is_dictionary(kind):
            continue
        if pa.types.is_null(kind) or (is_inferred and _are_alike(kind, field.type)):
            try:
                table = table.set_column(at, field, table.column(at).cast(field.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                continue  # the change of type is reported with all columns
    return table


def _are_alike(guessed: pa.DataType, known: pa.DataType) -> bool:
    """Can both have been guessed from values of one kind?"""
    families = {family(guessed), family(known)}
    nested = pa.types.is_nested(guessed) and pa.types.is_nested(known)
    return nested or len(families) == 1 or families <= {"integer", "float", "decimal"}


def checked(table: pa.Table, stream: str) -> None:
    """An error if a column points outside of its own memory."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            for chunk in column.chunks:
                chunk.validate()
                _check_places(chunk)
        except (pa.ArrowInvalid, IndexError) as error:
            raise TidegateError(
                f"column {name!r} of stream {stream!r} is damaged "
                f"({str(error).splitlines()[0]}); write it again from its source"
            ) from error


def _check_places(array: pa.Array) -> None:
    """Every place that an array points to must be inside of what it points into."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        _check_places(array.storage)
    elif kind in _BYTES:
        _, offsets, data = array.buffers()
        width = np.int64 if kind in (pa.large_string(), pa.large_binary()) else np.int32
        if offsets is not None and len(array):
            places = np.frombuffer(offsets, width)[array.offset :][: len(array) + 1]
            _check_offsets(places, 0 if data is None else data.size)
    elif any(is_kind(kind) for is_kind in _WITH_OFFSETS):
        if len(array):
            _check_offsets(array.offsets.to_numpy(zero_copy_only=False), len(array.values))
        _check_places(array.values)
    elif pa.types.is_struct(kind):
        for at in range(kind.num_fields):
            _check_places(array.field(at))
    elif pa.types.is_fixed_size_list(kind):
        _check_places(array.values)
    elif pa.types.is_dictionary(kind) or _is_other_indirection(kind):
        array.validate(full=True)


def _is_other_indirection(kind: pa.DataType) -> bool:
    return (
        kind in (pa.string_view(), pa.binary_view())
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
        or pa.types.is_run_end_encoded(kind)
        or pa.types.is_union(kind)
    )


def _check_offsets(offsets: np.ndarray, end: int) -> None:
    if offsets[0] < 0 or offsets[-1] > end or (offsets[1:] < offsets[:-1]).any():
        raise IndexError("its offsets do not grow from 0 to the end of its values")
