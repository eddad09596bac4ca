"""Join columns of any type become 64-bit numbers.

Law: equal values get equal codes, whatever their types are called (int32 and int64, dictionary and
plain strings, decimals of different scale); what can never match (NULL, NaN) is marked, not coded.
Whole numbers, times, booleans and floats are their own code, so equal codes mean equal values. All
else is hashed to 64 bits, and `KeyCoder.exact` is False: then equality is checked on the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidegate.compiled.kernel import kernel, part
from tidegate.compiled.layout import read_only
from tidegate.spec import TidegateError

Codes = NDArray[np.int64]
Mask = NDArray[np.bool_]

_SEED = np.uint64(0x243F6A8885A308D3)
_MIX_1 = np.uint64(0xFF51AFD7ED558CCD)
_MIX_2 = np.uint64(0xC4CEB9FE1A85EC53)
_SHIFT = np.uint64(33)


def family(kind: pa.DataType) -> str:
    """Types of one family can be compared with each other."""
    if pa.types.is_dictionary(kind):
        return family(kind.value_type)
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_floating(kind):
        return "float"
    if pa.types.is_decimal(kind):
        return "decimal"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view():
        return "string"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or kind == pa.binary_view():
        return "binary"
    if pa.types.is_fixed_size_binary(kind):
        return "binary"
    if pa.types.is_timestamp(kind):
        return "timestamp with time zone" if kind.tz else "timestamp"
    for name in ("date", "time", "duration", "null"):
        if getattr(pa.types, f"is_{name}")(kind):
            return name
    return str(kind)


_CODED = {
    "boolean", "integer", "float", "decimal", "string", "binary", "timestamp with time zone",
    "timestamp", "date", "time", "duration", "null",
}  # fmt: skip


def common_type(kinds: Sequence[pa.DataType], what: str) -> pa.DataType:
    """The type in which columns of these types are compared; an error if there is none."""
    families = {family(kind) for kind in kinds} - {"null"}
    listed = " and ".join(str(kind) for kind in kinds)
    if len(families) > 1:
        raise TidegateError(
            f"{what} has mixed types, {listed}; cast the columns to one type before the join"
        )
    name = families.pop() if families else "null"
    if name not in _CODED:
        raise TidegateError(
            f"{what} has type {listed}, which equality does not take; use a plain column, or "
            "overlap() or inner_product() for lists"
        )
    plain = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in kinds]
    return _widest(name, [kind for kind in plain if not pa.types.is_null(kind)])


def _widest(name: str, kinds: Sequence[pa.DataType]) -> pa.DataType:
    if name == "integer":
        unsigned = all(kind == pa.uint64() for kind in kinds)
        return pa.uint64() if unsigned else pa.int64()
    if name == "decimal":
        scale = max(kind.scale for kind in kinds)
        whole = max(kind.precision - kind.scale for kind in kinds)
        wide = scale + whole > 38 or any(kind.bit_width > 128 for kind in kinds)
        return pa.decimal256(min(76, scale + whole), scale) if wide else pa.decimal128(38, scale)
    if name.startswith("timestamp"):
        zone = "UTC" if "zone" in name else None
        return pa.timestamp("ns" if any(kind.unit == "ns" for kind in kinds) else "us", zone)
    fixed = {
        "boolean": pa.bool_(), "float": pa.float64(), "string": pa.large_string(),
        "binary": pa.large_binary(), "date": pa.date32(), "time": pa.time64("ns"),
        "duration": pa.duration("ns"), "null": pa.null(),
    }  # fmt: skip
    return fixed[name]


def as_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """One contiguous array."""
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 1:
            return column.chunk(0)
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # empty, or too long for one array of its type
            column = (
                pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
            )
    return column


def plain_array(column: pa.ChunkedArray | pa.Array, kind: pa.DataType) -> pa.Array:
    """The column as one array of `kind`."""
    if pa.types.is_dictionary(column.type):
        return _by_category(column, kind)
    array = as_array(column)
    if array.type == kind:
        return array
    if kind == pa.int64() and array.type == pa.uint64():
        # Beyond int64 there is nothing that it could equal.
        fits = pc.less_equal(array, pa.scalar(2**63 - 1, pa.uint64()))
        array = pc.if_else(fits, array, pa.scalar(None, pa.uint64()))
    if pa.types.is_fixed_size_binary(array.type):
        array = array.cast(pa.binary())
    return array.cast(kind)


def _by_category(column: pa.ChunkedArray | pa.Array, kind: pa.DataType) -> pa.Array:
    # Chunk by chunk: each may have categories of its own, and views are cast before they are taken.
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    plain = [plain_array(chunk.dictionary, kind).take(chunk.indices) for chunk in chunks]
    return pa.concat_arrays(plain) if plain else pa.array([], kind)


def value_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """One contiguous array, with values in the place of categories."""
    kind = column.type
    return plain_array(column, kind.value_type if pa.types.is_dictionary(kind) else kind)


def validity(array: pa.Array) -> Mask | None:
    """Which values are there; None if all are."""
    if array.null_count == 0:
        return None
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_)


def whole_numbers(array: pa.Array) -> Codes:
    """The 64-bit integers behind an array of integers, times or booleans; NULL as 0."""
    kind = array.type
    if pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    elif pa.types.is_date32(kind):
        array = array.view(pa.int32())
    elif not pa.types.is_integer(kind):
        array = array.view(pa.int64())
    if array.null_count:
        array = array.fill_null(0)
    numbers = array.to_numpy(zero_copy_only=False)
    return (
        numbers.view(np.int64)
        if numbers.dtype == np.uint64
        else numbers.astype(np.int64, copy=False)
    )


def real_numbers(array: pa.Array) -> NDArray[np.float64]:
    """Floats without negative zero; NULL as NaN."""
    array = array.cast(pa.float64()) if array.type != pa.float64() else array
    if array.null_count:
        array = array.fill_null(float("nan"))
    return array.to_numpy(zero_copy_only=False) + 0.0


@part
def _mixed(state, word):
    state = (state ^ word) * _MIX_1
    state ^= state >> _SHIFT
    state *= _MIX_2
    return state ^ (state >> _SHIFT)


@kernel
def _hash_bytes(offsets, data, out):
    """Mix the bytes of each value into its code, eight at a time, and its length at the end."""
    for row in range(len(out)):
        state = out[row]
        begin, end = offsets[row], offsets[row + 1]
        position = begin
        while position < end:
            word = np.uint64(0)
            stop = min(position + 8, end)
            for at in range(position, stop):
                word = (word << np.uint64(8)) | np.uint64(data[at])
            state = _mixed(state, word)
            position = stop
        out[row] = _mixed(state, np.uint64(end - begin))


@kernel
def _hash_words(words, out):
    for row in range(len(out)):
        out[row] = _mixed(out[row], words[row])


def _bytes_of(array: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    _, offsets, data = array.buffers()
    first, count = array.offset, len(array)
    where = np.frombuffer(offsets, np.int64)[first : first + count + 1] if offsets else None
    if where is None or len(where) < count + 1:
        where = np.zeros(count + 1, np.int64)
    content = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
    return read_only(where), read_only(content)


def _mix_into(array: pa.Array, codes: NDArray[np.uint64]) -> None:
    kind = array.type
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        _hash_bytes(*_bytes_of(array), codes)
    elif pa.types.is_decimal(kind):
        words = kind.bit_width // 64
        raw = np.frombuffer(array.buffers()[1], np.uint64)
        for word in range(words):
            begin = array.offset * words + word
            part = raw[begin : begin + words * len(array) : words][: len(array)].copy()
            _hash_words(read_only(part), codes)
    elif pa.types.is_floating(kind):
        _hash_words(read_only(real_numbers(array).view(np.uint64)), codes)
    elif not pa.types.is_null(kind):
        _hash_words(read_only(whole_numbers(array).view(np.uint64)), codes)


def _own_code(kind: pa.DataType) -> bool:
    name = family(kind)
    return name not in ("string", "binary", "decimal")


@dataclass(frozen=True)
class KeyCoder:
    """Codes one or several columns of one stream; the same coder serves every stream."""

    kinds: tuple[pa.DataType, ...]

    @property
    def exact(self) -> bool:
        """Do equal codes mean equal values?"""
        return len(self.kinds) == 1 and _own_code(self.kinds[0])

    def encode(self, columns: Sequence[pa.ChunkedArray | pa.Array]) -> tuple[Codes, Mask | None]:
        """The code of each row, and which rows can match at all (None: all of them)."""
        arrays = [plain_array(c, k) for c, k in zip(columns, self.kinds, strict=True)]
        matchable: Mask | None = None
        for array in arrays:
            good = validity(array)
            if pa.types.is_floating(array.type):
                good = ~np.isnan(real_numbers(array))
            if good is not None:
                matchable = good if matchable is None else matchable & good
        if self.exact:
            return self._own_codes(arrays[0]), matchable
        codes = np.full(len(arrays[0]), _SEED, np.uint64)
        for array in arrays:
            _mix_into(array, codes)
        return codes.view(np.int64), matchable

    @staticmethod
    def _own_codes(array: pa.Array) -> Codes:
        if pa.types.is_null(array.type):
            return np.zeros(len(array), np.int64)
        if pa.types.is_floating(array.type):
            return real_numbers(array).view(np.int64)
        return whole_numbers(array)
