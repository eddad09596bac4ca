"""A small hunt; `python -m tests.hunt` runs larger ones."""

from __future__ import annotations

from hunt import hunt

CASES = 55  # five of each kind


def test_nothing_is_found() -> None:
    found = hunt(1, CASES)
    assert found.cases.total() == CASES
    assert found.findings == [], found.table()
