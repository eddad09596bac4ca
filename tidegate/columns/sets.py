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
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidegate.columns.encoding import (
    KeyCoder,
    Mask,
    as_array,
    common_type,
    family,
    real_numbers,
    validity,
)
from tidegate.compiled.kernel import kernel
from tidegate.spec import TidegateError


class Sets(NamedTuple):
    begin: NDArray[np.int64]  # [row] into items and weights
    length: NDArray[np.int64]
    items: NDArray[np.int64]
    weights: NDArray[np.float64]
    present: Mask | None


def _is_list(kind: pa.DataType) -> bool:
    return (
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )


def item_type(kind: pa.DataType, weighted: bool, what: str) -> pa.DataType:
    """The type of the items in a column of sets."""
    if weighted and pa.types.is_map(kind):
        return kind.key_type
    if _is_list(kind):
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
    """Begin and length of each row, and the flat values."""
    if pa.types.is_map(array.type):
        pair = pa.struct([("item", array.type.key_type), ("weight", array.type.item_type)])
        array = array.cast(pa.list_(pair))
    elif not pa.types.is_large_list(array.type):
        array = array.cast(pa.large_list(array.type.value_type))
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    flat = array.flatten()  # leaves out what stands behind NULL rows
    length = lengths.astype(np.int64)
    begin = np.zeros(len(length), np.int64)
    np.cumsum(length[:-1], out=begin[1:])
    return begin, length, flat


def encode_sets(column: pa.ChunkedArray | pa.Array, coder: KeyCoder, weighted: bool) -> Sets:
    """The sets of one stream's column."""
    array = as_array(column)
    present = validity(array)
    begin, length, flat = _split_list(array)
    weight = np.ones(len(flat), np.float64)
    keep = np.ones(len(flat), np.bool_)
    if weighted and pa.types.is_struct(flat.type):
        items, weights = flat.field(0), flat.field(1)
        if flat.null_count:
            keep &= flat.is_valid().to_numpy(zero_copy_only=False)
        weight = real_numbers(weights)
    elif weighted:
        weight = real_numbers(flat)
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
