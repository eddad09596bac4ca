"""Which text compiled code is made of.

Law: machine code is found under a name that covers the text of its module and of all modules that
this one imports, directly or not. numba notices a change in the file of the function it compiles,
but not in the files of the functions that were inlined into it, nor in the constants and records
that it uses. What is not imported cannot become part of the code, so a change elsewhere leaves the
name, and the code, as they are.

This module needs neither numba nor numpy, so that it also serves where only Python is installed.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.resources.abc import Traversable

PACKAGE = "tidegate"
# Modules that every kernel imports and that say where code is kept, not what it is. The compiler's
# options, which stand in `names`, are part of the other half of a folder's name.
KEEPERS = frozenset(
    f"{PACKAGE}.compiled.{name}"
    for name in ("cache", "names", "places", "sources", "turns", "versions")
)
_IMPORT = re.compile(rb"^\s*(?:from|import) (tidegate[\w.]*)(?: import (\([^)]*\)|[^\n]*))?", re.M)


def read_sources(package: Traversable) -> dict[str, bytes]:
    """The text of each module of a package; it may lie in a zip file, as Spark ships it."""
    found: dict[str, bytes] = {}

    def read(folder: Traversable, prefix: str) -> None:
        for entry in folder.iterdir():
            if entry.is_dir():
                read(entry, f"{prefix}.{entry.name}")
            elif entry.name.endswith(".py"):
                name = f"{prefix}.{entry.name[:-3]}".removesuffix(".__init__")
                found[name] = entry.read_bytes()

    read(package, PACKAGE)
    return found


def closure(module: str, sources: Mapping[str, bytes]) -> list[str]:
    """A module and all modules that it imports, however far away, by name."""
    reached, waiting = {module}, [module]
    while waiting:
        new = _imported(sources[waiting.pop()]) & sources.keys() - reached - KEEPERS
        reached |= new
        waiting += new
    return sorted(reached)


@cache
def _imported(text: bytes) -> frozenset[str]:
    """The modules of the package that a text imports, and names that may be modules."""
    names: set[str] = set()
    for match in _IMPORT.finditer(text):
        package = match[1].decode()
        names.add(package)
        names.update(f"{package}.{name}" for name in re.findall(r"\w+", (match[2] or b"").decode()))
    return frozenset(names)


def digest_in(module: str, sources: Mapping[str, bytes]) -> str:
    """A name for the text of a module and of all that it imports, among these sources."""
    digest = hashlib.blake2b(digest_size=8)
    for name in closure(module, sources):
        digest.update(name.encode() + b"\0" + sources[name] + b"\0")
    return digest.hexdigest()


@cache
def _package() -> dict[str, bytes]:
    return read_sources(files(PACKAGE))


@cache
def digest_of(module: str) -> str:
    """The digest of a module as it was imported; kernels of tests lie outside the package.

    Where the text cannot be read, code gets a name that no other process looks for.
    """
    try:
        if module in _package():
            return digest_in(module, _package())
        file = getattr(sys.modules.get(module), "__file__", None) or ""
        if file.endswith(".py") and not module.startswith(f"{PACKAGE}."):
            return digest_in(module, {**_package(), module: Path(file).read_bytes()})
    except OSError:
        pass
    return os.urandom(8).hex()


def package_digests() -> set[str]:
    """The digests of all modules of the package."""
    return {digest_of(module) for module in _package()}
