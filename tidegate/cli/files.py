"""Tables in files, by the ending of the file's name.

Law: a file is read or refused with one sentence that names it; an output file appears complete or
not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pyarrow import csv, ipc, parquet

from tidegate.spec import Band, Equal, JoinSpec, TidegateError

Format = Literal["parquet", "csv", "arrow"]
FORMATS: dict[str, Format] = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".arrow": "arrow", ".feather": "arrow",
}  # fmt: skip
ROWS_PER_WRITE = 100_000


def format_of(path: Path) -> Format:
    """What the ending of the name says."""
    found = FORMATS.get(path.suffix.lower())
    if found is None:
        ending = f"the ending {path.suffix!r}" if path.suffix else "no ending"
        raise TidegateError(f"file '{path}' has {ending}; it must be one of {', '.join(FORMATS)}")
    return found


def read(path: Path) -> pa.Table:
    """The whole file as a table."""
    kind = format_of(path)
    if path.is_dir():
        raise TidegateError(f"'{path}' is a folder; give a file")
    try:
        return {"parquet": _read_parquet, "csv": _read_csv, "arrow": _read_arrow}[kind](path)
    except FileNotFoundError:
        raise TidegateError(f"file '{path}' does not exist; give the path of a file") from None
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise TidegateError(f"file '{path}' cannot be read as {kind}: {_reason(error)}") from error


def _read_parquet(path: Path) -> pa.Table:
    # Not read_table, which makes columns out of folders that are called name=value.
    with parquet.ParquetFile(path) as file:
        return file.read()


def _read_csv(path: Path) -> pa.Table:
    # An empty cell is NULL, also among strings; a quoted empty cell is an empty string. Names such
    # as NA stay what they are.
    cells = csv.ConvertOptions(
        null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    return csv.read_csv(path, convert_options=cells)


def typed(tables: Mapping[str, pa.Table], spec: JoinSpec) -> dict[str, pa.Table]:
    """Give the join columns of csv files without values the type that the other file has there.

    A file that holds a header alone, or a column with nothing in it, does not say what it is.
    """
    given = {
        name: dict(zip(t.column_names, t.schema.types, strict=True)) for name, t in tables.items()
    }
    typed = dict(tables)
    for stream, name in enumerate(spec.streams):
        for columns, fallback in _columns_read(spec):
            if given[name].get(columns[stream]) == pa.null():
                others = [given[n].get(c) for n, c in zip(spec.streams, columns, strict=True)]
                known = [kind for kind in others if kind is not None and kind != pa.null()]
                place = typed[name].column_names.index(columns[stream])
                column = pa.nulls(typed[name].num_rows, known[0] if known else fallback)
                typed[name] = typed[name].set_column(place, columns[stream], column)
    return typed


def _columns_read(spec: JoinSpec) -> Iterator[tuple[tuple[str, ...], pa.DataType]]:
    """The columns that a join compares, by stream, each with a type where no file has one."""
    durations = any(window.kind == "duration" for window in spec.windows)
    yield spec.time_columns, pa.timestamp("us") if durations else pa.int64()
    if spec.importance_columns is not None:
        yield spec.importance_columns, pa.float64()
    for predicate in spec.predicates:
        if isinstance(predicate, Equal | Band):
            yield predicate.columns, pa.int64()


def _read_arrow(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as source:
        if source.read(6) == b"ARROW1":
            return ipc.open_file(source).read_all()
        source.seek(0)
        return ipc.open_stream(source).read_all()


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


class Writer:
    """Writes tables of one schema, one after the other."""

    def __init__(self, sink: Any, kind: Format) -> None:
        self._sink = sink
        self._kind = kind
        self._waiting: list[pa.Table] = []
        self._rows = 0
        self._open: Any = None
        self._hold = False

    def write(self, table: pa.Table) -> None:
        """Add a table; small ones are written together."""
        if self._open is None:
            self._start(table.schema)
        self._waiting.append(table)
        self._rows += table.num_rows
        if self._rows >= ROWS_PER_WRITE and not self._hold:
            self._flush()

    def close(self, *, complete: bool = True) -> None:
        """End the file, unless it is to be thrown away with what waits for it."""
        if complete:
            self._flush()
        if self._open is not None:
            self._open.close()
        self._open = None

    def _start(self, schema: pa.Schema) -> None:
        if self._kind == "csv":
            _check_flat(schema)
        makers = {"parquet": parquet.ParquetWriter, "csv": csv.CSVWriter, "arrow": ipc.new_file}
        self._open = makers[self._kind](self._sink, schema)
        # An Arrow file has one dictionary per column, which is known when all rows are.
        self._hold = self._kind == "arrow" and "dictionary<" in schema.to_string()

    def _flush(self) -> None:
        if self._waiting:
            table = pa.concat_tables(self._waiting)
            self._open.write_table(table.unify_dictionaries() if self._hold else table)
        self._waiting, self._rows = [], 0


def _check_flat(schema: pa.Schema) -> None:
    for field in schema:
        if pa.types.is_nested(field.type):
            raise TidegateError(
                f"a csv file cannot hold column {field.name!r} of type {field.type}; write to "
                ".parquet or .arrow"
            )


def write(tables: Iterable[pa.Table], path: Path) -> None:
    """Write tables as they come to `path`, which exists only once all of them are written."""
    kind = format_of(path)
    if path.is_dir():
        raise TidegateError(f"'{path}' is a folder; give a file to write to")
    partial = path.with_name(f".{path.name}.partial")
    with _explained(path):
        sink = pa.OSFile(str(partial), "wb")
    writer = Writer(sink, kind)
    complete = False
    try:
        for table in tables:  # outside of _explained: a table that fails to come is another error
            with _explained(path):
                writer.write(table)
        complete = True
    finally:
        try:
            with _explained(path):
                writer.close(complete=complete)
                sink.close()
                if complete:
                    partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise TidegateError(f"the folder of '{path}' does not exist; make it first") from None
    except (OSError, pa.ArrowException) as error:
        raise TidegateError(f"file '{path}' cannot be written: {_reason(error)}") from error
