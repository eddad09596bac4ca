"""Columns in the form in which the store keeps them, and back.

Law: whatever type a column has, its stored form is one that Arrow can gather and join end to end,
and `decoded(encoded(x))` has the values of x in the declared type. Views become plain strings,
binaries and lists; runs are written out; categories become whole numbers into one list of
categories per column (`categories`), because each push brings its own. All of it inside lists,
structs and maps too.

The declared type of a categorical column has indices of 32 bits or more: libraries choose the
width by the number of categories, so that it would change from push to push. Categories that are
structs or lists are written out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.columns.categories import Categories
from tidegate.spec import TidegateError

Convert = Callable[[pa.Array], pa.Array]


def declared(schema: pa.Schema, stream: str) -> pa.Schema:
    """The schema under which a stream's tables are kept and handed out."""
    fields = []
    for field in schema:
        kind = _declared_type(field.type, f"column {field.name!r} of stream {stream!r}")
        has_categories = pa.types.is_dictionary(kind)
        # Notes of other libraries on their categories speak of one push only.
        field = field.remove_metadata() if has_categories else field
        fields.append(field.with_type(kind))
    return pa.schema(fields)


def _declared_type(kind: pa.DataType, what: str) -> pa.DataType:
    if pa.types.is_union(kind):
        raise TidegateError(
            f"{what} has the union type {kind}, which tidegate does not take; give one column for "
            "each member of the union"
        )
    if pa.types.is_dictionary(kind):
        values = _declared_type(kind.value_type, what)
        if _children(values) or isinstance(values, pa.BaseExtensionType):
            return values  # Arrow cannot write such categories
        index = kind.index_type if kind.index_type.bit_width >= 32 else pa.int32()
        return pa.dictionary(index, values, kind.ordered)
    return _with_children(kind, lambda child: _declared_type(child, what))


def _children(kind: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_struct(kind):
        return [field.type for field in kind]
    if pa.types.is_map(kind):
        return [kind.key_type, kind.item_type]
    return [kind.value_type] if is_list(kind) else []


def _with_children(kind: pa.DataType, convert: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """A nested type with its inner types converted; any other type as it is."""
    inner = [convert(child) for child in _children(kind)]
    if inner == _children(kind):
        return kind
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(i) for f, i in zip(kind, inner, strict=True)])
    if pa.types.is_map(kind):
        key, item = kind.key_field.with_type(inner[0]), kind.item_field.with_type(inner[1])
        return pa.map_(key, item, kind.keys_sorted)
    value = kind.value_field.with_type(inner[0])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(value, kind.list_size)
    for is_kind, build in _LISTS:
        if is_kind(kind):
            return build(value)
    raise AssertionError(kind)


_LISTS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Field], pa.DataType]], ...] = (
    (pa.types.is_list, pa.list_),
    (pa.types.is_large_list, pa.large_list),
    (pa.types.is_list_view, pa.list_view),
    (pa.types.is_large_list_view, pa.large_list_view),
)


def is_list(kind: pa.DataType) -> bool:
    """Is it a list of any form?"""
    return pa.types.is_fixed_size_list(kind) or any(is_kind(kind) for is_kind, _ in _LISTS)


def is_view(kind: pa.DataType) -> bool:
    """Is it a list whose rows may stand anywhere in its values?"""
    return pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)


def empty_table(schema: pa.Schema) -> pa.Table:
    """A table without rows; pyarrow's own knows fewer types."""
    codecs = [Codec(kind) for kind in schema.types]
    arrays = [codec.decoded(pa.array([], codec.storage)) for codec in codecs]
    return pa.Table.from_arrays(arrays, schema=schema)


def some_rows(table: pa.Table, rows: pa.Array) -> pa.Table:
    """Some rows of a table, by number or by mask, also of types that Arrow cannot gather."""
    pick = "filter" if pa.types.is_boolean(rows.type) else "take"
    columns: list[pa.ChunkedArray] = []
    for field in table.schema:
        column, codec = table.column(len(columns)), Codec(field.type)
        if codec.storage == codec.kind or codec.categories is not None:
            columns.append(getattr(column, pick)(rows))
            continue
        stored = pa.chunked_array([codec.encoded(c) for c in column.chunks], codec.storage)
        chunks = [codec.decoded(chunk) for chunk in getattr(stored, pick)(rows).chunks]
        columns.append(pa.chunked_array(chunks, field.type))
    return pa.Table.from_arrays(columns, schema=table.schema)


class Codec:
    """One column, or one inner column of a nested one: to its stored form and back."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self.categories: Categories | None = None
        if pa.types.is_dictionary(kind):
            self._inner = [Codec(kind.value_type)]
            self.categories = Categories(self._inner[0].storage)
        elif isinstance(kind, pa.BaseExtensionType):
            self._inner = [Codec(kind.storage_type)]
        elif pa.types.is_run_end_encoded(kind):
            self._inner = [Codec(kind.value_type)]
        else:
            self._inner = [Codec(child) for child in _children(kind)]
        self.storage: pa.DataType = self._storage_type()

    def _storage_type(self) -> pa.DataType:
        kind = self.kind
        if pa.types.is_dictionary(kind):
            return pa.int32()
        if kind in (pa.string_view(), pa.binary_view()):
            return pa.large_string() if kind == pa.string_view() else pa.large_binary()
        if isinstance(kind, pa.BaseExtensionType) or pa.types.is_run_end_encoded(kind):
            return self._inner[0].storage
        if is_view(kind):
            value = kind.value_field.with_type(self._inner[0].storage)
            return pa.list_(value) if pa.types.is_list_view(kind) else pa.large_list(value)
        inner = iter(self._inner)
        return _with_children(kind, lambda _: next(inner).storage)

    def all_categories(self) -> list[Categories]:
        """Of this column and those inside, in a fixed order."""
        own = [] if self.categories is None else [self.categories]
        return own + [found for inner in self._inner for found in inner.all_categories()]

    def encoded(self, array: pa.Array, only_used: bool = False) -> pa.Array:
        """The stored form of an array; `only_used` leaves out categories that no row has."""
        if array.type == self.storage and self.kind == self.storage:
            return array
        if self.categories is None and pa.types.is_dictionary(array.type):
            return self.encoded(array.dictionary).take(array.indices)
        convert = [partial(codec.encoded, only_used=only_used) for codec in self._inner]
        kind = array.type
        if self.categories is not None:
            return self.categories.encoded(array, convert[0], only_used)
        if isinstance(kind, pa.BaseExtensionType):
            return convert[0](array.storage)
        if pa.types.is_run_end_encoded(kind):
            return convert[0](pc.run_end_decode(array))
        if not self._inner:
            return array.cast(self.storage)
        return _rebuilt(array, self.storage, convert)

    def decoded(self, array: pa.Array) -> pa.Array:
        """An array of the declared type from its stored form."""
        if self.kind == self.storage:
            return array
        kind = self.kind
        convert = [codec.decoded for codec in self._inner]
        if self.categories is not None:
            return self.categories.decoded(array, kind, convert[0])
        if isinstance(kind, pa.BaseExtensionType):
            return pa.ExtensionArray.from_storage(kind, convert[0](array))
        if pa.types.is_run_end_encoded(kind):
            return pc.run_end_encode(convert[0](array), run_end_type=kind.run_end_type)
        if not self._inner:
            return array.cast(kind)
        return _rebuilt(array, kind, convert)


def _rebuilt(array: pa.Array, kind: pa.DataType, convert: Sequence[Convert]) -> pa.Array:
    """A nested array with converted inner columns, as an array of `kind`."""
    missing = array.is_null() if array.null_count else None
    if pa.types.is_struct(kind):
        columns = [one(array.field(at)) for at, one in enumerate(convert)]
        if not columns:
            return array
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=missing)
    if pa.types.is_fixed_size_list(kind):
        size = kind.list_size
        values = array.values.slice(array.offset * size, len(array) * size)
        return pa.FixedSizeListArray.from_arrays(convert[0](values), type=kind, mask=missing)
    offsets, values = list_parts(array)
    if pa.types.is_map(kind):
        keys, items = convert[0](values.field(0)), convert[1](values.field(1))
        where = pa.array(offsets, pa.int32())
        return pa.MapArray.from_arrays(where, keys, items, type=kind, mask=missing)
    width = pa.int32() if pa.types.is_list(kind) or pa.types.is_list_view(kind) else pa.int64()
    inner = convert[0](values)
    if is_view(kind):
        begin, sizes = pa.array(offsets[:-1], width), pa.array(np.diff(offsets), width)
        return _view_class(kind).from_arrays(begin, sizes, inner, type=kind, mask=missing)
    build = pa.ListArray if pa.types.is_list(kind) else pa.LargeListArray
    return build.from_arrays(pa.array(offsets, width), inner, type=kind, mask=missing)


def _view_class(kind: pa.DataType) -> Any:
    return pa.ListViewArray if pa.types.is_list_view(kind) else pa.LargeListViewArray


def list_parts(array: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Where each row of a list or map begins in the values that belong to its rows, and these.

    Views are validated first: their rows may lie anywhere, and what they point at is copied.
    """
    if is_view(array.type):
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise TidegateError(
                f"a column of type {array.type} is damaged ({str(error).splitlines()[0]}); write "
                "it again, or cast it to a list"
            ) from error
    if is_view(array.type) or array.null_count:
        # `flatten` leaves out what stands behind NULL rows.
        lengths = pc.list_value_length(array) if not pa.types.is_map(array.type) else None
        if lengths is not None:
            offsets = np.zeros(len(array) + 1, np.int64)
            np.cumsum(lengths.fill_null(0).to_numpy(zero_copy_only=False), out=offsets[1:])
            return offsets, array.flatten()
    offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    begin, end = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    return offsets - begin, array.values.slice(begin, end - begin)
