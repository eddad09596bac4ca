"""Arrays that outlive a push, but are no part of the join.

Law: nothing here is remembered. An array holds whatever was written last; it is kept only because
fresh pages of memory cost more than what is written to them. It is let go when a push needs much
less of it. One set of arrays serves all engines of a process, push after push; only pushes that
overlap (threads, results that are taken one piece at a time) have sets of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

_TOO_LARGE = 8  # times what is asked for
_SMALL = 4096  # an array of this length may stay, whatever is asked for


class Scratch:
    """Arrays by name, for one push."""

    def __init__(self) -> None:
        self._arrays: dict[str, NDArray[Any]] = {}

    def array(self, name: str, length: int, kind: type[np.generic]) -> NDArray[Any]:
        """An array of this length with anything in it; the last one of this name is void then."""
        held = self._arrays.get(name)
        if held is None or not length <= len(held) <= max(_SMALL, _TOO_LARGE * length):
            held = self._arrays[name] = np.empty(length, kind)
        return held[:length]

    def joined(self, name: str, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """The parts one after the other."""
        room = self.array(name, sum(map(len, parts)), parts[0].dtype.type)
        return np.concatenate(parts, out=room)


_unused: list[Scratch] = []


@contextmanager
def borrowed() -> Iterator[Scratch]:
    """The arrays that this process keeps, or fresh ones while another push has them."""
    try:
        scratch = _unused.pop()
    except IndexError:
        scratch = Scratch()
    yield scratch
    if not _unused:
        _unused.append(scratch)
