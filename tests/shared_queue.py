"""Several runs of pytest at once: each takes the next test file that no other run has taken.

`scripts/test.sh` names a folder in TIDEGATE_TEST_QUEUE. A run that comes to the first test of a
file puts a file of that name there; if there is one, another run has taken the tests. Without the
variable a run has all its tests. The files that take longest come first, so that no run is left
alone with one of them at the end.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# By measured CPU time; the order of all others matters little.
LONGEST_FIRST: tuple[str, ...] = ()


class SharedQueue:
    """A pytest plugin: runs the tests of files that this process was the first to take."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.taken: dict[Path, bool] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        order = {name: place for place, name in enumerate(LONGEST_FIRST)}
        items.sort(key=lambda item: order.get(item.path.name, len(order)))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """True says that the test needs no one else: it was taken by another run."""
        if item.path not in self.taken:
            self.taken[item.path] = self._take(item)
        return None if self.taken[item.path] else True

    def _take(self, item: pytest.Item) -> bool:
        name = item.nodeid.split("::")[0].replace("/", ".")
        try:
            os.close(os.open(self.folder / name, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


def shared_queue() -> SharedQueue | None:
    """The plugin, if this run shares its tests."""
    folder = os.environ.get("TIDEGATE_TEST_QUEUE")
    return SharedQueue(Path(folder)) if folder else None
