"""The slow, obvious twin of the sampling policies: every retained tuple carries its own threshold.

Law: the probability that a result is emitted is known when it is emitted, and its weight is the
inverse. A tuple draws a number v in (0, 1] and has the priority size / v; when memory is full the
tuple with the smallest priority goes, and that priority becomes the least threshold of every tuple
that stays. A tuple is retained iff its priority is above every threshold since it came, so with
probability min(1, size / threshold), whatever the others drew: had it been pinned, the others would
have raised the same thresholds.

| policy | size | what v is for |
|---|---|---|
| eq-cluster | 1 | the tuple: all its results are emitted |
| pps-cluster | matches that it can expect, and half a match | the same |
| uniform | 1 | its next wanted result; the others are not emitted |

UNIFORM (srivastava2004, figure 4) draws by geometric skips which of its results a tuple wants next.
A result is wanted if its own v is below 1 / threshold. When a threshold rises above the priority of
a tuple, it does not want that result any more but a later one, drawn at the new threshold; it goes
if there is none among the results that it can expect.
"""

from __future__ import annotations

import math

import naive
from naive import Arrival
from naive_policies import NOTHING, ShedJoin, chance

from tidegate.sample.waiting import waiting
from tidegate.shed import learning
from tidegate.spec import JoinSpec

Weighted = tuple[tuple[int, ...], float]

UNSEEN = 0.5  # matches of a key that was not seen yet, for PPS
PARTS = 4  # of a window: if the memory was never full for one, the fraction may grow
GROWTH = 0.9  # of the threshold
CERTAIN = 1.0 + 2.0**-50


class SampledJoin(ShedJoin):
    """The naive join of two streams, sampled; `weights` has a number for each result."""

    def __init__(self, spec: JoinSpec) -> None:
        super().__init__(spec)
        self.weights: list[Weighted] = []
        self.is_uniform = self.policy.name == "uniform"
        fraction = self.policy.get("fraction")
        self.is_given = fraction is not None
        # The threshold at which new tuples begin, and the most tuples since the last review.
        self.base = [1.0 / fraction if self.is_given else 1.0] * 2
        self.peak = [0, 0]
        self.reviewed: list[int | None] = [None, None]

    # --- drawing ---------------------------------------------------------------------------

    def drawn(self, arrival: Arrival) -> float:
        """The next number in (0, 1] of a tuple."""
        seed = (self.spec.seed + (arrival.draws + 1) * 0xD6E8FEB86659FD93) % 2**64
        seed = (seed ^ seed >> 32) * 0xD6E8FEB86659FD93 % 2**64
        seed ^= seed >> 29
        arrival.draws += 1
        return 1.0 - chance(seed, arrival.stream, arrival.taken)

    def expected(self, arrival: Arrival) -> float:
        """Matches that a tuple can expect in its life: those in the opposite window, x the ratio
        of the windows, which for count windows are turned into time by the numbers taken."""
        own, other = (self.window(s) for s in (arrival.stream, 1 - arrival.stream))
        lengths = [float(own), float(other)]
        for at, stream in enumerate((arrival.stream, 1 - arrival.stream)):
            if self.spec.windows[stream].kind == "rows":
                taken = sum(a.stream == stream for a in self.seen)
                lengths[at] /= max(1, taken)
        kinds = {window.kind == "rows" for window in self.spec.windows}
        ratio = 1.0 if len(kinds) > 1 or lengths[1] == 0.0 else lengths[0] / lengths[1]
        has_empty = any(window.size == 0 for window in self.spec.windows)
        if has_empty and self.spec.windows[arrival.stream].kind != "rows":
            # Counts of all time so far are a rate.
            ratio = lengths[0] / max(1.0, self.moment - self.first)
        return float(self.matches(arrival)) * ratio

    def matches(self, arrival: Arrival) -> float:
        """Where a window is empty, all tuples so far are counted, and old ones for less: from the
        256th on, which no test of this twin reaches."""
        if all(window.size > 0 for window in self.spec.windows):
            return super().matches(arrival)
        assert len(self.seen) < learning.SMALLEST_FADE
        own = self.key(arrival)
        if own is NOTHING:
            return 0
        return sum(o.stream != arrival.stream and self.key(o) == own for o in self.seen)

    def draw(self, arrival: Arrival) -> None:
        """Size, priority and threshold of a new tuple."""
        arrival.draws = 0
        arrival.size = 1.0
        arrival.threshold = 0.0  # so far nothing stood against it
        arrival.skip = 0  # matches until the next result that it wants; `left` are those after it
        if self.policy.name == "pps-cluster":
            arrival.size = self.expected(arrival) + UNSEEN
        if self.is_uniform:
            margin = self.policy.get("margin", 2.0)
            expected = self.policy.get("matches")
            if expected is None:
                expected = self.expected(arrival)
            elif not isinstance(expected, (int, float)):
                expected = expected[self.spec.streams[arrival.stream]]
            arrival.left = math.ceil(expected + margin * math.sqrt(expected + 1.0))
            arrival.threshold = self.base[self.account(arrival.stream)]
            arrival.stays = self.want(arrival)
        else:
            arrival.priority = arrival.size / self.drawn(arrival)

    def want(self, arrival: Arrival) -> bool:
        """Draw which of its results a tuple wants next; False if it wants none."""
        level = 1.0 / arrival.threshold
        further = geometric(level, self.drawn(arrival))
        arrival.priority = arrival.threshold / self.drawn(arrival)
        arrival.wants = further <= arrival.left
        if not arrival.wants and arrival.threshold <= 1.0:
            # All results are in the sample, unexpected ones too while nobody needs the memory.
            arrival.skip += 1
            arrival.priority = 1.0
            return True
        arrival.left -= further
        arrival.skip += further
        return arrival.wants

    # --- meeting ---------------------------------------------------------------------------

    def weight_of(self, arrival: Arrival) -> float:
        weight = arrival.threshold / arrival.size
        return weight if weight > 1.0 else self.certain()

    def certain(self) -> float:
        """Exactly 1 while nothing that waits for results was lost."""
        lost = sum(
            self.counts[reason, stream]
            for reason in ("evicted", "refused")
            for stream, waits in enumerate(waiting(self.spec))
            if waits
        )
        return CERTAIN if lost else 1.0

    def take(self, arrival: Arrival) -> list[naive.Result]:
        if self.too_late(arrival):
            return []
        self.expire_by_time()
        emitted = self.meet(arrival, self.alive)
        self.number(arrival)
        self.see(arrival)
        self.want_again(emitted)
        self.admit(arrival)
        return self.results(arrival, emitted)

    def take_instant(self, instant: list[Arrival]) -> list[naive.Result]:
        """Pairs inside the instant are certain; then admissions; then survivors meet the new."""
        instant = [arrival for arrival in instant if not self.too_late(arrival)]
        self.expire_by_time()
        earlier, results = list(self.alive), []
        for place, arrival in enumerate(instant):
            partners = [other for other in instant[:place] if self.pair(arrival, other)]
            certain = self.certain()
            self.weights += [(self.rows(arrival, other), certain) for other in partners]
            results += self.results(arrival, partners)
            self.see(arrival)
        for arrival in instant:
            self.number(arrival)
            self.admit(arrival)
        for arrival in instant:
            emitted = self.meet(arrival, [other for other in earlier if other in self.alive])
            results += self.results(arrival, emitted)
            self.want_again(emitted)
        return results

    def number(self, arrival: Arrival) -> None:
        arrival.taken, arrival.taken_of_stream = self.taken, self.taken_of_stream[arrival.stream]
        self.taken += 1
        self.taken_of_stream[arrival.stream] += 1

    def rows(self, *pair: Arrival) -> tuple[int, ...]:
        return tuple(arrival.row for arrival in sorted(pair, key=lambda a: a.stream))

    def results(self, arrival: Arrival, others: list[Arrival]) -> list[naive.Result]:
        return self.combine([[arrival] if s == arrival.stream else others for s in range(2)])

    def meet(self, arrival: Arrival, retained: list[Arrival]) -> list[Arrival]:
        """The retained tuples whose result with the arrival is in the sample."""
        emitted = []
        for other in retained:
            if not self.pair(arrival, other):
                continue
            if self.is_uniform:
                other.skip -= 1
                if other.skip > 0:
                    continue
            emitted.append(other)
            self.weights.append((self.rows(arrival, other), self.weight_of(other)))
        return emitted

    def want_again(self, emitted: list[Arrival]) -> None:
        if self.is_uniform:
            for other in emitted:
                if not self.want(other):
                    self.leave(other, "evicted")

    # --- staying ---------------------------------------------------------------------------

    def account(self, stream: int) -> int:
        return 0 if self.spec.split in ("shared", "auto") else stream

    def admit(self, arrival: Arrival) -> None:
        stream, account = arrival.stream, self.account(arrival.stream)
        if self.spec.windows[stream].kind == "rows" and self.spec.windows[stream].size == 0:
            self.counts["expired", stream] += 1
            return
        if self.is_uniform:
            self.review(stream)
        self.draw(arrival)
        self.expire_by_count(stream)
        if (self.is_uniform and not arrival.stays) or self.capacity(stream) == 0:
            self.counts["refused", stream] += 1
            return
        while len(self.pool_of(stream)) >= self.capacity(stream):
            candidates = [*self.pool_of(stream), arrival]
            victim = min(candidates, key=lambda a: (a.priority, a.size, a.taken))
            threshold = victim.priority
            for candidate in candidates:
                candidate.threshold = max(candidate.threshold, threshold)
            if not self.is_given:
                self.base[account] = max(self.base[account], threshold)
            if self.is_uniform and threshold > 1.0 and self.want(victim):
                continue
            if victim is arrival:
                self.counts["refused", stream] += 1
                return
            self.leave(victim, "evicted")
        self.alive.append(arrival)
        self.peak[account] = max(self.peak[account], len(self.pool_of(stream)))

    def review(self, stream: int) -> None:
        """Once in a part of a window: let the fraction grow if the memory was not used."""
        account = self.account(stream)
        timed = [s for s in range(2) if self.spec.windows[s].kind != "rows"]
        moment = self.moment if timed else self.taken
        span = max(self.window(s) for s in timed) if timed else sum(map(self.window, range(2)))
        reviewed = self.reviewed[account]
        if reviewed is None or PARTS * (moment - reviewed) > span:
            if reviewed is not None and self.peak[account] < self.capacity(stream):
                if not self.is_given:
                    self.base[account] = max(1.0, GROWTH * self.base[account])
            self.reviewed[account] = moment
            self.peak[account] = len(self.pool_of(stream))


def geometric(level: float, drawn: float) -> int:
    """How many coins of this bias are thrown until the first success; at most 2^31."""
    if level >= 1.0:
        return 1
    return 1 + int(min(2.0**31 - 1, math.log(drawn) / math.log1p(-level)))
