"""Rows shown to people: as Python values where Python has them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def row_of(table: pa.Table, row: int) -> dict[str, Any]:
    """A row by column name."""
    return {
        name: _plain(column[row])
        for name, column in zip(table.column_names, table.columns, strict=True)
    }


def _plain(scalar: pa.Scalar) -> Any:
    """The value; a text where Python has none, such as a timestamp after the year 9999."""
    try:
        return scalar.as_py()
    except (ArithmeticError, ValueError, TypeError, pa.ArrowException):
        return f"{getattr(scalar, 'value', 'a value')} as {scalar.type}"
