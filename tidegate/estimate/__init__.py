"""What a tuple is worth, learned online in bounded memory.

`tidegate.estimate` is a function too, by the name that scripts call: a package is an attribute of
its parent once it is imported, so this one can be called.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *given: Any, **named: Any) -> Any:
        """See `tidegate.sample.estimates.estimate`."""
        return import_module("tidegate.sample.estimates").estimate(*given, **named)


sys.modules[__name__].__class__ = _Callable
estimate = sys.modules[__name__]  # so that it is found like every other public name
