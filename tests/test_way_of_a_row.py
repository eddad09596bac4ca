"""The way of a row in ARCHITECTURE.md is the way that a row takes.

Law: every module that the page names is there and is called by a push; the modules that do one step
after the other are called in the order of the page; and every room stands on the way or among those
that it leaves out.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest
from strategies import only_plain

import tidegate as tg

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "tidegate"
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
# What comes one after the other for each push; others are called between them, some twice.
STEPS = (
    "engine/join_engine", "columns/intake", "binding/binding", "binding/batching",
    "columns/payload", "engine/running", "driver/arrival", "driver/leaving", "driver/meeting",
    "driver/probing", "binding/matching", "driver/observing", "columns/settling",
)  # fmt: skip


def section(title: str) -> str:
    """The text under a heading."""
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def names(text: str) -> list[str]:
    """What stands in backticks, once each, in order."""
    return list(dict.fromkeys(re.findall(r"`([a-z_0-9/]+)`", text)))


WAY, ON_SPARK = section("The way of a row").split("From `window_join`")
MODULES = [name for name in names(WAY) if "/" in name]


@contextmanager
def called(found: list[str]) -> Iterator[None]:
    """The modules of the package whose functions are called, in order of the first call."""

    def see(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            name = path.relative_to(PACKAGE).with_suffix("").as_posix()
            if name not in found:
                found.append(name)

    sys.setprofile(see)
    try:
        yield
    finally:
        sys.setprofile(None)


def stream(begin: int, shift: int) -> pa.Table:
    times = range(begin, begin + 20)
    keys = [(t * 7 + shift) % 5 for t in times]
    return pa.table({"t": times, "k": keys, "tags": [[key, key + 1] for key in keys]})


def modules_of_a_push(**options: Any) -> list[str]:
    """The second push, since the first makes what an engine keeps."""
    names = options.get("streams", ("left", "right"))
    wish = {"on": "k", "time": "t", "within": 9, "streams": names}
    engine = tg.JoinEngine(tg.JoinSpec(**{**wish, **options}))
    engine.push({name: stream(0, at) for at, name in enumerate(names)})
    found: list[str] = []
    with called(found):
        engine.push({name: stream(20, at) for at, name in enumerate(names)})
    return found


@pytest.mark.nojit
@only_plain
def test_a_push_goes_the_way_of_the_page() -> None:
    found = modules_of_a_push(lateness=2, memory=12, policy="value")
    assert [name for name in found if name in STEPS] == list(STEPS)
    listed = [name for name in MODULES if name in STEPS]
    assert listed == list(STEPS)
    for options in (
        {},
        {"on": tg.overlap("tags", 1)},
        {"lateness": 2, "memory": 12, "policy": "uniform"},
        {"ties": "instant", "memory": 12},
        {"lateness": 2, "cpu": tg.Cpu(3.0)},
        {"lateness": 2, "streams": ("a", "b", "c")},
    ):
        found += modules_of_a_push(**options)
    assert set(MODULES) - set(found) == set()


def test_every_module_and_every_room_is_there() -> None:
    for name in (*MODULES, *(name for name in names(ON_SPARK) if "/" in name)):
        assert (PACKAGE / f"{name}.py").is_file() or (PACKAGE / name).is_dir(), name
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert {name.partition("/")[0] for name in names(WAY + ON_SPARK)} >= rooms
