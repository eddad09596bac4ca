"""The slow twin of VALUE, and the twin of each policy (`twin_of`).

Law: what is learned is recomputed in plain Python (`naive_estimates`, `naive_rates`); when it is
read is stated here, once. VALUE scores all tuples every so many arrivals (and so many times in a
window, as often as worth moves), a tuple that has met an arrival, a new one, and again whoever is
about to go (who stays if it is worth more by now).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from naive import Arrival
from naive_estimates import FadingCounts, Importances, faded
from naive_policies import NOTHING, Rank, ShedJoin
from naive_rates import AGES, WAITS, Rates, level_of
from naive_watched import AgeJoin, WatchedJoin

from tidegate.estimators import hashes, match_rate
from tidegate.shed import learning, shadows
from tidegate.spec import JoinSpec
from tidegate.spec.predicates import Equal


@dataclass
class Shadow:
    """A tuple that is followed through the full window."""

    arrival: Arrival
    draw: int
    born: int
    aged: int  # the clock of its age, when its trials were last counted
    last: int  # when its key was last seen
    since: int  # when its trials were last counted, by the clock of waits
    seen: int  # and how many opposite tuples had come then
    count: float  # of its key on the opposite stream
    side: int = 0  # was its key last seen on the opposite stream?


class ValueJoin(WatchedJoin):
    one_in = 48

    @property
    def by_key(self) -> bool:
        """Do tuples meet iff their keys are equal? Then there are shadows instead of monitors."""
        return all(isinstance(predicate, Equal) for predicate in self.spec.predicates)

    @property
    def keyless(self) -> bool:
        """Are no keys compared? Then the level of a tuple is what it has met."""
        return not any(isinstance(predicate, Equal) for predicate in self.spec.predicates)

    def limit(self, stream: int) -> float:
        return 0.0 if self.by_key else super().limit(stream)

    def resize(self, memory: int) -> None:
        """The tests have few enough tuples for all of their shadows under any budget."""
        self.room = shadows.room_for(memory)
        assert all(len(each) <= self.room for each in self.shadows)
        super().resize(memory)

    def __init__(self, spec: JoinSpec, nanoseconds: int = 1) -> None:
        super().__init__(spec, nanoseconds)
        self.keys = FadingCounts()
        span = max(1, self.fade_after())
        self.unit = 1  # of moments, as they are kept: a 2 ** 24th of the span or less
        while span // self.unit >= 2**25:
            self.unit *= 2
        self.rates = [Rates(span // self.unit) for _ in range(2)]
        for stream, rates in enumerate(self.rates):
            rates.life, rates.unit = self.width(stream) * self.monitors[stream].buckets, self.unit
            rates.share = min(1.0, max(1 / 256, rates.life / span))
        self.every = 1  # one slot in so many is studied
        while int(spec.memory_rows or 0) // self.every > match_rate.STUDIED:
            self.every *= 2
        self.shadows: list[list[Shadow]] = [[], []]
        self.shadow_every = [1, 1]
        self.room = shadows.room_for(int(spec.memory_rows or 0))
        self.slots: dict[int, int] = {}  # by order of arrival
        self.unused: list[int] = []  # slots that were left; the last one is taken first
        self.importances = Importances(spec.output_importance)
        timed = [s for s in range(2) if spec.windows[s].kind != "rows"]
        self.clock_of = timed[0] if timed else None  # the stream whose clock waits go by
        self.wait_clock, self.refreshed, self.unfitted, self.hurry = 0, 0, 64, 16
        self.instants: list[list[int]] = []  # time and arrivals of the last ones, up to 17
        self.apart = self.together = 0  # how near instants stand, and what arrives in one
        self.refresh_in, self.quiet, self.faded = 1, 0, 0
        self.seen_of, self.now_of = [0, 0], [0, 0]  # as of the last arrival that was seen
        self.scores: dict[int, float] = {}
        self.partners: dict[int, int] = {}  # that a tuple has met so far, by order
        self.last_met: dict[int, int] = {}  # when it did
        self.being_taken: list[Arrival] = []
        self.exposed: dict[int, tuple[int, int, int]] = {}

    def score(self, arrival: Arrival) -> float:
        stream, key = arrival.stream, self.key(arrival)
        if key is NOTHING:
            return 0.0
        rates = self.rates[stream]
        worth = rates.believed[0][self.level(arrival)]
        if self.by_key:
            last = self.keys.moments.get(key)
            side = int(self.keys.last_on[key] != stream)
        else:
            last = self.last_met.get(arrival.taken)
            side = int(last is not None)
        waited = 0 if last is None else self.short_now - last
        age = self.age_of(arrival)
        worth *= self.ahead(rates, side * WAITS + rates.wait_of(waited), age)
        if self.spec.importance_columns is not None:
            worth *= self.importances.worth(stream, arrival.importance)
        return worth

    def level(self, arrival: Arrival, met: bool = False) -> int:
        """As of before a partner was counted that it has just met."""
        count = max(0.0, self.keys.of(self.key(arrival), 1 - arrival.stream) - met)
        if self.by_key:
            return level_of(count)
        partners, age = self.partners.get(arrival.taken, 0), self.age_of(arrival)
        base = None if self.keyless else count + 1.0
        return self.rates[arrival.stream].level_by_met(partners, age, base)

    def ahead(self, rates: Rates, place: int, age: int) -> float:
        """Between what is ahead at the two ages beside this one."""
        if age > rates.life:
            return 0.0
        at = float(age) / rates.life * AGES
        first = min(AGES - 1, max(0, int(at)))
        here, later = rates.ahead[place][first : first + 2]
        return here + min(1.0, at - first) * (later - here)

    def age_of(self, arrival: Arrival) -> int:
        """As of the last arrival that was seen."""
        is_counted = self.spec.windows[arrival.stream].kind == "rows"
        born = arrival.born if is_counted else arrival.time // self.nanoseconds
        return self.now_of[arrival.stream] - born

    @property
    def short_now(self) -> int:
        return self.wait_clock // self.unit

    # --- learning -------------------------------------------------------------------------

    def see(self, arrival: Arrival) -> None:
        super().see(arrival)
        stream, key = arrival.stream, self.key(arrival)
        if len(self.seen) == 1:
            self.faded = self.moment
        self.seen_of[stream] += 1
        self.now_of = [self.now(s) for s in range(2)]
        self.fade()
        self.tick()
        if key is not NOTHING:
            self.rates[stream].weight += 1.0
            self.keys.see(key, stream, self.short_now)
            if self.by_key:
                self.see_shadows(arrival, key)
        self.being_taken.append(arrival)
        if self.spec.importance_columns is not None:
            self.importances.see(stream, arrival.importance)
        self.refresh_in -= 1
        if self.refresh_in <= 0:
            self.refresh()

    def fade(self) -> None:
        """Once in a window all evidence counts for less."""
        self.quiet += 1
        elapsed = self.quiet if self.clock_of is None else self.moment - self.faded
        if self.quiet >= learning.SMALLEST_FADE and elapsed > self.fade_after():
            self.account_all()
            self.keys.fade(self.held())
            for shadow in (*self.shadows[0], *self.shadows[1]):
                shadow.count = faded(shadow.count)
            for rates in self.rates:
                rates.fade()
            self.importances.fade()
            self.refresh_in, self.quiet, self.faded = 1, 0, self.moment

    def held(self) -> set[Hashable]:
        """The keys of tuples that are retained or being taken."""
        return {self.key(other) for other in (*self.alive, *self.being_taken)}

    def fade_after(self) -> int:
        timed = [s for s in range(2) if self.spec.windows[s].kind != "rows"]
        sizes = [self.window(stream) for stream in range(2)]
        return max(sizes[s] for s in timed) if timed else sum(sizes)

    def tick(self) -> None:
        if self.clock_of is None:
            self.wait_clock += 1
        else:
            self.wait_clock = max(self.wait_clock, self.finer(self.now_of[self.clock_of]))
        self.unfitted += 1
        if self.wait_clock - self.refreshed > max(1, self.fade_after()):
            self.refresh_in = 1

    def finer(self, time: int) -> int:
        """Arrivals of an instant come evenly up to the next one, if that is far away; how far it is
        is known after every 16 instants."""
        if not self.instants or self.instants[-1][0] != time:
            self.instants.append([time, 0])
            if len(self.instants) == 17:
                times = [at for at, _ in self.instants]
                gaps = [later - at for at, later in pairwise(times)]
                self.apart = min(max(1, self.fade_after()), *gaps)
                self.together = sum(number for _, number in self.instants[:16]) // 16
                self.instants = self.instants[16:]
        so_far = self.instants[-1][1]
        self.instants[-1][1] += 1
        if self.apart <= max(1, self.fade_after()) // 256:
            return time
        return time + int(float(self.apart) * (float(min(so_far, self.together)) / self.together))

    def account_all(self) -> None:
        for stream in range(2):
            for shadow in self.shadows[stream]:
                self.account_shadow(stream, shadow, False)
        for arrival in self.alive:
            self.account(arrival, False)

    # --- shadows: one tuple in so many, followed through the full window -------------------

    def see_shadows(self, arrival: Arrival, key: Hashable) -> None:
        stream = arrival.stream
        for lane in range(2):
            while self.shadows[lane] and not self.would_live(lane, self.shadows[lane][0]):
                self.account_shadow(lane, self.shadows[lane].pop(0), False)
        for lane in range(2):
            for shadow in self.shadows[lane]:
                if self.key(shadow.arrival) == key:
                    together = shadow.arrival.time == arrival.time and self.spec.ties == "instant"
                    met, is_own = lane != stream and not together, lane == stream
                    self.account_shadow(lane, shadow, met, is_own)
                    shadow.last, shadow.side = self.short_now, int(lane != stream)
                    if lane != stream:
                        shadow.count = self.keys.of(key, stream)
        window = self.spec.windows[stream]
        if window.kind != "rows" or window.size > 0:
            self.begin_shadow(arrival, key)

    def would_live(self, stream: int, shadow: Shadow) -> bool:
        is_counted = self.spec.windows[stream].kind == "rows"
        age = self.now_of[stream] - shadow.born
        return age < self.window(stream) if is_counted else age <= self.window(stream)

    def begin_shadow(self, arrival: Arrival, key: Hashable) -> None:
        stream = arrival.stream
        draw = int(hashes.marks_of(np.array([2 * self.seen_of[stream] + stream]))[0])
        ring = self.shadows[stream]
        if draw % self.shadow_every[stream] == 0 and len(ring) == self.room:
            self.shadow_every[stream] *= 2
            for shadow in ring:
                if shadow.draw % self.shadow_every[stream]:
                    self.account_shadow(stream, shadow, False)
            ring[:] = [s for s in ring if s.draw % self.shadow_every[stream] == 0]
        elif self.shadow_every[stream] > 1 and 8 * len(ring) < self.room:
            self.shadow_every[stream] //= 2
        if draw % self.shadow_every[stream] == 0 and len(ring) < self.room:
            now, short = self.now_of[stream], self.short_now
            is_counted = self.spec.windows[stream].kind == "rows"
            born = now if is_counted else arrival.time // self.nanoseconds
            seen, count = self.seen_of[1 - stream], self.keys.of(key, 1 - stream)
            ring.append(Shadow(arrival, draw, born, now, short, short, seen, count))

    def account_shadow(self, stream: int, shadow: Shadow, met: bool, is_own: bool = False) -> None:
        now, seen = self.short_now, self.seen_of[1 - stream]
        trials, rates = seen - shadow.seen, self.rates[stream]
        rates.lived[0] += trials
        rates.lived[1] += (self.now_of[stream] - shadow.aged) // self.unit
        if trials or met or is_own:
            level = level_of(shadow.count)
            begun = max(0, shadow.since - shadow.last)
            waits = (begun, begun + now - shadow.since)
            ages = (shadow.aged - shadow.born, self.now_of[stream] - shadow.born)
            window = self.width(stream) * self.monitors[stream].buckets
            age, wait = rates.spread(level, ages, waits, window, trials, shadow.side)
            if met:
                rates.hit(level, age, wait, seen)
            elif is_own:
                rates.renewed[wait] += 1
        shadow.seen, shadow.since, shadow.aged = seen, now, self.now_of[stream]

    # --- members, where tuples meet by other predicates ------------------------------------

    def account(self, arrival: Arrival, met: bool) -> None:
        """Its trials since it was last looked at, spread over the cells it went through."""
        if arrival.taken not in self.exposed:
            return
        stream, key, now = arrival.stream, self.key(arrival), self.short_now
        rates = self.rates[stream]
        seen, since, then = self.exposed[arrival.taken]
        trials = self.seen_of[1 - stream] - seen
        self.exposed[arrival.taken] = (self.seen_of[1 - stream], now, self.now_of[stream])
        if key is NOTHING or not (trials or met):
            return
        level = self.level(arrival, met)
        window = self.width(stream) * self.monitors[stream].buckets
        old = self.age_of(arrival)
        is_timed = not any(window.kind == "rows" for window in self.spec.windows)
        young = old - ((now - since) * self.unit if is_timed else self.now_of[stream] - then)
        rates.lived[0] += trials
        rates.lived[1] += (old - young) // self.unit
        last = self.last_met.get(arrival.taken)
        waits = (0, 0) if last is None else (since - last, now - last)
        side = int(last is not None)
        age, wait = rates.spread(level, (young, old), waits, window, trials, side)
        if met:
            rates.hit(level, age, wait, self.seen_of[1 - stream])

    def refresh(self) -> None:
        weight = self.rates[0].weight + self.rates[1].weight
        if self.unfitted >= 64 and 40 * self.unfitted >= weight:
            self.account_all()
            self.fit()
        least = [self.least_score(stream) for stream in range(2)]
        wasted = 0
        for arrival in self.alive:
            self.scores[arrival.taken] = self.score(arrival)
            wasted += self.scores[arrival.taken] < 0.9 * least[arrival.stream]
        if 32 * wasted > len(self.alive):
            self.hurry = min(64, 2 * self.hurry)
        elif 128 * wasted < len(self.alive):
            self.hurry //= 2
        factors = [f for rates in self.rates for part in rates.believed[1:] for f in part]
        moves = not self.by_key or any(factor != 1.0 for factor in factors)
        self.hurry = max(16 if moves else 1, self.hurry)
        self.refreshed = self.wait_clock
        self.refresh_in = max(learning.SMALLEST_REFRESH, 8 * len(self.alive) // self.hurry)

    def least_score(self, stream: int) -> float:
        """Of those of a stream that can be victims, as of when they were last scored."""
        candidates = [a for a in self.alive_of(stream) if a.taken not in self.lives]
        return min((self.scores[a.taken] for a in candidates), default=0.0)

    def fit(self) -> None:
        self.lessons += 1
        for stream, rates in enumerate(self.rates):
            rates.fit(self.rates[1 - stream].weight, self.by_key, self.keyless)
            self.monitors[stream].known = rates.known
        self.importances.fit()
        self.unfitted = 0

    def met(self, arrival: Arrival, others: Sequence[Arrival]) -> None:
        if self.spec.ties == "arrival":
            promised = self.keys.of(self.key(arrival), 1 - arrival.stream)
            self.rates[arrival.stream].met[0] += 1 if self.keyless else int(promised) + 1
            self.rates[arrival.stream].met[1] += len(others)
            self.partners[arrival.taken] = len(others)
            if others:
                self.last_met[arrival.taken] = self.short_now
        for other in others:
            self.account(other, True)
            self.partners[other.taken] = self.partners.get(other.taken, 0) + 1
            self.last_met[other.taken] = self.short_now
            if self.spec.importance_columns is not None:
                self.importances.earn(other.stream, other.importance, arrival.importance)
            score, before = self.score(other), self.scores[other.taken]
            if other.taken not in self.lives and not 0.9 * before <= score <= before:
                self.scores[other.taken] = score

    # --- staying and leaving --------------------------------------------------------------

    def rank_value(self, arrival: Arrival) -> Rank:
        return (self.scores[arrival.taken], arrival.importance, arrival.taken)

    rank_auto = rank_value

    def place(self, arrival: Arrival) -> Rank:
        """The next victims of the streams and the new tuple are compared by what they are worth
        now; who is the next of its stream was decided by what was noted."""
        place = super().place(arrival)
        if arrival.taken in self.lives:
            return place
        return (place[0], self.scaled(arrival, self.score(arrival)), *place[2:])

    def admit(self, arrival: Arrival) -> None:
        self.being_taken.clear()  # all tuples of an instant are seen before the first is admitted
        super().admit(arrival)

    def appraise(self, arrival: Arrival) -> None:
        self.scores[arrival.taken] = self.score(arrival)

    def look_again(self, candidates: list[Arrival]) -> None:
        """Whoever is about to go in its stream stays if it is worth clearly more by now."""
        for stream in range(2):
            while own := [other for other in candidates if other.stream == stream]:
                first = min(own, key=self.rank)
                score = self.score(first)
                if score <= 1.05 * self.scores[first.taken]:
                    break
                self.scores[first.taken] = score

    def admitted(self, arrival: Arrival) -> None:
        stream = arrival.stream
        slot = self.unused.pop() if self.unused else len(self.slots)
        self.slots[arrival.taken] = slot
        if self.by_key:
            return
        if slot % self.every == 0 or (self.every > 1 and arrival.taken in self.lives):
            self.exposed[arrival.taken] = (
                self.seen_of[1 - stream],
                self.short_now,
                self.now_of[stream],
            )

    def leave(self, arrival: Arrival, cause: str) -> None:
        super().leave(arrival, cause)
        self.account(arrival, False)
        self.unused.append(self.slots.pop(arrival.taken))


def twin_of(spec: JoinSpec, nanoseconds: int) -> ShedJoin:
    policy = spec.policy_choice
    if policy.name in ("value", "auto"):
        return ValueJoin(spec, nanoseconds)
    learns = policy.name == "age" and policy.get("curve") is None
    return (AgeJoin if learns else ShedJoin)(spec, nanoseconds)
