"""Compiled code calls a function that it does not know by its address.

A theta predicate is the user's own function (`binding.theta`). It gets pointers to the values of
one row of each stream, as whole numbers and as floats.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir
from numba import types
from numba.core import config as numba_config
from numba.extending import intrinsic

from tidegate.compiled.kernel import part

# Interpreted mode (NUMBA_DISABLE_JIT=1) has no addresses: a number stands for the function.
INTERPRETED: list[Callable[..., bool]] = []


@intrinsic
def _call(typing_context, address, first, second):
    signature = types.int8(types.int64, types.int64, types.int64)

    def generate(context, builder, signature, arguments):
        function, first, second = arguments
        integers = ir.IntType(64).as_pointer()
        floats = ir.DoubleType().as_pointer()
        kind = ir.FunctionType(ir.IntType(8), [integers, floats, integers, floats])
        pointers = [
            builder.inttoptr(number, pointer)
            for number in (first, second)
            for pointer in (integers, floats)
        ]
        return builder.call(builder.inttoptr(function, kind.as_pointer()), pointers)

    return signature, generate


def _holds(address, first_values, first, second_values, second, column):
    """Call the function at `address` on row `first` and row `second`, from `column` on."""
    first_start = first_values.ctypes.data + 8 * (first * first_values.shape[1] + column)
    second_start = second_values.ctypes.data + 8 * (second * second_values.shape[1] + column)
    return _call(address, first_start, second_start) != 0


def _holds_interpreted(address, first_values, first, second_values, second, column):
    return INTERPRETED[address](first_values[first, column:], second_values[second, column:])


holds = _holds_interpreted if numba_config.DISABLE_JIT else part(_holds)
