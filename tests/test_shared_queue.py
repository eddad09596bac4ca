"""Runs that share the test files: each test runs once, and fixtures end where they would anyway."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# A fixture of a package, which pytest keeps while the next test is in the package too.
FIXTURE = """
import pytest

@pytest.fixture(scope="package", autouse=True)
def held():
    yield
    print("released")
"""


def test_files_are_taken_once(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    for room in ("first", "second"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").touch()
        (tmp_path / room / "conftest.py").write_text(FIXTURE)
        for name in ("test_a.py", "test_b.py"):
            (tmp_path / room / name).write_text("def test_it(): print('it ran')\n")
    (taken / "first.test_b.py").touch()
    (tmp_path / "conftest.py").write_text(
        "from shared_queue import shared_queue\n"
        "def pytest_configure(config): config.pluginmanager.register(shared_queue())\n"
    )
    environment = {
        **os.environ,
        "TIDEGATE_TEST_QUEUE": str(taken),
        "PYTHONPATH": str(Path(__file__).parent),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    for runs in (3, 0):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-sq", "-p", "no:cacheprovider", str(tmp_path)],
            env=environment, cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.stdout.count("it ran") == runs, done.stdout
        assert done.stdout.count("released") == (2 if runs else 0)
        assert "error" not in done.stdout
    assert len(list(taken.iterdir())) == 4
