"""Compiled functions: the decorators that make them.

Law: every compiled function of tidegate is made by `kernel`, `part` or `step`, once for whole
numbers of all widths. Only kernels become machine code, which is kept between processes (`cache`)
and holds all that they call.

| decorator | who calls it | how |
|---|---|---|
| `kernel` | Python, and kernels | machine code of its own, and a wrapper for Python |
| `part` | kernels only | linked into each kernel (`parts`) |
| `step` | kernels only | a part that is made one with its caller |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import config as numba_config
from numba.extending import intrinsic

from tidegate.compiled.cache import kept
from tidegate.compiled.names import COMPILED
from tidegate.compiled.parts import KernelCompiler, PartCompiler

__all__ = ["COMPILED", "alone", "kernel", "part", "prefetch", "step"]

if numba_config.DISABLE_JIT:
    np.seterr(over="ignore", invalid="ignore")  # hashes overflow on purpose, as compiled code does


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` on its first call, for calls from Python and from other kernels.

    Once for all whole numbers: left to itself numba compiles a function again for each constant
    and each width that its callers hand over.
    """
    return _compiled(function)


def part(function: Callable[..., Any]) -> Any:
    """A function that only kernels call; LLVM decides whether it is made one with its callers."""
    return _part(function, forceinline=False)


def step(function: Callable[..., Any]) -> Any:
    """A part that is made one with its caller, where a call for each tuple would cost too much."""
    return _part(function, forceinline=True)


def alone(function: Any) -> Any:
    """A part as a kernel of its own, so that Python can call it: for tests."""
    return function if numba_config.DISABLE_JIT else kernel(function.py_func)


# numba hands "forceinline" down to all that a function calls, unless they say otherwise: left to
# itself it pasted most of the driver into itself, many times over (five times as much code).
def _compiled(function: Callable[..., Any]) -> Any:
    if numba_config.DISABLE_JIT:
        return function
    options = {"forceinline": False, "pipeline_class": KernelCompiler}
    return _for_all_numbers(kept(numba.njit(**COMPILED, **options)(function)))


def _part(function: Callable[..., Any], **options: Any) -> Any:
    if numba_config.DISABLE_JIT:
        return function
    options |= {"no_cpython_wrapper": True, "pipeline_class": PartCompiler}
    compiled = _for_all_numbers(numba.njit(**COMPILED, **options)(function))

    def refuse(*args: Any, **kws: Any) -> None:
        raise TypeError(f"{function.__name__} is a part of kernels; alone() makes it a kernel")

    def keep_from_python(*overload: Any) -> None:
        """Numba's table of what Python calls stays empty; it would jump to no machine code."""

    compiled._compile_for_args = refuse
    compiled._insert = keep_from_python
    return compiled


def _for_all_numbers(compiled: Any) -> Any:
    template = compiled.get_call_template

    def get_call_template(args: Any, kws: Any) -> Any:
        return template([_plain(kind) for kind in args], {k: _plain(v) for k, v in kws.items()})

    compiled.get_call_template = get_call_template
    return compiled


def _plain(kind: Any) -> Any:
    kind = types.unliteral(kind)
    return types.int64 if isinstance(kind, types.Integer) and kind.signed else kind


@intrinsic
def _prefetch(typing_context, address):
    def generate(context, builder, signature, arguments):
        pointer = ir.IntType(8).as_pointer()
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        write, locality, data = number(1), number(3), number(1)
        builder.call(function, [builder.inttoptr(arguments[0], pointer), write, locality, data])
        return context.get_dummy_value()

    return types.void(types.int64), generate


def _prefetch_interpreted(address: int) -> None:
    """Plain Python has no caches to warm."""


# Ask the CPU to bring the memory at `address` near, without waiting for it. A window join jumps
# from tuple to tuple all over its windows; asking a few tuples ahead hides most of the waiting.
prefetch = _prefetch_interpreted if numba_config.DISABLE_JIT else _prefetch
