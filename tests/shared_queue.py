"""Several runs of pytest at once: each takes the next test file that no other run has taken.

`scripts/test.sh` names a folder in TIDEGATE_TEST_QUEUE. A run that comes to the first test of a
file puts a file of that name there; if there is one, another run has taken the tests. Without the
variable a run has all its tests. The files that take longest come first, so that no run is left
alone with one of them at the end.

Law: a run knows which test it runs next before it runs one, since pytest keeps the fixtures that
two tests in a row share. So a file is taken before the last test of the file before it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

# 25 to 60 CPU seconds each, with what they compile; the order of all others matters little.
LONGEST_FIRST = (
    "test_reproduce.py", "test_sampling_many.py", "test_many_policies.py", "test_sampling_engine.py"
)  # fmt: skip


class SharedQueue:
    """A pytest plugin: runs the tests of files that this process was the first to take."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        order = {name: place for place, name in enumerate(LONGEST_FIRST)}
        items.sort(key=lambda item: order.get(item.path.name, len(order)))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """As pytest's own loop, which then has nothing left to do."""
        if session.testsfailed or session.config.option.collectonly:
            return None
        turns = self._taken(session.items)
        item = next(turns, None)
        while item is not None:
            following = next(turns, None)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
            item = following
        return True

    def _taken(self, items: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
        """The tests of this run; a file is taken when its first test is asked for."""
        mine: dict[Path, bool] = {}
        for item in items:
            if item.path not in mine:
                mine[item.path] = self._take(item)
            if mine[item.path]:
                yield item

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
