"""The face of the engine: what goes in, what comes out, and what is said about bad input."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidegate as tg
from tidegate.columns.encoding import KeyCoder

SPEC = tg.JoinSpec(on="k", time="t", within=10)
LEFT = pa.table({"t": [1, 5, 9], "k": ["a", "b", "a"], "x": [1.5, 2.5, None]})
RIGHT = pa.table({"t": [2, 6], "k": ["a", "b"], "y": [[1], None]})


def test_output_columns_are_the_streams_columns_and_importance() -> None:
    out = tg.JoinEngine(SPEC).push({"left": LEFT, "right": RIGHT})
    assert out.column_names == ["t", "k", "x", "t_right", "k_right", "y", "_importance"]
    assert out.schema.field("y").type == pa.list_(pa.int64())
    assert out.to_pylist() == [
        {"t": 1, "k": "a", "x": 1.5, "t_right": 2, "k_right": "a", "y": [1], "_importance": 1.0},
        {"t": 5, "k": "b", "x": 2.5, "t_right": 6, "k_right": "b", "y": None, "_importance": 1.0},
        {"t": 9, "k": "a", "x": None, "t_right": 2, "k_right": "a", "y": [1], "_importance": 1.0},
    ]


def test_reserved_and_repeated_clashes_get_the_stream_as_suffix() -> None:
    table = pa.table({"t": [1], "k": [1], "_importance": [7], "t_right": [3]})
    out = tg.JoinEngine(SPEC).push({"left": table, "right": table})
    assert out.column_names == [
        "t", "k", "_importance_left", "t_right",
        "t_right_right", "k_right", "_importance_right", "t_right_right_right", "_importance",
    ]  # fmt: skip


@pytest.mark.parametrize("convert", [pa.Table.to_batches, pa.Table.to_pandas, pl.from_arrow])
def test_pandas_polars_and_record_batches_give_the_same_rows(convert: Any) -> None:
    expected = tg.JoinEngine(SPEC).push({"left": LEFT, "right": RIGHT.drop_columns("y")})
    given = [convert(table) for table in (LEFT, RIGHT.drop_columns("y"))]
    left, right = (table[0] if isinstance(table, list) else table for table in given)
    out = tg.JoinEngine(SPEC).push({"left": left, "right": right})
    assert out.select(["t", "t_right"]).equals(expected.select(["t", "t_right"]))


PAYLOADS = [
    pa.array([[1, None], None, []], pa.list_(pa.int32())),
    pa.array([{"a": 1, "b": ["x"]}, None, {"a": None, "b": None}]),
    pa.array([[("k", 1.5)], None, []], pa.map_(pa.string(), pa.float64())),
    pa.array(["x", None, "y"]).dictionary_encode(),
    pa.array(["x", None, "y"], pa.string_view()),
    pa.array([b"x", None, b""], pa.binary_view()),
    pc.run_end_encode(pa.array([1, 1, 2])),
    pa.array([Decimal("1.10"), None, Decimal("2.00")], pa.decimal256(50, 2)),
    pa.array([None, None, None]),
    pa.array([b"abc", None, b"def"], pa.binary(3)),
    pa.array([timedelta(seconds=1), None, timedelta(0)], pa.duration("ms")),
    pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int8(), 2)),
    pa.array([True, None, False]),
]


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda array: str(array.type)[:30])
def test_payload_of_any_type_comes_back_unchanged_over_pushes(payload: pa.Array) -> None:
    rows = pa.table({"t": [1, 2, 3], "k": [1, 2, 3], "p": payload})
    engine = tg.JoinEngine(SPEC)
    engine.push({"left": rows.slice(0, 1)})
    engine.push({"left": rows.slice(1, 2)})
    engine = tg.JoinEngine.restore(engine.snapshot())
    out = engine.push({"right": pa.table({"t": [4, 4, 4], "k": [3, 2, 1]})})
    assert out.schema.field("p").type == payload.type
    assert out.column("p").to_pylist() == payload.to_pylist()[::-1]


def test_equal_hashes_of_unequal_keys_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    real = KeyCoder.encode

    def colliding(self: KeyCoder, columns: Any) -> Any:
        codes, matchable = real(self, columns)
        return np.zeros_like(codes), matchable

    monkeypatch.setattr(KeyCoder, "encode", colliding)
    engine = tg.JoinEngine(SPEC.replace(importance="i"))
    rows = pa.table({"t": [1, 2], "k": ["a", "b"], "i": [2.0, 4.0]})
    out = engine.push({"left": rows, "right": rows})
    assert sorted(zip(out["k"].to_pylist(), out["k_right"].to_pylist(), strict=True)) == [
        ("a", "a"),
        ("b", "b"),
    ]
    assert engine.stats()["rows_out"] == 2
    assert engine.stats()["importance_out"] == 6.0


def test_a_stream_that_shows_up_late_can_change_the_common_types() -> None:
    engine = tg.JoinEngine(tg.JoinSpec(on="k", time="t", within="1 s"))
    seconds = pa.array([datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 0, 1)], pa.timestamp("s"))
    engine.push({"left": pa.table({"t": seconds, "k": pa.array([Decimal("1.5"), Decimal("2.0")])})})
    late = pa.array([datetime(2024, 1, 1, 0, 0, 1)] * 2, pa.timestamp("ns"))
    keys = pa.array([Decimal("1.50"), Decimal("2.00")])
    out = engine.push({"right": pa.table({"t": late, "k": keys})})
    assert out.column("k").to_pylist() == [Decimal("1.5"), Decimal("2.0")]
    assert engine.stats()["alive_left"] == 2


def test_times_that_leave_64_bits_are_rejected() -> None:
    far = pa.array([datetime(2500, 1, 1), datetime(2024, 1, 1)], pa.timestamp("us"))
    near = pa.array([datetime(2024, 1, 1)], pa.timestamp("ns"))
    engine = tg.JoinEngine(tg.JoinSpec(on="k", time="t", within="1 s"))
    left, right = pa.table({"t": far, "k": [1, 1]}), pa.table({"t": near, "k": [1]})
    assert engine.push({"left": left, "right": right}).num_rows == 1
    assert engine.stats()["rejected_time_range"] == 1


def test_unsigned_times_do_not_look_rejected() -> None:
    engine = tg.JoinEngine(SPEC.replace(bad_rows="fail"))
    engine.push({"left": pa.table({"t": pa.array([1], pa.uint64()), "k": [1]})})
    assert engine.stats()["rejected"] == 0


def test_a_second_stream_may_come_while_late_tuples_expire() -> None:
    engine = tg.JoinEngine(SPEC.replace(lateness=5, within=2))
    engine.push({"right": pa.table({"t": [10], "k": ["a"]})})
    engine.push({"right": pa.table({"t": [6, 7], "k": ["a", "b"]})})
    engine.push({"left": pa.table({"t": [20], "k": ["a"]})})
    assert engine.stats()["expired_right"] == 3


def test_rejected_rows_are_counted_with_examples() -> None:
    engine = tg.JoinEngine(SPEC.replace(importance="i"))
    rows = pa.table({"t": [1, None, 3], "k": [1, 1, 1], "i": [1.0, 1.0, -2.0]})
    engine.push({"left": rows})
    assert engine.stats()["rejected_null_time"] == 1
    assert engine.stats()["rejected_importance"] == 1
    assert [e["row"]["t"] for e in engine.rejected_examples()] == [None, 3]


def test_bad_rows_fail_leaves_the_engine_as_it_was() -> None:
    engine = tg.JoinEngine(SPEC.replace(bad_rows="fail"))
    engine.push({"left": LEFT})
    before = engine.stats()
    with pytest.raises(tg.TidegateError, match=r"row 1 of stream 'right'.*null time"):
        engine.push({"right": pa.table({"t": [10, None], "k": ["a", "a"]})})
    assert engine.stats() == before


BAD_PUSHES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"left": LEFT.rename_columns(["t", "z", "x"])}, "on names column 'k'.*columns are t, z"),
    ({}, {"left": LEFT.rename_columns(["z", "k", "x"])}, "time names column 't'"),
    ({"on": "t"}, {"left": LEFT, "right": RIGHT, "middle": LEFT}, "'middle' is not a stream"),
    ({}, {"left": pa.table({"t": ["1"], "k": [1]})}, "time column 't'.*must be timestamps"),
    ({"on": "y"}, {"right": RIGHT}, "equality does not take"),
    ({}, {"left": LEFT, "right": pa.table({"t": [1], "k": [1]})}, "mixed types, string and int64"),
    ({"within": "1 s"}, {"left": LEFT}, "time columns are integers; give an integer"),
    ({"on": tg.overlap("k", 1)}, {"left": LEFT}, "must be a list"),
    ({"on": tg.band("k", 0, 1)}, {"left": LEFT}, "must be numbers or times"),
    ({"importance": "k"}, {"left": LEFT}, "must be numbers above 0"),
    ({}, {"left": [1, 2]}, "was given list"),
]


@pytest.mark.parametrize(("changes", "tables", "message"), BAD_PUSHES)
def test_bad_input_is_one_sentence(
    changes: dict[str, Any], tables: dict[str, Any], message: str
) -> None:
    with pytest.raises(tg.TidegateError, match=message) as caught:
        tg.JoinEngine(SPEC.replace(**changes)).push(tables)
    assert "\n" not in str(caught.value)


def test_integer_windows_are_refused_for_timestamps() -> None:
    rows = pa.table({"t": pa.array([datetime(2024, 1, 1)]), "k": [1]})
    with pytest.raises(tg.TidegateError, match="give a duration such as"):
        tg.JoinEngine(SPEC).push({"left": rows})


def test_a_changed_schema_is_refused() -> None:
    engine = tg.JoinEngine(SPEC)
    engine.push({"left": LEFT})
    with pytest.raises(tg.TidegateError, match="changed its columns"):
        engine.push({"left": LEFT.drop_columns("x")})


def test_memory_of_slices_is_let_go() -> None:
    whole = pa.table({"t": np.arange(1_000_000), "k": np.arange(1_000_000)})
    engine = tg.JoinEngine(SPEC)
    engine.push({"left": whole.slice(0, 10)})
    assert engine.stats()["memory_bytes"] < 1_000_000


def test_what_is_stored_stays_near_what_is_alive() -> None:
    engine = tg.JoinEngine(SPEC.replace(within=100))
    peaks = []
    for step in range(60):
        times = np.arange(step * 1000, step * 1000 + 1000)
        engine.push({"left": pd.DataFrame({"t": times, "k": times})})
        peaks.append(engine.stats()["memory_bytes"])
    assert engine.stats()["alive"] == 101
    assert max(peaks[10:]) <= 1.1 * max(peaks[:10])


def test_not_a_snapshot() -> None:
    with pytest.raises(tg.TidegateError, match="not a tidegate snapshot"):
        tg.JoinEngine.restore(b"nothing")


def test_an_inverted_index_serves_the_term_that_needs_a_common_item() -> None:
    """Sets without a common item have the product 0, which `inner_product(..., 0)` accepts."""
    on = [tg.inner_product("v", 0), tg.overlap("s", 1)]
    spec = tg.JoinSpec(on=on, time="t", within=5, index="inverted")
    kind = pa.map_(pa.string(), pa.float64())
    sets = pa.array([[1, 2]], pa.list_(pa.int64()))
    left = pa.table({"t": [0], "v": pa.array([[("a", 1.0)]], kind), "s": sets})
    right = pa.table({"t": [1], "v": pa.array([[]], kind), "s": sets})
    for index in ("inverted", "auto", "nested-loop"):
        assert (
            tg.join({"left": left, "right": right}, spec.replace(index=index)).table.num_rows == 1
        )


@pytest.mark.parametrize("first", ["left", "right"])
def test_results_of_pushes_can_be_joined_end_to_end(first: str) -> None:
    """Also those from before all streams have shown their columns."""
    spec = tg.JoinSpec(on="k", time="t", within=10, lateness=10)
    left = pa.table({"t": [1, 2], "k": ["a", "b"], "p": [1.5, 2.5]})
    right = pa.table({"k": ["a", "b"], "p": ["x", "y"], "t": pa.array([2, 3], pa.int32())})
    tables = {"left": left, "right": right}
    second = {"left": "right", "right": "left"}[first]
    pushes = ({}, {first: tables[first]}, {second: tables[second]}, {first: tables[first]}, {})
    whole = tg.JoinEngine(spec).push(tables)

    engine = tg.JoinEngine(spec)
    results = [engine.push(push) for push in pushes]
    assert [table.num_rows for table in results] == [0, 0, 2, 2, 0]
    assert pa.concat_tables(results, promote_options="default").schema == whole.schema

    engine = tg.JoinEngine(spec, {name: table.schema for name, table in tables.items()})
    assert {tuple(engine.push(push).schema) for push in pushes} == {tuple(whole.schema)}


@pytest.mark.parametrize("kind", [pa.timestamp("ms"), pa.timestamp("us", "UTC"), pa.duration("s")])
def test_values_that_python_cannot_hold_are_shown_as_examples(kind: pa.DataType) -> None:
    """A timestamp may lie after the year 9999, where Python has none."""
    table = pa.table({"t": [None, 5], "k": [1, 1], "p": pa.array([2**60, 2**60]).cast(kind)})
    engine = tg.JoinEngine(tg.JoinSpec(on="k", time="t", within=10))
    out = engine.push({"left": table, "right": table})
    assert out["p"].combine_chunks().cast(pa.int64()).to_pylist() == [2**60]
    (example, _) = engine.rejected_examples()
    assert example["row"] == {"t": None, "k": 1, "p": f"{2**60} as {kind}"}
    with pytest.raises(tg.TidegateError, match=f"{2**60} as"):
        tg.JoinEngine(engine.spec.replace(bad_rows="fail")).push({"left": table})


def test_a_watermark_of_several_lines_is_refused_on_one() -> None:
    engine = tg.JoinEngine(tg.JoinSpec(on="k", time="t", within=10))
    with pytest.raises(tg.TidegateError, match="is not a moment") as refusal:
        engine.push({}, watermark=pl.Series([1, 2]))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "given",
    [
        None, 5, [], "left", pa.table({"t": [1]}), {"left": pd.Series([1])},
        {"left": pd.Index([1])}, {"left": pl.Series([1])}, {"left": pl.col("t")},
        {"left": pl.Int64}, {"left": 5}, {1: pa.table({"t": [1]})},
    ],
)  # fmt: skip
def test_what_is_no_table_is_refused_in_one_sentence(given: Any) -> None:
    engine = tg.JoinEngine(tg.JoinSpec(on="k", time="t", within=10))
    with pytest.raises(tg.TidegateError, match=r"; (give|its streams)") as refusal:
        engine.push(given)
    assert "\n" not in str(refusal.value)
    with pytest.raises(tg.TidegateError, match=r"; (give|its streams)"):
        tg.JoinEngine(engine.spec, given or 5)
    lazy = pl.LazyFrame({"t": [1], "k": [1]})
    assert engine.push({"left": lazy, "right": lazy}).num_rows == 1


@pytest.mark.parametrize("memory", [0, 1, 2])
def test_times_become_finer_under_the_smallest_budgets(memory: int) -> None:
    """A second stream in nanoseconds, while next to nothing is retained."""
    spec = tg.JoinSpec(on="k", time="t", within="5 s", memory=memory, policy="value")
    tables = {
        unit: pa.table({"t": pa.array([scale, scale], pa.timestamp(unit)), "k": [1, 1]})
        for unit, scale in (("us", 10**6), ("ns", 10**9))
    }
    known = {"left": tables["us"].schema, "right": tables["ns"].schema}
    engine, other = tg.JoinEngine(spec), tg.JoinEngine(spec, known)
    for push in ({"left": tables["us"]}, {"right": tables["ns"]}):
        assert engine.push(push).num_rows == other.push(push).num_rows
    assert engine.stats()["memory_rows"] == other.stats()["memory_rows"] == memory
