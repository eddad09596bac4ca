"""Where records stand in memory.

Law: what is touched together stands together. Arrays that share an index (a key, its counts, its
groups) are columns of one block, so that reaching all of them costs one cache line, or two.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tidegate.compiled.kernel import prefetch, step

Records: TypeAlias = Any  # np.recarray of some type; numpy cannot type its fields

LINE = 64  # bytes of a cache line


def records(kind: np.dtype[Any], shape: int | tuple[int, ...]) -> Records:
    """Zeroed records whose fields are attributes, in compiled and in plain Python alike."""
    return zeros(shape, kind).view(np.recarray)


def zeros(shape: int | tuple[int, ...], kind: Any) -> NDArray[Any]:
    """A zeroed array that begins with a line."""
    kind = np.dtype(kind)
    size = int(np.prod(shape)) * kind.itemsize
    block = np.zeros(size + LINE, np.uint8)
    begin = -block.ctypes.data % LINE
    return block[begin : begin + size].view(kind).reshape(shape)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The array as one that cannot be written.

    To numba that is another type. What comes from Arrow may be either, and a kernel that only reads
    would be compiled for both.
    """
    view = array.view()
    view.flags.writeable = False
    return view


def beside(length: int, **columns: tuple[Any, int]) -> dict[str, Any]:
    """Zeroed arrays [index, column], each given as (type, number of columns), row beside row.

    Arrays of records with one column are one-dimensional.
    """
    widths = [np.dtype(kind).itemsize * number for kind, number in columns.values()]
    stride = _stride(sum(widths))
    block = zeros((length, stride), np.uint8)
    arrays: dict[str, Any] = {}
    begin = 0
    for (name, (kind, number)), width in zip(columns.items(), widths, strict=True):
        kind = np.dtype(kind)
        part = block[:, begin : begin + width].view(kind)
        arrays[name] = part.view(np.recarray) if kind.names else part
        if kind.names and number == 1:
            arrays[name] = arrays[name][:, 0]
        begin += width
    return arrays


def _stride(width: int) -> int:
    """The least multiple of 4 that holds so many bytes; of less than 8, a power of two. So a number
    of 8 bytes is a field of a record, of which compiled code knows that it may stand anywhere."""
    return -(-width // 4) * 4 if width > 8 else 1 << (width - 1).bit_length()


def copy(old: Any, new: Any) -> None:
    """Copy the rows of an array into a longer one, and with the first column of a block all its
    columns: as plain bytes, since numpy copies records one by one."""
    _rows(new)[: len(old)] = _rows(old)


def _rows(first: Any) -> NDArray[np.uint8]:
    owner = _owner(first)
    stride = first.strides[0]
    begin = first.ctypes.data - owner.ctypes.data
    plain: NDArray[np.uint8] = owner.reshape(-1).view(np.uint8)
    return plain[begin : begin + len(first) * stride].reshape(len(first), stride)


def held(parts: Any) -> int:
    """Bytes of the memory behind arrays, in tuples of any depth; each block counts once."""
    blocks: dict[int, int] = {}

    def look(part: Any) -> None:
        if isinstance(part, tuple):
            for inner in part:
                look(inner)
        elif part is not None:
            owner = _owner(part)
            blocks[id(owner)] = int(owner.nbytes)

    look(parts)
    return sum(blocks.values())


def _owner(array: Any) -> Any:
    while array.base is not None:
        array = array.base
    return array


@step
def warm(array, row):
    """Bring a row of an array near that will be read soon, without waiting for it."""
    prefetch(array.ctypes.data + row * array.strides[0])
