"""The parts of sampling against brute force.

Law: the largest threshold since an arrival is found however many came and went, folded or not; a
tag changes a weight by less than 1 in 16 million; skips are geometric; buckets draw other numbers.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from standalone import Standalone

import tidegate as tg
from tidegate.sample import tags
from tidegate.shed import sample_records, sampling
from tidegate.windows.lifetime import ORDINARY

parts = Standalone(sampling)
STEP = 0x9E3779B97F4A7C15


@pytest.mark.nojit
def test_thresholds_since_an_arrival() -> None:
    spec = tg.JoinSpec(on="k", time="t", within=9, memory=64, policy="eq-cluster", split="shared")
    engine = tg.JoinEngine(spec)
    shed, lanes = engine._shed, engine._state.lanes
    assert shed is not None
    shed.samples.levels[0].given = 1
    rng = np.random.default_rng(1)
    orders = rng.choice(5000, 40, replace=False)
    shed.members.notes.order[:40] = orders
    shed.members.notes.monitor[:40] = ORDINARY
    raised: list[tuple[int, float]] = []
    # Falling thresholds fill the steps, so that they are folded; then random ones.
    falling = 10.0 - np.arange(3 * sample_records.ROOM) / 1000
    values = [*falling.tolist(), *rng.random(300).tolist(), 20.0, 15.0]
    for order, value in enumerate(values, start=4000):
        parts.raise_to(shed, lanes, 0, order, value)
        raised.append((order, value))
        if order % 97 == 0 or value > 11.0:
            for slot, own in enumerate(orders):
                # A tuple is retained from its arrival on; those that are to come know nothing.
                since = [threshold for at, threshold in raised if at >= own]
                if own <= order and since:
                    assert parts.threshold_of(shed.samples, 0, slot, own) == max(since)


@pytest.mark.nojit
def test_tags_of_weights() -> None:
    for weight in (1.5, 2.0, 3.999999, 1234.5, 1e9):
        for number in (1.0, 0.25, 2.0**-53):
            marked = parts.tagged(weight, number)
            assert abs(marked / weight - 1) < 2.0**-24
            name = math.floor((1 - number) * 2**26)
            assert one_entry(marked).key.tolist() == [4.0 * name]


def entries_of(weight: float) -> list[tags.Entry]:
    weights = np.array([weight])
    bits = tags.bits_of(tags.significand_of(weights))
    return tags.entries(weights, bits, np.floor, np.where)


def one_entry(weight: float) -> tags.Entry:
    (entry,) = [entry for entry in entries_of(weight) if entry.present.all()]
    return entry


@pytest.mark.nojit
def test_skips_are_geometric() -> None:
    numbers = 1 - np.random.default_rng(2).random(4000)
    skips = np.array([parts.skip_of(0.3, number) for number in numbers])
    for k in range(1, 5):
        assert (skips == k).mean() == pytest.approx(0.3 * 0.7 ** (k - 1), abs=0.03)
    assert parts.skip_of(1.0, 0.5) == 1
    assert parts.skip_of(1e-300, 0.5) > 2**30


@pytest.mark.nojit
def test_buckets_draw_other_numbers() -> None:
    seeds = [np.uint64(bucket * STEP % 2**63) for bucket in range(3)]
    numbers = {
        parts.drawn(seed, 0, order, draw)
        for seed in seeds
        for order in range(50)
        for draw in (0, 1)
    }
    assert len(numbers) == 300
    assert all(0 < number <= 1 for number in numbers)
