"""How many results a join has, without writing them.

Law: as `tidegate.join`, but for the results themselves: what is retained, who goes and every number
of `stats()` are the same. So joins can be counted whose results nobody could hold: a key with a
hundred tuples on each of five streams has ten thousand million.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from tidegate.engine.join_engine import JoinEngine
from tidegate.engine.replay import replay
from tidegate.spec import JoinSpec


def count_results(tables: Mapping[str, pa.Table], spec: JoinSpec) -> dict[str, int | float]:
    """The `stats()` of a join whose results are counted only."""
    engine = JoinEngine(spec, {name: table.schema for name, table in tables.items()})
    engine._state.gate[0].only_counts = 1
    for _ in replay(engine, tables):
        pass
    return engine.stats()
