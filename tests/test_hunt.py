"""A small hunt; `python -m tests.hunt` runs larger ones."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def test_nothing_is_found() -> None:
    path = Path(__file__).with_name("hunt.py")
    description = importlib.util.spec_from_file_location("hunt", path)
    assert description is not None
    assert description.loader is not None
    hunt = importlib.util.module_from_spec(description)
    sys.modules["hunt"] = hunt
    description.loader.exec_module(hunt)
    found = hunt.hunt(1, 300)
    assert found.cases.total() == 300
    assert found.findings == [], found.table()
