"""Frames: many arrays behind one pointer.

Law: a compiled function gets a join's arrays as the address of a block in which their descriptors
stand; what it needs it loads from there. numba hands a named tuple over array by array, which for
a join are some hundred values per call, so that steps had to be pasted into one function as long
as a book, and that took minutes to compile. To a frame it makes no difference how many arrays it
has, so each step is a small function, compiled once for all who call it.

`@frame` makes a NamedTuple of arrays, other frames and None a frame; in plain Python it stays what
it was. A block lives as long as the call that it was made for.
"""

from __future__ import annotations

import hashlib
from typing import Any, TypeVar

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core import config as numba_config
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.core.typing.typeof import typeof_impl
from numba.extending import NativeValue, lower_getattr_generic, models, register_model, unbox

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
    if not numba_config.DISABLE_JIT:
        typeof_impl.register(instance_class)(_typeof)
    return instance_class


def _typeof(value: Any, context: Any) -> Frame | None:
    kinds = tuple(typeof_impl(item, context) for item in value)
    return None if any(kind is None for kind in kinds) else Frame(type(value), kinds)


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
    """Make the block of a frame from the tuple, for the time of one call."""
    block = cgutils.alloca_once(c.builder, _struct(c.context, kind))
    pointer = c.builder.bitcast(block, _BYTES)
    errors: list[Any] = []
    cleanups: list[Any] = []

    def fill(kind: Frame, obj: Any, pointer: Any) -> None:
        for at, inner in enumerate(kind.kinds):
            if isinstance(inner, types.NoneType):
                continue
            item = c.pyapi.tuple_getitem(obj, at)
            place = _field(c.context, c.builder, kind, pointer, at)
            if isinstance(inner, Frame):
                fill(inner, item, c.builder.bitcast(place, _BYTES))
            else:
                native = c.unbox(inner, item)
                c.builder.store(native.value, place)
                errors.append(native.is_error)
                if native.cleanup is not None:
                    cleanups.append(native.cleanup)

    fill(kind, obj, pointer)
    # The optimiser must not see that the block was written after it was made: see `_load`.
    shape = ir.FunctionType(_BYTES, [_BYTES])
    pointer = c.builder.asm(shape, "", "=r,0,~{memory}", [pointer], side_effect=True)
    failed = cgutils.false_bit
    for error in errors:
        failed = c.builder.or_(failed, error)

    def clean() -> None:
        for cleanup in reversed(cleanups):
            cleanup()

    return NativeValue(pointer, is_error=failed, cleanup=clean if cleanups else None)
