"""Theta predicates: the user's own function, called from inside the compiled driver.

Law: the driver is compiled once and cached, whatever functions users bring. So a user's function
is not compiled *into* the driver; it becomes a C function whose address is an ordinary number, and
the driver calls that address. It gets the values of the first stream's columns, then the second's:
integers (and times) as int64, everything else as float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core import config as numba_config

from tidegate.compiled import calls
from tidegate.spec import TidegateError

_Integers = types.CPointer(types.int64)
_Floats = types.CPointer(types.float64)
_SIGNATURE = types.int8(_Integers, _Floats, _Integers, _Floats)


def address_of(function: Callable[..., Any], is_float: Sequence[Sequence[bool]]) -> tuple[int, Any]:
    """The address of `function` as the driver calls it, and the object that keeps it alive.

    `is_float[side][k]` says how the k-th column of a side is stored.
    """
    return _address_of(function, tuple(tuple(kinds) for kinds in is_float))


@lru_cache(maxsize=256)
def _address_of(
    function: Callable[..., Any], is_float: tuple[tuple[bool, ...], ...]
) -> tuple[int, Any]:
    if numba_config.DISABLE_JIT:
        calls.INTERPRETED.append(_interpreted_call(function, is_float))
        return len(calls.INTERPRETED) - 1, function
    compiled = function if hasattr(function, "py_func") else numba.njit(function)
    try:
        wrapper = numba.cfunc(_SIGNATURE)(_unpacking_call(compiled, is_float))
    except numba.core.errors.NumbaError as error:
        reason = str(error).strip().splitlines()[0]
        raise TidegateError(
            f"theta function {getattr(function, '__name__', function)!r} cannot be compiled by "
            f"numba ({reason}); use plain arithmetic and comparisons of its arguments"
        ) from error
    return wrapper.address, wrapper


def _unpacking_call(compiled: Any, is_float: Sequence[Sequence[bool]]) -> Callable[..., Any]:
    # The number of columns differs from call to call and C functions have no *args, so the
    # call is written out as source, one argument for each column.
    arguments = [
        f"{side}_{'float' if as_float else 'int'}[{k}]"
        for side, kinds in zip(("first", "second"), is_float, strict=True)
        for k, as_float in enumerate(kinds)
    ]
    source = (
        "def call(first_int, first_float, second_int, second_float):\n"
        f"    return 1 if function({', '.join(arguments)}) else 0\n"
    )
    scope: dict[str, Any] = {"function": compiled}
    exec(source, scope)
    call: Callable[..., Any] = scope["call"]
    return call


def _interpreted_call(
    function: Callable[..., Any], is_float: Sequence[Sequence[bool]]
) -> Callable[..., bool]:
    plain = getattr(function, "py_func", function)

    def call(first: np.ndarray, second: np.ndarray) -> bool:
        arguments = [
            float(bits.view(np.float64)) if as_float else int(bits)
            for row, kinds in zip((first, second), is_float, strict=True)
            for bits, as_float in zip(row, kinds, strict=False)
        ]
        return bool(plain(*arguments))

    return call
