"""Frames: many arrays behind one pointer.

Law: a compiled function gets a join's arrays as the address of a block in which their descriptors
stand; what it needs it loads from there. numba hands a named tuple over array by array, which for
a join are some hundred values per call, so that steps had to be pasted into one function as long
as a book, and that took minutes to compile. To a frame it makes no difference how many arrays it
has, so each step is a small function, compiled once for all who call it.

`@frame` makes a NamedTuple of arrays, other frames and None a frame; in plain Python it stays what
it was. The block is made once for each tuple, by Python, and lives as long as the tuple: so the
wrapper through which Python calls a function unpacks one address, not a hundred arrays, and takes
no time to compile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import config as numba_config
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.core.typing.typeof import typeof, typeof_impl
from numba.extending import NativeValue, lower_getattr_generic, models, register_model, unbox
from numpy.typing import NDArray

from tidegate.compiled.names import described

Cls = TypeVar("Cls", bound=type)

_BYTES = ir.IntType(8).as_pointer()
_INT = ir.IntType(32)


class Frame(types.Type):  # type: ignore[misc]
    """The type of a frame: its class, and the types of its fields."""

    def __init__(self, instance_class: Any, kinds: tuple[types.Type, ...]) -> None:
        self.instance_class = instance_class
        self.kinds = kinds
        # The type's name is what compiled code is found by, and code knows a field by its place.
        layout = (instance_class._fields, tuple(map(described, kinds)))
        digest = hashlib.blake2b(repr(layout).encode(), digest_size=8).hexdigest()
        super().__init__(f"{instance_class.__module__}.{instance_class.__name__}.{digest}")

    def place_of(self, name: str) -> int:
        """The position of a field."""
        return int(self.instance_class._fields.index(name))


def frame(instance_class: Cls) -> Cls:
    """Class decorator: compiled functions get a tuple of this class as a frame."""
    if numba_config.DISABLE_JIT:
        return instance_class
    # A subclass without __slots__ can remember its type and its block.
    members = {
        "__module__": instance_class.__module__,
        "__doc__": instance_class.__doc__,
        "_kind": _remembered("_kind", _kind_of),
        "_block": _remembered("_block", _block_of),
        "_address": property(lambda value: value._block.ctypes.data),
    }
    framed = type(instance_class)(instance_class.__name__, (instance_class,), members)
    typeof_impl.register(framed)(lambda value, context: value._kind)
    return framed


def _remembered(name: str, function: Callable[[Any], Any]) -> Any:
    """An attribute that is computed once for each tuple."""
    attribute = cached_property(function)
    attribute.__set_name__(None, name)  # type: ignore[arg-type]
    return attribute


def _kind_of(value: Any) -> Frame | None:
    kinds = tuple(typeof(item) for item in value)
    return Frame(type(value), kinds)


def _block_of(value: Any) -> NDArray[np.int64]:
    """What compiled functions read: a descriptor of each array, as numba lays it out."""
    return np.array(_words_of(value), np.int64)


def _words_of(value: Any) -> list[int]:
    words: list[int] = []
    for item in value:
        if item is None:
            words.append(0)
        elif isinstance(item, tuple):
            words += _words_of(item)
        else:
            # Reference counter and owner stay empty: compiled functions count no references.
            words += [0, 0, item.size, item.itemsize, item.ctypes.data, *item.shape, *item.strides]
    return words


@register_model(Frame)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Frame) -> None:
        super().__init__(manager, kind, _BYTES)
        self._words = _words(kind)

    def from_argument(self, builder: Any, value: Any) -> Any:
        """Tell the optimiser that a block can be read at any time, and is written by nobody."""
        value.add_attribute("noalias")
        value.attributes.dereferenceable = 8 * self._words
        return value


def _words(kind: types.Type) -> int:
    """The length of a block or of a descriptor in words of 8 bytes."""
    if isinstance(kind, Frame):
        return sum(map(_words, kind.kinds))
    return 5 + 2 * kind.ndim if isinstance(kind, types.Array) else 1


@infer_getattr
class _Attributes(AttributeTemplate):  # type: ignore[misc]
    key = Frame

    def generic_resolve(self, kind: Frame, name: str) -> types.Type | None:
        """The type of a field."""
        return kind.kinds[kind.place_of(name)] if name in kind.instance_class._fields else None


def _struct(context: Any, kind: Frame) -> ir.LiteralStructType:
    """What a block holds: frames inside a frame stand in it, not behind another pointer."""
    return ir.LiteralStructType(
        [
            _struct(context, inner) if isinstance(inner, Frame) else context.get_value_type(inner)
            for inner in kind.kinds
        ]
    )


def _field(context: Any, builder: Any, kind: Frame, pointer: Any, place: int) -> Any:
    block = builder.bitcast(pointer, _struct(context, kind).as_pointer())
    return builder.gep(block, [_INT(0), _INT(place)], inbounds=True)


def _load(builder: Any, place: Any) -> Any:
    """Load a descriptor part by part, so that parts nobody needs cost nothing.

    Nothing is written to a block after it was made, which the optimiser is told: it may keep what
    it has loaded, whatever else is written in between.
    """
    kind = place.type.pointee
    if isinstance(kind, ir.LiteralStructType | ir.ArrayType):
        value = ir.Constant(kind, ir.Undefined)
        count = len(kind.elements) if isinstance(kind, ir.LiteralStructType) else kind.count
        for at in range(count):
            part = _load(builder, builder.gep(place, [_INT(0), _INT(at)], inbounds=True))
            value = builder.insert_value(value, part, at)
        return value
    value = builder.load(place)
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


@lower_getattr_generic(Frame)  # type: ignore[untyped-decorator]
def _getattr(context: Any, builder: Any, kind: Frame, pointer: Any, name: str) -> Any:
    at = kind.place_of(name)
    inner = kind.kinds[at]
    if isinstance(inner, types.NoneType):
        return context.get_dummy_value()
    place = _field(context, builder, kind, pointer, at)
    return builder.bitcast(place, _BYTES) if isinstance(inner, Frame) else _load(builder, place)


@unbox(Frame)  # type: ignore[untyped-decorator]
def _unbox(kind: Frame, obj: Any, c: Any) -> NativeValue:
    """The address of the block that the tuple remembers."""
    number = c.pyapi.object_getattr_string(obj, "_address")
    native = c.unbox(types.int64, number)
    c.pyapi.decref(number)
    return NativeValue(c.builder.inttoptr(native.value, _BYTES), is_error=native.is_error)
