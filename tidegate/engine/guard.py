"""Who may use an engine, and when.

Law: one call at a time, and none after a push that was broken off. A call that fails before it
changes anything leaves the engine as it was. From the first change on, an exception, an interrupt
at any line, or results that are not taken to the end leave the engine unfinished, and then it
refuses every call instead of computing on.

A call holds the engine from one step that cannot be divided (`setdefault`) to another (`clear`), so
there is no line between the two at which an interrupt could leave the engine free and half done.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.spec import TidegateError

_BUSY = "this engine is used by another thread right now; use one engine from one thread at a time"
_UNFINISHED = (
    "a push of this engine was interrupted, or its results were not taken to the end; restore the "
    "engine from its last snapshot, JoinEngine.restore(blob), and push again from there"
)


class Call:
    """One call of an engine."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.changes = False  # has it begun to change the engine?
        self.is_broken = False

    def refusal(self) -> TidegateError:
        """Why another call cannot be served while this one holds the engine."""
        other = self.thread != threading.get_ident() and not self.is_broken
        return TidegateError(_BUSY if other else _UNFINISHED)


class Guard:
    """Guards one engine."""

    def __init__(self) -> None:
        self._holder: dict[str, Call] = {}

    @contextmanager
    def using(self) -> Iterator[Call]:
        """The engine belongs to the call inside this block."""
        call = Call()
        holder = self._holder.setdefault("call", call)
        if holder is not call:
            raise holder.refusal()
        try:
            yield call
        except BaseException:
            if call.changes:
                call.is_broken = True
            else:
                self._holder.clear()
            raise
        self._holder.clear()
