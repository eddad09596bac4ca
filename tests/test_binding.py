"""What a binding takes and refuses: bands of decimals, theta functions, watermarks, names."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import numba
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tidegate as tg
from tidegate.binding.result_schema import result_schema

DECIMALS = [pa.decimal32(9, 2), pa.decimal64(18, 2), pa.decimal128(18, 2), pa.decimal256(18, 2)]


@pytest.mark.parametrize("first", DECIMALS, ids=str)
@pytest.mark.parametrize("second", DECIMALS, ids=str)
def test_bands_are_exact_on_decimals_of_every_width(
    first: pa.DataType, second: pa.DataType
) -> None:
    rng = np.random.default_rng(3)
    sides = []
    for _ in (first, second):
        numbers: list[Any] = [Decimal(int(n)).scaleb(-2) for n in rng.integers(-500, 500, 60)]
        numbers[7] = None
        sides.append(numbers)
    tables = [
        pa.table({"t": [0] * 63, "x": pa.array([None] * 3 + side, kind)}).slice(3)
        for side, kind in zip(sides, (first, second), strict=True)
    ]
    spec = tg.JoinSpec(on=tg.band("x", -0.3, 0.1), time="t", within=1)
    out = tg.JoinEngine(spec).push({"left": tables[0], "right": tables[1]})
    expected = sorted(
        (a, b)
        for a in sides[0]
        for b in sides[1]
        if a is not None and b is not None and Decimal("-0.30") <= b - a <= Decimal("0.1")
    )
    ours = sorted(zip(out["x"].to_pylist(), out["x_right"].to_pylist(), strict=True))
    assert ours == expected


WIDE = [pa.decimal128(38, 2), pa.decimal256(50, 2), pa.decimal128(20, 0), pa.int64()]


@pytest.mark.parametrize("first", WIDE, ids=str)
@pytest.mark.parametrize("second", WIDE, ids=str)
def test_bands_are_exact_on_decimals_of_more_than_18_digits(
    first: pa.DataType, second: pa.DataType
) -> None:
    """Near 2**53 and above, where floats cannot tell neighbours apart."""
    numbers = [n for base in (2**53, 2**55, -(2**54)) for n in range(base, base + 5)]
    left, right = (
        pa.table({"t": [0] * len(numbers), "x": pa.array(map(Decimal, numbers)).cast(kind)})
        for kind in (first, second)
    )
    spec = tg.JoinSpec(on=tg.band("x", 0, 1), time="t", within=1)
    out = tg.JoinEngine(spec).push({"left": left, "right": right})
    ours = sorted(zip(map(int, out["x"].to_pylist()), map(int, out["x_right"].to_pylist())))  # noqa: B905
    assert ours == sorted((a, b) for a in numbers for b in numbers if 0 <= b - a <= 1)


def test_decimals_that_do_not_fit_64_bits_are_refused_in_bands() -> None:
    kind = pa.decimal128(38, 2)
    engine = tg.JoinEngine(tg.JoinSpec(on=tg.band("x", 0, 1), time="t", within=1))
    for beyond in (Decimal(2**63), -Decimal(2**63), Decimal(10**30)):
        column = pa.array([Decimal(1), beyond, None], kind)
        with pytest.raises(tg.TidegateError, match="beyond 64 bits at 2 digits") as refusal:
            engine.push({"left": pa.table({"t": [1, 2, 3], "x": column})})
        assert "\n" not in str(refusal.value)
    assert engine.stats()["rows_in"] == 0
    column = pa.array([Decimal(1), None, Decimal("92233720368547758.07")], kind)
    table = pa.table({"t": [1, 2, 3], "x": column})
    assert engine.push({"left": table, "right": table}).num_rows == 2


class Refused(Exception):  # noqa: N818
    """An error of the user's own."""


def picky(a: int, b: int) -> bool:
    if b == 13:
        raise Refused("thirteen")
    return a < b


def dividing(a: float, b: float) -> bool:
    return 1 / (a - b) > 0


@numba.njit
def compiled(a: int, b: int) -> bool:
    if b == 13:
        raise ValueError("thirteen")
    return a < b


def harmless(a: int, b: int) -> bool:
    return abs(a - b) < 5


FAILING = [
    (picky, [1, 2, 3], [5, 13, 7], Refused, "thirteen"),
    (compiled, [1, 2, 3], [5, 13, 7], ValueError, "thirteen"),
    (dividing, [1.0, 2.0, 3.0], [5.0, 2.0, 7.0], ZeroDivisionError, "division by zero"),
]


@pytest.mark.nojit
@pytest.mark.parametrize("memory", [None, 4])
@pytest.mark.parametrize(("function", "left", "right", "error", "message"), FAILING)
def test_an_error_of_a_theta_function_is_raised_and_nothing_is_taken(
    function: Any, left: Any, right: Any, error: type[Exception], message: str, memory: int | None
) -> None:
    spec = tg.JoinSpec(
        on=tg.theta(function, ["x"]), time="t", within=10, memory=memory, policy="random"
    )
    engine = tg.JoinEngine(spec)
    rows = {
        "left": pa.table({"t": [1, 2, 3], "x": left}),
        "right": pa.table({"t": [4], "x": right[:1]}),
    }
    first = engine.push(rows)
    before = engine.stats()
    bad = pa.table({"t": [5, None, 6, 7], "x": [right[2], right[2], right[1], right[2]]})
    for _ in range(2):
        with pytest.raises(error, match=message):
            engine.push({"right": bad})
        assert engine.stats() == before
        assert engine.rejected_examples() == []
    good = pa.table({"t": [5], "x": right[2:]})
    alone = tg.JoinEngine(spec)
    assert alone.push(rows).equals(first)
    assert engine.push({"right": good}).to_pylist() == alone.push({"right": good}).to_pylist()


def test_functions_that_cannot_raise_cost_nothing() -> None:
    for function in (harmless, picky, compiled, dividing):
        schema = pa.schema({"t": pa.int64(), "x": pa.int64()})
        spec = tg.JoinSpec(on=tg.theta(function, ["x"]), time="t", within=10)
        engine = tg.JoinEngine(spec, {"left": schema, "right": schema})
        assert engine._binding.may_raise is (function is not harmless)


SPEC = tg.JoinSpec(on="k", time="t", within=10)
INTEGERS = pa.table({"t": [1], "k": [1]})
MOMENTS = pa.table({"t": pa.array([datetime(2024, 1, 1)], pa.timestamp("ns")), "k": [1]})


@pytest.mark.parametrize("name", ["_tidegate_slot", "_tidegate_x"])
def test_names_that_snapshots_use_are_refused(name: str) -> None:
    engine = tg.JoinEngine(SPEC)
    with pytest.raises(tg.TidegateError, match=rf"column '{name}' of stream 'left'.*rename it"):
        engine.push({"left": INTEGERS.append_column(name, pa.array([1]))})
    assert engine.stats()["rows_in"] == 0
    assert engine.push({"left": INTEGERS}).num_rows == 0


@pytest.mark.parametrize(
    ("tables", "watermark", "message"),
    [
        ({"left": INTEGERS}, 2**63, "watermark 9223372036854775808 is beyond 64 bits"),
        ({"left": INTEGERS}, -(2**70), "is beyond 64 bits"),
        ({}, 2**63, "is beyond 64 bits"),
        ({"left": INTEGERS}, datetime(2024, 1, 1), "the time columns are integers"),
        ({"left": INTEGERS}, 1.5, "is not an integer"),
        ({"left": MOMENTS}, "tomorrow", "is not a moment"),
        ({"left": MOMENTS}, pd.NaT, "is not a moment"),
        ({"left": MOMENTS}, datetime(9999, 1, 1), "is beyond 64 bits"),
    ],
)
def test_watermarks_that_say_nothing_are_one_sentence(
    tables: dict[str, Any], watermark: Any, message: str
) -> None:
    within: Any = "1 s" if tables.get("left") is MOMENTS else 10
    engine = tg.JoinEngine(SPEC.replace(within=within))
    with pytest.raises(tg.TidegateError, match=message) as caught:
        engine.push(tables, watermark=watermark)
    assert "\n" not in str(caught.value)
    assert engine.stats()["rows_in"] == 0


@pytest.mark.parametrize("watermark", [2**63 - 1, -(2**63), 2**62])
def test_watermarks_of_64_bits_are_taken(watermark: int) -> None:
    engine = tg.JoinEngine(SPEC)
    engine.push({"left": INTEGERS}, watermark=watermark)
    assert engine.stats()["alive"] == (watermark < 0)


def test_moments_of_every_library_are_taken() -> None:
    moments = [
        datetime(2024, 1, 2), datetime(2024, 1, 2, tzinfo=timezone.utc),
        np.datetime64("2024-01-02"), pd.Timestamp(2024, 1, 2),
    ]  # fmt: skip
    for moment in moments:
        engine = tg.JoinEngine(SPEC.replace(within="1 s"))
        engine.push({"left": MOMENTS}, watermark=moment)
        assert engine.stats()["too_late"] == 1


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_a_moment_may_come_before_any_table(unit: str) -> None:
    engine = tg.JoinEngine(SPEC.replace(within="1 s"))
    engine.push({}, watermark=datetime(2024, 1, 2))
    engine = tg.JoinEngine.restore(engine.snapshot())
    times = pa.array([datetime(2024, 1, 1), datetime(2024, 1, 3)], pa.timestamp(unit))
    engine.push({"left": pa.table({"t": times, "k": [1, 1]})})
    assert (engine.stats()["too_late"], engine.stats()["alive"]) == (1, 1)


def test_integers_after_a_moment_are_refused() -> None:
    engine = tg.JoinEngine(SPEC)
    engine.push({}, watermark=datetime(2024, 1, 2))
    with pytest.raises(tg.TidegateError, match="a watermark was given as a moment before"):
        engine.push({"left": INTEGERS})
    assert engine.stats()["rows_in"] == 0


def test_the_schema_of_results_needs_no_engine() -> None:
    left = pa.schema({"t": pa.int64(), "k": pa.string(), "_importance": pa.int8()})
    right = pa.schema({"t": pa.int64(), "k": pa.dictionary(pa.int8(), pa.string())})
    schemas = {"left": left, "right": right}
    assert result_schema(SPEC, schemas) == tg.JoinEngine(SPEC, schemas).push({}).schema
    assert (
        result_schema(SPEC, {"left": left})
        == tg.JoinEngine(SPEC).push({"left": left.empty_table()}).schema
    )
    with pytest.raises(tg.TidegateError, match="mixed types"):
        result_schema(SPEC, {"left": left, "right": right.set(1, pa.field("k", pa.int8()))})
