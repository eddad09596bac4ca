"""VALUE for n streams: the slow, obvious twin of `estimators.prospects`.

Law: what every key is worth is computed from frozen sums, the sums as they were at the last fit;
who is held where is counted from the retained tuples. A place is (streams that hold the key, is it
broken). See `estimators.prospects` for what is estimated and why.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from naive import Arrival, length
from naive_estimates import FadingCounts, Importances
from naive_many import NOTHING, Combination, ManyJoin, Shedding, key_of

from tidegate.shed import learning
from tidegate.spec import JoinSpec

Place = tuple[Any, bool]
WAIT_ENDS = [2.0 ** (place / 3) / 64.0 for place in range(20)]
UNIT, SPAN_UNIT = 2**20, 2**24


def wait_of(windows: float) -> int:
    return next((at for at, end in enumerate(WAIT_ENDS[:-1]) if windows < end), 19)


def age_of(windows: float) -> int:
    return min(20, int(windows * 20))


def whole(amount: float) -> int:
    return int(amount + 0.5)


def best_mean(factors: Sequence[float], widths: Sequence[float], begin: int) -> float:
    lengths = itertools.accumulate(widths[begin:])
    earned = itertools.accumulate(
        width * factor for width, factor in zip(widths[begin:], factors[begin:], strict=True)
    )
    return max(e / n for e, n in zip(earned, lengths, strict=True))


@dataclass
class Record:
    """Of a key; `before`, `wait` and `age` as of the beginning of the present moment."""

    last: int
    counted: int
    begun: int
    place: Place | None = None
    before: Place | None = None
    wait: int = 0
    age: int = 0


class Sums:
    """All that was seen, in whole numbers."""

    def __init__(self) -> None:
        self.came: Counter[Place] = Counter()
        self.earned: Counter[Place] = Counter()
        self.time: Counter[Place] = Counter()
        self.next_time: Counter[Place] = Counter()
        # By feature and place: what was earned there, and what was expected.
        self.hits: dict[str, Counter[int]] = defaultdict(Counter)
        self.expected: dict[str, Counter[int]] = defaultdict(Counter)
        self.events = 0

    def fade(self) -> None:
        for sums in (
            self.came, self.earned, self.time, self.next_time, *self.hits.values(),
            *self.expected.values(),
        ):  # fmt: skip
            for place in sums:
                sums[place] = sums[place] // 5 * 4
        self.events = self.events // 5 * 4


class Believed:
    """What follows from the sums at a fit."""

    def __init__(self, sums: Sums, windows: float = 0.0) -> None:
        """`windows` is how long streams have been watched."""
        self.sums = sums
        self.patience = 1.0 + 8.0 / max(1.0 / 64.0, windows) ** 2
        self.known = sums.events > 0 and sum(sums.earned.values()) > 0
        if not self.known:
            return
        self.all_earned = sum(sums.earned.values()) / UNIT
        self.usual = self.all_earned / (sums.events / UNIT)
        self.all_time = sum(sums.time.values()) / SPAN_UNIT
        self.all_both = self.all_time + sum(sums.next_time.values()) / SPAN_UNIT
        self.ages = self.factor("age", 21, 16.0)
        self.waits = self.factor("wait", 20, 4.0 * self.patience)

    def earned(self, place: Place) -> float:
        return self.sums.earned[place] / UNIT

    def time(self, place: Place) -> float:
        return self.sums.time[place] / SPAN_UNIT

    def both(self, place: Place) -> float:
        return self.time(place) + self.sums.next_time[place] / SPAN_UNIT

    def hazard(self, place: Place) -> float:
        if not self.known:
            return 0.0
        caution = 4.0 * self.usual * self.patience
        time = self.time(place) + caution * self.all_time / self.all_earned
        return (self.earned(place) + caution) / max(time, 1e-12)

    def rate(self, place: Place) -> float:
        if not self.known:
            return 1.0
        caution = 4.0 * self.usual * self.patience
        time = self.both(place) + caution * self.all_both / self.all_earned
        return (self.earned(place) + caution) / max(time, 1e-12)

    def expects(self, place: Place) -> tuple[float, float]:
        """Earnings and time of a key that comes to a place, up to one window."""
        if not self.known:
            return 0.0, 0.0
        came = max(1.0, self.sums.came[place] / UNIT)
        share = min(1.0, came / self.both(place)) if self.both(place) else 1.0
        return self.earned(place) / came * share, self.both(place) / came * share

    def scale(self, feature: str) -> float:
        hits = sum(self.sums.hits[feature].values())
        expected = sum(self.sums.expected[feature].values())
        return hits / expected if hits and expected else 1.0

    def level(self, level: int) -> float:
        at_its_word = 2.0 ** (level / 2)
        if not self.known:
            return at_its_word
        hits = sum(self.sums.hits["level"].values()) / UNIT
        caution = 4.0 * hits / (self.sums.events / UNIT)
        expected = self.scale("level") * self.sums.expected["level"][level] / UNIT
        hit = self.sums.hits["level"][level] / UNIT
        return (hit + caution) / (expected + caution / at_its_word)

    def factor(self, feature: str, places: int, caution: float) -> list[float]:
        caution *= self.usual
        return [
            (self.sums.hits[feature][at] / UNIT + caution)
            / (self.scale(feature) * self.sums.expected[feature][at] / UNIT + caution)
            for at in range(places)
        ]

    def age(self, age: int) -> float:
        return self.ages[age] if self.known else 1.0

    def wait(self, wait: int) -> float:
        return self.waits[wait] if self.known else 1.0

    def age_worth(self, age: int) -> float:
        return best_mean(self.ages, [1.0] * 21, age) if self.known else 1.0

    def wait_worth(self, wait: int) -> float:
        widths = [end - begin for begin, end in zip([0.0, *WAIT_ENDS], WAIT_ENDS, strict=False)]
        return best_mean(self.waits, widths, wait) if self.known else 1.0


class Value(Shedding):
    """The tuple goes whose key earns least, for each of its tuples on that stream."""

    def __init__(self, spec: JoinSpec) -> None:
        streams = len(spec.streams)
        windows = spec.windows
        self.spec = spec
        self.timed = all(window.kind != "rows" for window in windows)
        timed = [length(window) for window in windows if window.kind != "rows"]
        counted = [length(window) for window in windows if window.kind == "rows"]
        self.span = max(1, max(timed) if self.timed else sum(counted))
        self.fade_after = max(timed) if timed else sum(counted)
        self.any_timed = bool(timed)
        kind = spec.output_importance
        self.importances = Importances("sum" if kind == "mean" else kind, streams)
        self.counts = FadingCounts(streams)
        self.records: dict[Hashable, Record] = {}
        self.held: dict[Hashable, list[int]] = {}
        self.pending: list[Arrival] = []
        self.sums = Sums()
        self.believed = Believed(Sums())
        self.worth: dict[tuple[Hashable, int], float] = {}
        self.own: dict[int, float] = {}
        self.arrival_worth: dict[int, float] = {}
        self.now = self.fitted_after = self.since = self.weight = self.refreshed = self.quiet = 0
        self.faded: int | None = None
        self.begun = 0

    # --- where a key stands ----------------------------------------------------------------

    def place_of(self, key: Hashable) -> Place | None:
        holding = [stream for stream, number in enumerate(self.held[key]) if number]
        seen = self.counts.counts.get(key, [0.0] * len(self.held[key]))
        broken = any(count > 0 and s not in holding for s, count in enumerate(seen))
        if not holding:
            return None
        return (tuple(holding) if len(seen) <= 8 else len(holding)), broken

    def level_of(self, key: Hashable) -> int:
        return min(63, int(2 * math.log2(math.prod(max(1, held) for held in self.held[key]))))

    def rate_of(self, key: Hashable, place: Place) -> float:
        record = self.records[key]
        age = age_of((self.now - record.begun) / self.span)
        wait = wait_of((self.now - record.last) / self.span)
        rate = self.believed.rate(place) * self.believed.level(self.level_of(key))
        return min(3e38, rate * self.believed.age_worth(age) * self.believed.wait_worth(wait))

    # --- what is told ----------------------------------------------------------------------

    def arrived(self, join: ManyJoin, arrival: Arrival) -> None:
        clock = join.intake.clock
        assert clock is not None
        self.fade(clock)
        self.tick(clock)
        key = key_of(self.spec, arrival)
        self.pending.append(arrival)
        if key is not NOTHING:
            if key not in self.records:
                self.records[key] = Record(self.now, self.now, self.now)
                self.held[key] = [0] * len(self.spec.streams)
            self.counts.see(key, arrival.stream, self.now)
            self.see(key)
        if self.spec.importance_columns is not None:
            self.importances.see(arrival.stream, arrival.importance)

    def fade(self, clock: int) -> None:
        if self.faded is None:
            self.faded = clock
        self.quiet += 1
        elapsed = clock - self.faded if self.any_timed else self.quiet
        if self.quiet >= learning.SMALLEST_FADE and elapsed > self.fade_after:
            self.counts.fade(set(self.records))
            self.sums.fade()
            self.weight = self.weight // 5 * 4
            self.importances.fade()
            self.quiet, self.faded = 0, clock

    def tick(self, clock: int) -> None:
        self.now = clock if self.timed else self.now + 1
        if self.weight == 0:
            self.begun = self.now
        self.fitted_after += 1
        self.since += 1
        self.weight += 1
        due = self.fitted_after >= 64 and 40 * self.fitted_after >= self.weight
        if self.since >= max(16, len(self.records) // 32):
            if 32 * (self.now - self.refreshed) >= self.span or due:
                self.refresh(due)

    def refresh(self, due: bool) -> None:
        self.since, self.refreshed = 0, self.now
        if due:
            for key in self.records:
                self.count(key)
            windows = (self.now - self.begun) / self.span
            self.believed = Believed(deepcopy(self.sums), windows)
            self.fitted_after = 0
            self.importances.fit()
        for key in self.records:
            self.write(key)

    def write(self, key: Hashable) -> None:
        place = self.records[key].place
        if place is not None:
            for stream, held in enumerate(self.held[key]):
                if held:
                    self.worth[key, stream] = float(np.float32(self.rate_of(key, place) / held))

    def see(self, key: Hashable) -> None:
        record = self.records[key]
        if record.last != self.now:
            self.count(key)
            record.before = record.place
            record.wait = wait_of((self.now - record.last) / self.span)
            record.age = age_of((self.now - record.begun) / self.span)
            record.last = self.now

    def count(self, key: Hashable) -> None:
        """Put the time since it was last counted into the sums."""
        record, believed, sums = self.records[key], self.believed, self.sums
        since, record.counted = record.counted, self.now
        if record.place is None or self.now <= since:
            return
        level = self.level_of(key)
        factor, hazard = believed.level(level), believed.hazard(record.place)
        span = (self.now - since) / self.span
        age = age_of((since - record.begun + self.now - record.begun) / self.span / 2)
        sums.time[record.place] += whole(span * factor * SPAN_UNIT)
        sums.expected["level"][level] += whole(span * hazard * UNIT)
        begin, end = (since - record.last) / self.span, (self.now - record.last) / self.span
        while begin < end:
            wait = wait_of(begin)
            upto = min(end, WAIT_ENDS[wait]) if wait < 19 else end
            expected = (upto - begin) * (hazard * factor * UNIT)
            sums.expected["wait"][wait] += whole(expected * believed.age(age))
            sums.expected["age"][age] += whole(expected * believed.wait(wait))
            begin = upto

    def produced(self, join: ManyJoin, combinations: Sequence[Combination]) -> None:
        last = Counter(max(c, key=lambda x: x.taken).taken for c in combinations)
        keys = {max(c, key=lambda x: x.taken).taken: key_of(self.spec, c[0]) for c in combinations}
        for taken, results in sorted(last.items()):
            record = self.records.get(keys[taken])
            if record is not None and record.before is not None:
                self.sums.events += UNIT
                self.sums.earned[record.before] += results * UNIT
                self.sums.hits["level"][self.level_of(keys[taken])] += results * UNIT
                self.sums.hits["wait"][record.wait] += results * UNIT
                self.sums.hits["age"][record.age] += results * UNIT

    def move(self, key: Hashable) -> None:
        record, place = self.records[key], self.place_of(key)
        if place == record.place:
            return
        self.count(key)
        if place is not None:
            self.sums.came[place] += UNIT
            if record.place is not None:
                wait, age = record.wait, record.age
                if record.last != self.now:
                    wait = wait_of((self.now - record.last) / self.span)
                    age = age_of((self.now - record.begun) / self.span)
                earned, time = self.believed.expects(place)
                self.sums.earned[record.place] += whole(earned * UNIT)
                self.sums.next_time[record.place] += whole(time * SPAN_UNIT)
                self.sums.hits["wait"][wait] += whole(earned * UNIT)
                self.sums.hits["age"][age] += whole(earned * UNIT)
        record.place = place

    def settle(self, key: Hashable) -> None:
        self.move(key)
        self.write(key)

    def appraised(self, join: ManyJoin, arrival: Arrival) -> None:
        own = 1.0
        if self.spec.importance_columns is not None:
            own = arrival.importance
            for other in range(len(self.spec.streams)):
                if other != arrival.stream:
                    own = self.importances.expected(other, own)
            if self.spec.output_importance == "mean":
                own /= len(self.spec.streams)
        self.own[arrival.taken] = own
        key, worth = key_of(self.spec, arrival), 0.0
        if key is not NOTHING:
            held = self.held[key]
            held[arrival.stream] += 1
            place = self.place_of(key)
            assert place is not None
            worth = float(np.float32(self.rate_of(key, place) / held[arrival.stream]))
            held[arrival.stream] -= 1
        self.arrival_worth = {arrival.taken: worth}

    def admitted(self, join: ManyJoin, arrival: Arrival) -> None:
        key = key_of(self.spec, arrival)
        self.arrival_worth = {}
        if key is not NOTHING:
            self.count(key)
            self.held[key][arrival.stream] += 1

    def left(self, join: ManyJoin, arrival: Arrival, cause: str) -> None:
        key = key_of(self.spec, arrival)
        if cause != "refused" and key is not NOTHING:
            self.count(key)
            self.held[key][arrival.stream] -= 1
            self.settle(key)
            self.forget(key)

    def settled(self, join: ManyJoin, arrival: Arrival) -> None:
        key = key_of(self.spec, arrival)
        self.pending.remove(arrival)
        if key is not NOTHING:
            self.settle(key)
            self.forget(key)

    def forget(self, key: Hashable) -> None:
        """A key has a record while a tuple of it is retained or being taken."""
        awaited = any(key_of(self.spec, x) == key for x in self.pending)
        if not awaited and not any(self.held[key]):
            del self.records[key], self.held[key]

    def rank(self, join: ManyJoin, arrival: Arrival) -> Any:
        own = self.own[arrival.taken]
        worth = self.arrival_worth.get(arrival.taken)
        if worth is None:
            worth = self.worth.get((key_of(self.spec, arrival), arrival.stream), 0.0)
        return worth * own, own, arrival.taken
