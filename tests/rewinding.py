"""An object put back to what it was, without making it anew.

Law: after `rewind`, every array, list, dict and object of the package that the root reached when it
was marked is the same object with the same contents. What the package reaches beside those (Arrow
data, numbers, text) cannot change. `interrupts.py` checks that a call on a rewound engine comes to
the lines, and gives the results, of one on a new engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


class Mark:
    """What a root reaches, as it is now."""

    def __init__(self, root: Any) -> None:
        self._undo: list[Callable[[], None]] = []
        self._alive: list[Any] = []  # or another object could get the identity of one that was seen
        seen: set[int] = set()
        waiting = [root]
        while waiting:
            value = waiting.pop()
            if id(value) not in seen:
                seen.add(id(value))
                self._alive.append(value)
                waiting += self._marked(value)

    def rewind(self) -> None:
        for undo in self._undo:
            undo()

    def _marked(self, value: Any) -> Iterator[Any]:
        """Note how a value is put back; the values that it reaches."""
        if isinstance(value, np.ndarray):
            if value.flags.writeable and value.size:
                self._undo.append(_put_back_array(value, value.copy()))
        elif isinstance(value, list):
            self._undo.append(_put_back_list(value, list(value)))
            yield from value
        elif isinstance(value, dict):
            self._undo.append(_put_back_dict(value, dict(value)))
            yield from value.values()
        elif isinstance(value, tuple):
            yield from value
        elif type(value).__module__.startswith("tidegate") and hasattr(value, "__dict__"):
            yield value.__dict__


def _put_back_array(array: Any, contents: Any) -> Callable[[], None]:
    def undo() -> None:
        array[...] = contents

    return undo


def _put_back_list(held: list[Any], contents: list[Any]) -> Callable[[], None]:
    def undo() -> None:
        held[:] = contents

    return undo


def _put_back_dict(held: dict[Any, Any], contents: dict[Any, Any]) -> Callable[[], None]:
    def undo() -> None:
        held.clear()
        held.update(contents)

    return undo
