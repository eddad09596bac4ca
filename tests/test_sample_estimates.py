"""Estimates and intervals of samples whose whole is known.

Law: a 95 % interval covers the truth in 93 to 97 % of the samples, for counts, sums and averages,
in groups too; where it would not, it is unknown. What cannot be answered is refused.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from sampled_clusters import Whole, sample_of, whole_of

import tidegate as tg
from tidegate.sample import tags
from tidegate.sample.tags import tagged

SAMPLES = 600
POLICIES = ("uniform", "eq-cluster", "pps-cluster")
AGGREGATES = ("count(*)", "sum(x)", "avg(x)")


def intervals(whole: Whole, policy: str, share: float, by: str | None) -> dict[str, list[Any]]:
    rng = np.random.default_rng(5)
    found: dict[str, list[Any]] = {aggregate: [] for aggregate in AGGREGATES}
    for _ in range(SAMPLES):
        sample = sample_of(whole, policy, share, rng)
        for aggregate in AGGREGATES:
            found[aggregate] += tg.estimate(sample, aggregate, by=by).to_pylist()
    return found


def coverage(whole: Whole, aggregate: str, rows: list[dict[str, Any]]) -> float:
    known = [row for row in rows if row["interval"] != "unknown"]
    covered = [
        row["low"] <= whole.truth(aggregate, row.get("group")) <= row["high"] for row in known
    ]
    return sum(covered) / len(covered)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("clusters", "share"), [(2000, 0.1), (300, 0.3)])
def test_intervals_cover_the_truth(policy: str, clusters: int, share: float) -> None:
    whole = whole_of(clusters, seed=11)
    for aggregate, rows in intervals(whole, policy, share, None).items():
        truth = whole.truth(aggregate)
        estimates = np.array([row["estimate"] for row in rows])
        error = estimates.std() / math.sqrt(SAMPLES)
        assert abs(estimates.mean() - truth) < 4 * error + 0.002 * truth, aggregate
        assert 0.93 <= coverage(whole, aggregate, rows) <= 0.97, aggregate


@pytest.mark.parametrize("policy", POLICIES)
def test_intervals_of_groups_cover_the_truth(policy: str) -> None:
    whole = whole_of(2000, seed=12, groups=4)
    for aggregate, rows in intervals(whole, policy, 0.1, "group").items():
        assert 0.93 <= coverage(whole, aggregate, rows) <= 0.97, aggregate


def test_rows_of_one_tuple_are_not_taken_for_independent() -> None:
    """Errors that ignored the clusters would be far too small."""
    whole = whole_of(1000, seed=13, between=100.0)
    rng = np.random.default_rng(1)
    rows = [
        tg.estimate(sample_of(whole, "eq-cluster", 0.2, rng), "avg(x)").to_pylist()[0]
        for _ in range(300)
    ]
    spread = np.std([row["estimate"] for row in rows])
    assert np.mean([row["error"] for row in rows]) == pytest.approx(spread, rel=0.1)
    sample = sample_of(whole, "eq-cluster", 0.2, rng)
    naive_error = np.std(sample.column("x").to_numpy()) / math.sqrt(sample.num_rows)
    assert spread > 1.8 * naive_error


def test_a_group_that_is_too_small_is_unknown() -> None:
    whole = whole_of(30, seed=14)
    sample = sample_of(whole, "eq-cluster", 0.2, np.random.default_rng(2))
    (row,) = tg.estimate(sample, "sum(x)").to_pylist()
    assert row["interval"] == "unknown"
    assert row["low"] is None is row["high"] is row["error"]
    assert row["estimate"] > 0
    (row,) = tg.estimate(sample.slice(0, 0), "count(*)").to_pylist()
    assert (row["interval"], row["estimate"], row["rows"]) == ("unknown", None, 0)


def test_a_sample_of_everything_is_exact() -> None:
    table = pa.table({"x": [1.0, None, 3.0], "_weight": [1.0] * 3})
    for aggregate, expected in (("count(*)", 3), ("count(x)", 2), ("sum(x)", 4), ("avg(x)", 2)):
        (row,) = tg.estimate(table, aggregate).to_pylist()
        assert (row["estimate"], row["low"], row["high"]) == (expected,) * 3
        assert (row["interval"], row["error"], row["tuples"]) == ("exact", 0, 0)


@pytest.mark.nojit
def test_exact_is_what_lost_nothing() -> None:
    """A certain row says nothing of rows of its group that were not sampled."""
    table = pa.table(
        {
            "t": [1, 2, 11, 12, 21],
            "g": ["a", "a", "a", "b", "b"],
            "_weight": [1.0, 1.0, 1.0, 2.5, tags.SURE],
        }
    )
    said = tg.estimate(table, "count(*)", by="g").to_pylist()
    assert {row["g"]: row["interval"] for row in said} == {"a": "unknown", "b": "unknown"}
    # Nor does a stretch of time know whether all of it had passed when the first row was lost.
    said = tg.estimate(table, "count(*)", every=10, time="t").to_pylist()
    assert [row["interval"] for row in said] == ["unknown"] * 3
    assert [row["estimate"] for row in said] == pytest.approx([2.0, 3.5, 1.0])
    sure = table.slice(0, 2)
    for rows_lost, interval in ((0, "exact"), (1, "unknown")):  # after the last row that there is
        for asked in ({}, {"by": "g"}, {"every": 10, "time": "t"}):
            (row,) = tg.estimate(
                Joined(sure, {"rows_lost": rows_lost}), "count(*)", **asked
            ).to_pylist()
            assert (row["interval"], row["estimate"]) == (interval, 2.0)


@pytest.mark.nojit
def test_weights_that_were_rounded() -> None:
    """Of a small group all tags can look like names by chance; the others tell."""
    whole = whole_of(2000, seed=19, groups=20)
    sample = sample_of(whole, "pps-cluster", 0.3, np.random.default_rng(6))
    known = tg.estimate(sample, "count(*)", by="group")["interval"].to_pylist()
    assert known.count("95 %") > 10
    for rounded in (
        pc.round(sample["_weight"], 3),
        pc.round(sample["_weight"], 9),
        sample["_weight"].cast(pa.float32(), safe=False).cast(pa.float64()),
    ):
        table = sample.set_column(2, "_weight", rounded)
        for by in (None, "group"):
            said = tg.estimate(table, "count(*)", by=by)["interval"].to_pylist()
            assert set(said) == {"unknown"}


class Joined(NamedTuple):
    """As `tidegate.join` returns it."""

    table: pa.Table
    stats: dict[str, float]


@pytest.mark.nojit
def test_a_sample_that_misses_results_has_no_intervals() -> None:
    """The keys of all rows told how many results there are."""
    sample = sample_of(whole_of(400, seed=17), "eq-cluster", 0.3, np.random.default_rng(6))
    (count,) = tg.estimate(sample, "count(*)").to_pylist()
    for away, interval in ((1.4, "95 %"), (1.6, "unknown"), (-4.0, "95 %")):
        stats = {"rows_missed": away * count["error"]}
        for aggregate in AGGREGATES:
            (row,) = tg.estimate(Joined(sample, stats), aggregate).to_pylist()
            assert row["interval"] == interval
            assert (row["low"] is None) == (row["error"] is None) == (interval == "unknown")


@pytest.mark.nojit
def test_numbers_without_bounds() -> None:
    """Integers beyond 2^53 are rounded; what is infinite has no interval."""
    weights = [1.0, 1.0]
    large = pa.table({"x": [2**62, 2**62 + 1], "_weight": weights})
    assert tg.estimate(large, "avg(x)").column("estimate").to_pylist() == [2.0**62]
    endless = pa.table({"x": [np.inf, 1.0], "_weight": [2.0, 3.0]})
    (row,) = tg.estimate(endless, "sum(x)").to_pylist()
    assert (row["interval"], row["low"]) == ("unknown", None)


def test_stretches_of_time() -> None:
    table = pa.table({"t": [1, 5, 9, -3], "t_right": [2, 14, 8, -1], "_weight": [1.0] * 4})
    found = tg.estimate(table, "count(*)", every=10, time=["t", "t_right"])
    assert found.column("window_start").to_pylist() == [-10, 0, 10]
    assert found.column("estimate").to_pylist() == [1, 2, 1]
    nothing = tg.estimate(table.slice(0, 0), "count(*)", every=10, time="t")
    assert nothing.num_rows == 0
    seconds = pa.table(
        {"t": pa.array([1, 61, 62], pa.timestamp("s")), "_weight": pa.array([1.0] * 3)}
    )
    found = tg.estimate(seconds, "count(*)", every="1 minute", time="t").to_pylist()
    assert [row["estimate"] for row in found] == [1, 2]
    assert [row["window_start"].minute for row in found] == [0, 1]
    # Units may differ, and nanoseconds are more than are kept.
    moments = pa.array([-1, 61 * 10**9 + 1, 2 * 10**9], pa.timestamp("ns"))
    both = seconds.append_column("other", moments)
    found = tg.estimate(both, "count(*)", every="1 minute", time=["other", "t"]).to_pylist()
    assert [row["estimate"] for row in found] == [1, 2]
    found = tg.estimate(both, "count(*)", every="1 minute", time="other").to_pylist()
    assert [(row["estimate"], row["window_start"].minute) for row in found] == [
        (1, 59),
        (1, 0),
        (1, 1),
    ]


def test_tables_of_other_libraries() -> None:
    sample = sample_of(whole_of(400, seed=15), "pps-cluster", 0.3, np.random.default_rng(3))
    expected = tg.estimate(sample, "avg(x)", by="group")
    found = tg.estimate(sample.to_pandas(), "avg(x)", by=["group"])
    assert isinstance(found, pd.DataFrame)
    assert pa.Table.from_pandas(found).to_pylist() == expected.to_pylist()
    assert tg.estimate(pl.from_arrow(sample), "avg(x)", by="group").to_dicts() == (
        expected.to_pylist()
    )


@pytest.mark.nojit
def test_columns_to_group_by() -> None:
    """Whatever their type is, and whether or not their names are those of sums."""
    sample = sample_of(
        whole_of(400, seed=18, groups=3), "eq-cluster", 0.3, np.random.default_rng(4)
    )
    expected = {
        row["group"]: row["estimate"] for row in tg.estimate(sample, "sum(x)", "group").to_pylist()
    }
    texts = [str(group) for group in sample.column("group").to_pylist()]
    half = len(texts) // 2
    # Categories that differ from piece to piece.
    pieces = [pa.array(part).dictionary_encode() for part in (texts[:half], texts[half:][::-1])]
    order = [*range(half), *range(len(texts) - 1, half - 1, -1)]
    reversed_half = sample.take(order).append_column("total", pa.chunked_array(pieces))
    frame = pl.from_arrow(sample).with_columns(pl.col("group").cast(pl.String).alias("total"))
    for data in (reversed_half, frame, frame.with_columns(pl.col("total").cast(pl.Categorical))):
        found = tg.estimate(data, "sum(x)", by=["total", "total"])
        rows = found.to_dicts() if isinstance(found, pl.DataFrame) else found.to_pylist()
        assert {int(row["total"]): row["estimate"] for row in rows} == pytest.approx(expected)


@pytest.mark.nojit
def test_zeros_are_one_group() -> None:
    table = pa.table({"g": [0.0, -0.0, None], "h": [1, 1, 2], "_weight": [1.0] * 3})
    found = tg.estimate(table, "count(*)", by=["g", "h"]).to_pylist()
    assert [(row["g"], row["h"], row["estimate"]) for row in found] == [(0.0, 1, 2), (None, 2, 1)]


@pytest.mark.nojit
def test_columns_of_numbers() -> None:
    weights = [1.0, 1.0]
    for column in (
        pa.array([Decimal("1.5"), Decimal("2.5")]),
        pa.array([1.5, 2.5], pa.float32()).dictionary_encode(),
        pa.array([1, 3], pa.uint8()),
    ):
        (row,) = tg.estimate(pa.table({"x": column, "_weight": weights}), "avg(x)").to_pylist()
        assert row["estimate"] == 2.0
    flags = pa.table({"x": [True, False], "_weight": weights})
    assert tg.estimate(flags, "avg(x)").column("estimate").to_pylist() == [0.5]
    huge = pa.table({"x": [1.5e308, 1.7e308], "_weight": weights})
    (row,) = tg.estimate(huge, "avg(x)").to_pylist()
    assert row["estimate"] == pytest.approx(1.6e308)
    nothing = pa.table({"x": [None, np.nan], "_weight": [2.0, 3.0]})
    for aggregate in ("avg(x)", "sum(x)", "count(x)"):  # NULL and NaN alike, as for pandas
        (row,) = tg.estimate(nothing, aggregate).to_pylist()
        assert (row["estimate"], row["interval"], row["rows"]) == (None, "unknown", 0)


def test_small_differences_of_large_numbers() -> None:
    sample = sample_of(whole_of(400, seed=16), "eq-cluster", 0.3, np.random.default_rng(3))
    x = sample.column("x").to_numpy()
    near, far = (
        tg.estimate(sample.set_column(1, "x", pa.array(x + shift)), "avg(x)").to_pylist()[0]
        for shift in (0.0, 1e9)
    )
    assert far["error"] == pytest.approx(near["error"], rel=1e-5)


def test_tags() -> None:
    weights = np.array([1.0, 1.7, 1.7, 2.0, 3.99, 1e9, 1.0000001])
    names = np.array([5, 6, 7, 8, 2**26 - 1, 9, 10], np.uint64)
    marked = tagged(weights, names)
    assert np.abs(marked / weights - 1).max() < 2.0**-24
    bits = tags.bits_of(tags.significand_of(marked))
    entry, *others = tags.entries(marked, bits, np.floor, np.where)
    assert not any(other.present.any() for other in others)
    assert entry.key.tolist() == np.where(weights == 1, -1, 4.0 * names).tolist()


GOOD = pa.table(
    {"x": [1.0], "k": ["a"], "t": [1], "_weight": [1.0], "l": [[1]], "gap": pa.nulls(1, pa.int64())}
)
MIXED = pd.DataFrame({"_weight": [1.0, 1.0], "k": ["a", 1]})
FAR, HIGH = pa.array([2**50], pa.timestamp("s")), pa.array([2**63], pa.uint64())
DAY, NOON = pa.array([0], pa.date32()), pa.array([0], pa.timestamp("ns"))


@pytest.mark.parametrize(
    ("data", "options", "sentence"),
    [
        (GOOD, {"aggregate": "median(x)"}, "aggregate 'median\\(x\\)' is not known"),
        (GOOD, {"aggregate": "avg"}, "is not known"),
        (GOOD, {"aggregate": "sum(*)"}, "has no column"),
        (GOOD, {"aggregate": "avg(k)"}, "needs numbers, but column 'k' has type string"),
        (GOOD, {"aggregate": "avg(z)"}, "have no column 'z'"),
        (GOOD, {"by": "z"}, "have no column 'z'"),
        (GOOD, {"level": 95}, "not between 0 and 1"),
        (GOOD, {"level": 0.99999}, "more than a sample can tell"),
        (GOOD, {"by": 5}, "by 5 names no columns"),
        (GOOD.append_column("x", GOOD["x"]), {"aggregate": "sum(x)"}, "several columns 'x'"),
        (GOOD.append_column("rows", GOOD["x"]), {"by": "rows"}, "the answer has a column of that"),
        (GOOD.append_column("d", DAY), {"aggregate": "avg(d)"}, "column 'd' has type date32"),
        (GOOD.append_column("d", DAY), {"every": "1 day", "time": "d"}, "does not fit a time"),
        (GOOD.append_column("d", NOON), {"every": 10, "time": ["t", "d"]}, "does not fit a time"),
        (GOOD, {"by": "l"}, "cannot be grouped by column 'l'"),
        (GOOD, {"every": 10, "time": 5}, "time 5 names no columns"),
        (GOOD, {"every": 10, "time": "gap"}, "has NULL"),
        (GOOD, {"every": 10}, "give time="),
        (GOOD, {"every": 0, "time": "t"}, "not above 0"),
        (GOOD, {"every": "1 hour", "time": "t"}, "does not fit a time column"),
        (GOOD.drop_columns(["_weight"]), {}, "have no column '_weight'"),
        (GOOD.set_column(3, "_weight", pa.array([0.5])), {}, "no weights"),
        (GOOD.set_column(3, "_weight", pa.array([2.0], pa.float32())), {}, "keep it a double"),
        (GOOD.append_column("d", FAR), {"every": "1 day", "time": "d"}, "beyond 2\\*\\*62 units"),
        (GOOD.append_column("d", HIGH), {"every": 10, "time": "d"}, "beyond 2\\*\\*62 units"),
        (pa.table({}), {}, "until each stream has shown its own"),
        (7, {}, "estimate was given int"),
        ([GOOD, GOOD], {}, "give one, such as pyarrow.concat_tables"),
        (MIXED, {}, "column 'k' of .* cannot become an Arrow column"),
    ],
)
def test_refusals(data: Any, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(tg.TidegateError, match=sentence):
        tg.estimate(data, **{"aggregate": "count(*)", **options})
