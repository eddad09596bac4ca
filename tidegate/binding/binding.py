"""A spec meets the columns of real tables: which number stands for which value.

Law: everything that depends on column types is decided here, once per set of schemas, and checked
with an error that names the column and what would be right. A stream whose schema is not known yet
takes part in nothing; when it comes, a new binding replaces this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.binding import theta
from tidegate.binding.number_columns import NumberColumn, number_type, real_bound, whole_bound
from tidegate.binding.spec_records import BAND, SET_TERM, THETA_TERM
from tidegate.columns.encoding import (
    KeyCoder,
    Mask,
    common_type,
    family,
    real_numbers,
    validity,
    value_array,
    whole_numbers,
)
from tidegate.columns.sets import Sets, encode_sets, set_coder
from tidegate.compiled.layout import Records, records
from tidegate.spec import (
    Band,
    Equal,
    InnerProduct,
    JoinSpec,
    Overlap,
    Theta,
    TidegateError,
    Window,
)

RESERVED = "_tidegate_"  # how the names of columns begin that snapshots and Spark's state add
TIME_LIMIT = 2**62  # times and windows stay below, so that sums and differences never overflow
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class Encoded(NamedTuple):
    """The join columns of one table as numbers."""

    time: NDArray[np.int64]
    code: NDArray[np.int64]
    importance: NDArray[np.float64]
    matchable: NDArray[np.uint8]
    values: NDArray[np.int64]  # [row, k]
    sets: tuple[Sets, ...]
    rejected: dict[str, Mask]  # reason -> rows


@dataclass
class Binding:
    """How the columns of each stream become numbers."""

    spec: JoinSpec
    schemas: Sequence[pa.Schema | None]
    key: KeyCoder | None = None
    numbers: list[NumberColumn] = field(default_factory=list)
    set_coders: list[tuple[KeyCoder, bool, tuple[str, ...]]] = field(default_factory=list)
    bands: Records = None
    set_terms: Records = None
    thetas: Records = None
    calls: list[theta.Call] = field(default_factory=list)  # of the theta terms

    def __post_init__(self) -> None:
        self._check_columns()
        self.time_unit = self._time_unit()
        self._bind_equality()
        self._bind_bands()
        self._bind_sets()
        self._bind_thetas()
        self._check_importance()

    # --- checks ---------------------------------------------------------------------------

    def _known(self, columns: Sequence[str]) -> list[pa.DataType]:
        return [
            schema.field(name).type
            for schema, name in zip(self.schemas, columns, strict=True)
            if schema is not None
        ]

    def _check_columns(self) -> None:
        for stream, (name, schema) in enumerate(zip(self.spec.streams, self.schemas, strict=True)):
            if schema is None:
                continue
            for column in schema.names:
                if column.startswith(RESERVED):
                    raise TidegateError(
                        f"column {column!r} of stream {name!r} starts with {RESERVED!r}, which "
                        "tidegate keeps for columns of its own; rename it"
                    )
            for option, column in self._wanted(stream):
                if schema.names.count(column) != 1:
                    problem = "has more than once" if column in schema.names else "does not have"
                    raise TidegateError(
                        f"{option} names column {column!r}, which stream {name!r} {problem}; "
                        f"its columns are {', '.join(schema.names)}"
                    )

    def _wanted(self, stream: int) -> list[tuple[str, str]]:
        wanted = [("time", self.spec.time_columns[stream])]
        if self.spec.importance_columns is not None:
            wanted.append(("importance", self.spec.importance_columns[stream]))
        for predicate in self.spec.predicates:
            columns = predicate.columns[stream]
            names = (columns,) if isinstance(columns, str) else columns
            wanted += [("on", name) for name in names]
        return wanted

    def _time_unit(self) -> str:
        kinds = self._known(self.spec.time_columns)
        for stream, schema, name in zip(
            self.spec.streams, self.schemas, self.spec.time_columns, strict=True
        ):
            if schema is None:
                continue
            kind = family(schema.field(name).type)
            if kind not in ("integer", "date", "timestamp", "timestamp with time zone"):
                raise TidegateError(
                    f"time column {name!r} of stream {stream!r} has type "
                    f"{schema.field(name).type}; it must be timestamps, dates or integers"
                )
        families = {family(kind) for kind in kinds}
        if families == {"date", "timestamp"}:
            families = {"timestamp"}
        if len(families) > 1:
            raise TidegateError(
                f"the time columns have different types, {' and '.join(map(str, kinds))}; make "
                "all of them integers, all timestamps with a time zone, or all without"
            )
        if not families:
            return "unknown"
        unit = "integer"
        if families != {"integer"}:
            fine = any(pa.types.is_timestamp(k) and k.unit == "ns" for k in kinds)
            unit = "ns" if fine else "us"
        self._check_window_kinds(unit)
        return unit

    def _check_window_kinds(self, unit: str) -> None:
        options = [("within", window) for window in self.spec.windows]
        options.append(("lateness", self.spec.lateness_window))
        for option, window in options:
            if window.kind == "rows" or window.size == 0:
                continue
            if unit == "integer" and window.kind == "duration":
                raise TidegateError(
                    f"{option} is a duration but the time columns are integers; give an integer "
                    "in the units of the time columns"
                )
            if unit != "integer" and window.kind == "integer":
                raise TidegateError(
                    f"{option} is the integer {window.size} but the time columns are timestamps; "
                    "give a duration such as '10 minutes'"
                )

    def _check_importance(self) -> None:
        columns = self.spec.importance_columns
        if columns is None:
            return
        for kind in self._known(columns):
            if family(kind) not in ("integer", "float", "decimal"):
                raise TidegateError(
                    f"importance column {_named(columns)} has type {kind}; it must be numbers "
                    "above 0"
                )

    # --- predicates -----------------------------------------------------------------------

    def _bind_equality(self) -> None:
        terms = [p for p in self.spec.predicates if isinstance(p, Equal)]
        if terms:
            kinds = [
                common_type(self._known(term.columns), f"equality key {_named(term.columns)}")
                for term in terms
            ]
            self.key = KeyCoder(tuple(kinds))
            self.key_columns = [term.columns for term in terms]

    def _bind_bands(self) -> None:
        terms = [p for p in self.spec.predicates if isinstance(p, Band)]
        self.bands = records(BAND, len(terms))
        for band, term in zip(self.bands, terms, strict=True):
            what = f"band column {_named(term.columns)}"
            kind = number_type(self._known(term.columns), what)
            band.column = len(self.numbers)
            band.is_float = pa.types.is_floating(kind)
            self.numbers.append(NumberColumn(term.columns, (kind,) * len(term.columns)))
            if not self._known(term.columns):
                continue
            if band.is_float:
                band.low_real, band.high_real = (
                    real_bound(term.low, what),
                    real_bound(term.high, what),
                )
            else:
                band.low, band.low_open = whole_bound(term.low, kind, ROUND_CEILING, what)
                band.high, band.high_open = whole_bound(term.high, kind, ROUND_FLOOR, what)

    def _bind_sets(self) -> None:
        terms = [p for p in self.spec.predicates if isinstance(p, Overlap | InnerProduct)]
        terms.sort(key=lambda term: term.at_least <= 0)  # the inverted index serves the first
        self.set_terms = records(SET_TERM, len(terms))
        for record, term in zip(self.set_terms, terms, strict=True):
            weighted = isinstance(term, InnerProduct)
            what = f"{'inner_product' if weighted else 'overlap'} column {_named(term.columns)}"
            coder = set_coder(self._known(term.columns), weighted, what)
            record.weighted, record.at_least = weighted, term.at_least
            self.set_coders.append((coder, weighted, term.columns))

    def _bind_thetas(self) -> None:
        terms = [p for p in self.spec.predicates if isinstance(p, Theta)]
        self.thetas = records(THETA_TERM, len(terms))
        for record, term in zip(self.thetas, terms, strict=True):
            record.column = len(self.numbers)
            columns = [
                NumberColumn(names, tuple(map(self._theta_type, range(len(names)), names)))
                for names in zip_longest(*term.columns)
            ]
            self.numbers += columns
            if all(schema is not None for schema in self.schemas):
                kinds = [
                    [column.is_float(stream) for column in columns[: len(names)]]
                    for stream, names in enumerate(term.columns)
                ]
                self.calls.append(theta.call_of(term.function, kinds))
                record.address = self.calls[-1].address

    @property
    def may_raise(self) -> bool:
        """Can a function of the user's raise while tuples are joined?"""
        return any(call.may_raise for call in self.calls)

    def raise_failures(self) -> None:
        """If one has raised since the last time, raise its error."""
        for call in self.calls:
            call.raise_failure()

    def _theta_type(self, stream: int, name: str | None) -> pa.DataType:
        schema = self.schemas[stream]
        if name is None or schema is None:
            return pa.int64()
        kind = number_type([schema.field(name).type], f"theta column {name!r}")
        inexact = pa.types.is_decimal(kind) or kind == pa.uint64()
        return pa.float64() if inexact else kind

    # --- encoding -------------------------------------------------------------------------

    def encode(self, stream: int, table: pa.Table) -> Encoded:
        """The join columns of a table of `stream` as numbers, row by row."""
        rows = table.num_rows
        rejected: dict[str, Mask] = {}
        time = self._times(stream, table, rejected)
        importance = self._importances(stream, table, rejected)
        matchable = np.ones(rows, np.bool_)
        code = np.zeros(rows, np.int64)
        if self.key is not None:
            columns = [table.column(names[stream]) for names in self.key_columns]
            code, good = self.key.encode(columns)
            matchable = matchable if good is None else good
        values = np.zeros((rows, len(self.numbers)), np.int64)
        for at, column in enumerate(self.numbers):
            values[:, at], good = column.encode(stream, table)
            matchable = matchable if good is None else matchable & good
        sets = []
        for coder, weighted, names in self.set_coders:
            sets.append(encode_sets(table.column(names[stream]), coder, weighted))
            if sets[-1].present is not None:
                matchable = matchable & sets[-1].present
        return Encoded(
            time, code, importance, matchable.view(np.uint8), values, tuple(sets), rejected
        )

    def _times(self, stream: int, table: pa.Table, rejected: dict[str, Mask]) -> NDArray[np.int64]:
        array = value_array(table.column(self.spec.time_columns[stream]))
        good = validity(array)
        if good is not None:
            rejected["null_time"] = ~good
        factor = _units_per(array.type, self.time_unit)
        time = whole_numbers(array)
        beyond = (time >= TIME_LIMIT // factor) | (time <= -(TIME_LIMIT // factor))
        if array.type == pa.uint64():
            beyond |= time < 0  # above 2**63, read as signed
        if beyond.any():
            rejected["time_range"] = beyond
            time = np.where(beyond, 0, time)
        return time if factor == 1 else time * factor

    def _importances(
        self, stream: int, table: pa.Table, rejected: dict[str, Mask]
    ) -> NDArray[np.float64]:
        if self.spec.importance_columns is None:
            return np.zeros(0, np.float64)
        reals = real_numbers(value_array(table.column(self.spec.importance_columns[stream])))
        bad = ~((reals > 0) & np.isfinite(reals))
        if bad.any():
            rejected["importance"] = bad
        return reals

    # --- times ----------------------------------------------------------------------------

    def in_units(self, window: Window, what: str) -> int:
        """A window or lateness in the units of the times (or a number of rows)."""
        size = (
            window.size * 1000
            if self.time_unit == "ns" and window.kind == "duration"
            else (window.size)
        )
        if size >= TIME_LIMIT:
            raise TidegateError(f"{what} is {size} units of time; it must be below 2**62")
        return size

    def moment(self, watermark: Any) -> int:
        """A watermark given with a push, in the units of the times.

        A moment that comes before any table is in microseconds (`opened_by`).
        """
        if isinstance(watermark, int | np.integer) and not isinstance(watermark, bool):
            moment = int(watermark)
        elif self.time_unit == "integer":
            raise TidegateError(
                f"watermark {_said(watermark)} is not an integer; the time columns are integers"
            )
        else:
            moment = self._units_since_epoch(watermark)
        if not -(2**63) <= moment < 2**63:
            raise TidegateError(
                f"watermark {_said(watermark)} is beyond 64 bits; give a moment near the times of "
                "the rows, in their unit"
            )
        # No time lies beyond these.
        return max(-TIME_LIMIT, min(moment, TIME_LIMIT))

    def opened_by(self, watermark: Any) -> None:
        """A watermark was taken; before any table it says whether times are moments."""
        if self.time_unit == "unknown" and not isinstance(watermark, int | np.integer):
            self.time_unit = "us"

    def restore_unit(self, unit: str) -> None:
        """Count time as a snapshot says; before any table a watermark may have said so."""
        if unit != self.time_unit and (self.time_unit, unit) != ("unknown", "us"):
            raise TidegateError(
                f"the snapshot is damaged: it counts time by {unit!r}, its columns by "
                f"{self.time_unit!r}; restore an older one"
            )
        self.time_unit = unit

    def check_follows(self, before: Binding) -> None:
        """An error if a watermark was taken whose kind is not that of the times."""
        if self.time_unit == "integer" and before.time_unit in ("us", "ns"):
            raise TidegateError(
                "the time columns are integers, but a watermark was given as a moment before; "
                "give watermarks as integers in the units of the time columns"
            )

    def _units_since_epoch(self, watermark: Any) -> int:
        wrong = TidegateError(
            f"watermark {_said(watermark)} is not a moment; give a datetime or an integer"
        )
        wanted = "us" if self.time_unit == "unknown" else self.time_unit
        if isinstance(watermark, np.datetime64) and not np.isnat(watermark):
            return int(watermark.astype(f"datetime64[{wanted}]").astype(np.int64))
        for unit in dict.fromkeys((wanted, "us")):  # nanoseconds end in the year 2262
            try:
                value = pa.scalar(watermark, pa.timestamp(unit, "UTC")).value
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                wrong.__cause__ = error
                continue
            if value is not None:
                return int(value) * (_PER_SECOND[wanted] // _PER_SECOND[unit])
        raise wrong


def _units_per(kind: pa.DataType, unit: str) -> int:
    """How many units of time one step of a time column is."""
    if pa.types.is_integer(kind):
        return 1
    if pa.types.is_date32(kind):
        return 86_400 * _PER_SECOND[unit]
    step = "ms" if pa.types.is_date64(kind) else kind.unit
    return _PER_SECOND[unit] // _PER_SECOND[step]


def _said(value: Any) -> str:
    """What a caller gave, on one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 100 else text[:97] + "..."


def _named(columns: Sequence[str]) -> str:
    return " / ".join(repr(name) for name in dict.fromkeys(columns))
