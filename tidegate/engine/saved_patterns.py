"""What `arrival-order` has learned, in a snapshot: the rows of its tables that are in use.

Law: a restored join names the same victims. Where it may have fewer rows than were written, those
that were seen last are added up in the row that all share which have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.engine.snapshot_checks import check_part, require, within
from tidegate.estimators.patterns import OTHERS, WHOLE, Patterns
from tidegate.shed import standing_patterns
from tidegate.shed.shed_records import Shed
from tidegate.state import shed_arrays

_TABLES = ("results", "retained", "halved")


def dump(patterns: Patterns) -> dict[str, Any]:
    """The rows in use, and the place of each."""
    rows = int(patterns.rows[0])
    parts = {f"patterns.{name}": getattr(patterns, name)[:rows] for name in _TABLES}
    return parts | {"patterns.place": patterns.place[:rows]}


def refill(
    shed: Shed, kinds: Mapping[str, str], saved: Mapping[str, Any], line: NDArray[np.int64]
) -> Shed:
    """Put them into a fresh `Shed` whose members, which stand in `line`, are written."""
    streams = len(shed.queues)
    place = saved["patterns.place"]
    written = len(place)
    assert shed.patterns is not None
    check_part("patterns.place", kinds["patterns.place"], shed.patterns.place)
    tables = {}
    for name in _TABLES:
        table = saved[f"patterns.{name}"]
        check_part(f"patterns.{name}", kinds[f"patterns.{name}"], shed.patterns.results)
        require(table.size == written * streams, "its patterns do not add up")
        require(np.isfinite(table).all() and (table >= 0).all(), "a count is negative")
        tables[name] = table.reshape(written, streams)
    named = np.delete(place, OTHERS)
    require(written > OTHERS and len(np.unique(named)) == len(named), "a pattern is there twice")
    require(within(named, 0, len(shed.patterns.row)), "a pattern is out of range")
    require(place[WHOLE] == len(shed.patterns.row) - 1, "its patterns do not add up")
    keys, of = shed.members.key[line], shed.members.notes.stream[line]
    require(within(keys, 0, written), "a pattern is out of range")
    require((tables["retained"][keys, of] > 0).all(), "a pattern was never retained")
    older = shed.members.priority[line]
    require(((older >= 0) & (older <= tables["halved"][keys, of])).all(), "a count is wrong")

    rows = min(written, int(shed.patterns.rows[1]))
    if rows > len(shed.patterns.place):
        shed = shed_arrays.with_pattern_rows(shed, rows)
    patterns = shed.patterns
    assert patterns is not None
    for name in _TABLES:
        getattr(patterns, name)[:rows] = tables[name][:rows]
    for name in ("results", "retained"):
        getattr(patterns, name)[OTHERS] += tables[name][rows:].sum(axis=0)
    moved = keys >= rows
    shed.members.key[line[moved]] = OTHERS
    shed.members.priority[line[moved]] = patterns.halved[OTHERS, of[moved]]
    patterns.place[:rows] = place[:rows]
    patterns.row[np.delete(place[:rows], OTHERS)] = np.delete(np.arange(rows), OTHERS)
    patterns.rows[0] = rows
    standing_patterns.write_all(shed)
    return shed
