"""Compiled functions: the decorators that make them.

Law: every compiled function of tidegate is made by `kernel`, `routine`, `step` or `inlined`, once
for whole numbers of all widths, and its code is kept between processes (`cache`).

| decorator | who calls it | how |
|---|---|---|
| `kernel` | Python, and kernels | a function of its own, and a wrapper for Python |
| `routine` | kernels only | a function of its own |
| `step` | kernels only | compiled once, then made part of each caller by LLVM |
| `inlined` | kernels only | pasted into each caller before it is compiled |

The wrapper of a function of many arrays takes longer to compile than the function itself, so what
Python never calls goes without.
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

__all__ = ["COMPILED", "inlined", "kernel", "prefetch", "routine", "step"]

if numba_config.DISABLE_JIT:
    np.seterr(over="ignore", invalid="ignore")  # hashes overflow on purpose, as compiled code does


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` on its first call, for calls from Python and from other kernels.

    Once for all whole numbers: left to itself numba compiles a function again for each constant
    and each width that its callers hand over.
    """
    return _compiled(function)


def routine(function: Callable[..., Any]) -> Any:
    """A kernel that only kernels call. LLVM decides whether it becomes part of its callers."""
    return _only_for_kernels(_compiled(function, no_cpython_wrapper=True))


def step(function: Callable[..., Any]) -> Any:
    """A kernel that only kernels call, compiled once and then made part of each caller by LLVM."""
    return _only_for_kernels(_compiled(function, no_cpython_wrapper=True, forceinline=True))


def inlined(function: Callable[..., Any]) -> Any:
    """Paste `function` into each of its callers before they are compiled: for parts of a step, so
    small or so closely tied to it that compiling them by themselves would take longer."""
    if numba_config.DISABLE_JIT:
        return function
    return kept(numba.njit(**COMPILED, inline="always")(function))


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    if numba_config.DISABLE_JIT:
        return function
    compiled = kept(numba.njit(**COMPILED, **options)(function))
    template = compiled.get_call_template

    def get_call_template(args: Any, kws: Any) -> Any:
        return template([_plain(kind) for kind in args], {k: _plain(v) for k, v in kws.items()})

    compiled.get_call_template = get_call_template
    return compiled


def _only_for_kernels(compiled: Any) -> Any:
    """Refuse calls from Python: numba would jump to the wrapper that is not there, and crash."""
    if not numba_config.DISABLE_JIT:

        def refuse(*args: Any, **kws: Any) -> None:
            raise TypeError(
                f"{compiled.py_func.__name__} is compiled for calls from kernels only; make it a "
                "kernel to call it from Python"
            )

        def keep_from_python(*overload: Any) -> None:
            """numba's table of what Python calls stays empty, so that it asks `refuse`."""

        compiled._compile_for_args = refuse
        compiled._insert = keep_from_python
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
