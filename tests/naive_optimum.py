"""The slow, obvious twins of the offline optimum.

The law: nothing here knows of networks. `brute_force` tries every set of tuples that could be held
after every arrival; `follow` obeys a given schedule and checks the memory after every tuple. Both
are subclasses of the naive join, so who matches, who is alive and what fits are its rules; only the
choice of what to forget is theirs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from naive import Arrival, NaiveJoin, Result, Row, length

import tidegate as tg
from tidegate.spec import Window

Gain = Callable[[Result], float]


def importance(result: Result) -> float:
    return result[1]


def size(result: Result) -> float:
    return 1.0


class _Timeline(NaiveJoin):
    """All arrivals in order, grouped as they are admitted, and whether two of them match."""

    def __init__(self, rows: Mapping[str, Sequence[Row]], spec: tg.JoinSpec) -> None:
        super().__init__(spec)
        arrivals: list[Arrival] = []
        for stream, name in enumerate(spec.streams):
            arrivals += self.accept(stream, rows.get(name, []))
        arrivals.sort(key=lambda arrival: (arrival.time, arrival.stream))
        for order, arrival in enumerate(arrivals):
            arrival.taken = order
            arrival.taken_of_stream = self.taken_of_stream[arrival.stream]
            self.taken_of_stream[arrival.stream] += 1
        self.arrivals = arrivals

    def over(self, x: Arrival, clock: int, newest: Mapping[int, int]) -> bool:
        """Is x dead at this clock, when `newest` tuples of each stream were taken?"""
        window = self.spec.windows[x.stream]
        if window.kind == "rows":
            return newest[x.stream] - x.taken_of_stream - 1 >= window.size
        return clock - length(self.spec.lateness_window) - x.time > length(window)

    def account(self, x: Arrival) -> int:
        return 0 if self.spec.split == "shared" else x.stream

    def fits(self, held: Sequence[Arrival]) -> bool:
        accounts = {self.account(x) for x in held}
        return all(
            sum(self.account(x) == account for x in held) <= self.capacity(account)
            for account in accounts
        )

    def met(self, held: Sequence[Arrival], new: Sequence[Arrival]) -> list[Result]:
        """The results of held tuples with new ones, and of those with each other in an instant."""
        pools = [[x for x in [*held, *new] if x.stream == stream] for stream in (0, 1)]
        return self.combine(pools, must_touch=list(new))

    def steps(self) -> Iterator[list[Arrival]]:
        if self.spec.ties == "instant":
            for _, group in itertools.groupby(self.arrivals, key=lambda a: a.time):
                yield list(group)
        else:
            for arrival in self.arrivals:
                yield [arrival]


Held = frozenset[int]


def brute_force(
    rows: Mapping[str, Sequence[Row]], spec: tg.JoinSpec, gain: Gain = importance
) -> float:
    """The largest gain over every choice of what to hold, tuple by tuple."""
    line = _Timeline(rows, spec)
    instant = spec.ties == "instant"
    best: dict[Held, float] = {frozenset(): 0.0}
    newest = {0: 0, 1: 0}
    for step in line.steps():
        following: dict[Held, float] = {}
        before = dict(newest)
        for arrival in step:
            newest[arrival.stream] += 1
        for numbers, worth in best.items():
            clock = step[0].time
            held = [line.arrivals[n] for n in numbers]
            held = [x for x in held if not line.over(x, clock, before)]
            probed = 0.0 if instant else sum(map(gain, line.met(held, step)))
            possible = [x for x in [*held, *step] if not line.over(x, clock, newest)]
            for kept in _subsets(possible):
                if not line.fits(kept):
                    continue
                earned = worth + probed
                if instant:
                    survivors = [x for x in kept if x not in step]
                    earned += sum(map(gain, line.met(survivors, step)))
                state = frozenset(x.taken for x in kept)
                following[state] = max(following.get(state, -math.inf), earned)
        best = following
    return max(best.values())


def _subsets(arrivals: Sequence[Arrival]) -> Iterator[tuple[Arrival, ...]]:
    for count in range(len(arrivals) + 1):
        yield from itertools.combinations(arrivals, count)


def least(rows: Mapping[str, Sequence[Row]], spec: tg.JoinSpec) -> float:
    """The smallest importance if what fits is admitted, and one goes only where one must."""
    line = _Timeline(rows, spec)
    best: dict[Held, float] = {frozenset(): 0.0}
    newest = {0: 0, 1: 0}
    for step in line.steps():
        clock = step[0].time
        alive: dict[Held, float] = {}
        for numbers, worth in best.items():
            held = [n for n in numbers if not line.over(line.arrivals[n], clock, newest)]
            if spec.ties != "instant":
                worth += sum(map(importance, line.met([line.arrivals[n] for n in held], step)))
            alive[frozenset(held)] = min(alive.get(frozenset(held), math.inf), worth)
        for arrival in step:
            newest[arrival.stream] += 1
            alive = _lazily_admitted(line, alive, arrival, clock, newest)
        if spec.ties == "instant":
            for numbers in alive:
                survivors = [line.arrivals[n] for n in numbers if line.arrivals[n] not in step]
                alive[numbers] += sum(map(importance, line.met(survivors, step)))
        best = alive
    return min(best.values())


def _lazily_admitted(
    line: _Timeline,
    states: Mapping[Held, float],
    arrival: Arrival,
    clock: int,
    newest: Mapping[int, int],
) -> dict[Held, float]:
    following: dict[Held, float] = {}
    for numbers, worth in states.items():
        held = {n for n in numbers if not line.over(line.arrivals[n], clock, newest)}
        wanted = set(held)
        if line.spec.windows[arrival.stream] != Window("rows", 0):
            wanted.add(arrival.taken)
        successors = [wanted]
        if not line.fits([line.arrivals[n] for n in wanted]):
            mine = [n for n in wanted if line.account(line.arrivals[n]) == line.account(arrival)]
            successors = [wanted - {gone} for gone in mine]
        for state in map(frozenset, successors):
            following[state] = min(following.get(state, math.inf), worth)
    return following


def follow(
    rows: Mapping[str, Sequence[Row]], spec: tg.JoinSpec, through: Mapping[str, Sequence[int]]
) -> list[Result]:
    """The results of holding each tuple exactly through the given arrival (or instant)."""
    line = _Timeline(rows, spec)
    instant = spec.ties == "instant"
    held: list[Arrival] = []
    results: list[Result] = []

    def wanted(x: Arrival, number: int) -> bool:
        last: Any = through[spec.streams[x.stream]][x.row]
        return last >= number if instant else last > number

    for number, step in enumerate(line.steps()):
        if not instant:
            results += line.met(held, step)
        earlier = [x for x in held if wanted(x, number)]
        held = earlier + [x for x in step if wanted(x, number)]
        assert line.fits(held), "the schedule does not fit the memory"
        if instant:
            results += line.met(earlier, step)
    return results
