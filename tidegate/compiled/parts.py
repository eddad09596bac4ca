"""Functions that exist only inside compiled functions.

Law: a part is typed and turned into LLVM's language once, then linked into each kernel that needs
it; only the kernel is optimised and made into machine code. numba by itself does all of that for
every function, with everything that it calls: for a driver of 140 functions, most of an arrival's
way was optimised a dozen times over, and compiling took three times as long.

What was linked into a kernel is nobody else's: LLVM is told so. Then it makes a part one with its
only caller, and no longer hands over the fields of a frame that a part does not read; a frame is
hundreds of values, handed over one by one.

This leans on numba's private parts (`CodeLibrary.finalize`).
"""

from __future__ import annotations

from itertools import count
from typing import Any

from llvmlite.binding import Linkage
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags

_numbers = count()


class _Flags(Flags):  # type: ignore[misc]
    """Options that are quick to compare: numba compares all 40 of them for each call it types."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Flags) and self._values == other._values

    def __hash__(self) -> int:
        return len(self._values)


class _NoEnvironment:
    """Parts run in the environment of their kernel and need none of their own."""

    def set_env(self, name: str, environment: Any) -> None:
        """Nothing to set."""


class _PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code to be linked into others: never optimised, never made into machine code."""

    def finalize(self) -> None:
        """Link in what this part calls, and nothing else."""
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """There is no machine code to point to."""
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> Any:
        """What sets the environment of a function."""
        return _NoEnvironment()


class _KernelLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code that becomes machine code, together with the parts linked into it."""

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            if function.linkage == Linkage.linkonce_odr and not function.is_declaration:
                function.linkage = Linkage.internal
        super()._optimize_final_module()


class _QuickCompiler(Compiler):  # type: ignore[misc]
    """numba's compiler, into a library of a given kind."""

    kind: type[JITCodeLibrary]

    def __init__(
        self, typing: Any, target: Any, library: Any, args: Any, result: Any, flags: Any, types: Any
    ) -> None:
        if library is None:
            library = self.kind(target.codegen(), f"{self.kind.__name__}{next(_numbers)}")
            if self.kind is _KernelLibrary:
                library.enable_object_caching()
        super().__init__(typing, target, library, args, result, _Flags(flags), types)


class KernelCompiler(_QuickCompiler):
    """numba's compiler, into a library whose parts are its own."""

    kind = _KernelLibrary


class PartCompiler(_QuickCompiler):
    """numba's compiler, up to the point where machine code would be made."""

    kind = _PartLibrary
