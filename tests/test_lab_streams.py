"""The papers' streams: seeded, in order of time, and distributed as the papers say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tidegate.lab.age_model import AgeModel, observed_model
from tidegate.lab.measure import SOURCES
from tidegate.lab.paper_streams import (
    NO_PARTNER,
    TICKS,
    age_curve,
    age_streams,
    frequency_streams,
    keyed_streams,
    rare_importance,
    scripted_streams,
    wan_trace,
    zipf_shares,
)

SMALL: dict[str, dict[str, Any]] = {
    "keyed_streams": {"length": 300, "domain": 20},
    "age_streams": {"shape": "BELL", "tuples": 300},
    "family_streams": {"family": "mixed", "windows": 2},
    "frequency_streams": {"skew": 1.0, "tuples": 300},
    "scripted_streams": {"curve": [1, 0, 2], "tuples": 30},
    "travelling_keys": {"streams": 2, "tuples": 300},
    "valued_age_streams": {"shape": "INC", "tuples": 300, "valued": "s1", "spread": 5.0},
    "valued_streams": {
        "skew": 1.0,
        "tuples": 300,
        "correlation": "none",
        "valued": "s2",
        "spread": 5.0,
    },
    "wan_trace": {"seconds": 10},
}


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_the_seed_fixes_every_value_and_time_goes_forward(name: str) -> None:
    first, again, other = (SOURCES[name](seed=seed, **SMALL[name]) for seed in (1, 1, 2))
    assert len(first) == 2
    for stream, table in first.items():
        assert table.equals(again[stream])
        assert (np.diff(table["ts"].to_numpy()) >= 0).all()
    if name != "scripted_streams":  # the one without chance
        assert any(not table.equals(other[stream]) for stream, table in first.items())


@pytest.mark.parametrize(("correlation", "sign"), [("direct", 1), ("inverse", -1)])
def test_frequencies_are_correlated_as_asked(correlation: Any, sign: int) -> None:
    streams = frequency_streams(1.5, 20_000, 0, correlation=correlation)
    counts = [np.bincount(table["key"].to_numpy(), minlength=50) for table in streams.values()]
    assert counts[0][0] / counts[0].sum() == pytest.approx(zipf_shares(50, 1.5)[0], abs=0.02)
    assert sign * np.corrcoef(np.argsort(counts[0]), np.argsort(counts[1]))[0, 1] > 0.3
    assert streams["s2"].num_rows == 5 * streams["s1"].num_rows


def test_zipf_shares_fall_with_the_rank() -> None:
    shares = zipf_shares(100, 1.0)
    assert shares.sum() == pytest.approx(1.0)
    assert shares[0] / shares[9] == pytest.approx(10.0)
    assert (zipf_shares(7, 0.0) == 1 / 7).all()


def _counts(correlation: Any) -> tuple[np.ndarray, np.ndarray]:
    streams = keyed_streams(40_000, 30, seed=4, skews=(1.0, 1.0), correlation=correlation)
    first, second = (
        np.bincount(streams[name]["key"].to_numpy(), minlength=30) for name in ("r", "s")
    )
    return first, second


def test_correlation_says_which_keys_are_frequent_on_both() -> None:
    found = {name: np.corrcoef(*map(np.log, _counts(name)))[0, 1] for name in ("direct", "inverse")}
    assert found["direct"] > 0.95
    assert found["inverse"] < -0.7
    assert abs(np.corrcoef(*map(np.log, _counts("none")))[0, 1]) < 0.6


def test_high_importance_is_rare() -> None:
    values = rare_importance(np.random.default_rng(3), 20_000, share=0.05, high=100.0, spread=0.5)
    high = values > 10
    assert high.mean() == pytest.approx(0.05, abs=0.01)
    assert 50 <= values[high].min() < values[high].max() <= 150
    assert 0.5 <= values[~high].min() < values[~high].max() <= 1.5


@pytest.mark.parametrize("shape", ["INC", "DEC", "BELL", "FLAT"])
def test_partners_are_picked_by_age(shape: Any) -> None:
    streams = age_streams(shape, 4_000, seed=5)
    keys, times = (streams["s2"][name].to_numpy() for name in ("key", "ts"))
    later = (times > 1_000 * TICKS) & (keys != NO_PARTNER)
    ages = times[later] - streams["s1"]["ts"].to_numpy()[keys[later]]
    found = np.bincount(ages * 20 // (500 * TICKS), minlength=20) / later.sum()
    assert found[:20] == pytest.approx(age_curve(shape), abs=0.012)


def test_streams_come_at_0_8_of_the_named_rate() -> None:
    """The erratum: the mean of a uniform time between 1/2r and 2/r is 1.25/r."""
    times = age_streams("INC", 20_000, seed=6)["s1"]["ts"].to_numpy()
    assert 20_000 / (times[-1] / TICKS) == pytest.approx(0.8, rel=0.01)


def test_scripted_matches_follow_the_curve_to_the_letter() -> None:
    curve = (3, 0, 2)
    streams = scripted_streams(curve, 10)
    keys, times = (streams["s2"][name].to_numpy() for name in ("key", "ts"))
    ages = (times - keys * TICKS) // TICKS
    for k, matches in enumerate(curve):
        assert (np.bincount(keys[ages == k], minlength=10) == matches).all()


def test_the_wan_trace_peaks_at_63_seconds() -> None:
    streams = wan_trace(400, seed=0)
    spec = tg.JoinSpec(
        on=tg.band("tau", 59_900, 60_100),
        time="ts",
        within={"s1": 120_000, "s2": 0},
        streams=("s1", "s2"),
    )
    model = observed_model(streams, spec, 100, ("ts", "ts_s2"))
    assert model.rate * 1_000 == pytest.approx(50, rel=0.01)
    assert model.curve.sum() == pytest.approx(10, rel=0.05)  # 0.2 s at 50 tuples/s
    assert model.curve.argmax() * 0.1 == pytest.approx(63.0, abs=0.6)
    assert model.curve[:600].sum() == 0


def test_equation_3_in_both_of_its_cases() -> None:
    model = AgeModel(np.array([1.0, 1.0, 2.0, 1.0]), 1.0, 1.0)
    assert model.best_age == 3
    assert model.result_rate(1) == pytest.approx(4 / 3)
    assert model.result_rate(2) == pytest.approx(8 / 3)
    assert model.result_rate(4) == pytest.approx(5.0)
    assert model.recall(4) == pytest.approx(1.0)
    doubled = AgeModel(model.curve, 1.0, 2.0)
    assert doubled.recall(2) == pytest.approx(model.recall(1))
