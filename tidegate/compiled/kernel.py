"""Compiled functions: one cache folder.

Law: every compiled function of tidegate is made by `kernel`, `step` or `inlined`, and its code is
cached in a folder named after the text of its module and of all modules that this one imports,
directly or not. numba notices a change in the file of the function it compiles, but not in the
files of the functions that were inlined into it; the name of the folder does, so a stale cache is
never loaded. The folder is outside the package, whose own folder may be read-only (Spark workers,
system installs).
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import threading
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import caching
from numba.core import config as numba_config
from numba.extending import intrinsic

from tidegate.compiled.parts import PartCompiler

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

# Kernels allocate nothing, so they need no reference counts; without this (undocumented) option
# numba counts references for each of the dozens of arrays of a join, several times per tuple.
COMPILED = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}

_LOCK = threading.Lock()


@cache
def _sources() -> dict[str, bytes]:
    """The text of each module of the package; it may lie in a zip file, as Spark ships it."""
    found: dict[str, bytes] = {}

    def read(folder: Traversable, prefix: str) -> None:
        for entry in folder.iterdir():
            if entry.is_dir():
                read(entry, f"{prefix}.{entry.name}")
            elif entry.name.endswith(".py"):
                name = f"{prefix}.{entry.name[:-3]}".removesuffix(".__init__")
                found[name] = entry.read_bytes()

    read(files("tidegate"), "tidegate")
    return found


_IMPORT = re.compile(rb"^\s*(?:from|import) (tidegate[\w.]*)(?: import (\([^)]*\)|[^\n]*))?", re.M)


@cache
def _imported(module: str) -> frozenset[str]:
    """The modules of the package that a module imports, directly."""
    names: set[str] = set()
    for match in _IMPORT.finditer(_sources()[module]):
        package = match[1].decode()
        names.add(package)
        names.update(f"{package}.{name}" for name in re.findall(r"\w+", (match[2] or b"").decode()))
    return frozenset(names & _sources().keys())


@cache
def digest_of(module: str) -> str:
    """A name for the text of a module and of all modules that it imports, however far away.

    What is not imported cannot be inlined, so a change there leaves compiled code as it is.
    """
    reached, waiting = {module}, [module]
    while waiting:
        new = _imported(waiting.pop()) - reached
        reached |= new
        waiting += new
    digest = hashlib.blake2b(digest_size=8)
    for name in sorted(reached):
        digest.update(name.encode() + b"\0" + _sources()[name] + b"\0")
    return digest.hexdigest()


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.access(folder, os.W_OK)
    except OSError:
        return False


def cache_folder() -> Path:
    """Where machine code is kept: `TIDEGATE_CACHE`, the user's cache folder, or a temporary one."""
    wanted = os.environ.get("TIDEGATE_CACHE")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    for base in filter(None, (wanted, home, tempfile.gettempdir())):
        folder = Path(base) / "tidegate"
        if _writable(folder):
            return folder
    raise OSError(
        "no folder for compiled code can be written; set TIDEGATE_CACHE to a writable folder"
    )


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    # numba picks the cache folder while it decorates, from a global setting. The setting is put
    # back at once, so that the user's own compiled functions keep their own folder.
    if numba_config.DISABLE_JIT:
        return function
    with _LOCK:
        before = {name: getattr(numba_config, name) for name in _CACHE_SETTINGS}
        for name, value in _CACHE_SETTINGS.items():
            setattr(numba_config, name, value)
        try:
            ours = function.__module__ in _sources()  # of others it is not known when they change
            return numba.njit(cache=ours, **COMPILED, **options)(function)
        finally:
            for name, value in before.items():
                setattr(numba_config, name, value)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` on its first call and cache the machine code between processes.

    Once for all whole numbers: left to itself numba compiles a function again for each constant
    and each width that its callers hand over.
    """
    return _for_all_numbers(_compiled(function))


def part(function: Callable[..., Any]) -> Any:
    """A function that only kernels call: compiled as part of each of them."""
    return _for_all_numbers(_compiled_part(function))


def step(function: Callable[..., Any]) -> Any:
    """A part that is made one with its caller, where a call for each tuple would cost too much."""
    return _for_all_numbers(_compiled_part(function, forceinline=True))


def alone(function: Any) -> Any:
    """A part as a kernel of its own, so that Python can call it: for tests."""
    return function if numba_config.DISABLE_JIT else kernel(function.py_func)


def _compiled_part(function: Callable[..., Any], **options: Any) -> Any:
    if numba_config.DISABLE_JIT:
        return function
    # Not cached: the machine code of a kernel holds its parts.
    dispatcher = numba.njit(
        no_cpython_wrapper=True, pipeline_class=PartCompiler, **COMPILED, **options
    )(function)

    def refuse(*args: Any, **kws: Any) -> Any:
        raise TypeError(f"{function.__name__} is a part of kernels; Python calls it by alone()")

    dispatcher._compile_for_args = refuse
    dispatcher._insert = lambda *entry: None  # or numba would find no machine code, and jump there
    return dispatcher


def _for_all_numbers(compiled: Any) -> Any:
    if not numba_config.DISABLE_JIT:
        template = compiled.get_call_template

        def get_call_template(args: Any, kws: Any) -> Any:
            return template([_plain(kind) for kind in args], {k: _plain(v) for k, v in kws.items()})

        compiled.get_call_template = get_call_template
    return compiled


def _plain(kind: Any) -> Any:
    kind = types.unliteral(kind)
    return types.int64 if isinstance(kind, types.Integer) and kind.signed else kind


def inlined(function: Callable[..., Any]) -> Any:
    """Paste `function` into each of its callers before they are compiled: for parts of a step, so
    small or so closely tied to it that compiling them by themselves would take longer."""
    return _compiled(function, inline="always")


class ByContents(caching._CacheLocator):  # type: ignore[misc]
    """Finds machine code by what the sources say, not by where they lie or how old they are.

    numba's own way goes by path and time: a package that Spark unpacks anew for each application
    would be compiled anew each time.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._disambiguator = f"{function.__module__}-{function.__code__.co_firstlineno}"
        self._folder = _FOLDER / digest_of(function.__module__)

    def get_cache_path(self) -> str:
        """The folder, which bears the digest of all sources that the function may be made of."""
        return str(self._folder)

    def get_source_stamp(self) -> str:
        """Nothing: other sources have another folder."""
        return ""

    def get_disambiguator(self) -> str:
        """What tells functions of the same name apart."""
        return self._disambiguator

    @classmethod
    def from_function(cls, function: Callable[..., Any], path: str) -> ByContents:
        """A locator for any function of this package."""
        return cls(function)


_FOLDER = Path() if numba_config.DISABLE_JIT else cache_folder()
_CACHE_SETTINGS = {"CACHE_DIR": str(_FOLDER)}
if hasattr(numba_config, "CACHE_LOCATOR_CLASSES"):  # older releases only have their own way
    _CACHE_SETTINGS["CACHE_LOCATOR_CLASSES"] = f"{__name__}.{ByContents.__name__}"
if numba_config.DISABLE_JIT:
    np.seterr(over="ignore", invalid="ignore")  # hashes overflow on purpose, as compiled code does


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
