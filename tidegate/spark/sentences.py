"""Errors of the library inside Spark: the sentence first, the traceback after it.

Law: what a user did wrong is the first thing in Spark's message. Spark sends the printed traceback
of a worker's error to the driver. Python prints the cause of an error before the error itself, and
a cause that was never raised has no traceback: so the sentence travels as such a cause.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.spec import TidegateError


class JoinStoppedError(Exception):
    """A join cannot go on; its cause says why."""


@contextmanager
def sentence_first() -> Iterator[None]:
    """Let an error of the library reach the user with its sentence before its traceback."""
    try:
        yield
    except TidegateError as error:
        # Said twice, since Spark may be told to leave causes out.
        raise JoinStoppedError(str(error)) from TidegateError(str(error))
