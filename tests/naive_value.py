"""The slow twin of VALUE: every victim is found by looking at all tuples.

Law: what a tuple is worth comes from the estimators, which `test_estimate.py` compares with their
definitions; when it is read is stated here, once: for all tuples every so many arrivals (and so
many times in a window, as often as worth moves), for a tuple that has met an arrival, a
new one, and again for whoever is about to go (who stays if it is worth more by now).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from naive import Arrival, length
from naive_policies import NOTHING, Rank, ShedJoin
from standalone import Standalone

from tidegate.binding.spec_records import IMPORTANCE_CODES
from tidegate.estimate import age_curve, frequency, importance, match_rate
from tidegate.shed import ages, learning
from tidegate.spec import JoinSpec
from tidegate.state import shed_arrays

age_curve = Standalone(age_curve)
frequency = Standalone(frequency)
importance = Standalone(importance)
match_rate = Standalone(match_rate)
ages = Standalone(ages)
learning = Standalone(learning)


class ValueJoin(ShedJoin):
    def __init__(self, spec: JoinSpec) -> None:
        super().__init__(spec)
        self.book = frequency.empty(2, 4096, 1, frequency.FADED)
        self.rates = match_rate.empty(2, shed_arrays.BUCKETS, 4096)
        timed = [s for s in range(2) if spec.windows[s].kind != "rows"]
        self.rates.span[:] = max(1, self.fade_after()), timed[0] if timed else -1
        self.importances = importance.empty(2)
        self.curve = age_curve.empty(2, shed_arrays.BUCKETS, age_curve.MOST_MONITORS)
        self.stages = ages.empty(2, shed_arrays.BUCKETS + 1)
        self.stages.worth[:] = self.stages.ending[:] = 1.0
        self.stages.width[:] = [self.width(0), self.width(1)]
        self.refresh_in, self.quiet, self.faded = 1, 0, 0
        self.seen_of, self.now_of = [0, 0], [0, 0]  # as of the last arrival that was seen
        self.scores: dict[int, float] = {}
        self.monitors: dict[int, int] = {}  # order -> monitor
        self.exposed: dict[int, tuple[int, int, int]] = {}
        self.codes: dict[object, int] = {}
        self.period = [(0, 0, 0), (0, 0, 0)]  # its begin, tuples seen then, tuples of the last one
        for stream in range(2):
            share = int(self.capacity(stream)) // (2 if spec.split == "shared" else 1)
            limit = min(age_curve.MOST_MONITORS, share / shed_arrays.MONITOR_SHARE_OF_VALUE)
            self.curve.watch[stream].limit = limit if share >= 4 else 0.0
            self.curve.watch[stream].buckets = -(-self.window(stream) // self.width(stream)) or 1

    def width(self, stream: int) -> int:
        return max(1, -(-self.window(stream) // shed_arrays.BUCKETS))

    def number_of(self, arrival: Arrival) -> int:
        """The key as the estimators know it."""
        key = self.key(arrival)
        if key is NOTHING:
            return frequency.NO_KEY
        code = np.int64(self.codes.setdefault(key, len(self.codes)))
        book = self.book
        return frequency.find_or_add(book.book, book.table, book.keys, book.counts, code)

    def score(self, arrival: Arrival) -> float:
        stream, key = arrival.stream, self.number_of(arrival)
        if key == frequency.NO_KEY:
            return 0.0
        worth = self.rates.level_rate[stream, self.level(stream, key)]
        wait = match_rate.wait_of(match_rate.waited(self.rates, key), self.rates.span[0])
        by_age = ages.worth_at(self.stages, stream, arrival.born, self.now_of[stream])
        worth *= self.rates.wait_worth[stream, wait] * by_age
        if self.spec.importance_columns is not None:
            worth *= importance.worth(self.importances, stream, self.combining, arrival.importance)
        return worth

    @property
    def combining(self) -> int:
        return IMPORTANCE_CODES[self.spec.output_importance]

    def level(self, stream: int, key: int, met: bool = False) -> int:
        return match_rate.level_of(max(0.0, self.book.counts[key, 1 - stream] - met))

    # --- learning -------------------------------------------------------------------------

    def see(self, arrival: Arrival) -> None:
        super().see(arrival)
        stream, book = arrival.stream, self.book
        if len(self.seen) == 1:
            self.faded = self.clock
        self.measure_pace(arrival)
        self.seen_of[stream] += 1
        self.now_of = [self.now(s) for s in range(2)]
        self.quiet += 1
        if self.quiet >= learning.SMALLEST_FADE and self.elapsed() > self.fade_after():
            for other in self.alive:
                self.account(other, False)
            frequency.fade(book.book, book.table, book.keys, book.counts)
            match_rate.fade(self.rates)
            importance.fade(self.importances)
            self.refresh_in, self.quiet, self.faded = 1, 0, self.clock
        self.tick()
        key = self.number_of(arrival)
        if key != frequency.NO_KEY:
            match_rate.see_key(self.rates, book.counts, stream, key)
            book.counts[key, stream] += 1.0
        if self.spec.importance_columns is not None:
            importance.observe(self.importances, stream, arrival.importance)
        self.refresh_in -= 1
        if self.refresh_in <= 0:
            self.refresh()

    def tick(self) -> None:
        clock, (span, timed) = self.rates.clock, self.rates.span
        clock[match_rate.NOW] = self.now_of[timed] if timed >= 0 else clock[match_rate.NOW] + 1
        clock[match_rate.UNFITTED] += 1
        elapsed = clock[match_rate.NOW] - clock[match_rate.REFRESHED]
        if elapsed * clock[match_rate.HURRY] > span:
            self.refresh_in = 1

    def account(self, arrival: Arrival, met: bool) -> None:
        """Its trials since it was last looked at, spread over the cells it went through."""
        stream, key, rates = arrival.stream, self.number_of(arrival), self.rates
        now = int(rates.clock[match_rate.NOW])
        seen, since, then = self.exposed[arrival.taken]
        trials = self.seen_of[1 - stream] - seen
        self.exposed[arrival.taken] = (self.seen_of[1 - stream], now, self.now_of[stream])
        if key == frequency.NO_KEY or not (trials or met):
            return
        level = self.level(stream, key, met)
        window = self.width(stream) * int(self.curve.watch[stream].buckets)
        young, old = then - arrival.born, self.now_of[stream] - arrival.born
        last, before = (int(moment) for moment in rates.activity[key])
        if met and last == now:
            last, before = before, match_rate.NEVER
        if since < last < now:
            share = (last - since) / (now - since)
            first, middle = int(trials * share + 0.5), young + int((old - young) * share)
            begun = since - before if match_rate.NEVER < before <= since else 0
            waits = (begun, begun + last - since)
            match_rate.spread(rates, stream, level, (young, middle), waits, window, first)
            trials, young, since = trials - first, middle, last
        begun = 0 if last == match_rate.NEVER else max(0, since - last)
        waits = (begun, begun + now - since)
        cell = match_rate.spread(rates, stream, level, (young, old), waits, window, trials)
        if met:
            match_rate.hit(rates, stream, level, *cell, self.seen_of[1 - stream])

    def counted(self) -> bool:
        return all(window.kind == "rows" for window in self.spec.windows)

    def elapsed(self) -> int:
        return self.quiet if self.counted() else self.clock - self.faded

    def fade_after(self) -> int:
        if self.counted():
            return sum(window.size for window in self.spec.windows)
        return max(length(window) for window in self.spec.windows if window.kind != "rows")

    def measure_pace(self, arrival: Arrival) -> None:
        stream = arrival.stream
        seen = sum(other.stream == stream for other in self.seen) - 1
        begin, before, _ = self.period[stream]
        if seen == 0:
            self.period[stream] = (arrival.born, 0, 0)
        elif arrival.born - begin > self.window(stream):
            self.period[stream] = (arrival.born, seen, seen - before)

    def refresh(self) -> None:
        if match_rate.is_due(self.rates):
            for arrival in self.alive:
                self.account(arrival, False)
            self.fit()
        moved = 0
        for arrival in self.alive:
            before = self.scores[arrival.taken]
            self.scores[arrival.taken] = self.score(arrival)
            moved += match_rate.has_moved(before, self.scores[arrival.taken])
        clock = self.rates.clock
        hurry = learning.next_hurry(clock[match_rate.HURRY], moved, len(self.alive))
        clock[match_rate.HURRY] = hurry
        ordinary = sum(arrival.taken not in self.monitors for arrival in self.alive)
        self.rates.clock[match_rate.REFRESHED] = self.rates.clock[match_rate.NOW]
        self.refresh_in = max(learning.SMALLEST_REFRESH, ordinary)

    def fit(self) -> None:
        match_rate.fit(self.rates)
        importance.summarise(self.importances)
        stages = self.stages
        for stream in range(2):
            buckets = int(self.curve.watch[stream].buckets)
            places = np.arange(buckets) * shed_arrays.BUCKETS // buckets
            self.curve.watch[stream].known = self.rates.known[stream]
            age_curve.rate_ahead(
                self.rates.age_rate[stream, places],
                stages.worth[stream],
                stages.rising[stream],
                stages.ending[stream],
            )

    def met(self, arrival: Arrival, others: Sequence[Arrival]) -> None:
        for other in others:
            self.account(other, True)
            if self.spec.importance_columns is not None:
                importance.earn(
                    self.importances, other.stream, self.combining, other.importance,
                    arrival.importance,
                )  # fmt: skip
            if other.taken not in self.monitors:
                self.scores[other.taken] = self.score(other)

    # --- staying and leaving --------------------------------------------------------------

    def rank_value(self, arrival: Arrival) -> Rank:
        own = arrival.importance
        if arrival.taken in self.monitors:
            return (np.inf, own, arrival.taken)
        return (self.scores[arrival.taken], own, arrival.taken)

    def admit(self, arrival: Arrival) -> None:
        stream = arrival.stream
        if self.spec.windows[stream].kind == "rows" and self.spec.windows[stream].size == 0:
            self.counts["expired", stream] += 1
            return
        self.scores[arrival.taken] = self.score(arrival)
        monitor = age_curve.begin(self.curve, stream, self.period[stream][2])
        if monitor >= 0:
            self.monitors[arrival.taken] = monitor
        self.expire_by_count(stream)
        pool = self.alive if self.spec.split == "shared" else self.alive_of(stream)
        if len(pool) >= self.capacity(stream) and self.make_room(pool, arrival) is arrival:
            self.counts["refused", stream] += 1
            if monitor >= 0:
                age_curve.end(self.curve, stream, monitor, False)
            return
        self.alive.append(arrival)
        frequency.hold(self.book.keys, self.number_of(arrival))
        now = int(self.rates.clock[match_rate.NOW])
        self.exposed[arrival.taken] = (self.seen_of[1 - stream], now, self.now_of[stream])

    def make_room(self, pool: list[Arrival], arrival: Arrival) -> Arrival:
        candidates = [other for other in pool if other.taken not in self.monitors]
        for stream in range(2):  # whoever is about to go in its stream is looked at again
            while own := [other for other in candidates if other.stream == stream]:
                first = min(own, key=self.rank)
                score = self.score(first)
                if score <= self.scores[first.taken]:
                    break
                self.scores[first.taken] = score
        if not self.capacity(arrival.stream) or not candidates:
            return arrival
        victim = min([*candidates, arrival], key=self.rank)
        if victim is not arrival:
            self.leave(victim, "evicted")
        return victim

    def leave(self, arrival: Arrival, cause: str) -> None:
        super().leave(arrival, cause)
        self.account(arrival, False)
        self.book.keys[self.number_of(arrival)].references -= 1
        monitor = self.monitors.get(arrival.taken)
        if monitor is not None:
            age_curve.end(self.curve, arrival.stream, monitor, cause == "expired")
