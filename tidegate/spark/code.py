"""Machine code travels with the query.

Law: a worker that can run the code of the driver's machine compiles nothing; any other compiles for
itself, and gives the same rows. The code of this version that the driver's machine has is added to
the application as one file, which Spark brings to each executor once. Workers read it from there
and write nothing. That is done with public calls that Spark Connect has too.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import shutil
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

from pyspark import SparkFiles
from pyspark.sql.utils import is_remote

log = logging.getLogger("tidegate")


def ship_code(session: Any) -> str | None:
    """Add the code of this machine to an application; the name of the file, None if there is none.

    In local mode the workers find the code where the driver does.
    """
    master = str(session.conf.get("spark.master", ""))
    if not is_remote() and (master == "local" or master.startswith("local[")):
        return None
    try:
        file = _packed_file()
        if file is not None:
            session.addArtifacts(str(file), file=True)
        return None if file is None else file.name
    except Exception as error:
        # The join works without: its workers compile.
        log.warning("compiled code was not shipped to the executors (%s)", error)
        return None


def _packed_file() -> Path | None:
    """The code that this machine has, in a file that lives as long as this process."""
    from tidegate.compiled.pack import present_files

    files = present_files()
    return _written(tuple(sorted(files.items()))) if files else None


@cache
def _written(files: tuple[tuple[str, Path], ...]) -> Path:
    from tidegate.compiled.pack import packed

    name, content = packed(dict(files))
    # Spark serves the file from where it is, as long as the application runs.
    file = _folder() / f"tidegate-code-{name}.zip"
    file.write_bytes(content)
    return file


@cache
def _folder() -> Path:
    folder = tempfile.mkdtemp(prefix="tidegate-code-")
    process = os.getpid()

    def remove() -> None:
        if os.getpid() == process:  # not in a forked child
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return Path(folder)


@cache
def receive_code(name: str | None) -> None:
    """On a worker: look for code in the file that came with the query."""
    from tidegate.compiled.places import add_place

    if name is None:
        return
    with contextlib.suppress(OSError, zipfile.BadZipFile):
        file = SparkFiles.get(name)
        if os.path.isfile(file):
            add_place(zipfile.Path(file))
