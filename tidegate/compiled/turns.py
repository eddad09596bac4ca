"""One process compiles a function, the others wait for it.

Law: waiting never stops a process for good. A turn is a lock on one byte of one file, so it ends
with the process that holds it; it is taken only by the thread that holds numba's own lock, always
from the calling function to the called one, and a call graph has no cycles. After a while, or where
the file system knows no locks, a process goes on without one and compiles by itself: two processes
that compile the same function do no harm.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl

    HAS_LOCKS = True
except ImportError:  # Windows: every process compiles by itself
    HAS_LOCKS = False

# Compiling the largest function takes a minute on an idle core.
SECONDS_TO_WAIT = 300.0
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.01, 0.25
_FILE = "turns.lock"

# Locks of this kind belong to the process, and closing any descriptor of the file drops them all:
# so a folder's file is opened once and stays open. A forked child has the descriptors, not the
# locks.
_descriptors: dict[Path, int] = {}
_held: set[tuple[int, Path, int]] = set()


@contextmanager
def turn(
    folder: Path | None, name: str, done: Callable[[], bool], seconds: float = SECONDS_TO_WAIT
) -> Iterator[None]:
    """Hold the turn of `name` while the block runs; wait until it is free or `done()` is true."""
    place = _place(name)
    mine = None if folder is None else (os.getpid(), folder, place)
    if folder is None or mine is None or mine in _held or not _wait(folder, place, done, seconds):
        yield
        return
    _held.add(mine)
    try:
        yield
    finally:
        _held.discard(mine)
        with suppress(OSError):  # the lock ends with the process at the latest
            fcntl.lockf(_descriptors[folder], fcntl.LOCK_UN, 1, place)


def _place(name: str) -> int:
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 2


def _wait(folder: Path, place: int, done: Callable[[], bool], seconds: float) -> bool:
    """Take the lock of a place; False where that is not possible or no longer needed."""
    if not HAS_LOCKS:
        return False
    deadline, pause = time.monotonic() + seconds, _SHORTEST_PAUSE
    while True:
        try:
            if folder not in _descriptors:
                _descriptors[folder] = os.open(folder / _FILE, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.lockf(_descriptors[folder], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            return True
        except (BlockingIOError, PermissionError):  # held by another process: EAGAIN or EACCES
            if folder not in _descriptors:
                return False  # the file cannot be opened
        except OSError:
            return False
        if done() or time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
