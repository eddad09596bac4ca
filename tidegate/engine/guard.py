"""Who may use an engine, and when.

Law: one caller at a time, and never after a push that was broken off. A push that fails before it
changes anything leaves the engine as it was; from the first change on, an interrupt, an exception
or results that are not taken to the end leave the engine unfinished, and then it refuses every
call instead of computing on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.spec import TidegateError

_BUSY = (
    "this engine is in the middle of a push; use one engine from one thread at a time, and take "
    "all pieces of results() before the next call"
)
_UNFINISHED = (
    "a push of this engine was interrupted before it was finished; restore the engine from its "
    "last snapshot, JoinEngine.restore(blob), and push again from there"
)


class Guard:
    """Guards one engine."""

    def __init__(self) -> None:
        self._caller = threading.Lock()
        self._unfinished = False

    def check(self) -> None:
        """Refuse a call while a push is under way or after one that was broken off."""
        if self._caller.locked():
            raise TidegateError(_BUSY)
        if self._unfinished:
            raise TidegateError(_UNFINISHED)

    @contextmanager
    def using(self) -> Iterator[None]:
        """The engine belongs to the caller inside this block."""
        if not self._caller.acquire(blocking=False):
            raise TidegateError(_BUSY)
        try:
            if self._unfinished:
                raise TidegateError(_UNFINISHED)
            yield
        finally:
            self._caller.release()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Whatever leaves this block by an exception leaves the engine unfinished."""
        self._unfinished = True
        yield
        self._unfinished = False

    def undone(self) -> None:
        """A push was undone: the engine is what it was before."""
        self._unfinished = False
