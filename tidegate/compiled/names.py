"""What compiled code is called: the compiler's half of the name.

Law: two processes use the same name exactly where one can run the code of the other. The name
covers the versions of Python, numba, llvmlite and numpy, the options and settings of the compiler,
the types of the arguments with the names of their fields, and the CPU. The sources are the other
half (`sources`).
"""

from __future__ import annotations

import hashlib
import sys
import sysconfig
from functools import cache
from typing import Any

import llvmlite
import numba
import numpy as np
from llvmlite import binding as llvm
from numba import types
from numba.core import config as numba_config
from numba.core.registry import cpu_target

from tidegate.compiled.versions import check_numba

check_numba(numba.__version__)

# Kernels allocate nothing, so they need no reference counts; without this (undocumented) option
# numba counts references for each of the dozens of arrays of a join, several times per tuple.
COMPILED = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}

# Settings of numba (NUMBA_OPT, ...) that change the code it makes.
_SETTINGS = (
    "OPT", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "USING_SVML",
    "LLVM_REFPRUNE_PASS", "LLVM_REFPRUNE_FLAGS", "ENABLE_PROFILING", "USE_LLVMLITE_MEMORY_MANAGER",
)  # fmt: skip
# The oldest CPU for which code is shipped: x86-64-v3 (Intel since 2013, AMD since 2015). numba
# knows it by this name and these features.
BASELINE_CPU = "x86-64-v3"
BASELINE_FEATURES = (
    "avx", "avx2", "bmi", "bmi2", "cmov", "crc32", "cx16", "cx8", "f16c", "fma", "fxsr", "lzcnt",
    "mmx", "movbe", "popcnt", "sahf", "sse", "sse2", "sse3", "sse4.1", "sse4.2", "ssse3", "xsave",
)  # fmt: skip

Target = tuple[str, str, str]  # LLVM's name of the platform, CPU, features


def baseline_settings() -> dict[str, str]:
    """The environment of a process that compiles for the baseline CPU."""
    features = ",".join(f"+{name}" for name in BASELINE_FEATURES)
    return {"NUMBA_CPU_NAME": BASELINE_CPU, "NUMBA_CPU_FEATURES": features}


def target_suffix(target: Target) -> str:
    """How the names of files end that hold code for a CPU."""
    return f".{short_name(target, size=4)}.code"


@cache
def runnable_targets(own: Target) -> tuple[Target, ...]:
    """The CPUs whose code this machine can run: its own, and the baseline if it has its features.

    How functions are compiled here does not change.
    """
    present = llvm.get_host_cpu_features()
    settings = baseline_settings()
    baseline = (own[0], settings["NUMBA_CPU_NAME"], settings["NUMBA_CPU_FEATURES"])
    runs = own[0].startswith("x86_64") and all(present.get(name) for name in BASELINE_FEATURES)
    return (own, baseline) if runs and baseline != own else (own,)


def short_name(*parts: Any, size: int = 8) -> str:
    """A digest of values that are equal exactly where their texts are."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=size).hexdigest()


def own_target() -> Target:
    """The CPU that functions are compiled for here."""
    target: Target = cpu_target.target_context.codegen().magic_tuple()
    return target


@cache
def environment() -> str:
    """A name for all but the sources and the CPU that code depends on."""
    return short_name(
        sys.implementation.cache_tag,
        sysconfig.get_config_var("SOABI"),
        sysconfig.get_platform(),
        numba.__version__,
        llvmlite.__version__,
        np.__version__.split(".")[0],
        sorted(COMPILED.items()),
        [(name, str(getattr(numba_config, name, None))) for name in _SETTINGS],
        size=4,
    )


def described(kind: Any) -> str:
    """An argument's type in full: numba's name of a named tuple leaves its fields' names out."""
    if isinstance(kind, types.BaseTuple):
        inner = ", ".join(map(described, kind.types))
        if isinstance(kind, types.BaseNamedTuple):
            made = kind.instance_class
            return f"{made.__module__}.{made.__qualname__}[{', '.join(kind.fields)}]({inner})"
        return f"({inner})"
    return str(kind)
