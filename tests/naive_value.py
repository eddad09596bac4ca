"""The slow twin of VALUE: every victim is found by looking at all tuples.

Law: what a tuple is worth comes from the estimators, which `test_estimate.py` compares with their
definitions; when it is read is stated here, once: for all tuples every so many arrivals, for a
tuple that has met an arrival, for a new one, and again for whoever is about to go (who stays if it
is worth more by now).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from naive import Arrival, length
from naive_policies import NOTHING, Rank, ShedJoin

from tidegate.drivers import opening
from tidegate.drivers.plan import IMPORTANCE_CODES
from tidegate.estimate import age_curve, frequency, importance, match_rate
from tidegate.shed import ages, learning
from tidegate.spec import JoinSpec


class ValueJoin(ShedJoin):
    def __init__(self, spec: JoinSpec) -> None:
        super().__init__(spec)
        self.book = frequency.empty(3, 4096, 1, frequency.FADED)
        self.rates = match_rate.empty(2)
        self.importances = importance.empty(2)
        self.curve = age_curve.empty(2, opening.BUCKETS, age_curve.MOST_MONITORS)
        self.stages = ages.empty(2, opening.BUCKETS + 1)
        self.stages.worth[:] = self.stages.ending[:] = 1.0
        self.stages.width[:] = [self.width(0), self.width(1)]
        self.refresh_in, self.quiet, self.faded = 1, 0, 0
        self.scores: dict[int, float] = {}
        self.monitors: dict[int, int] = {}  # order -> monitor
        self.codes: dict[object, int] = {}
        self.period = [(0, 0, 0), (0, 0, 0)]  # its begin, tuples seen then, tuples of the last one
        for stream in range(2):
            share = int(self.capacity(stream)) // (2 if spec.split == "shared" else 1)
            limit = min(age_curve.MOST_MONITORS, share // opening.MONITOR_SHARE)
            self.curve.watch[stream].limit = max(limit, int(share >= 4))
            self.curve.watch[stream].buckets = -(-self.window(stream) // self.width(stream)) or 1

    def width(self, stream: int) -> int:
        return max(1, -(-self.window(stream) // opening.BUCKETS))

    def number_of(self, arrival: Arrival) -> int:
        """The key as the estimators know it."""
        key = self.key(arrival)
        if key is NOTHING:
            return frequency.NO_KEY
        code = np.int64(self.codes.setdefault(key, len(self.codes)))
        book = self.book
        return frequency.find_or_add(book.book, book.table, book.keys, book.counts, code)

    def score(self, arrival: Arrival) -> float:
        other, key = 1 - arrival.stream, self.number_of(arrival)
        if key == frequency.NO_KEY:
            return 0.0
        level = match_rate.level_of(self.book.counts[key, other])
        worth = self.rates.trials[other, level].rate
        now = self.now(arrival.stream)
        worth *= ages.worth_at(self.stages, arrival.stream, arrival.born, now)
        if self.spec.importance_columns is not None:
            combine = IMPORTANCE_CODES[self.spec.output_importance]
            worth *= importance.expected(self.importances, other, combine, arrival.importance)
        return worth

    # --- learning -------------------------------------------------------------------------

    def see(self, arrival: Arrival) -> None:
        super().see(arrival)
        if len(self.seen) == 1:
            self.faded = self.clock
        self.measure_pace(arrival)
        self.quiet += 1
        if self.quiet >= learning.SMALLEST_FADE and self.elapsed() > self.fade_after():
            book = self.book
            frequency.fade(book.book, book.table, book.keys, book.counts)
            match_rate.fade(self.rates, book.counts, book.held, book.book[0].fresh)
            importance.fade(self.importances)
            self.refresh_in, self.quiet, self.faded = 1, 0, self.clock
        key = self.number_of(arrival)
        if key != frequency.NO_KEY:
            match_rate.observe(self.rates, self.book.counts, self.book.held, arrival.stream, key)
        if self.spec.importance_columns is not None:
            importance.observe(self.importances, arrival.stream, arrival.importance)
        self.refresh_in -= 1
        if self.refresh_in <= 0:
            self.refresh()

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
        match_rate.summarise(self.rates)
        importance.summarise(self.importances)
        for stream in range(2):
            if self.curve.watch[stream].lives >= 1:
                p = np.zeros(int(self.curve.watch[stream].buckets))
                age_curve.estimate(self.curve, stream, p)
                mean = 0.0
                for part in p:  # in this order: another would round otherwise
                    mean += part / len(p)
                p = p / mean if mean > 0 else np.ones(len(p))
                stages = self.stages
                age_curve.rate_ahead(
                    p, stages.worth[stream], stages.rising[stream], stages.ending[stream]
                )
        for arrival in self.alive:
            self.scores[arrival.taken] = self.score(arrival)
        ordinary = sum(arrival.taken not in self.monitors for arrival in self.alive)
        self.refresh_in = max(learning.SMALLEST_REFRESH, ordinary)

    def met(self, arrival: Arrival, others: Sequence[Arrival]) -> None:
        for other in others:
            monitor = self.monitors.get(other.taken)
            if monitor is None:
                self.scores[other.taken] = self.score(other)
            else:
                age = self.now(other.stream) - other.born
                buckets = self.curve.watch[other.stream].buckets
                bucket = age_curve.bucket_at(age, self.width(other.stream), buckets)
                self.curve.life[other.stream, monitor, bucket] += 1

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
        key = self.number_of(arrival)
        frequency.hold(self.book.keys, key)
        if key != frequency.NO_KEY:
            match_rate.retain(self.rates, self.book.counts, self.book.held, stream, key)

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
        key = self.number_of(arrival)
        if key != frequency.NO_KEY:
            match_rate.release(self.rates, self.book.counts, self.book.held, arrival.stream, key)
        self.book.keys[key].references -= 1
        monitor = self.monitors.get(arrival.taken)
        if monitor is not None:
            age_curve.end(self.curve, arrival.stream, monitor, cause == "expired")
