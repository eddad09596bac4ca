"""Theta predicates: the user's own function, called from inside the compiled driver.

Law: the driver is compiled once and cached, whatever functions users bring. So a user's function
is not compiled *into* the driver; it becomes a C function whose address is an ordinary number, and
the driver calls that address. It gets the values of the first stream's columns, then the second's:
integers (and times) as int64, everything else as float64.

A C function cannot raise. So where the user's function does, its wrapper answers "no match" and
writes the arguments down; after the run `Call.raise_failure` calls the function as plain Python on
these, which raises the function's own error.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import config as numba_config
from numba.extending import intrinsic
from numpy.typing import NDArray

from tidegate.compiled import calls
from tidegate.spec import TidegateError

_Integers = types.CPointer(types.int64)
_Floats = types.CPointer(types.float64)
_SIGNATURE = types.int8(_Integers, _Floats, _Integers, _Floats)
Kinds = tuple[tuple[bool, ...], ...]  # [side][k]: is the k-th column of a side stored as float?


@dataclass(frozen=True)
class Call:
    """A function as the driver calls it."""

    function: Callable[..., Any]
    kinds: Kinds
    address: int
    anchor: Any  # keeps the code alive
    may_raise: bool
    failure: NDArray[np.int64]  # [0]: has it raised? then the arguments, side by side

    def raise_failure(self) -> None:
        """If a call has failed since the last time, raise the error of the function."""
        if not self.failure[0]:
            return
        self.failure[0] = 0
        first = len(self.kinds[0])
        values = self.failure[1 : 1 + first], self.failure[1 + first :]
        arguments = _arguments(values, self.kinds)
        _as_python(self.function)(*arguments)
        raise TidegateError(
            f"theta function {_name(self.function)!r} failed on the values "
            f"{', '.join(map(repr, arguments))} when compiled, though not as plain Python; handle "
            "such values inside of it"
        )


def call_of(function: Callable[..., Any], is_float: Sequence[Sequence[bool]]) -> Call:
    """The function as the driver calls it; `is_float[side][k]` says how a column is stored."""
    kinds = tuple(tuple(side) for side in is_float)
    # Calls write failures to memory of their own, which two threads must not share.
    return _call_of(function, kinds, threading.get_ident())


@lru_cache(maxsize=256)
def _call_of(function: Callable[..., Any], kinds: Kinds, thread: int) -> Call:
    failure = np.zeros(1 + sum(map(len, kinds)), np.int64)
    if numba_config.DISABLE_JIT:
        calls.INTERPRETED.append(_interpreted_call(function, kinds))
        return Call(function, kinds, len(calls.INTERPRETED) - 1, function, True, failure)
    compiled = function if hasattr(function, "py_func") else numba.njit(function)
    try:
        wrapper = numba.cfunc(_SIGNATURE)(_unpacking_call(compiled, kinds, failure))
    except numba.core.errors.NumbaError as error:
        reason = str(error).strip().splitlines()[0]
        raise TidegateError(
            f"theta function {_name(function)!r} cannot be compiled by numba ({reason}); use plain "
            "arithmetic and comparisons of its arguments"
        ) from error
    return Call(function, kinds, wrapper.address, wrapper, _may_raise(compiled), failure)


def _may_raise(compiled: Any) -> bool:
    """numba's code returns 0 where all went well; the optimiser sees where that is always so."""
    codes = {
        code
        for signature in compiled.signatures
        for code in re.findall(r"ret i32 (\S+)", compiled.inspect_llvm(signature))
    }
    return codes != {"0"}


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", function))


def _as_python(function: Callable[..., Any]) -> Callable[..., Any]:
    plain: Callable[..., Any] = getattr(function, "py_func", function)
    return plain


@intrinsic
def _store(typing_context, address, value):
    """Write a number to an address in memory."""
    signature = types.void(types.int64, types.int64)

    def generate(context, builder, signature, arguments):
        target = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        builder.store(arguments[1], target)
        return context.get_dummy_value()

    return signature, generate


def _unpacking_call(compiled: Any, kinds: Kinds, failure: NDArray[np.int64]) -> Callable[..., Any]:
    # The number of columns differs from call to call and C functions have no *args, so the
    # call is written out as source, one argument for each column.
    sides = list(zip(("first", "second"), kinds, strict=True))
    arguments = [
        f"{side}_{'float' if as_float else 'int'}[{k}]"
        for side, columns in sides
        for k, as_float in enumerate(columns)
    ]
    numbers = [f"{side}_int[{k}]" for side, columns in sides for k in range(len(columns))]
    start = failure.ctypes.data
    notes = [
        f"        store({start + 8 * at}, {number})" for at, number in enumerate(["1", *numbers])
    ]
    source = "\n".join(
        [
            "def call(first_int, first_float, second_int, second_float):",
            "    answer = 0",
            "    try:",
            f"        if function({', '.join(arguments)}):",
            "            answer = 1",
            "    except Exception:",
            *notes,
            "    return answer",
        ]
    )
    scope: dict[str, Any] = {"function": compiled, "store": _store}
    exec(source, scope)
    call: Callable[..., Any] = scope["call"]
    return call


def _arguments(values: Sequence[NDArray[np.int64]], kinds: Kinds) -> list[int | float]:
    return [
        float(bits.view(np.float64)) if as_float else int(bits)
        for row, columns in zip(values, kinds, strict=True)
        for bits, as_float in zip(row, columns, strict=False)
    ]


def _interpreted_call(function: Callable[..., Any], kinds: Kinds) -> Callable[..., bool]:
    plain = _as_python(function)

    def call(first: NDArray[np.int64], second: NDArray[np.int64]) -> bool:
        return bool(plain(*_arguments((first, second), kinds)))

    return call
