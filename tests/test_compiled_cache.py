"""Kept code in damaged files, closed folders and on full disks.

Law: whatever is wrong with a file, folder or disk, a kernel gives its result; damaged bytes are
never run.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fresh_process import CALL, KERNELS, call, code_files, command, counts

from tidegate.compiled import cache, places

POSIX = pytest.mark.skipif(os.name != "posix", reason="folders and locks of POSIX")


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that other users can read too, with the small kernels in it."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        home.chmod(0o755)
        (home / "small_kernels.py").write_text(KERNELS)
        yield home


def test_a_second_process_loads_what_the_first_compiled(home: Path) -> None:
    assert counts(call(home)) == (1, 0, 0)
    # The called function is part of the calling one.
    assert counts(call(home)) == (0, 1, 0)


def truncated(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flipped(content: bytes) -> bytes:
    at = len(content) * 3 // 4
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def emptied(content: bytes) -> bytes:
    return b""


def lengthened(content: bytes) -> bytes:
    return content + b"\0"


def beheaded(content: bytes) -> bytes:
    return b"X" + content[1:]


@pytest.mark.parametrize("damage", [truncated, flipped, emptied, lengthened, beheaded])
def test_damage_is_noticed(tmp_path: Path, damage: Any) -> None:
    file = tmp_path / "folder" / "some.code"
    assert cache.write_file(file, b"machine code")
    content = file.read_bytes()
    assert cache.checked_body(content) == b"machine code"
    with pytest.raises(ValueError, match="not what was written"):
        cache.checked_body(damage(content))


@pytest.mark.parametrize("damage", [truncated, flipped])
def test_damaged_code_is_compiled_again(home: Path, damage: Any) -> None:
    call(home)
    for file in code_files(home):
        file.write_bytes(damage(file.read_bytes()))
    again = call(home)
    assert counts(again) == (1, 0, 0)
    assert "is damaged" in again["said"]
    assert counts(call(home)) == (0, 1, 0)


def test_a_file_that_is_whole_but_senseless_is_compiled_again(home: Path) -> None:
    call(home)
    code = "import sys; from pathlib import Path; from tidegate.compiled.cache import write_file; "
    code += "[write_file(Path(name), b'senseless') for name in sys.argv[1:]]"
    files = map(str, code_files(home))
    assert subprocess.run(**command(home, code, *files), check=False).returncode == 0
    again = call(home)
    assert counts(again) == (1, 0, 0)
    assert "cannot be loaded" in again["said"]


def test_a_folder_in_the_place_of_a_file(home: Path) -> None:
    call(home)
    for file in code_files(home):
        file.unlink()
        file.mkdir()
    assert call(home)["compiled"] == 1


AS_NOBODY = "import os\nif os.getuid() == 0:\n    os.setgid(65534), os.setuid(65534)\n"


@POSIX
def test_a_read_only_folder_is_read(home: Path) -> None:
    """As in a container: filled while its image was built, read by somebody else."""
    call(home)
    for path in (home / "cache").rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    (home / "cache").chmod(0o555)
    try:
        # numba loads its parts before the user changes: the interpreter may be closed to others.
        code = "import numba, small_kernels\nnumba.njit(lambda: 1)()\n" + AS_NOBODY + CALL
        answer = call(home, code)
        assert counts(answer) == (0, 1, 0)
        assert answer["folder"] != str(home / "cache" / "tidegate")
    finally:
        for path in [home / "cache", *(home / "cache").rglob("*")]:
            path.chmod(0o755)


@POSIX
def test_no_folder_at_all(home: Path) -> None:
    """Nowhere to write: the kernel runs, and nothing is kept."""
    (home / "cache").write_text("a file, not a folder")
    (home / "closed").write_text("the same")
    answer = call(
        home, TIDEGATE_CACHE=str(home / "cache"), XDG_CACHE_HOME=str(home / "closed"),
        TMPDIR=str(home / "closed"), TEMP=str(home / "closed"), TMP=str(home / "closed"),
    )  # fmt: skip
    if answer["folder"] == "None":
        assert counts(answer) == (1, 0, 1)
    else:  # Python found a temporary directory of its own
        assert Path(answer["folder"]).parent.stat().st_mode & 0o077 == 0


@POSIX
def test_the_temporary_folder_must_be_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places.tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("TIDEGATE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    (tmp_path / "file").write_text("")
    choose = places.cache_folder.__wrapped__
    folder = tmp_path / f"tidegate-{os.getuid()}"
    assert choose() == folder / "compiled"
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)  # others could look in
    assert choose() is None
    folder.chmod(0o700)
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")  # planted by somebody else
    assert choose() is None
    if os.getuid() == 0:
        folder.unlink()
        folder.mkdir(mode=0o700)
        os.chown(folder, 65534, 65534)
        assert choose() is None


FULL_DISK = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))  # a write of more fails, as on a full disk
"""


@POSIX
def test_a_full_disk_means_no_cache(home: Path) -> None:
    answer = call(home, FULL_DISK + CALL)
    assert counts(answer) == (1, 0, 1)
    assert answer["said"].count("cannot be kept") == 1
    assert code_files(home) == []
    assert list((home / "cache").rglob("*.new")) == []
    assert counts(call(home)) == (1, 0, 0)
