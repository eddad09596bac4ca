"""Kept code in damaged files, closed folders, on full disks, and among several processes.

Law: whatever is wrong with a file, folder or disk, a kernel gives its result; damaged bytes are
never run. Several processes that need the same code compile it once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidegate.compiled import cache, places, turns

REPOSITORY = Path(places.__file__).parents[2]
POSIX = pytest.mark.skipif(os.name != "posix", reason="folders and locks of POSIX")

KERNELS = """
import time
from tidegate.compiled.kernel import kernel, routine

@routine
def squared(value):
    return value * value

@kernel
def total(values):
    result = 0.0
    for value in values:
        result += squared(value)
    return result
"""
# Prints the result, and how many functions were compiled, loaded and not kept.
CALL = """
import json, sys
import numpy as np
from small_kernels import total
from tidegate.compiled import cache, places
value = total(np.arange(4.0))
kept = cache.ledger
print(json.dumps({
    "value": value, "compiled": len(kept.compiled), "loaded": len(kept.loaded),
    "not_kept": kept.not_kept, "folder": str(places.cache_folder()),
}))
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that other users can read too, with the small kernels in it."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        home.chmod(0o755)
        (home / "small_kernels.py").write_text(KERNELS)
        yield home


def command(home: Path, code: str = CALL, *words: str, **environment: str) -> dict[str, Any]:
    inherited = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    return {
        "args": [sys.executable, "-c", code, *words],
        "env": {
            **inherited,
            "PYTHONPATH": f"{home}{os.pathsep}{REPOSITORY}",
            "TIDEGATE_CACHE": str(home / "cache"),
            "HOME": str(home / "nowhere"),
            **environment,
        },
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
        "cwd": home,
    }


def call(home: Path, code: str = CALL, *words: str, **environment: str) -> dict[str, Any]:
    done = subprocess.run(**command(home, code, *words, **environment), check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert answer["value"] == 14.0
    answer["said"] = done.stderr
    return answer


def counts(answer: dict[str, Any]) -> tuple[int, int, int]:
    return answer["compiled"], answer["loaded"], answer["not_kept"]


def code_files(home: Path) -> list[Path]:
    return sorted((home / "cache").rglob("*.code"))


def test_a_second_process_loads_what_the_first_compiled(home: Path) -> None:
    assert counts(call(home)) == (2, 0, 0)
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
    assert counts(again) == (2, 0, 0)
    assert "is damaged" in again["said"]
    assert counts(call(home)) == (0, 1, 0)


def test_a_file_that_is_whole_but_senseless_is_compiled_again(home: Path) -> None:
    call(home)
    code = "import sys; from pathlib import Path; from tidegate.compiled.cache import write_file; "
    code += "[write_file(Path(name), b'senseless') for name in sys.argv[1:]]"
    files = map(str, code_files(home))
    assert subprocess.run(**command(home, code, *files), check=False).returncode == 0
    again = call(home)
    assert counts(again) == (2, 0, 0)
    assert "cannot be loaded" in again["said"]


def test_a_folder_in_the_place_of_a_file(home: Path) -> None:
    call(home)
    for file in code_files(home):
        file.unlink()
        file.mkdir()
    assert call(home)["compiled"] == 2


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
        assert counts(answer) == (2, 0, 2)
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
    assert counts(answer) == (2, 0, 2)
    assert answer["said"].count("cannot be kept") == 1
    assert code_files(home) == []
    assert list((home / "cache").rglob("*.new")) == []
    assert counts(call(home)) == (2, 0, 0)


TOGETHER = """
import time
from pathlib import Path
from small_kernels import total
Path(f"ready-{__import__('os').getpid()}").touch()
while not Path("go").exists():
    time.sleep(0.001)
"""


@POSIX
def test_one_of_several_processes_compiles(home: Path) -> None:
    number = 3
    running = [subprocess.Popen(**command(home, TOGETHER + CALL)) for _ in range(number)]
    while len(list(home.glob("ready-*"))) < number:
        assert all(process.poll() is None for process in running)
        time.sleep(0.01)
    (home / "go").touch()
    answers = []
    for process in running:
        said, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        answers.append(json.loads(said.splitlines()[-1]))
    assert sum(answer["compiled"] for answer in answers) == 2
    assert sorted(answer["loaded"] for answer in answers) == [0, 1, 1]


HOLD = """
import time
from pathlib import Path
from tidegate.compiled.turns import turn
with turn(Path("locks"), "name", lambda: False):
    Path("held").touch()
    time.sleep(600)
"""


@POSIX
def test_a_turn_ends_with_its_process_and_waiting_is_bounded(home: Path) -> None:
    locks = home / "locks"
    locks.mkdir()
    holder = subprocess.Popen(**command(home, HOLD))
    while not (home / "held").exists():
        assert holder.poll() is None, holder.communicate()
        time.sleep(0.01)
    # Waits as long as it may, then goes on without the lock.
    began = time.monotonic()
    with turns.turn(locks, "name", lambda: False, seconds=0.3):
        waited = time.monotonic() - began
        assert 0.3 <= waited < 5.0
        assert not turns._held
    # Goes on at once when the code is there; another name is free.
    with turns.turn(locks, "name", lambda: True, seconds=60.0):
        assert not turns._held
    with turns.turn(locks, "another name", lambda: False, seconds=60.0):
        assert len(turns._held) == 1
    # A process that dies gives its turn back.
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    with turns.turn(locks, "name", lambda: False, seconds=60.0):
        assert len(turns._held) == 1
        with turns.turn(locks, "name", lambda: False, seconds=60.0):  # nested: no second wait
            assert len(turns._held) == 1
        assert len(turns._held) == 1
    assert not turns._held


def test_where_there_are_no_locks_everybody_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with turns.turn(tmp_path / "missing", "name", lambda: False):
        assert not turns._held
    with turns.turn(None, "name", lambda: False):
        assert not turns._held
    monkeypatch.setattr(turns, "HAS_LOCKS", False)
    with turns.turn(tmp_path, "name", lambda: False):
        assert not turns._held


def aged(folder: Path, days: float) -> Path:
    folder.mkdir()
    (folder / "some.code").write_text("")
    then = time.time() - days * places.SECONDS_PER_DAY
    os.utime(folder, (then, then))
    return folder


def test_folders_that_nobody_uses_are_removed(tmp_path: Path) -> None:
    old = aged(tmp_path / "0123456789abcdef-01234567", 31)
    older_layout = aged(tmp_path / "0123456789abcdef", 31)
    used = aged(tmp_path / "1123456789abcdef-01234567", 31)
    recent = aged(tmp_path / "2123456789abcdef-01234567", 29)
    foreign = aged(tmp_path / "photos", 400)
    left = aged(tmp_path / f"removed-{'0' * 32}", 0)
    places.mark_used(used)
    assert set(places.remove_unused(tmp_path)) == {old.name, older_layout.name}
    assert {path.name for path in tmp_path.iterdir()} == {used.name, recent.name, foreign.name}
    assert not left.exists()
    assert (used / "some.code").exists()


def test_loading_code_marks_its_folder_and_compiling_removes_old_ones(home: Path) -> None:
    call(home)
    (folder,) = {file.parent for file in code_files(home)}
    long_ago = time.time() - 29 * places.SECONDS_PER_DAY
    os.utime(folder, (long_ago, long_ago))
    old = aged(folder.with_name("0123456789abcdef-01234567"), 31)
    assert counts(call(home)) == (0, 1, 0)
    assert time.time() - folder.stat().st_mtime < 100
    assert old.exists()  # whoever only loads does not look around
    with (home / "small_kernels.py").open("a") as file:
        file.write("\n# another version\n")
    assert counts(call(home)) == (2, 0, 0)
    assert not old.exists()


HASH = """
import json, sys, zipfile
from pathlib import Path
import numpy as np
from tidegate.columns.encoding import _hash_words
from tidegate.compiled import cache, places
from tidegate.compiled.pack import packed, present_files
if sys.argv[1:]:
    places.add_place(zipfile.Path(sys.argv[1]))
_hash_words(np.arange(3, dtype=np.uint64), np.zeros(3, np.uint64))
kept = cache.ledger
Path("code.zip").write_bytes(packed(present_files())[1])
print(json.dumps({
    "value": 14.0, "compiled": len(kept.compiled), "loaded": len(kept.loaded),
    "not_kept": kept.not_kept, "suffix": cache.target_suffix(cache.own_target()),
}))
"""


def test_code_in_a_zip_file_serves_the_same_cpu_and_no_other(home: Path) -> None:
    made = call(home, HASH)
    assert counts(made) == (2, 0, 0)
    code = (home / "code.zip").rename(home / "packed.zip")
    fresh = str(home / "fresh")
    assert counts(call(home, HASH, "packed.zip", TIDEGATE_CACHE=fresh)) == (0, 1, 0)
    # The same code under the name of another CPU is not looked at.
    with zipfile.ZipFile(code) as archive, zipfile.ZipFile(home / "other.zip", "w") as other:
        assert len(archive.namelist()) == 2
        for name in archive.namelist():
            other.writestr(name.replace(made["suffix"], ".01234567.code"), archive.read(name))
    assert counts(call(home, HASH, "other.zip", TIDEGATE_CACHE=fresh)) == (2, 0, 0)


def test_a_zip_file_that_is_damaged_is_not_used(home: Path) -> None:
    call(home, HASH)
    code = (home / "code.zip").read_bytes()
    (home / "half.zip").write_bytes(
        code[: len(code) // 2] + bytes(40) + code[len(code) // 2 + 40 :]
    )
    fresh = str(home / "fresh")
    assert counts(call(home, HASH, "half.zip", TIDEGATE_CACHE=fresh))[0] > 0


def test_clean_removes_the_code_of_these_sources_only(home: Path) -> None:
    call(home, HASH)
    call(home)
    assert len({file.parent for file in code_files(home)}) == 2
    code = "from tidegate.compiled.clean import clean; print(clean())"
    done = subprocess.run(**command(home, code), check=False)
    assert done.stdout.split() == ["1"], done.stderr
    assert {file.name.partition(".")[0] for file in code_files(home)} == {"small_kernels"}
