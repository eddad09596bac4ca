"""The slow, obvious twins of the policies: at each step everything retained is scored again.

Law: a twin knows the papers and nothing of the engine. It remembers every tuple that was ever taken
and counts over that list; a victim is the minimum over all candidates of (priority, basis, order),
computed from scratch. Where the engine's definition adds something to a paper's (what an instant is
on a stream without instants, when a learned number is read), the sentence stands beside the line.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import naive
from naive import Arrival, NaiveJoin, length, missing, plain
from naive_estimates import faded
from naive_rates import added

from tidegate.shed import learning
from tidegate.spec import Equal, JoinSpec
from tidegate.state import shed_arrays

NOTHING = object()  # the key of a tuple that can match nothing

Rank = tuple[Any, ...]


class ShedJoin(NaiveJoin):
    """The naive join, shedding by one of the policies that are not static."""

    def __init__(self, spec: JoinSpec, nanoseconds: int = 1) -> None:
        """`nanoseconds` per unit of time: 1000 unless times are integers or some have more digits,
        as in the engine, whose buckets of age are whole units."""
        super().__init__(spec)
        self.nanoseconds = nanoseconds
        self.policy = spec.policy_choice
        self.seen: list[Arrival] = []  # every tuple taken, in order
        self.produced: dict[Any, float] = {}  # results by key
        self.worth: dict[int, Fraction] = {}  # cumulative priorities by order
        self.victims: list[tuple[int, int]] = []  # (stream, row), in the order they went
        self.sketch: dict[tuple[int, Any], float] | None = None  # once a window is too large
        self.faded, self.quiet = 0, 0
        self.arrived, self.until_plan, self.instant = [0.0, 0.0], 0, None
        self.precedence, self.factor = [0, 0], [1.0, 1.0]

    # --- what a twin counts ---------------------------------------------------------------

    def key(self, arrival: Arrival) -> Any:
        """The values of the equality columns; without equality all tuples have one key."""
        if arrival.key is None:
            arrival.key = self._key(arrival)
        return arrival.key

    def _key(self, arrival: Arrival) -> Any:
        values = []
        for predicate in self.spec.predicates:
            columns = predicate.columns[arrival.stream]
            for column in (columns,) if isinstance(columns, str) else columns:
                if missing(arrival.values[column]):
                    return NOTHING
                if isinstance(predicate, Equal):
                    values.append(plain(arrival.values[column]))
        return tuple(values)

    def is_in_window(self, arrival: Arrival) -> bool:
        """Would it be alive if nothing were shed? By the clock at which it came."""
        window = self.spec.windows[arrival.stream]
        if window.kind == "rows":
            newer = sum(
                other.stream == arrival.stream and other.born > arrival.born for other in self.seen
            )
            return newer < window.size
        return self.bound() // self.nanoseconds - arrival.born <= self.window(arrival.stream)

    def matches(self, arrival: Arrival) -> float:
        """m: tuples with its key in the opposite window, full or retained."""
        key = self.key(arrival)
        if key is NOTHING:
            return 0
        is_retained = self.policy.get("statistics", "window") == "retained"
        if self.sketch is not None and not is_retained:
            return self.sketch.get((1 - arrival.stream, key), 0.0)
        partners = [
            other
            for other in (self.alive if is_retained else self.seen)
            if other.stream != arrival.stream and self.key(other) == key
        ]
        return len(partners) if is_retained else sum(map(self.is_in_window, partners))

    def now(self, stream: int) -> int:
        if self.spec.windows[stream].kind == "rows":
            return sum(other.stream == stream for other in self.seen) - 1
        return self.moment

    def age(self, arrival: Arrival) -> int:
        """How old it is by its own time, as long as which it lives; in a count window by number."""
        is_counted = self.spec.windows[arrival.stream].kind == "rows"
        born = arrival.born if is_counted else arrival.time // self.nanoseconds
        return self.now(arrival.stream) - born

    @property
    def moment(self) -> int:
        assert self.clock is not None
        return self.clock // self.nanoseconds

    def window(self, stream: int) -> int:
        window = self.spec.windows[stream]
        return window.size if window.kind == "rows" else length(window) // self.nanoseconds

    # --- the steps of the join ------------------------------------------------------------

    def see(self, arrival: Arrival) -> None:
        """Note an arrival: before it is admitted, and all of an instant before the first is."""
        stream = arrival.stream
        arrival.born = (
            sum(other.stream == stream for other in self.seen)
            if self.spec.windows[stream].kind == "rows"
            else self.moment
        )
        if not self.seen:
            self.first = self.moment
        self.seen.append(arrival)
        name = self.spec.policy_choice.name
        if self.spec.split == "auto" or (self.spec.split == "shared" and name in ("value", "auto")):
            if self.until_plan <= 0 and self.moment != self.instant:
                self.plan()
            self.arrived[stream] += 1.0
            self.until_plan -= 1
            self.instant = self.moment
        self.count(arrival)
        # An arrival is an instant of the opposite stream: those it does not meet decay.
        decay = Fraction(self.weight("delta", "decay", 0.99))
        for other in self.alive:
            if other.stream != stream and other.taken in self.worth:
                self.worth[other.taken] *= decay

    def plan(self) -> None:
        """`split="auto"`: what makes priorities of both streams results per unit of time; where
        they cannot be, who comes after whom. When an instant begins, every 64 tuples; older
        arrivals count for less. Until both streams have come they count as equally fast."""
        name = self.policy.get("form", self.policy.name)
        all_came = min(self.arrived) > 0
        for stream, other in ((0, 1), (1, 0)):
            ours, theirs = (self.arrived[s] if all_came else 1.0 for s in (stream, other))
            if name in ("value", "auto", "simp") or self.policy.get("frequencies") is not None:
                self.factor[stream] = theirs
            elif name in ("prob", "simpprob", "dimpprob"):
                tuples = theirs if self.spec.windows[other].kind == "rows" else 1.0
                self.factor[stream] = tuples / max(1, self.window(other))
            elif name != "age":
                self.precedence[stream] = int(theirs > 1.1 * ours)
        # Nobody meets a retained tuple of the last stream, or of an instant, without a window.
        idle = [
            window.kind != "rows"
            and window.size == 0
            and (stream == 1 or self.spec.ties == "instant")
            for stream, window in enumerate(self.spec.windows)
        ]
        if sum(idle) == 1:
            self.precedence = [int(not none) for none in idle]
        if all_came:
            self.arrived = [number * 0.5 ** (1.0 / 16) for number in self.arrived]
            self.until_plan = 64

    def count(self, arrival: Arrival) -> None:
        """Count on in a sketch, once the window of a stream holds more than its log; where a window
        is empty all tuples are counted, and fade once in a window."""
        has_empty = any(window.size == 0 for window in self.spec.windows)
        fades = 1 if has_empty and self.policy.get("statistics") is None else 5
        if fades == 1 and self.sketch is None:
            self.sketch, self.faded, self.quiet = {}, self.moment, 0
        if self.sketch is None:
            before = [a for a in self.seen if a is not arrival and self.is_in_window(a)]
            if sum(a.stream == arrival.stream for a in before) >= shed_arrays.log_lines(self.spec):
                self.sketch = dict(Counter((a.stream, self.key(a)) for a in before))
                self.faded, self.quiet = self.moment, 0
        else:
            self.quiet += 1
            sizes = [self.window(stream) for stream in range(2)]
            timed = [s for s in range(2) if self.spec.windows[s].kind != "rows"]
            elapsed = self.moment - self.faded if timed else self.quiet
            period = max(sizes[s] for s in timed) if timed else sum(sizes)
            if self.quiet >= learning.SMALLEST_FADE and fades * elapsed > period:
                held = {self.key(other) for other in self.alive}
                for key in {key for _, key in self.sketch}:
                    counts = [faded(self.sketch.pop((s, key), 0.0)) for s in range(2)]
                    if max(counts) >= 0.75 or key in held:
                        self.sketch.update({(s, key): counts[s] for s in range(2)})
                self.faded, self.quiet = self.moment, 0
        if self.sketch is not None:
            place = arrival.stream, self.key(arrival)
            self.sketch[place] = self.sketch.get(place, 0.0) + 1.0

    def met(self, arrival: Arrival, others: Sequence[Arrival]) -> None:
        """An arrival has completed results with these."""
        key = self.key(arrival)
        if others:
            self.produced[key] = self.produced.get(key, 0) + len(others)
        decay = Fraction(self.weight("delta", "decay", 0.99))
        for other in others:
            if other.taken in self.worth and other in self.alive:
                window = self.window(other.stream)
                left = Fraction(window - self.age(other), max(window, 1))
                gain = Fraction(self.weight("beta", "gain", 0.1))
                alpha = Fraction(self.weight("alpha", "alpha", 1.0))
                gain *= (
                    alpha
                    * Fraction(other.importance)
                    * self.matches(other)
                    * max(left, Fraction(0))
                )
                self.worth[other.taken] = self.worth[other.taken] / decay + gain

    def take(self, arrival: Arrival) -> list[naive.Result]:
        if self.too_late(arrival):
            return []
        self.expire_by_time()
        others = self.alive_of(1 - arrival.stream)
        pools = [[arrival] if s == arrival.stream else others for s in range(2)]
        results = self.combine(pools)
        partners = [other for other in others if self.pair(arrival, other)]
        arrival.taken, arrival.taken_of_stream = self.taken, self.taken_of_stream[arrival.stream]
        self.taken += 1
        self.taken_of_stream[arrival.stream] += 1
        self.see(arrival)
        self.met(arrival, partners)
        self.admit(arrival)
        return results

    def take_instant(self, instant: list[Arrival]) -> list[naive.Result]:
        instant = [arrival for arrival in instant if not self.too_late(arrival)]
        self.expire_by_time()
        earlier = list(self.alive)
        results: list[naive.Result] = []
        for place, arrival in enumerate(instant):
            partners = [other for other in instant[:place] if self.pair(arrival, other)]
            self.see(arrival)
            key = self.key(arrival)
            if partners:
                self.produced[key] = self.produced.get(key, 0) + len(partners)
        for arrival in instant:
            arrival.taken, arrival.taken_of_stream = (
                self.taken,
                self.taken_of_stream[arrival.stream],
            )
            self.taken += 1
            self.taken_of_stream[arrival.stream] += 1
            self.admit(arrival)
        survivors = [arrival for arrival in earlier if arrival in self.alive]
        pools = [[a for a in instant + survivors if a.stream == s] for s in range(2)]
        results = self.combine(pools, must_touch=instant)
        for arrival in instant:
            self.met(arrival, [other for other in survivors if self.pair(arrival, other)])
        return results

    def pair(self, one: Arrival, other: Arrival) -> bool:
        if one.stream == other.stream:
            return False
        return naive.is_result(self.spec, sorted((one, other), key=lambda a: a.stream))

    def admit(self, arrival: Arrival) -> None:
        """As in the naive join, but counted as taken, and appraised before a count window moves."""
        stream = arrival.stream
        if self.spec.windows[stream].kind == "rows" and self.spec.windows[stream].size == 0:
            self.counts["expired", stream] += 1
            return
        arrival.appraised = self.now(stream)
        if self.policy.name == "dgl" or self.policy.get("form") == "cumulative":
            alpha, gain = (
                Fraction(self.weight(*names, default))
                for *names, default in (("alpha", "alpha", 1.0), ("beta", "gain", 0.1))
            )
            self.worth[arrival.taken] = (
                alpha * Fraction(arrival.importance) * (1 + gain * self.matches(arrival))
            )
        if self.policy.name == "simpprob":
            arrival.at_arrival = arrival.importance * self.matches(arrival)
        self.expire_by_count(stream)
        pool = self.pool_of(stream)
        if len(pool) >= self.capacity(stream):
            victim = self.first_to_go(pool, arrival) if pool else arrival
            self.victims.append((victim.stream, victim.row))
            if victim is arrival:
                self.counts["refused", stream] += 1
                return
            self.leave(victim, "evicted")
        self.alive.append(arrival)

    def resize(self, memory: int) -> None:
        """Another budget from now on: whoever is worth least goes until it is kept."""
        self.spec = self.spec.replace(memory=memory)
        for stream in range(2):
            while len(self.pool_of(stream)) > self.capacity(stream):
                victim = self.next_victim(self.pool_of(stream))
                self.victims.append((victim.stream, victim.row))
                self.leave(victim, "evicted")

    def next_victim(self, pool: list[Arrival]) -> Arrival:
        """Who goes although nobody comes."""
        return self.first_to_go(pool)

    # --- the policies ---------------------------------------------------------------------

    def weight(self, name: str, other_name: str, default: float) -> float:
        value = self.policy.get(other_name if self.policy.name == "dgl" else name)
        return default if value is None else value

    def first_to_go(self, pool: list[Arrival], *arrival: Arrival) -> Arrival:
        """The first of each stream, then the first of these and the new one, if there is one."""
        own = [[other for other in pool if other.stream == stream] for stream in range(2)]
        firsts = [min(others, key=self.rank) for others in own if others]
        return min([*firsts, *arrival], key=self.place)

    def place(self, arrival: Arrival) -> Rank:
        """Whoever has the smallest goes; under `split="auto"` in the currency of both streams."""
        priority, *rest = self.rank(arrival)
        return (self.precedence[arrival.stream], self.scaled(arrival, priority), *rest)

    def scaled(self, arrival: Arrival, priority: float) -> float:
        """A priority in the currency of both streams."""
        priority = min(priority, sys.float_info.max)  # nothing is worth more, and 0 x it is 0
        factor = self.factor[arrival.stream]
        return priority if factor == 1.0 else priority * factor

    def rank(self, arrival: Arrival) -> Rank:
        """Priority, basis and order."""
        name = self.policy.get("form", self.policy.name)
        return getattr(self, "rank_" + name.replace("-", "_"))(arrival)

    def rank_random(self, arrival: Arrival) -> Rank:
        return (chance(self.spec.seed, arrival.stream, arrival.taken_of_stream), arrival.taken)

    def rank_recent(self, arrival: Arrival) -> Rank:
        return (0.0, arrival.taken)

    def rank_until_expiry(self, arrival: Arrival) -> Rank:
        return (0.0, -arrival.taken)

    def rank_simp(self, arrival: Arrival) -> Rank:
        return (arrival.importance, arrival.importance, arrival.taken)

    def rank_prob(self, arrival: Arrival) -> Rank:
        frequencies = self.policy.get("frequencies")
        if frequencies is None:
            return (self.matches(arrival), arrival.taken)
        shares = frequencies.get(self.spec.streams[1 - arrival.stream], {})
        key = self.key(arrival)
        share = 0 if key is NOTHING else shares.get(key[0] if len(key) == 1 else key, 0)
        return (share, arrival.taken)

    def rank_output(self, arrival: Arrival) -> Rank:
        key = self.key(arrival)
        return (0 if key is NOTHING else self.produced.get(key, 0), arrival.taken)

    def rank_simpprob(self, arrival: Arrival) -> Rank:
        return (arrival.at_arrival, arrival.importance, arrival.taken)

    def rank_dimpprob(self, arrival: Arrival) -> Rank:
        return (arrival.importance * self.matches(arrival), arrival.importance, arrival.taken)

    def time(self, arrival: Arrival) -> float:
        """In windows since the first tuple, from 1 on; tuples of an instant have one time."""
        first = 0 if self.spec.windows[arrival.stream].kind == "rows" else self.first
        window = self.window(arrival.stream)
        return 1.0 + (arrival.appraised - first) / window if window else 1.0

    def rank_additive(self, arrival: Arrival) -> Rank:
        alpha, beta, delta = (self.policy.get(n, d) for n, d in WEIGHTS)
        own = alpha * arrival.importance + delta * self.time(arrival)
        return (beta * float(self.matches(arrival)) + own, own, arrival.taken)

    def rank_multiplicative(self, arrival: Arrival) -> Rank:
        alpha, beta, delta = (self.policy.get(n, d) for n, d in WEIGHTS)
        own = arrival.importance**alpha * self.time(arrival) ** delta
        return (float(self.matches(arrival)) ** beta * own, own, arrival.taken)

    def rank_dgl(self, arrival: Arrival) -> Rank:
        return (self.worth[arrival.taken], arrival.taken)

    rank_cumulative = rank_dgl

    def rank_age(self, arrival: Arrival) -> Rank:
        """Only with a given curve: what monitors show is compared by itself."""
        curve, bucket = self.policy.get("curve"), self.policy.get("bucket")
        if self.spec.split == "auto":  # results per unit of age
            curve = [results / bucket for results in curve]
        age = (self.now(arrival.stream) - arrival.born) // bucket
        worth = best_rate(curve, age)
        rises = age < len(curve) and worth > curve[age]
        # Inside a bucket where worth rises with age the youngest goes first.
        return (worth, -arrival.taken if rises else 0, arrival.taken)


WEIGHTS = (("alpha", 1.0), ("beta", 1.0), ("delta", 0.0))


def best_rate(curve: Sequence[float], age: int) -> float:
    """srivastava2004, section 3.2.1: max over j > i of (C(j) - C(i)) / (j - i)."""
    rates = [added(curve[age:j]) / (j - age) for j in range(age + 1, len(curve) + 1)]
    return max(rates, default=0.0)


def chance(seed: int, stream: int, number: int) -> float:
    """The n-th random number of a stream: splitmix64, its finaliser applied twice."""
    state = (seed + 0x9E3779B97F4A7C15 * (number + 1)) % 2**64
    state ^= 0x94D049BB133111EB * (stream + 1) % 2**64
    for _ in range(2):
        state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        state = (state ^ state >> 27) * 0x94D049BB133111EB % 2**64
        state ^= state >> 31
    return (state >> 11) / 2**53
