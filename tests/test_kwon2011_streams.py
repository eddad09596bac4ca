"""The streams of kwon2011: seeded, at the stated rate, with the stated orders of streams."""

from __future__ import annotations

import math
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidegate as tg
from tidegate.lab.datasets import VARIABLE
from tidegate.lab.kwon2011_streams import (
    NOWHERE,
    RECORDED,
    order_shares,
    recorded_streams,
    stream_names,
    stream_orders,
    travelling_keys,
)
from tidegate.lab.paper_streams import TICKS, zipf_shares

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"


def orders_of(streams: dict[str, pa.Table]) -> dict[Any, tuple[int, ...]]:
    """The streams that each key visits, by time; ties by stream."""
    visits: dict[Any, list[tuple[int, int]]] = {}
    for number, table in enumerate(streams.values()):
        times = table["ts"].cast(pa.int64()).to_pylist()
        for key, time in zip(table["key"].to_pylist(), times, strict=True):
            visits.setdefault(key, []).append((time, number))
    return {key: tuple(number for _, number in sorted(seen)) for key, seen in visits.items()}


def test_the_seed_fixes_every_value() -> None:
    first, again, other = (travelling_keys(seed, tuples=200) for seed in (1, 1, 2))
    assert all(table.equals(again[name]) for name, table in first.items())
    assert not any(table.equals(other[name]) for name, table in first.items())


@pytest.mark.parametrize("ranking", ["random", "complete", "balanced"])
@pytest.mark.parametrize("skew", [0.0, 2.0])
def test_every_stream_has_its_tuples_at_its_rate(ranking: Any, skew: float) -> None:
    streams = travelling_keys(3, streams=4, tuples=4_000, rate=12.5, skew=skew, ranking=ranking)
    assert tuple(streams) == stream_names(4)
    for table in streams.values():
        times = table["ts"].to_numpy()
        assert table.num_rows == 4_000
        assert (np.diff(times) >= 0).all()
        counts = np.bincount(times // (32 * TICKS))  # ten parts of 400 tuples
        assert len(counts) == 10
        assert counts == pytest.approx(np.full(10, 400), abs=100)
        assert len(set(table["key"].to_pylist())) == 4_000


def test_an_order_is_an_arrangement_of_some_streams() -> None:
    for streams in range(2, 8):
        expected = sum(math.perm(streams, length) for length in range(1, streams + 1))
        orders = stream_orders(streams)
        assert len(np.unique(orders, axis=0)) == len(orders) == expected
        used = [[s for s in order if s != NOWHERE] for order in orders.tolist()]
        assert all(len(set(order)) == len(order) for order in used)


def test_without_skew_all_orders_are_as_frequent() -> None:
    streams = travelling_keys(5, streams=3, tuples=30_000, gap=10.0)
    counts = Counter(orders_of(streams).values())
    assert len(counts) == 15
    # Keys that are under way at the ends are cut: about 4 of 3,000 seconds.
    number = sum(counts.values()) / 15
    assert all(count == pytest.approx(number, rel=0.08) for count in counts.values())


@pytest.mark.parametrize("ranking", ["random", "complete", "balanced"])
def test_skewed_orders_follow_zipf(ranking: Any) -> None:
    shares = order_shares(4, 1.5, ranking, np.random.default_rng(2))
    lengths = (stream_orders(4) != NOWHERE).sum(axis=1)
    assert shares.sum() == pytest.approx(1.0)
    if ranking == "balanced":
        for length in range(1, 5):
            inside = np.sort(shares[lengths == length])[::-1]
            assert inside.sum() == pytest.approx((lengths == length).mean())
            assert inside / inside.sum() == pytest.approx(zipf_shares(len(inside), 1.5))
    else:
        assert np.sort(shares)[::-1] == pytest.approx(zipf_shares(64, 1.5))
    if ranking == "complete":
        assert (np.diff(shares) < 0).all()
        assert lengths[shares.argmax()] == 4


@pytest.mark.parametrize("ranking", ["random", "complete", "balanced"])
@pytest.mark.parametrize("distinct", [1, 2, 7, 30])
def test_so_many_orders_occur(ranking: Any, distinct: int) -> None:
    shares = order_shares(5, 1.0, ranking, np.random.default_rng(4), distinct)
    lengths = (stream_orders(5) != NOWHERE).sum(axis=1)
    assert shares.sum() == pytest.approx(1.0)
    assert (shares > 0).sum() == distinct
    assert (shares[lengths == 5] > 0).sum() == pytest.approx(max(1, distinct * 120 / 325), abs=0.5)


def test_balanced_skew_keeps_the_number_of_complete_keys() -> None:
    complete = [
        sum(len(order) == 4 for order in orders_of(streams).values())
        for streams in (travelling_keys(6, streams=4, tuples=8_000, skew=s) for s in (0.0, 1.0))
    ]
    assert complete[1] == pytest.approx(complete[0], rel=0.1)
    assert complete[0] > 1_000


def test_a_key_goes_on_after_the_gap_whatever_the_rate() -> None:
    for rate in (10.0, 25.0):
        streams = travelling_keys(7, streams=2, tuples=20_000, gap=300.0, rate=rate)
        visits: dict[int, list[int]] = {}
        for table in streams.values():
            for row in table.to_pylist():
                visits.setdefault(row["key"], []).append(row["ts"])
        waits = np.array([abs(seen[1] - seen[0]) for seen in visits.values() if len(seen) == 2])
        assert waits.mean() / TICKS * rate == pytest.approx(300.0, rel=0.03)
        assert waits.max() / TICKS * rate < 601


def test_normal_keys_repeat_around_their_mean() -> None:
    streams = travelling_keys(8, streams=3, tuples=5_000, keys="normal", spread=15.0)
    for table in streams.values():
        values = table["key"].to_numpy()
        assert values.mean() == pytest.approx(100.0, abs=1.0)
        assert values.std() == pytest.approx(15.0, abs=0.6)


# --- recorded data -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def data() -> Path:
    folder = Path(os.environ.get(VARIABLE) or BESIDE)
    if not all((folder / join.file).is_file() for join in RECORDED.values()):
        pytest.skip(f"no recorded data: {VARIABLE} names no folder that has it")
    return folder


@pytest.mark.parametrize(
    ("name", "complete", "orders"), [("nasa-visits", 636, 14), ("sepsis-steps", 726, 14)]
)
def test_recorded_keys_visit_each_stream_once(
    name: str, complete: int, orders: int, data: Path
) -> None:
    streams = recorded_streams(name, str(data))
    assert tuple(streams) == RECORDED[name].spec["streams"]
    for table in streams.values():
        assert table["key"].null_count == 0
        assert len(set(table["key"].to_pylist())) == table.num_rows > 500
        assert (np.diff(table["ts"].cast(pa.int64()).to_numpy()) >= 0).all()
    full = [order for order in orders_of(streams).values() if len(order) == 4]
    assert (len(full), len(set(full))) == (complete, orders)


def test_an_unknown_recording_is_named(tmp_path: Path) -> None:
    with pytest.raises(tg.TidegateError, match="did you mean 'nasa-visits'"):
        recorded_streams("nasa-visit", str(tmp_path))
