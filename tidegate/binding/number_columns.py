"""Numbers that bands and functions compare: a column as 64-bit numbers, bounds in the same units.

Law: order and differences of what is compared are those of the column's values; where 64 bits
cannot hold them, an error says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import ROUND_CEILING, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.columns.encoding import (
    Mask,
    common_type,
    family,
    plain_array,
    real_numbers,
    validity,
    whole_numbers,
)
from tidegate.spec import TidegateError

_NUMBERS = {"integer", "float", "decimal", "boolean"}
_TIMES = {"timestamp", "timestamp with time zone", "date", "time", "duration"}


@dataclass(frozen=True)
class NumberColumn:
    """One column of `values`: what it holds of each stream, and in which type."""

    names: tuple[str | None, ...]
    kinds: tuple[pa.DataType, ...]

    def is_float(self, stream: int) -> bool:
        return pa.types.is_floating(self.kinds[stream])

    def encode(self, stream: int, table: pa.Table) -> tuple[NDArray[np.int64], Mask | None]:
        name = self.names[stream]
        if name is None:
            return np.zeros(table.num_rows, np.int64), None
        array = plain_array(table.column(name), self.kinds[stream])
        given = table.column(name)
        if given.type == pa.uint64() and array.null_count > given.null_count:
            raise TidegateError(
                f"column {name!r} has numbers above 2**63 - 1, which cannot be compared with the "
                "signed integers of the other stream in 64 bits; cast both columns to one type"
            )
        if self.is_float(stream):
            reals = real_numbers(array)
            return reals.view(np.int64), ~np.isnan(reals)
        if pa.types.is_decimal(array.type):
            return _unscaled(array, name), validity(array)
        numbers = whole_numbers(array)
        if array.type == pa.uint64():
            # Shifted down by 2**63: order and differences stay, and 64 signed bits are enough.
            numbers = numbers ^ np.int64(-(2**63))
        return numbers, validity(array)


def _unscaled(array: pa.Array, name: str) -> NDArray[np.int64]:
    """Decimals in units of their last digit: the lowest word, where the others are its sign."""
    width = array.type.bit_width // 64
    words = np.frombuffer(array.buffers()[1], np.int64)
    first = width * array.offset
    words = words[first : first + width * len(array)].reshape(-1, width)
    beyond = (words[:, 1:] != words[:, :1] >> 63).any(axis=1)
    present = validity(array)
    if (beyond if present is None else beyond & present).any():
        raise TidegateError(
            f"column {name!r} has decimals beyond 64 bits at {array.type.scale} digits after the "
            "point, which a band cannot compare; give the columns of the band fewer digits"
        )
    return words[:, 0].copy()


def number_type(kinds: Sequence[pa.DataType], what: str) -> pa.DataType:
    """The type in which columns of these types are compared."""
    families = {family(kind) for kind in kinds}
    if not families <= _NUMBERS and not families <= _TIMES:
        raise TidegateError(
            f"{what} has type {' and '.join(map(str, kinds))}; it must be numbers or times"
        )
    if families <= {"integer", "boolean"}:
        signed = any(pa.types.is_signed_integer(kind) for kind in kinds)
        if pa.uint64() in kinds and not signed:
            return pa.uint64()
        return common_type(kinds, what) if len(families) == 1 else pa.int64()
    if families <= {"integer", "decimal"}:
        scaled = [pa.decimal128(20, 0) if pa.types.is_integer(k) else k for k in kinds]
        return common_type(scaled, what)
    if families <= _NUMBERS:
        return pa.float64()
    if families == {"date", "timestamp"}:
        kinds = [k for k in kinds if pa.types.is_timestamp(k)]
    return common_type(kinds, what)


def real_bound(bound: Any, what: str) -> float:
    if isinstance(bound, timedelta):
        raise TidegateError(f"{what} holds numbers but a bound is a duration; give a number")
    return float(bound)


def whole_bound(bound: Any, kind: pa.DataType, rounding: str, what: str) -> tuple[int, bool]:
    """A bound in the integers in which the column is compared, and whether it is open."""
    if isinstance(bound, float) and math.isinf(bound):
        return 0, True
    is_time = family(kind) in _TIMES
    if isinstance(bound, timedelta):
        if not is_time:
            raise TidegateError(f"{what} holds numbers but a bound is a duration; give a number")
        micros = (bound.days * 86_400 + bound.seconds) * 10**6 + bound.microseconds
        exact = Decimal(micros) / _microseconds_per_unit(kind)
    elif is_time and bound != 0:
        raise TidegateError(f"{what} holds times but a bound is {bound!r}; give a duration")
    else:
        exact = Decimal(bound) if not isinstance(bound, float) else Decimal(repr(bound))
        if pa.types.is_decimal(kind):
            exact = exact.scaleb(kind.scale)
    whole = int(exact.to_integral_value(rounding))
    return (whole, False) if -(2**63) <= whole < 2**63 else _beyond(whole, rounding, what)


def _beyond(whole: int, rounding: str, what: str) -> tuple[int, bool]:
    """A bound beyond 64 bits: no bound at all if it is on the far side."""
    if (whole < 0) == (rounding == ROUND_CEILING):
        return 0, True
    raise TidegateError(f"{what} has the bound {whole}, which no difference of 64 bits reaches")


def _microseconds_per_unit(kind: pa.DataType) -> Decimal:
    if pa.types.is_date(kind):
        return Decimal(86_400 * 10**6)
    return Decimal("0.001") if kind.unit == "ns" else Decimal(1)
