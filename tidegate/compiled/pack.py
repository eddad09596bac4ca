"""The compiled code of this version as one zip file, for machines that have none.

Law: what is packed is what a process of the same sources, Python and numba would look for. Names of
folders and files say what they were made for, so a process for which they do not fit never finds
them and compiles by itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

from tidegate.compiled.names import environment, own_target, runnable_targets, target_suffix
from tidegate.compiled.places import places
from tidegate.compiled.sources import package_digests

# One name for the same content: entries bear this time, not that of the file.
_TIME = (2000, 1, 1, 0, 0, 0)


def present_files() -> dict[str, Path]:
    """The files of this version on this machine, by folder and name.

    Code for the baseline CPU comes before code for this one, since more machines can run it.
    """
    chosen: dict[str, Path] = {}
    for suffix in map(target_suffix, reversed(runnable_targets(own_target()))):
        for file in _files_with(suffix):
            chosen.setdefault(f"{file.parent.name}/{file.name.removesuffix(suffix)}", file)
    return {f"{file.parent.name}/{file.name}": file for file in chosen.values()}


def _files_with(suffix: str) -> Iterator[Path]:
    folders = [f"{digest}-{environment()}" for digest in sorted(package_digests())]
    for place in places():
        if isinstance(place, Path):
            for folder in folders:
                with contextlib.suppress(OSError):
                    yield from (place / folder).glob(f"*{suffix}")


def packed(files: dict[str, Path]) -> tuple[str, bytes]:
    """These files as one zip file, and a name for its content."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, file in sorted(files.items()):
            with contextlib.suppress(OSError):  # removed since it was listed
                content = file.read_bytes()
                archive.writestr(zipfile.ZipInfo(name, _TIME), content, zipfile.ZIP_DEFLATED)
    content = buffer.getvalue()
    return hashlib.blake2b(content, digest_size=8).hexdigest(), content
