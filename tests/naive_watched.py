"""The slow twin of policies that learn from monitors: AGE without a given curve, VALUE in part.

Law: what is learned is recomputed in plain Python (`naive_estimates`); when it is read is stated
here, once. AGE reads its curve whenever a monitor's life is over.
"""

from __future__ import annotations

from collections.abc import Sequence

from naive import Arrival
from naive_estimates import Monitors, Pace, Stages
from naive_policies import Rank, ShedJoin
from naive_rates import AGES

from tidegate.spec import JoinSpec

GOES_LAST = 2  # the precedence of a monitor


class WatchedJoin(ShedJoin):
    """A join in which a few tuples are kept for their whole life, to learn from."""

    one_in = 16  # of the tuples that the memory holds, at most 128 of a stream

    def __init__(self, spec: JoinSpec, nanoseconds: int = 1) -> None:
        super().__init__(spec, nanoseconds)
        self.lives: dict[int, list[float]] = {}  # of monitors, by order
        self.lessons = 0  # how often worth was learned anew
        self.stages = [Stages(self.width(stream), AGES) for stream in range(2)]
        self.paces = [Pace(self.window(stream)) for stream in range(2)]
        self.monitors = []
        for stream in range(2):
            buckets = max(1, -(-self.window(stream) // self.width(stream)))
            self.monitors.append(Monitors(self.limit(stream), buckets))

    def limit(self, stream: int) -> float:
        """How many monitors a stream may have."""
        named = self.spec.split in ("shared", "auto")
        share = int(self.capacity(stream)) // (2 if named else 1)
        return min(128.0, share / self.one_in) if share >= 4 else 0.0

    def resize(self, memory: int) -> None:
        """Where there are too many monitors for a smaller budget, they are as all others."""
        self.spec = self.spec.replace(memory=memory)
        for stream, monitors in enumerate(self.monitors):
            before, monitors.limit = monitors.limit, self.limit(stream)
            own = [a for a in self.alive_of(stream) if a.taken in self.lives]
            most = max(1.0, monitors.limit) if monitors.limit > 0 else 0.0
            if len(own) > most and monitors.limit < before:
                for arrival in own:
                    monitors.end(self.lives.pop(arrival.taken), False)
        super().resize(memory)

    def next_victim(self, pool: list[Arrival]) -> Arrival:
        candidates = [other for other in pool if other.taken not in self.lives]
        self.look_again(candidates)
        return self.first_to_go(candidates)

    def width(self, stream: int) -> int:
        """Twentieths of a window, in whole units."""
        return max(1, -(-self.window(stream) // AGES))

    def see(self, arrival: Arrival) -> None:
        super().see(arrival)
        self.paces[arrival.stream].see(arrival.born)

    def count(self, arrival: Arrival) -> None:
        """Nothing is read of the counts over windows."""

    def met(self, arrival: Arrival, others: Sequence[Arrival]) -> None:
        for other in others:
            if other.taken in self.lives:
                age = self.now(other.stream) - other.born
                life = self.lives[other.taken]
                life[min(len(life) - 1, max(0, (age - 1) // self.width(other.stream)))] += 1.0

    def place(self, arrival: Arrival) -> Rank:
        if arrival.taken in self.lives:
            return (GOES_LAST,)
        return super().place(arrival)

    def admit(self, arrival: Arrival) -> None:
        stream = arrival.stream
        if self.spec.windows[stream].kind == "rows" and self.spec.windows[stream].size == 0:
            self.counts["expired", stream] += 1
            return
        self.appraise(arrival)
        life = self.monitors[stream].begin(self.paces[stream].tuples)
        if life is not None:
            self.lives[arrival.taken] = life
        self.expire_by_count(stream)
        pool = self.pool_of(stream)
        if len(pool) >= self.capacity(stream):
            # Monitors never make room for others.
            candidates = [other for other in pool if other.taken not in self.lives]
            self.look_again(candidates)
            victim = self.first_to_go(candidates, arrival)
            if not self.capacity(stream) or not candidates or victim is arrival:
                self.counts["refused", stream] += 1
                if life is not None:
                    self.monitors[stream].end(life, False)
                return
            self.leave(victim, "evicted")
        self.alive.append(arrival)
        self.admitted(arrival)

    def leave(self, arrival: Arrival, cause: str) -> None:
        super().leave(arrival, cause)
        life = self.lives.get(arrival.taken)
        if life is not None:
            self.monitors[arrival.stream].end(life, cause == "expired")
            if cause == "expired":
                self.life_is_over(arrival.stream)

    def appraise(self, arrival: Arrival) -> None:
        """A new tuple, before anybody makes room for it."""

    def look_again(self, candidates: list[Arrival]) -> None:
        """Of those who may go, the first ones."""

    def admitted(self, arrival: Arrival) -> None:
        """It is retained."""

    def life_is_over(self, stream: int) -> None:
        """A monitor was there until it expired."""


class AgeJoin(WatchedJoin):
    def life_is_over(self, stream: int) -> None:
        self.lessons += 1
        width = float(self.width(stream))
        self.stages[stream].learn([p / width for p in self.monitors[stream].curve()])

    def rank_age(self, arrival: Arrival) -> Rank:
        stages = self.stages[arrival.stream]
        stage = stages.stage(self.now_of[arrival.stream] - arrival.born)
        rises = stages.rising[stage]
        return (stages.worth[stage], -arrival.taken if rises else 0, arrival.taken)

    def see(self, arrival: Arrival) -> None:
        super().see(arrival)
        self.now_of = [self.now(stream) for stream in range(2)]
