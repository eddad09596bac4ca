"""Every type of pyarrow, pandas and polars goes in and out: in pushes and slices, with NULLs."""

from __future__ import annotations

import subprocess
import sys
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidegate as tg
from tidegate.columns.encoding import KeyCoder
from tidegate.engine import to_arrow
from tidegate.engine.replay import replay

SPEC = tg.JoinSpec(on="k", time="t", within=100)
MOMENT = datetime(2024, 5, 6, 7, 8, 9)

# Values of three rows by type; the last is NULL.
PLAIN: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False, None],
    **{kind: [1, 2, None] for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    **{kind: [1, 2, None] for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
    **{kind: [1.5, 2.5, None] for kind in (pa.float32(), pa.float64())},
    pa.float16(): [np.float16(1.5), np.float16(2.5), None],
    pa.string(): ["a", "b" * 40, None],
    pa.large_string(): ["a", "b" * 40, None],
    pa.string_view(): ["a", "b" * 40, None],
    pa.binary(): [b"a", b"b" * 40, None],
    pa.large_binary(): [b"a", b"b" * 40, None],
    pa.binary_view(): [b"a", b"b" * 40, None],
    pa.binary(3): [b"abc", b"def", None],
    pa.date32(): [date(2024, 1, 1), date(2024, 1, 2), None],
    pa.date64(): [date(2024, 1, 1), date(2024, 1, 2), None],
    pa.time32("ms"): [time(1), time(2), None],
    pa.time64("ns"): [time(1), time(2), None],
    **{pa.timestamp(unit): [MOMENT, MOMENT, None] for unit in ("s", "ms", "us", "ns")},
    pa.timestamp("us", "Europe/Berlin"): [MOMENT, MOMENT, None],
    pa.duration("us"): [timedelta(1), timedelta(2), None],
    pa.month_day_nano_interval(): [pa.MonthDayNano([1, 2, 3]), pa.MonthDayNano([4, 5, 6]), None],
    pa.decimal32(5, 2): [Decimal("1.50"), Decimal("2.50"), None],
    pa.decimal64(12, 2): [Decimal("1.50"), Decimal("2.50"), None],
    pa.decimal128(30, 2): [Decimal("1.50"), Decimal("2.50"), None],
    pa.decimal256(60, 2): [Decimal("1.50"), Decimal("2.50"), None],
    pa.null(): [None, None, None],
    pa.dictionary(pa.int8(), pa.string()): ["a", "b", None],
    pa.dictionary(pa.uint32(), pa.large_string()): ["a", "b", None],
    pa.dictionary(pa.int16(), pa.int64(), ordered=True): [1, 2, None],
    pa.run_end_encoded(pa.int32(), pa.string()): ["a", "b", None],
    pa.uuid(): [UUID(int=1), UUID(int=2), None],
    pa.json_(): ["{}", "[]", None],
}  # fmt: skip


def _array(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_encode(_array(kind.value_type, values))
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    if isinstance(kind, pa.BaseExtensionType) and values and isinstance(values[0], UUID):
        values = [value and value.bytes for value in values]
    return pa.array(values, kind)


def _wrapped(kind: pa.DataType, values: list[Any]) -> dict[str, pa.Array]:
    """A type inside each of the types that can hold others."""
    inner = _array(kind, values)
    offsets = pa.array([0, 1, 3, 3], pa.int32())
    keys = pa.array(["x", "y", "z"])
    missing = pa.array([False, False, True])
    wrapped = {
        "plain": inner,
        "list": pa.ListArray.from_arrays(offsets, inner, mask=missing),
        "large_list": pa.LargeListArray.from_arrays(offsets.cast(pa.int64()), inner, mask=missing),
        "fixed list": pa.FixedSizeListArray.from_arrays(inner, 1, mask=missing),
        "struct": pa.StructArray.from_arrays([inner, keys], ["a", "b"], mask=missing),
        "map": pa.MapArray.from_arrays(offsets, keys, inner),
        "list_view": pa.ListViewArray.from_arrays([2, 0, 0], [1, 2, 0], inner, mask=missing),
        "large_list_view": pa.LargeListViewArray.from_arrays([2, 0, 0], [1, 2, 0], inner),
    }
    wrapped["list of structs"] = pa.ListArray.from_arrays(offsets, wrapped["struct"])
    wrapped["struct of lists"] = pa.StructArray.from_arrays([wrapped["list"]], ["a"])
    return wrapped


def _declared(kind: pa.DataType) -> pa.DataType:
    """Categories have indices of at least 32 bits, at any depth."""
    return tg.JoinEngine(SPEC, {"left": _schema(kind)})._schemas[0].field("p").type


def _schema(kind: pa.DataType) -> pa.Schema:
    return pa.schema({"t": pa.int64(), "k": pa.int64(), "p": kind})


@pytest.mark.parametrize("kind", PLAIN, ids=str)
def test_every_type_of_arrow_goes_in_and_out(kind: pa.DataType) -> None:
    """Plain and inside each other type, side by side in one table."""
    payloads = _wrapped(kind, PLAIN[kind])
    rows = pa.table({"t": [1, None, 3], "k": [1, 2, 3], **payloads})
    other = pa.table({"t": [4, 4], "k": [3, 1]})
    for spec in (SPEC, SPEC.replace(memory="1 MB", policy="random")):
        engine = tg.JoinEngine(spec)
        engine.push({"left": rows.slice(0, 0)})
        engine.push({"left": pa.concat_tables([rows.slice(0, 1), rows.slice(1, 1)])})
        engine.push({"left": rows.slice(2)})
        engine = tg.JoinEngine.restore(engine.snapshot())
        out = engine.push({"right": other})
        assert engine.stats()["rejected"] == 1
        for name, payload in payloads.items():
            assert out.schema.field(name).type == _declared(payload.type), name
            assert out.column(name).to_pylist() == [payload[2].as_py(), payload[0].as_py()], name


POLARS: dict[str, pl.Series] = {
    "numbers": pl.Series([1, 2, None]),
    **{str(k): pl.Series([1, 2, None], dtype=k) for k in (
        pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.Int128,
        pl.UInt128, pl.Float16, pl.Float32, pl.Float64)},
    "boolean": pl.Series([True, False, None]),
    "string": pl.Series(["a", "b" * 40, None]),
    "binary": pl.Series([b"a", b"b" * 40, None]),
    "date": pl.Series([date(2024, 1, 1), date(2024, 1, 2), None]),
    "datetime": pl.Series([MOMENT, MOMENT, None]),
    "zoned": pl.Series([MOMENT, MOMENT, None]).dt.replace_time_zone("Europe/Berlin"),
    "duration": pl.Series([timedelta(1), timedelta(2), None]),
    "time": pl.Series([time(1), time(2), None]),
    "decimal": pl.Series([Decimal("1.5"), Decimal("2.5"), None]),
    "categorical": pl.Series(["a", "b", None], dtype=pl.Categorical),
    "enum": pl.Series(["a", "b", None], dtype=pl.Enum(["b", "a", "c"])),
    "null": pl.Series([None, None, None]),
    "list of strings": pl.Series([["a", None], [], None], dtype=pl.List(pl.String)),
    "array": pl.Series([["a", "b"], ["c", None], None], dtype=pl.Array(pl.String, 2)),
    "struct": pl.Series([{"a": "x", "b": ["y"]}, {"a": None, "b": []}, None]),
    "list of structs": pl.Series([[{"a": "x"}], [], None]),
    "list of categoricals": pl.Series([["a"], ["b"], None], dtype=pl.List(pl.Categorical)),
    "list of enums": pl.Series([["a"], ["b"], None], dtype=pl.List(pl.Enum(["b", "a"]))),
    "map": pl.Series([{"a": 1}, {}, None], dtype=pl.Map(pl.String, pl.Int64)),
}  # fmt: skip


def _through(rows: Any, times: list[int | None]) -> tuple[pa.Table, tg.JoinEngine]:
    """Push a frame in two parts with a rejected row in the first, and join it with itself."""
    engine = tg.JoinEngine(SPEC)
    engine.push({"left": rows[:2]})
    engine.push({"left": rows[2:]})
    out = engine.push({"right": pa.table({"t": [4, 4], "k": [2, 0]})})
    assert engine.stats()["rejected"] == sum(t is None for t in times)
    return out, engine


@pytest.mark.parametrize("name", POLARS)
def test_every_type_of_polars_goes_in_and_out(name: str) -> None:
    series = POLARS[name]
    frame = pl.DataFrame({"t": [1, None, 3], "k": [0, 1, 2], "p": series})
    out, _ = _through(frame, [1, None, 3])
    back = pl.from_arrow(out.select(["p"]))
    assert isinstance(back, pl.DataFrame)
    expected = [series.to_list()[2], series.to_list()[0]]
    assert [_plain(value) for value in back["p"].to_list()] == [_plain(v) for v in expected]


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, Decimal) and value == int(value) else value


def test_polars_objects_are_refused_by_name() -> None:
    frame = pl.DataFrame({"t": [1], "k": [1], "o": pl.Series([object()], dtype=pl.Object)})
    with pytest.raises(tg.TidegateError, match="column 'o' of stream 'left' has the polars type"):
        tg.JoinEngine(SPEC).push({"left": frame})


def test_what_polars_cannot_hand_over_is_refused() -> None:
    """It takes an empty column of wide decimals, and panics when it is asked for it."""
    columns = {"t": pa.int64(), "k": pa.int64(), "p": pa.decimal256(50, 2)}
    frame = pl.from_arrow(pa.schema(columns).empty_table())
    engine = tg.JoinEngine(SPEC)
    with pytest.raises(tg.TidegateError, match="polars cannot hand over the columns of stream"):
        engine.push({"left": frame})
    assert engine.stats()["rows_in"] == 0


PANDAS: dict[str, pd.Series] = {
    "numbers": pd.Series([1, 2, 3]),
    **{kind: pd.Series([1, 2, None], dtype=kind) for kind in (
        "Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64",
        "Float32", "Float64", "float32", "float64")},
    "float16": pd.Series(np.array([1, 2, 3], np.float16)),
    "bool": pd.Series([True, False, True]),
    "boolean": pd.Series([True, None, False], dtype="boolean"),
    "objects": pd.Series(["a", "b", None]),
    "string": pd.Series(["a", "b", None], dtype="string"),
    "string[pyarrow]": pd.Series(["a", "b", None], dtype="string[pyarrow]"),
    "bytes": pd.Series([b"a", b"b", None]),
    "decimals": pd.Series([Decimal("1.5"), Decimal("2.5"), None]),
    "dates": pd.Series([date(2024, 1, 1), date(2024, 1, 2), None]),
    "times": pd.Series([time(1), time(2), None]),
    "lists": pd.Series([["a"], ["b", None], None]),
    "arrays": pd.Series([np.array([1.0]), np.array([2.0]), None]),
    "dicts": pd.Series([{"a": "x"}, {"a": None}, None]),
    "datetime64": pd.Series(pd.to_datetime(["2024-01-01", "2024-01-02", None])),
    "zoned": pd.Series(pd.to_datetime(["2024-01-01", "2024-01-02", None]).tz_localize("UTC")),
    "timedelta": pd.Series(pd.to_timedelta(["1 d", "2 d", None])),
    "period": pd.Series(pd.period_range("2024", periods=3, freq="D")),
    "interval": pd.Series(pd.interval_range(0, 3)),
    "category": pd.Series(["a", "b", None], dtype="category"),
    "ordered": pd.Series(pd.Categorical(["a", "b", None], ["b", "a"], ordered=True)),
    "category of times": pd.Series(pd.date_range("2024", periods=3)).astype("category"),
    "category of intervals": pd.Series(pd.cut([1, 2, 3], 2)),
    "ArrowDtype": pd.Series([[1], [2], None], dtype=pd.ArrowDtype(pa.list_(pa.int64()))),
}  # fmt: skip


@pytest.mark.parametrize("name", PANDAS)
def test_every_type_of_pandas_goes_in_and_out(name: str) -> None:
    series = PANDAS[name]
    frame = pd.DataFrame({"t": [1, None, 3], "k": [0, 1, 2], "p": series}).astype({"t": "Int64"})
    out, _ = _through(frame, [1, None, 3])
    back = out.select(["p"]).to_pandas()["p"]
    for ours, theirs in zip(back, [series[2], series[0]], strict=True):
        if pd.api.types.is_scalar(theirs) and pd.isna(theirs):
            assert pd.isna(ours)
        else:
            assert np.array_equal(ours, theirs)


@pytest.mark.parametrize(
    "series",
    [pd.Series([1, "x"]), pd.Series([1j, 2j]), pd.Series(pd.arrays.SparseArray([0, 1]))],
    ids=["mixed", "complex", "sparse"],
)
def test_what_arrow_cannot_hold_is_refused_by_name(series: pd.Series) -> None:
    frame = pd.DataFrame({"t": [1, 2], "k": [1, 2], "p": series})
    with pytest.raises(tg.TidegateError, match="column 'p' of stream 'left' cannot become"):
        tg.JoinEngine(SPEC).push({"left": frame})


def _categorical(library: str, times: list[int], words: list[str]) -> Any:
    columns = {"t": times, "k": words}
    if library == "pandas":
        return pd.DataFrame(columns).astype({"k": "category"}).assign(p=pd.Categorical(words))
    if library == "polars enum":
        kind: Any = pl.Enum(sorted(set(words)))
    else:
        kind = pl.Categorical
    return pl.DataFrame(columns).with_columns(
        pl.col("k").cast(kind), p=pl.col("k").cast(kind), l=pl.concat_list(pl.col("k").cast(kind))
    )


@pytest.mark.parametrize("library", ["pandas", "polars", "polars enum"])
def test_categories_may_grow_from_push_to_push(library: str) -> None:
    engine = tg.JoinEngine(SPEC.replace(within=10_000))
    other = tg.JoinEngine(SPEC.replace(within=10_000))
    for step in range(4):
        words = [f"w{step * 60 + at}" for at in range(100)]
        times = list(range(step * 100, step * 100 + 100))
        rows = _categorical(library, times, words)
        out = engine.push({"left": rows, "right": rows})
        plain = pa.table({"t": times, "k": words, "p": words})
        expected = other.push({"left": plain, "right": plain})
        for name in ("k", "p", "p_right"):
            assert out.column(name).to_pylist() == expected.column(name).to_pylist()
        engine = tg.JoinEngine.restore(engine.snapshot())
    assert engine.stats()["alive"] == 800


def test_columns_without_values_take_the_type_known_before() -> None:
    engine = tg.JoinEngine(SPEC)
    engine.push({"left": pd.DataFrame({"t": [1], "k": [1], "p": ["a"]})})
    engine.push({"left": pd.DataFrame({"t": [2], "k": [1], "p": [None]})})
    engine.push({"left": pl.DataFrame({"t": [3], "k": [1], "p": pl.Series([None])})})
    out = engine.push({"right": pa.table({"t": [4], "k": [1]})})
    assert sorted(out.column("p").to_pylist(), key=str) == [None, None, "a"]


def test_guessed_types_follow_those_known_before_but_kinds_do_not_mix() -> None:
    def push(values: list[Any]) -> None:
        step = int(engine.stats()["rows_in"])
        engine.push({"left": pd.DataFrame({"t": [step], "k": [1], "p": pd.Series(values)})})

    engine = tg.JoinEngine(SPEC)
    for values in ([Decimal("11.25")], [Decimal("1.5")], [None]):
        push(values)
    for values in (["3"], [True], [Decimal("1.125")]):
        with pytest.raises(tg.TidegateError, match="changed its columns"):
            push(values)
    out = engine.push({"right": pa.table({"t": [9], "k": [1]})})
    numbers = sorted(value for value in out.column("p").to_pylist() if value is not None)
    assert numbers == [Decimal("1.5"), Decimal("11.25")]


UNION = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array("ab")])


@pytest.mark.parametrize(
    "payload", [UNION, pa.ListArray.from_arrays([0, 1, 2], UNION)], ids=["plain", "in a list"]
)
def test_unions_are_refused_by_name(payload: pa.Array) -> None:
    engine = tg.JoinEngine(SPEC)
    with pytest.raises(tg.TidegateError, match="column 'p' of stream 'left' has the union type"):
        engine.push({"left": pa.table({"t": [1, 2], "k": [1, 2], "p": payload})})
    assert engine.stats()["rows_in"] == 0


IN_A_PROCESS = """
import pyarrow as pa, tidegate as tg
spec = tg.JoinSpec(on=tg.overlap("s", 2), time="t", within=10)
for kind in (pa.list_view(pa.string()), pa.large_list_view(pa.string_view())):
    for repeat in range(200):
        engine = tg.JoinEngine(spec)
        sets = pa.array([["a", "b"], None, [], ["b", "c", "a"]] * (1 + repeat % 5), kind)
        rows = pa.table({"t": [1] * len(sets), "s": sets})
        out = engine.push({"left": rows, "right": rows})
        assert out.num_rows == (2 * (1 + repeat % 5)) ** 2, out.num_rows
        out = engine.push({"left": rows.slice(3), "right": rows.slice(1, 3)})
        assert set(map(tuple, out.column("s").to_pylist())) <= {("a", "b"), ("b", "c", "a")}
"""


def test_views_of_lists_can_overlap() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def _damaged() -> dict[str, pa.Array]:
    # The first and the last offset are right: Arrow looks at no others unless asked to.
    offsets = pa.py_buffer(np.array([0, 1 << 30, 2], np.int32))
    longer = pa.py_buffer(np.array([0, 1 << 30, 2], np.int64))
    far, one = (pa.py_buffer(np.array([0, n], np.int32)) for n in (1 << 30, 1))
    text = pa.py_buffer(b"ab")
    items = pa.array([1, 2])
    lists, views = pa.list_(pa.int64()), pa.list_view(pa.int64())
    return {
        "string": pa.Array.from_buffers(pa.string(), 2, [None, offsets, text]),
        "large": pa.Array.from_buffers(pa.large_string(), 2, [None, longer, text]),
        "list": pa.Array.from_buffers(lists, 2, [None, offsets], children=[items]),
        "list_view": pa.Array.from_buffers(views, 2, [None, far, one], children=[items]),
        "categories": pa.DictionaryArray.from_arrays(
            pa.array([0, 7], pa.int8()), items, safe=False
        ),
    }


def check_damaged(name: str, role: str) -> None:
    """Called in a process of its own."""
    column = _damaged()[name]
    if role == "key":
        table = pa.table({"t": [1, 2], "s": column})
        lists = pa.types.is_list(column.type) or pa.types.is_list_view(column.type)
        engine = tg.JoinEngine(SPEC.replace(on=tg.overlap("s", 1) if lists else "s"))
    else:
        table = pa.table({"t": [1, 2], "k": [1, 1], "s": column})
        engine = tg.JoinEngine(SPEC)
    with pytest.raises(tg.TidegateError, match="column 's' of stream 'left' is damaged"):
        engine.push({"left": table})
    assert engine.stats()["rows_in"] == 0


def test_damaged_columns_are_refused_by_name() -> None:
    calls = [
        f"check_damaged({name!r}, {role!r})" for name in _damaged() for role in ("key", "payload")
    ]
    code = "from test_column_types import check_damaged\n" + "\n".join(calls)
    folder = str(Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.append({folder!r})\n{code}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_unsorted_frames_of_every_type_are_cut_and_joined() -> None:
    columns = {f"c{at}": series for at, series in enumerate(POLARS.values())}
    frame = pl.DataFrame({"t": [3, 1, 2], "k": [0, 1, 2], **columns})
    engine = tg.JoinEngine(SPEC)
    streams = {"left": to_arrow(frame, "left"), "right": to_arrow(frame, "right")}
    results = pa.concat_tables(replay(engine, streams, rows_per_push=2))
    assert results.num_rows == 3
    for name in columns:
        expected = tg.join({"left": frame, "right": frame}, SPEC).table.column(name)
        assert results.column(name).to_pylist() == expected.to_pylist()


def test_equal_hashes_are_told_apart_beside_columns_of_every_type(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = KeyCoder.encode

    def colliding(self: KeyCoder, columns: Any) -> Any:
        codes, matchable = real(self, columns)
        return np.zeros_like(codes), matchable

    monkeypatch.setattr(KeyCoder, "encode", colliding)
    columns = {f"c{at}": series for at, series in enumerate(POLARS.values())}
    frame = pl.DataFrame({"t": [1, 2, 3], "k": ["a", "b", "a"], **columns})
    out = tg.JoinEngine(SPEC).push({"left": frame, "right": frame})
    assert out.column("k").to_pylist() == out.column("k_right").to_pylist()
    assert out.num_rows == 5
