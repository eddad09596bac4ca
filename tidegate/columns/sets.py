"""Set-valued columns become sorted arrays of (item, weight).

Law: a set holds each item once, in the order of the item codes; NULL items do not count, and the
weights of an item that comes several times add up. A NULL set matches nothing; an empty set is a
set.

Three column forms are taken: a list (plain set), a map or a list of two-field structs (weighted
set), and, for inner products, a list of numbers (dense vector: the position is the item).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.columns.encoding import (
    KeyCoder,
    Mask,
    common_type,
    family,
    real_numbers,
    validity,
    value_array,
)
from tidegate.columns.storage import is_list, list_parts
from tidegate.compiled.kernel import kernel
from tidegate.spec import TidegateError


class Sets(NamedTuple):
    begin: NDArray[np.int64]  # [row] into items and weights
    length: NDArray[np.int64]
    items: NDArray[np.int64]
    weights: NDArray[np.float64]
    present: Mask | None


def item_type(kind: pa.DataType, weighted: bool, what: str) -> pa.DataType:
    """The type of the items in a column of sets."""
    if weighted and pa.types.is_map(kind):
        return kind.key_type
    if is_list(kind):
        inner = kind.value_type
        if not weighted:
            return inner
        if pa.types.is_struct(inner) and inner.num_fields == 2:
            return inner.field(0).type
        if family(inner) in ("integer", "float", "decimal"):
            return pa.int64()  # dense vector: the position
    wanted = (
        "a map, a list of (item, weight) structs or a list of numbers" if weighted else "a list"
    )
    raise TidegateError(f"{what} has type {kind}; it must be {wanted}")


def set_coder(kinds: Sequence[pa.DataType], weighted: bool, what: str) -> KeyCoder:
    """The coder of the items, common to all streams."""
    items = [item_type(kind, weighted, what) for kind in kinds]
    return KeyCoder((common_type(items, f"items of {what}"),))


@kernel
def _tidy(begin, length, items, weights, keep):
    """Sort each set by item and put equal items together, in place; lengths shrink."""
    for row in range(len(begin)):
        start = begin[row]
        count = 0
        for at in range(start, start + length[row]):
            if not keep[at]:
                continue
            item, weight = items[at], weights[at]
            place = start + count
            while place > start and items[place - 1] > item:
                place -= 1
            if place > start and items[place - 1] == item:
                weights[place - 1] += weight
                continue
            for moved in range(start + count, place, -1):
                items[moved] = items[moved - 1]
                weights[moved] = weights[moved - 1]
            items[place] = item
            weights[place] = weight
            count += 1
        length[row] = count


def _split_list(array: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64], pa.Array]:
    """Begin and length of each row, and the flat values of the rows that are not NULL."""
    kind = array.type
    if pa.types.is_fixed_size_list(kind):
        length = np.full(len(array), kind.list_size, np.int64)
        if array.null_count:
            length[array.is_null().to_numpy(zero_copy_only=False)] = 0
        return np.cumsum(length) - length, length, array.flatten()
    if pa.types.is_map(kind):
        pair = pa.struct([("item", kind.key_type), ("weight", kind.item_type)])
        array = array.cast(pa.list_(pair))
    offsets, flat = list_parts(array)
    return offsets[:-1].copy(), np.diff(offsets), flat


def encode_sets(column: pa.ChunkedArray | pa.Array, coder: KeyCoder, weighted: bool) -> Sets:
    """The sets of one stream's column."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    # Chunk by chunk: Arrow cannot join lists whose items have categories of their own.
    parts = [_encoded_chunk(chunk, coder, weighted) for chunk in chunks]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return _encoded_chunk(pa.array([], column.type), coder, weighted)
    shifts = np.cumsum([0, *(len(part.items) for part in parts)])
    begins = [part.begin + shift for part, shift in zip(parts, shifts, strict=False)]
    present = None
    if any(part.present is not None for part in parts):
        present = np.concatenate(
            [np.ones(len(p.begin), np.bool_) if p.present is None else p.present for p in parts]
        )
    return Sets(
        np.concatenate(begins),
        np.concatenate([part.length for part in parts]),
        np.concatenate([part.items for part in parts]),
        np.concatenate([part.weights for part in parts]),
        present,
    )


def _encoded_chunk(array: pa.Array, coder: KeyCoder, weighted: bool) -> Sets:
    present = validity(array)
    begin, length, flat = _split_list(array)
    weight = np.ones(len(flat), np.float64)
    keep = np.ones(len(flat), np.bool_)
    if weighted and pa.types.is_struct(flat.type):
        items, weights = flat.field(0), flat.field(1)
        if flat.null_count:
            keep &= flat.is_valid().to_numpy(zero_copy_only=False)
        weight = real_numbers(value_array(weights))
    elif weighted:
        weight = real_numbers(value_array(flat))
        items = pa.array(np.arange(len(flat)) - np.repeat(begin, length))
    else:
        items = flat
    codes, matchable = coder.encode([items])
    keep &= ~np.isnan(weight)
    if matchable is not None:
        keep &= matchable
    codes = codes.copy()
    weight = weight.copy()
    _tidy(begin, length, codes, weight, keep)
    return Sets(begin, length, codes, weight, present)
