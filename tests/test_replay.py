"""A replay in pieces gives what one push gives, wherever the pieces are cut."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate as tg
from tidegate.engine import results
from tidegate.engine.replay import replay

Streams = dict[str, pa.Table]


def _streams(seed: int, rows: int, span: int, ordered: bool) -> Streams:
    generator = np.random.default_rng(seed)
    streams = {}
    for name, unit in (("left", "us"), ("right", "ms")):
        seconds = generator.integers(0, span, rows)
        times = np.sort(seconds) if ordered else seconds
        moments: list[Any] = [
            datetime.datetime(2024, 1, 1) + datetime.timedelta(seconds=int(t)) for t in times
        ]
        if rows > 3 and not ordered:
            moments[2] = None
        streams[name] = pa.table(
            {
                "ts": pa.array(moments, pa.timestamp(unit)),
                "key": pa.array([str(k) for k in generator.integers(0, 4, rows)]),
                "row": pa.array(np.arange(rows)),
            }
        )
    return streams


def _spec(**changes: Any) -> tg.JoinSpec:
    return tg.JoinSpec(on="key", time="ts", within="5 s").replace(**changes)


def _in_pieces(
    spec: tg.JoinSpec, streams: Mapping[str, pa.Table], rows_per_push: int
) -> tuple[pa.Table, dict[str, int | float], list[tuple[int, int]]]:
    engine = tg.JoinEngine(spec)
    seen: list[tuple[int, int]] = []
    tables = list(replay(engine, streams, lambda *rows: seen.append(rows), rows_per_push))
    return pa.concat_tables(tables), engine.stats(), seen


def _accounts(stats: Mapping[str, int | float]) -> dict[str, int | float]:
    """What must not depend on the cut: everything but bytes, which are those of the pieces."""
    return {name: value for name, value in stats.items() if not name.startswith("memory_bytes")}


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(0, 40),
    span=st.sampled_from([1, 5, 30]),
    ordered=st.booleans(),
    rows_per_push=st.integers(1, 50),
    changes=st.sampled_from(
        [{}, {"memory": 6, "policy": "random"}, {"ties": "instant"}, {"within": tg.rows(5)},
         {"lateness": "3 s"}]
    ),
)  # fmt: skip
def test_any_cut_gives_the_result_of_one_push(
    seed: int, rows: int, span: int, ordered: bool, rows_per_push: int, changes: dict[str, Any]
) -> None:
    streams, spec = _streams(seed, rows, span, ordered), _spec(**changes)
    whole = tg.join(streams, spec)
    table, stats, seen = _in_pieces(spec, streams, rows_per_push)
    assert table.equals(whole.table)
    assert _accounts(stats) == _accounts(whole.stats)
    assert seen[-1] == (2 * rows, 2 * rows)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_pieces_are_about_as_large_as_asked() -> None:
    streams = _streams(1, 1_000, 100_000, ordered=True)
    _, _, seen = _in_pieces(_spec(), streams, 100)
    sizes = np.diff([0, *(done for done, _ in seen)])
    assert len(sizes) == 20
    assert sizes.max() <= 110


def test_rows_of_one_time_stay_together() -> None:
    _, _, seen = _in_pieces(_spec(), _streams(1, 50, 1, ordered=True), 10)
    assert seen == [(100, 100)]


def test_the_first_table_is_empty_and_has_the_schema_of_all() -> None:
    streams = _streams(1, 20, 30, ordered=False)
    first, *others = replay(tg.JoinEngine(_spec()), streams, rows_per_push=7)
    assert first.num_rows == 0
    assert len(others) > 2
    assert {table.schema for table in others} == {first.schema}


def test_a_bad_row_that_fails_is_named_as_the_user_counts_it() -> None:
    streams = _streams(1, 20, 30, ordered=False)
    with pytest.raises(tg.TidegateError, match=r"row 2 of stream 'left'.*null time"):
        _in_pieces(_spec(bad_rows="fail"), streams, 3)


def test_unsigned_times_beyond_the_range_are_rejected_not_wrapped() -> None:
    times = pa.array([1, 2**64 - 1, 3], pa.uint64())
    table = pa.table({"ts": times, "key": ["a", "a", "a"]})
    spec = _spec(within=5)
    _, stats, _ = _in_pieces(spec, {"left": table, "right": table}, 1)
    assert (stats["rejected_time_range"], stats["rows_out"]) == (2, 4)


def test_a_piece_has_at_least_one_row() -> None:
    with pytest.raises(tg.TidegateError, match="rows_per_push 0 is below 1"):
        _in_pieces(_spec(), _streams(1, 5, 5, ordered=True), 0)


def test_results_come_in_pieces_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many results a push completes, no table holds all of them."""
    monkeypatch.setattr(results, "OUTPUT_ROOM", 5)
    streams = _streams(1, 40, 3, ordered=True)
    first, *pieces = replay(tg.JoinEngine(_spec()), streams)
    assert first.num_rows == 0
    assert max(piece.num_rows for piece in pieces) == 5
    monkeypatch.undo()
    assert pa.concat_tables(pieces).equals(tg.join(streams, _spec()).table.combine_chunks())
