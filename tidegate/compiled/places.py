"""The folders in which machine code is kept.

Law: code is only ever read from folders that the user or the installation chose. They lie outside
the package, whose own folder may be read-only (Spark workers, system installs). A folder in the
temporary directory, where anybody can write, must belong to this user and be closed to all others.
Where no folder can be written, code is compiled and not kept.

A folder is named after the sources and versions that its code is made of, so old ones are never
read again. Each use marks a folder with the present time; what was not used for a while is removed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
import uuid
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

SECONDS_PER_DAY = 86_400
DAYS_UNUSED = 30
# What a folder of compiled code is called: digest of the sources, digest of the versions. Earlier
# versions of this package went without the second.
_FOLDER_NAME = re.compile(r"[0-9a-f]{16}(-[0-9a-f]{8})?")
_REMOVED = re.compile(r"removed-[0-9a-f]{32}")


def private_folder(folder: Path) -> bool:
    """Make a folder that only its owner can enter; says whether it is one, and this user's."""
    folder.mkdir(mode=0o700, exist_ok=True)
    state = folder.lstat()
    owner = os.getuid() if hasattr(os, "getuid") else state.st_uid
    return state.st_uid == owner and state.st_mode & 0o077 == 0


def temporary_folder() -> Path:
    """This user's own folder in the temporary directory; `private_folder` makes and checks it."""
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    return Path(tempfile.gettempdir(), f"tidegate-{user}")


def _wished() -> Path | None:
    wanted = os.environ.get("TIDEGATE_CACHE")
    return Path(wanted, "tidegate") if wanted else None


def _home() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home, "tidegate")


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        return False


@cache
def cache_folder() -> Path | None:
    """Where new machine code goes: `TIDEGATE_CACHE`, the user's cache folder, or a temporary one.

    None where none of them can be written.
    """
    for folder in filter(None, (_wished(), _home())):
        if _writable(folder):
            return folder
    with contextlib.suppress(OSError):
        folder = temporary_folder()
        if private_folder(folder) and _writable(folder / "compiled"):
            return folder / "compiled"
    return None


_received: list[Traversable] = []


def add_place(place: Traversable) -> None:
    """Look for code here too: a folder, or a zip file that came with a query."""
    _received.append(place)
    places.cache_clear()


@cache
def places() -> tuple[Traversable, ...]:
    """Where code is looked for, in this order.

    `TIDEGATE_CACHE` may be read-only, for example a folder that was filled while an image of a
    container was built. Then comes code that came with the package (`ready`), and at last what was
    added while the process runs.
    """
    ready = files("tidegate.compiled").joinpath("ready")
    found: list[Traversable] = []
    for folder in (cache_folder(), _wished()):
        if folder is not None and folder not in found:
            found.append(folder)
    with contextlib.suppress(OSError):
        if ready.is_dir():
            found.append(ready)
    return (*found, *_received)


def mark_used(folder: Path) -> None:
    """Say that a folder is in use; once a day is enough."""
    with contextlib.suppress(OSError):
        if time.time() - folder.stat().st_mtime > SECONDS_PER_DAY:
            os.utime(folder)


def remove_unused(base: Path, days: float = DAYS_UNUSED) -> list[str]:
    """Remove folders of compiled code that nobody has used for so many days; returns their names.

    A process that has loaded code from such a folder needs it no more, and one that finds it gone
    compiles again.
    """
    removed = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(base):
            with contextlib.suppress(OSError):
                if not entry.is_dir(follow_symlinks=False):
                    continue
                old = time.time() - entry.stat().st_mtime > days * SECONDS_PER_DAY
                if _REMOVED.fullmatch(entry.name):
                    shutil.rmtree(entry.path, ignore_errors=True)  # left by a process that died
                elif old and _FOLDER_NAME.fullmatch(entry.name):
                    remove(Path(entry.path))
                    removed.append(entry.name)
    return removed


def remove(folder: Path) -> None:
    """Remove a folder of compiled code at one stroke, as other processes see it."""
    away = folder.with_name(f"removed-{uuid.uuid4().hex}")
    folder.rename(away)
    shutil.rmtree(away, ignore_errors=True)
