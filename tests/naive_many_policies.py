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
| value | the rate at which t takes part in new results x what these are worth |

kwon2011, section 5, calls "frequency-based" what counts the tuples with t's key in all windows (a
sum); for unique keys m(t) is 0 until every other stream has the key. `Frequency(combine="sum")`
is that reading, for its figures.
"""  # noqa: E501

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from naive import Arrival, length
from naive_many import NOTHING, Combination, ManyJoin, Shedding, key_of
from naive_policies import chance


class Recent(Shedding):
    """The oldest goes; an arrival is never refused."""

    def rank(self, join: ManyJoin, arrival: Arrival) -> Any:
        return arrival.taken


class UntilExpiry(Shedding):
    """Whoever came first stays until it expires."""

    def rank(self, join: ManyJoin, arrival: Arrival) -> Any:
        return -arrival.taken


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


def in_full_window(join: ManyJoin, arrival: Arrival, clock: float) -> bool:
    """Would it be alive if nothing were shed and it had the time of the clock?"""
    window = join.spec.windows[arrival.stream]
    if window.kind == "rows":
        newer = join.intake.taken_of_stream[arrival.stream] - arrival.taken_of_stream - 1
        return newer < window.size
    return join.intake.bound() - clock <= length(window)
