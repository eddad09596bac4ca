"""Modules of compiled parts, as Python can call them.

Parts exist only inside kernels (`tidegate.compiled.kernel`). A test that compares one with its slow
twin calls it through here, as a kernel of its own.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

from tidegate.compiled.kernel import alone


class Standalone:
    """A module whose compiled functions can be called from Python."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        return _alone(value) if hasattr(value, "py_func") else value


@cache
def _alone(function: Any) -> Any:
    return alone(function)
