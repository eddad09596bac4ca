"""How `keep_up` follows the time of micro-batches, without Spark and with a clock of its own.

A micro-batch of the model below takes a fixed part, a part per row, and a part per comparison; the
next begins at the next tick of the trigger, or at once if that has passed. The law: whatever the
stream wants, micro-batches come to last about as long as they may, and with a stream that can be
kept up with nothing is skipped.
"""

from __future__ import annotations

import math
from dataclasses import asdict

import pytest

pytest.importorskip("pyspark")

from tidegate.spark.pacing import AIM, Pace
from tidegate.spec import Cpu

# Seconds: of all rows of a second of the stream, of a comparison, of a micro-batch itself.
PER_SECOND, PER_COMPARISON, FIXED = 0.2, 1e-8, 0.6


class Model:
    """A stream at `rate` times the rows that can be joined in full, and the bucket's pace."""

    def __init__(self, cpu: Cpu, interval: float, waves: int = 1) -> None:
        self.cpu, self.interval, self.waves = cpu, interval, waves
        self.pace = Pace()
        self.now, self.read = 1000.0, 1000.0 - interval
        self.lasted: list[float] = []
        self.share: list[float] = []

    def step(self, load: float, pause: float = 0.0) -> None:
        """One micro-batch: all that came since the last began; `load` 1 just fills the interval.

        `pause`: so long the source was silent.
        """
        self.now, self.read = self.now + pause, self.read + pause
        newest, seconds = int(self.now * 1e6), self.now - self.read
        self.read = self.now
        pace = self.pace.reviewed(self.cpu, self.now) if self.lasted else self.pace
        pace, fuel = pace.next(self.cpu, self.now, newest)
        work = PER_SECOND / self.waves
        room = (self.interval - FIXED) / self.waves - work * self.interval
        wanted = load * seconds / self.interval * room / PER_COMPARISON
        made = wanted if fuel is None else min(wanted, fuel * seconds)
        busy = work * seconds + PER_COMPARISON * made
        self.pace = Pace.read(asdict(pace.ended(busy, made, wanted - made)))
        self.lasted.append(FIXED + self.waves * busy)
        self.share.append(made / wanted)
        tick = (self.now // self.interval + 1) * self.interval  # as Spark's trigger has it
        self.now = max(self.now + self.lasted[-1], tick)


def test_a_stream_that_is_slow_enough_is_joined_in_full() -> None:
    model = Model(Cpu(keep_up=True, interval="10 s"), 10.0)
    for _ in range(20):
        model.step(0.8)
    assert model.share == [1.0] * 20


@pytest.mark.parametrize("waves", [1, 2, 4])
@pytest.mark.parametrize("load", [1.5, 3.0, 20.0])
def test_a_stream_that_is_too_fast_is_joined_in_part(load: float, waves: int) -> None:
    """With a few buckets one after the other as well."""
    model = Model(Cpu(keep_up=True, interval="10 s"), 10.0, waves)
    for _ in range(40):
        model.step(load)
    assert all(0.8 * 10 <= lasted <= 1.1 * 10 for lasted in model.lasted[-10:])
    assert model.share[-1] == pytest.approx(AIM / load, rel=0.35)


def test_the_share_falls_at_once_and_recovers() -> None:
    model = Model(Cpu(keep_up=True, interval="10 s"), 10.0)
    for load in [0.5] * 5 + [3.0] * 12:
        model.step(load)
    assert max(model.lasted[8:]) <= 10.5
    for _ in range(12):
        model.step(0.5)
    assert model.share[-1] == 1.0


def test_without_an_interval_the_delay_does_not_grow() -> None:
    """After the burst of the first, micro-batches do not grow any more."""
    model = Model(Cpu(keep_up=True), 5.0)
    for _ in range(40):
        model.step(3.0)
    assert max(model.lasted[10:]) <= 1.05 * model.lasted[10]
    assert min(model.share[10:]) >= 0.3


def test_a_pause_of_the_source_costs_little() -> None:
    model = Model(Cpu(keep_up=True, interval="10 s"), 10.0)
    for load in [3.0] * 20:
        model.step(load)
    before = model.share[-1]
    model.step(0.1, pause=500.0)
    for _ in range(10):
        model.step(3.0)
    assert model.share[-1] >= 0.8 * before


def test_rows_without_progress_of_time_change_nothing() -> None:
    pace = Pace(speed=5.0, newest=7, begun=1.0, allowed=1.0)
    again, fuel = pace.next(Cpu(keep_up=True, interval="10 s"), 3.0, 6)
    assert (again.newest, again.speed, fuel) == (7, 5.0, None)
    assert pace.next(Cpu(keep_up=True), 3.0, None)[1] is None


@pytest.mark.parametrize("stored", [{"speed": "x"}, {"busy": None}, {"rest": math.inf}, {"x": 1}])
def test_a_pace_that_is_none_is_refused(stored: dict[str, object]) -> None:
    with pytest.raises((TypeError, ValueError)):
        Pace.read(stored)
