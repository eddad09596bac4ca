"""What each policy means for n streams, and slow twins of those that need no model.

Law: with two streams each twin names the victims that the twin of `naive_policies` names. A victim
is the minimum over all candidates of (priority, order of arrival), computed from scratch. m(t), the
matches of a tuple t, is the product over the other streams of the number of tuples with t's key in
their windows: so many results t would complete if it came now.

| policy | worth of a tuple t of stream i |
|---|---|
| random | a random number, drawn when it arrives |
| recent | its order of arrival: the oldest goes |
| until-expiry | the reverse: the newest goes, so an arrival is refused |
| prob | m(t), kept current; given frequencies: the product of the shares on the other streams |
| output | the number of results that its key has produced |
| simp | its importance |
| simpprob | its importance x m(t), at arrival |
| dimpprob | its importance x m(t), kept current |
| additive, multiplicative | as for two streams, with m(t) |
| dgl, cumulative | its importance; decayed by each arrival on any other stream that completes no result with t, raised by beta x importance x m(t) x lifetime left for one that does |
| age | the best rate ahead on stream i's age curve; a result counts at t's age when it completes |
| arrival-order | results per tuple of its existence pattern (`naive_patterns`) |
| value | what its key earns per unit of time, shared among its tuples of stream i (`naive_prospects`) |

kwon2011, section 5, calls "frequency-based" what counts the tuples with t's key in all windows (a
sum); for unique keys m(t) is 0 until every other stream has the key. `Frequency(combine="sum")`
is that reading, for its figures.
"""  # noqa: E501

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from naive import Arrival, length
from naive_many import NOTHING, Combination, ManyJoin, Shedding, key_of
from naive_policies import best_rate, chance


class Recent(Shedding):
    """The oldest goes; an arrival is never refused."""

    def rank(self, join: ManyJoin, arrival: Arrival) -> Any:
        return 0, arrival.taken


class UntilExpiry(Shedding):
    """Whoever came first stays until it expires."""

    def rank(self, join: ManyJoin, arrival: Arrival) -> Any:
        return 0, -arrival.taken


class Simp(Shedding):
    """The least important goes."""

    def rank(self, join: ManyJoin, arrival: Arrival) -> Any:
        return arrival.importance, arrival.taken


class Random(Shedding):
    """Each tuple draws a number when it arrives; the smallest goes."""

    def rank(self, join: ManyJoin, arrival: Arrival) -> Any:
        number = chance(join.spec.seed, arrival.stream, arrival.taken_of_stream)
        return number, arrival.taken


class Output(Shedding):
    """A tuple whose key has produced the fewest results goes."""

    def __init__(self) -> None:
        self.results: Counter[Any] = Counter()

    def produced(self, join: ManyJoin, combinations: Sequence[Combination]) -> None:
        self.results.update(key_of(join.spec, combination[0]) for combination in combinations)

    def rank(self, join: ManyJoin, arrival: Arrival) -> Any:
        return self.results[key_of(join.spec, arrival)], arrival.taken


class Frequency(Shedding):
    """A tuple whose key is rarest on the other streams goes.

    statistics
        "window" counts all tuples that would be alive if nothing were shed, by the clock at which
        they came; "retained" counts those that are held.
    combine
        "product" of the counts on the other streams, or "sum" over all streams.
    """

    def __init__(self, statistics: str = "window", combine: str = "product") -> None:
        self.statistics, self.combine = statistics, combine
        self.seen: list[tuple[Arrival, float]] = []  # with the clock at which it came

    def arrived(self, join: ManyJoin, arrival: Arrival) -> None:
        assert join.intake.clock is not None
        self.seen.append((arrival, join.intake.clock))

    def counted(self, join: ManyJoin) -> list[Arrival]:
        if self.statistics == "retained":
            return join.alive
        return [x for x, clock in self.seen if in_full_window(join, x, clock)]

    def matches(self, join: ManyJoin, arrival: Arrival) -> int:
        key = key_of(join.spec, arrival)
        if key is NOTHING:
            return 0
        counts = Counter(x.stream for x in self.counted(join) if key_of(join.spec, x) == key)
        if self.combine == "sum":
            return sum(counts.values())
        others = [s for s in range(len(join.spec.streams)) if s != arrival.stream]
        return math.prod(counts[stream] for stream in others)

    def rank(self, join: ManyJoin, arrival: Arrival) -> Any:
        return self.matches(join, arrival), arrival.taken


class WeighedFrequency(Frequency):
    """DIMPPROB: importance x matches, kept current."""

    def rank(self, join: ManyJoin, arrival: Arrival) -> Any:
        worth = arrival.importance * self.matches(join, arrival)
        return worth, arrival.importance, arrival.taken


class WeighedAtArrival(Frequency):
    """SIMPPROB: importance x matches as they were when the tuple was admitted."""

    def __init__(self, statistics: str = "window", combine: str = "product") -> None:
        super().__init__(statistics, combine)
        self.fixed: dict[int, float] = {}

    def rank(self, join: ManyJoin, arrival: Arrival) -> Any:
        return self.fixed[arrival.taken], arrival.importance, arrival.taken

    def appraised(self, join: ManyJoin, arrival: Arrival) -> None:
        self.fixed[arrival.taken] = arrival.importance * self.matches(join, arrival)


class Additive(Frequency):
    """alpha imp + beta m(t) + delta time, kept current; time counts windows since the first."""

    def __init__(self, alpha: float, beta: float, delta: float, statistics: str = "window") -> None:
        super().__init__(statistics)
        self.alpha, self.beta, self.delta = alpha, beta, delta
        self.first: int | None = None
        self.time: dict[int, float] = {}

    def arrived(self, join: ManyJoin, arrival: Arrival) -> None:
        super().arrived(join, arrival)
        if self.first is None:
            self.first = join.intake.clock

    def appraised(self, join: ManyJoin, arrival: Arrival) -> None:
        window = join.spec.windows[arrival.stream]
        first = 0 if window.kind == "rows" else self.first
        since = now(join, arrival.stream) - first  # type: ignore[operator]
        self.time[arrival.taken] = 1.0 + since / length(window) if window.size else 1.0

    def rank(self, join: ManyJoin, arrival: Arrival) -> Any:
        own = self.alpha * arrival.importance + self.delta * self.time[arrival.taken]
        return self.beta * self.matches(join, arrival) + own, own, arrival.taken


class Multiplicative(Additive):
    """imp^alpha m(t)^beta time^delta."""

    def rank(self, join: ManyJoin, arrival: Arrival) -> Any:
        own = arrival.importance**self.alpha * self.time[arrival.taken] ** self.delta
        return float(self.matches(join, arrival)) ** self.beta * own, own, arrival.taken


class Cumulative(Frequency):
    """DGL: decayed by each arrival on another stream, unless it completes a result with the tuple;
    then raised. In an instant, the last of a result's new tuples completes it."""

    def __init__(self, alpha: float, gain: float, decay: float, statistics: str = "window") -> None:
        super().__init__(statistics)
        self.alpha, self.gain, self.decay = Fraction(alpha), Fraction(gain), Fraction(decay)
        self.worth: dict[int, Fraction] = {}

    def arrived(self, join: ManyJoin, arrival: Arrival) -> None:
        super().arrived(join, arrival)
        for x in join.alive:
            if x.stream != arrival.stream:
                self.worth[x.taken] *= self.decay

    def produced(self, join: ManyJoin, combinations: Sequence[Combination]) -> None:
        met = set()
        for combination in combinations:
            last = max(x.taken for x in combination)
            met |= {(last, x.taken) for x in combination if x not in join.together}
        retained = {x.taken: x for x in join.alive}
        for _, taken in sorted(met):
            x = retained[taken]
            window = join.spec.windows[x.stream]
            birth = x.taken_of_stream if window.kind == "rows" else x.time
            left = Fraction(birth + length(window) - now(join, x.stream))
            left = max(Fraction(0), left / length(window)) if window.size else Fraction(0)
            gained = self.alpha * self.gain * Fraction(x.importance) * self.matches(join, x)
            self.worth[taken] = self.worth[taken] / self.decay + gained * left

    def appraised(self, join: ManyJoin, arrival: Arrival) -> None:
        matches = self.matches(join, arrival)
        own = self.alpha * Fraction(arrival.importance)
        self.worth[arrival.taken] = own * (1 + self.gain * matches)

    def rank(self, join: ManyJoin, arrival: Arrival) -> Any:
        return self.worth[arrival.taken], arrival.taken


class Age(Shedding):
    """The best rate ahead on a given curve."""

    def __init__(self, curve: Sequence[float], bucket: int) -> None:
        self.curve, self.bucket = curve, bucket
        self.born: dict[int, int] = {}

    def appraised(self, join: ManyJoin, arrival: Arrival) -> None:
        self.born[arrival.taken] = born(join, arrival)

    def rank(self, join: ManyJoin, arrival: Arrival) -> Any:
        age = (now(join, arrival.stream) - self.born[arrival.taken]) // self.bucket
        worth = best_rate(self.curve, age)
        rises = age < len(self.curve) and worth > self.curve[age]
        return worth, -arrival.taken if rises else 0, arrival.taken


def now(join: ManyJoin, stream: int) -> int:
    """The clock, or in a count window the number of the newest tuple."""
    if join.spec.windows[stream].kind == "rows":
        return join.intake.taken_of_stream[stream] - 1
    assert join.intake.clock is not None
    return join.intake.clock


def born(join: ManyJoin, arrival: Arrival) -> int:
    """When it came, on the same scale."""
    counted = join.spec.windows[arrival.stream].kind == "rows"
    return arrival.taken_of_stream if counted else now(join, arrival.stream)


class AutoSplit(Shedding):
    """`split="auto"`: one pool; priorities of another policy become results per unit of time, or
    where they cannot, streams that are slower than the mean of the others are kept.

    Planned when an instant begins, every 64 tuples, and until all streams have come.
    """

    def __init__(self, policy: Shedding, currency: str) -> None:
        """`currency` is what a priority counts: "matches", "importance", "age" or "nothing"."""
        self.policy, self.currency = policy, currency
        self.arrivals: list[float] = []
        self.until_plan, self.instant = 0, None
        self.factor: list[float] = []
        self.precedence: list[int] = []

    def arrived(self, join: ManyJoin, arrival: Arrival) -> None:
        streams = len(join.spec.streams)
        if not self.arrivals:
            self.arrivals = [0.0] * streams
            self.factor, self.precedence = [1.0] * streams, [0] * streams
        if self.until_plan <= 0 and join.intake.clock != self.instant:
            self.plan(join)
        self.arrivals[arrival.stream] += 1.0
        self.until_plan -= 1
        self.instant = join.intake.clock
        self.policy.arrived(join, arrival)

    def plan(self, join: ManyJoin) -> None:
        windows = join.spec.windows
        all_came = min(self.arrivals) > 0
        came = self.arrivals if all_came else [1.0] * len(windows)
        for stream in range(len(windows)):
            others = [s for s in range(len(windows)) if s != stream]
            theirs = sum(came[s] / len(others) for s in others)
            if self.currency == "importance":
                self.factor[stream] = theirs
            elif self.currency == "matches":
                self.factor[stream] = sum(
                    (came[s] if windows[s].kind == "rows" else 1.0) / max(1, length(windows[s]))
                    for s in others
                )
            elif self.currency == "nothing":
                self.precedence[stream] = int(theirs > 1.1 * came[stream])
        # Nobody meets a retained tuple of the last stream, or of an instant, without a window.
        ends = len(windows) - 1
        idle = [
            window.kind != "rows"
            and window.size == 0
            and (stream == ends or join.spec.ties == "instant")
            for stream, window in enumerate(windows)
        ]
        if 0 < sum(idle) < len(windows):
            self.precedence = [int(not none) for none in idle]
        if all_came:
            self.arrivals = [number * 0.5 ** (1 / 16) for number in self.arrivals]
            self.until_plan = 64

    def produced(self, join: ManyJoin, combinations: Sequence[Combination]) -> None:
        self.policy.produced(join, combinations)

    def appraised(self, join: ManyJoin, arrival: Arrival) -> None:
        self.policy.appraised(join, arrival)

    def admitted(self, join: ManyJoin, arrival: Arrival) -> None:
        self.policy.admitted(join, arrival)

    def left(self, join: ManyJoin, arrival: Arrival, cause: str) -> None:
        self.policy.left(join, arrival, cause)

    def settled(self, join: ManyJoin, arrival: Arrival) -> None:
        self.policy.settled(join, arrival)

    def rank(self, join: ManyJoin, arrival: Arrival) -> Any:
        priority, *rest = self.policy.rank(join, arrival)
        factor = self.factor[arrival.stream]
        return (self.precedence[arrival.stream], priority * factor, *rest)


def in_full_window(join: ManyJoin, arrival: Arrival, clock: float) -> bool:
    """Would it be alive if nothing were shed and it had the time of the clock?"""
    window = join.spec.windows[arrival.stream]
    if window.kind == "rows":
        newer = join.intake.taken_of_stream[arrival.stream] - arrival.taken_of_stream - 1
        return newer < window.size
    return join.intake.bound() - clock <= length(window)
