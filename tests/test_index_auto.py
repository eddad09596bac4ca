"""`index="auto"` of a band join follows what is observed, and changes no row.

Law: an engine that chooses gives the rows of one that does not, and a restored one goes on with the
indexes it had.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

import tidegate as tg
from tidegate.binding.spec_records import INDEX_CODES
from tidegate.costs.weights import TYPICAL
from tidegate.engine import indexing, snapshot
from tidegate.engine.indexing import is_open

SPEC = tg.JoinSpec(on=tg.band("x", -3, 3), time="t", within=500)


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choices that do not depend on the machine that runs the tests."""
    monkeypatch.setattr(indexing, "weights_of", lambda name: TYPICAL)


def pushes(shares: list[float], rows: int = 6000) -> list[dict[str, pa.Table]]:
    """One tuple per unit of time in each push, a share of them on the left."""
    rng = np.random.default_rng(4)
    made = []
    for number, share in enumerate(shares):
        times = np.arange(rows) + rows * number
        is_left = rng.random(rows) < share
        x = rng.integers(0, 100_000, rows)
        made.append(
            {
                name: pa.table({"t": times[mine], "x": x[mine]})
                for name, mine in (("left", is_left), ("right", ~is_left))
            }
        )
    return made


def indexes(engine: tg.JoinEngine) -> str:
    names = {code: name[0] for name, code in INDEX_CODES.items()}
    return "".join(names[int(kind)] for kind in engine._state.lanes.index)


def rows(table: pa.Table) -> list[str]:
    return sorted(map(str, table.to_pylist()))


def test_indexes_follow_the_load_and_rows_stay() -> None:
    """A stream that hardly searches leaves the other window without an index worth its upkeep."""
    parts = pushes([0.99, 0.99, 0.5, 0.5, 0.01, 0.01])
    auto, fixed = tg.JoinEngine(SPEC), tg.JoinEngine(SPEC.replace(index="btree"))
    seen = []
    for part in parts:
        assert rows(auto.push(part)) == rows(fixed.push(part))
        seen.append(indexes(auto))
    assert seen == ["nb", "nb", "bb", "bb", "bn", "bn"]
    assert indexes(fixed) == "bb"
    same = ("rows_out", "alive", "expired", "memory_rows")
    assert {n: auto.stats()[n] for n in same} == {n: fixed.stats()[n] for n in same}


def test_a_window_whose_index_was_asked_for_keeps_it() -> None:
    engine = tg.JoinEngine(SPEC.replace(index={"left": "btree", "right": "auto"}))
    for part in pushes([0.99, 0.01]):
        engine.push(part)
    assert indexes(engine) == "bn"


def test_snapshots_keep_the_choice() -> None:
    parts = pushes([0.99, 0.99, 0.01])
    through = tg.JoinEngine(SPEC)
    through.push(parts[0])
    restored = tg.JoinEngine.restore(through.snapshot())
    assert indexes(restored) == indexes(through) == "nb"
    for part in parts[1:]:
        assert restored.push(part).equals(through.push(part))
    assert indexes(restored) == indexes(through) == "bn"


@pytest.mark.parametrize("kinds", [[1], [0, 99], "bb", [True, 1], [INDEX_CODES["hash"], 1]])
def test_damaged_choices_are_refused(kinds: object) -> None:
    engine = tg.JoinEngine(SPEC)
    engine.push({name: pa.table({"t": [1], "x": [1]}) for name in ("left", "right")})
    blob = engine.snapshot()
    saved = snapshot.load(blob)
    saved.counted["index"] = json.loads(json.dumps(kinds))
    fresh = tg.JoinEngine(SPEC, saved.schemas)
    with pytest.raises(tg.TidegateError, match="its indexes are"):
        fresh._refill(saved)


def test_who_asks() -> None:
    assert is_open(SPEC)
    for changes in (
        {"on": "x"},
        {"on": ["y", tg.band("x", 0, 1)]},
        {"index": "btree"},
        {"memory": 100, "policy": "recent"},
        {"on": tg.overlap("x", 1)},
    ):
        assert not is_open(SPEC.replace(**changes))


def test_an_observed_workload() -> None:
    found = indexing.observed((100, 300), (10, 40), 700)
    assert found.windows == (10, 40)
    assert found.rates == (100, 300)
    assert found.sigma == pytest.approx(700 / (100 * 40 + 300 * 10))
    assert indexing.observed((1, 0), (0, 0), 5).sigma == 1.0
