"""What the driver can do that no join asks for yet.

Law: it stops and goes on inside one arrival's results; it looks at a part of a window and is
charged for what it looks at; it reports who leaves, and why; it counts results without writing
them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidegate as tg
from tidegate.driver import leaving
from tidegate.engine import results
from tidegate.state.join_state import DEPARTURE, DEPARTURES

ROWS = 300
JOINS = {
    "in order": {},
    "out of order": {"lateness": 5},
    "instants": {"ties": "instant"},
    "under a budget": {"memory": 40, "policy": "value"},
    "instants under a budget": {"memory": 40, "policy": "prob", "ties": "instant"},
    "band": {"on": tg.band("k", -1, 1)},
}
joins = pytest.mark.parametrize("options", JOINS.values(), ids=JOINS)


def tables(seed: int = 7) -> dict[str, pa.Table]:
    rng = np.random.default_rng(seed)
    return {
        name: pa.table({"t": np.sort(rng.integers(0, 100, ROWS)), "k": rng.integers(0, 3, ROWS)})
        for name in ("left", "right")
    }


def engine_of(options: dict[str, Any], kind: type[tg.JoinEngine] = tg.JoinEngine) -> tg.JoinEngine:
    spec = tg.JoinSpec(**{"on": "k", "time": "t", "within": 30, **options})
    return kind(spec, {name: table.schema for name, table in tables().items()})


@joins
def test_results_of_one_arrival_in_many_pieces(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = engine_of(options)
    expected = whole.push(tables())
    monkeypatch.setattr(results, "OUTPUT_ROOM", 3)
    monkeypatch.setattr(results, "SMALL_ROOM", 3)
    engine = engine_of(options)
    pieces = list(engine.results(tables()))
    assert max(piece.num_rows for piece in pieces) == 3
    assert pa.concat_tables(pieces).to_pylist() == expected.to_pylist()
    assert engine.stats() == whole.stats()


def test_a_part_of_the_window() -> None:
    class Narrow(tg.JoinEngine):
        def _work(self, arrivals: Any, scratch: Any) -> Any:
            work = super()._work(arrivals, scratch)
            work.part[:] = 5, 10
            return work

    spec = tg.JoinSpec(on="k", time="t", within=30, lateness=5)
    everything = tg.JoinEngine(spec).push(tables()).to_pylist()
    engine = Narrow(spec)
    found = engine.push(tables()).to_pylist()
    assert found == [row for row in everything if 5 <= abs(row["t"] - row["t_right"]) <= 10]
    assert 0 < len(found) < len(everything)


@joins
def test_departures_are_reported(options: dict[str, Any]) -> None:
    left: list[tuple[int, ...]] = []

    class Reporting(tg.JoinEngine):
        def _departures(self, output: Any) -> None:
            left.extend(map(tuple, output.left[: output.filled[DEPARTURES]].tolist()))
            super()._departures(output)

    engine = engine_of(options, Reporting)
    engine._state.gate[0].reports_left = 1
    room, left_rows = engine._results.room, np.zeros((2 * ROWS + 2, DEPARTURE), np.int64)
    engine._results.room = lambda scratch: room(scratch)._replace(  # type: ignore[method-assign]
        left=left_rows, worth=np.zeros(len(left_rows))
    )
    engine.push(tables())
    stats = engine.stats()
    for why, name in ((leaving.EXPIRED, "expired"), (leaving.EVICTED, "evicted")):
        assert sum(1 for row in left if row[2] == why) == stats[name]
    assert sum(1 for row in left if row[2] == leaving.REFUSED) == stats["refused"]
    assert len({row[:2] for row in left}) == len(left) > 0


@joins
def test_results_are_only_counted(options: dict[str, Any]) -> None:
    expected = engine_of(options)
    rows = expected.push(tables()).num_rows
    engine = engine_of(options)
    engine._state.gate[0].only_counts = 1
    assert engine.push(tables()).num_rows == 0
    assert engine.stats()["rows_out"] == rows > 0
    assert engine.stats()["importance_out"] == expected.stats()["importance_out"]
