"""Code that is shared: between processes, with other machines, and how it goes away.

Law: several processes that need the same code compile it once. Packed code serves the CPU that it
was made for and no other. What nobody uses is removed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fresh_process import CALL, KERNELS, call, code_files, command, counts

from tidegate.compiled import places, turns

POSIX = pytest.mark.skipif(os.name != "posix", reason="folders and locks of POSIX")


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that other users can read too, with the small kernels in it."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        home.chmod(0o755)
        (home / "small_kernels.py").write_text(KERNELS)
        yield home


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
    assert sum(answer["compiled"] for answer in answers) == 1
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
    assert counts(call(home)) == (1, 0, 0)
    assert not old.exists()


HASH = """
import json, sys, zipfile
from pathlib import Path
import numpy as np
from tidegate.columns.encoding import _hash_words
from tidegate.compiled import cache, names, places
from tidegate.compiled.pack import packed, present_files
if sys.argv[1:]:
    places.add_place(zipfile.Path(sys.argv[1]))
_hash_words(np.arange(3, dtype=np.uint64), np.zeros(3, np.uint64))
kept = cache.use
Path("code.zip").write_bytes(packed(present_files())[1])
print(json.dumps({
    "value": 14.0, "compiled": len(kept.compiled), "loaded": len(kept.loaded),
    "not_kept": kept.not_kept, "suffix": names.target_suffix(names.own_target()),
}))
"""


def test_code_in_a_zip_file_serves_the_same_cpu_and_no_other(home: Path) -> None:
    made = call(home, HASH)
    assert counts(made) == (1, 0, 0)
    code = (home / "code.zip").rename(home / "packed.zip")
    fresh = str(home / "fresh")
    assert counts(call(home, HASH, "packed.zip", TIDEGATE_CACHE=fresh)) == (0, 1, 0)
    # The same code under the name of another CPU is not looked at.
    with zipfile.ZipFile(code) as archive, zipfile.ZipFile(home / "other.zip", "w") as other:
        assert len(archive.namelist()) == 1
        for name in archive.namelist():
            other.writestr(name.replace(made["suffix"], ".01234567.code"), archive.read(name))
    assert counts(call(home, HASH, "other.zip", TIDEGATE_CACHE=fresh)) == (1, 0, 0)


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
