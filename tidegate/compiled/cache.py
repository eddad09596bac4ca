"""Machine code that outlives its process.

Law: code is loaded only if it was made of the present sources, by the present versions, for a CPU
that can run it, and if its file holds, byte by byte, what was written; otherwise the function is
compiled again. No state of a file, folder or disk makes a join fail: what cannot be read is
compiled, what cannot be written is not kept.

A file lies in a folder named after the sources (`sources`) and the compiler (`names`), and is named
after the function, its argument types and the CPU. It is a line of text, a checksum and a pickle.
The private parts of numba that caching needs are used here and in `names`, and nowhere else.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import pickle
import uuid
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numba.core import caching, sigutils
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.serialize import dumps

from tidegate.compiled.names import (
    Target,
    described,
    environment,
    runnable_targets,
    short_name,
    target_suffix,
)
from tidegate.compiled.places import cache_folder, mark_used, places, remove_unused
from tidegate.compiled.sources import digest_of
from tidegate.compiled.turns import turn

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

log = logging.getLogger("tidegate")

_HEAD = b"tidegate compiled code, format 1\n"
_CHECKSUM = 32


class UseOfCode:
    """What this process has compiled and loaded, as names of files.

    `asked` are those that Python called, not only other kernels while they were compiled: with
    these at hand nothing is compiled, since each holds all that it calls.
    """

    def __init__(self) -> None:
        self.compiled: list[str] = []
        self.loaded: list[str] = []
        self.asked: list[str] = []
        self.not_kept = 0
        self.depth = 0

    def note(self, name: str, done: list[str]) -> None:
        """Write down that a function was compiled or loaded."""
        done.append(name)
        if self.depth <= 1:
            self.asked.append(name)


use = UseOfCode()


class KeptCode(caching._Cache):  # type: ignore[misc]
    """The machine code of one function: numba asks it before it compiles, and hands it the code."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        code = function.__code__
        cells = tuple(cell.cell_contents for cell in function.__closure__ or ())
        self._text = (code.co_code.hex(), dumps(cells).hex() if cells else "")
        module = function.__module__.removeprefix("tidegate.")
        name = f"{module}.{function.__qualname__}".replace("<", "").replace(">", "")
        self._name = f"{name}-{code.co_firstlineno}"

    @property
    def folder(self) -> str:
        """The name of the folder, the same in all places."""
        return f"{digest_of(self._function.__module__)}-{environment()}"

    @property
    def cache_path(self) -> str | None:
        """Where code of this function is written."""
        base = cache_folder()
        return None if base is None else str(base / self.folder)

    def file_name(self, signature: Any, target: Target) -> str:
        """The name of the file of one overload, the same in all places."""
        arguments, _ = sigutils.normalize_signature(signature)
        key = short_name(list(map(described, arguments)), self._text)
        return f"{self._name}-{key}{target_suffix(target)}"

    def names(self, signature: Any, codegen: Any) -> list[str]:
        """The files that would serve on this machine, its own first, with their folder."""
        targets = runnable_targets(codegen.magic_tuple())
        return [f"{self.folder}/{self.file_name(signature, target)}" for target in targets]

    def exists(self, signature: Any, codegen: Any) -> bool:
        """Is there a file for this overload in any place? It may prove damaged."""
        return any(_is_file(p, n) for n in self.names(signature, codegen) for p in places())

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The code for these argument types, or None."""
        context.refresh()
        for name in self.names(signature, context.codegen()):
            for place in places():
                found = _loaded(place, name, context)
                if found is not None:
                    use.note(name, use.loaded)
                    return found
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep code that was just compiled."""
        name = f"{self.folder}/{self.file_name(signature, result.codegen.magic_tuple())}"
        use.note(name, use.compiled)
        base = cache_folder()
        # Code that holds addresses of this process cannot be kept.
        if base is None or result.lifted or result.library.has_dynamic_globals:
            use.not_kept += 1
            return
        reduced = list(result._reduce())
        reduced[6] = ""  # the types of all variables as text: large, and nobody reads it
        if not write_file(base / name, dumps(tuple(reduced))):
            use.not_kept += 1
            return
        _clean_once(base)

    def enable(self) -> None:
        """Code is always kept."""

    def disable(self) -> None:
        """Code is always kept."""

    def flush(self) -> None:
        """Other sources have other files: there is nothing to forget."""


def kept(dispatcher: Any) -> Any:
    """Let a function that numba made keep its code, and be compiled by one process at a time."""
    code = KeptCode(dispatcher.py_func)
    compile_or_load = dispatcher.compile

    def compile_in_turn(signature: Any) -> Any:
        # numba's lock comes first, for all threads alike: see `turns`.
        with global_compiler_lock, _one_deeper():
            arguments, _ = sigutils.normalize_signature(signature)
            codegen = dispatcher.targetctx.codegen()
            if tuple(arguments) in dispatcher.overloads or code.exists(signature, codegen):
                return compile_or_load(signature)
            own = code.names(signature, codegen)[0]
            with turn(cache_folder(), own, lambda: code.exists(signature, codegen)):
                return compile_or_load(signature)

    dispatcher._cache = code
    dispatcher.compile = compile_in_turn
    return dispatcher


@contextlib.contextmanager
def _one_deeper() -> Iterator[None]:
    use.depth += 1
    try:
        yield
    finally:
        use.depth -= 1


def _is_file(place: Traversable, name: str) -> bool:
    with contextlib.suppress(OSError):
        return place.joinpath(name).is_file()
    return False


def _loaded(place: Traversable, name: str, context: Any) -> Any:
    """The code in a file, or None if there is none or it is damaged."""
    file = place.joinpath(name)
    try:
        body = checked_body(file.read_bytes())
    except (OSError, KeyError):  # there is none; zip files raise KeyError
        return None
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error):
        log.warning("compiled code in %s is damaged; it is compiled again", file)
        if isinstance(file, Path) and place == cache_folder():
            with contextlib.suppress(OSError):
                file.unlink()
        return None
    try:
        found = CompileResult._rebuild(context, *pickle.loads(body))
    except Exception as error:
        log.warning("compiled code in %s cannot be loaded (%s); it is compiled again", file, error)
        return None
    if isinstance(file, Path) and place == cache_folder():
        mark_used(file.parent)
    return found


def checked_body(content: bytes) -> bytes:
    """What was written into a file; raises ValueError unless it is still the same."""
    begin = len(_HEAD) + _CHECKSUM
    head, checksum, body = content[: len(_HEAD)], content[len(_HEAD) : begin], content[begin:]
    if head != _HEAD or hashlib.blake2b(body, digest_size=_CHECKSUM).digest() != checksum:
        raise ValueError("not what was written")
    return body


def write_file(path: Path, body: bytes) -> bool:
    """Write a file under its checksum; other processes see all of it or none. Says if it worked."""
    checksum = hashlib.blake2b(body, digest_size=_CHECKSUM).digest()
    return write_whole(path, _HEAD + checksum + body)


def write_whole(path: Path, content: bytes) -> bool:
    """Write a file that is there in full or not at all."""
    new = path.with_name(f"{uuid.uuid4().hex}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_bytes(content)
        new.replace(path)
        return True
    except OSError as error:
        _say_once(str(path.parent.parent), error.strerror or str(error))
        with contextlib.suppress(OSError):
            new.unlink()
        return False


@cache
def _say_once(folder: str, reason: str) -> None:
    log.warning("compiled code cannot be kept in %s (%s)", folder, reason)


@cache
def _clean_once(base: Path) -> None:
    """Whoever compiles also removes what is no longer used."""
    remove_unused(base)
