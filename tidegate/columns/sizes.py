"""How many bytes rows take, and how many bytes arrays really hold.

Law: the sum of `row_sizes` is what storing the rows takes, within an eighth and a constant; the
size of a row depends on nothing but the row, however a stream is cut into pushes. `held_bytes`
counts each block of memory once and in full, also where only a slice of it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidegate.columns.storage import is_list, list_parts

Sizes = NDArray[np.float64] | float
VALIDITY = 1 / 8  # a bit per value, whether this push has NULLs or not


def row_sizes(arrays: Sequence[pa.Array], rows: int) -> NDArray[np.float64]:
    """Bytes that each row of columns in stored form takes, with eighths of a byte."""
    sizes = np.zeros(rows)
    for array in arrays:
        sizes += _value_sizes(array)
    return sizes


def fixed_row_size(schema: pa.Schema) -> float | None:
    """The bytes of a row where all rows take the same; None where they differ."""
    empty = schema.empty_table()
    total = 0.0
    for column in empty.columns:
        size = _value_sizes(column.combine_chunks())
        if not isinstance(size, float):
            return None
        total += size
    return total


def _value_sizes(array: pa.Array) -> Sizes:
    kind = array.type
    if pa.types.is_null(kind):
        return 0.0
    if kind in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary()):
        lengths = pc.binary_length(array).fill_null(0).to_numpy(zero_copy_only=False)
        return lengths + (4.0 if kind in (pa.string(), pa.binary()) else 8.0) + VALIDITY
    if pa.types.is_struct(kind):
        inner = [_value_sizes(child) for child in array.flatten()]
        return sum(inner, VALIDITY)
    if pa.types.is_fixed_size_list(kind):
        return _fixed_list_sizes(array)
    if pa.types.is_map(kind) or is_list(kind):
        return _list_sizes(array)
    return kind.bit_width / 8 + VALIDITY


def _list_sizes(array: pa.Array) -> NDArray[np.float64]:
    offsets, values = list_parts(array)
    inner = _value_sizes(values)
    if isinstance(inner, float):
        content = np.diff(offsets) * inner
    else:
        content = np.diff(np.concatenate([[0.0], np.cumsum(inner)])[offsets])
    if array.null_count:
        content[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return content + (8.0 if pa.types.is_large_list(array.type) else 4.0) + VALIDITY


def _fixed_list_sizes(array: pa.Array) -> Sizes:
    size = array.type.list_size
    inner = _value_sizes(array.values.slice(array.offset * size, len(array) * size))
    if isinstance(inner, float):
        return inner * size + VALIDITY
    return inner.reshape(len(array), size).sum(axis=1) + VALIDITY


def held_bytes(arrays: Iterable[pa.Array]) -> int:
    """The size of all blocks of memory behind these arrays, each counted once."""
    blocks: dict[int, int] = {}
    for array in arrays:
        for buffer in array.buffers():
            while buffer is not None and buffer.parent is not None:
                buffer = buffer.parent
            if buffer is not None:
                blocks[buffer.address] = max(blocks.get(buffer.address, 0), buffer.size)
    return sum(blocks.values())
