"""What VALUE and AGE learn, as slow plain Python over lists and dicts.

Law: the rules are those that the docstrings of `tidegate.estimators` state, and none of that code
is called. Sums are taken in the stated order (streams, levels, ages, waits, upwards), so that equal
worth is equal to the last bit and a difference in victims is a difference in a rule.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import naive

FADE = 0.8  # what is left of old evidence


# --- how often keys came -----------------------------------------------------------------


def faded(count: float) -> float:
    """Four fifths of a count, in whole sixteenths."""
    return (int(count * 16) * 4 // 5) / 16


class FadingCounts:
    """Tuples by key and stream, old ones for less; rare keys that nobody holds are forgotten."""

    def __init__(self, streams: int = 2) -> None:
        self.streams = streams
        self.counts: dict[Hashable, list[float]] = {}
        self.moments: dict[Hashable, int] = {}  # when it was last seen
        self.last_on: dict[Hashable, int] = {}

    def of(self, key: Hashable, stream: int) -> float:
        return self.counts[key][stream] if key in self.counts else 0.0

    def see(self, key: Hashable, stream: int, now: int) -> None:
        self.counts.setdefault(key, [0.0] * self.streams)
        self.moments[key] = now
        self.counts[key][stream] += 1.0
        self.last_on[key] = stream

    def fade(self, held: set[Hashable]) -> None:
        for key in list(self.counts):
            self.counts[key] = [faded(count) for count in self.counts[key]]
            if key not in held and max(self.counts[key]) < 0.75:
                del self.counts[key]


# --- age curves --------------------------------------------------------------------------


@dataclass
class Monitors:
    """The tuples of a stream that are kept for their whole life, and what their lives showed."""

    limit: float
    buckets: int
    alive: int = 0
    waited: int = 0  # tuples since the last one began
    known: bool = False
    lives: float = 0.0
    sums: list[float] = field(default_factory=list)
    squares: list[float] = field(default_factory=list)

    def begin(self, pace: int) -> list[float] | None:
        """The life of a new monitor, if the tuple is to be one; they begin evenly in a window."""
        self.waited += 1
        limit = self.limit / 8.0 if self.known else self.limit
        if limit <= 0 or self.alive >= max(1.0, limit) or self.waited < pace // limit:
            return None
        self.alive += 1
        self.waited = 0
        return [0.0] * self.buckets

    def end(self, life: list[float], complete: bool) -> None:
        self.alive -= 1
        if complete:
            keep = 1.0 - 1.0 / 512.0
            self.lives = self.lives * keep + 1.0
            self.known = self.known or self.lives >= 64.0
            before = self.sums or [0.0] * len(life)
            squares = self.squares or [0.0] * len(life)
            self.sums = [old * keep + new for old, new in zip(before, life, strict=True)]
            self.squares = [o * keep + new**2 for o, new in zip(squares, life, strict=True)]

    def curve(self) -> list[float]:
        """Results per life and bucket, shrunk towards their mean as far as noise could be."""
        buckets = self.buckets
        p = [total / self.lives for total in self.sums]
        mean = noise = spread = 0.0
        for produced, square in zip(p, self.squares, strict=True):
            mean += produced / buckets
            noise += (square / self.lives - produced**2) / self.lives / buckets
        noise += mean / buckets / self.lives
        for produced in p:
            spread += (produced - mean) ** 2 / buckets
        trust = max(0.0, 1.0 - noise / spread) if spread > 0 else 0.0
        return [mean + trust * (produced - mean) for produced in p]


class Stages:
    """Worth by age, in buckets of `width`: 1 everywhere until a curve is known."""

    def __init__(self, width: int, buckets: int) -> None:
        self.width = width
        self.worth, self.ending = [1.0] * (buckets + 1), [1.0] * (buckets + 1)
        self.rising = [False] * (buckets + 1)

    def learn(self, p: Sequence[float]) -> None:
        """worth(i) = max over j > i of (C(j) - C(i)) / (j - i); what is older keeps its worth."""
        for i in range(len(p)):
            ahead, best = 0.0, 0.0
            for j in range(i, len(p)):
                ahead += p[j]
                best = max(best, ahead / (j - i + 1))
            self.worth[i], self.rising[i] = best, best > p[i]
        self.worth[len(p)], self.ending[len(p)], self.rising[len(p)] = 0.0, 0.0, False
        for i in range(len(p)):
            rises = max(p[i], self.worth[i + 1])
            self.ending[i] = rises if self.rising[i] else self.worth[i]

    def stage(self, age: int) -> int:
        return min(len(self.worth) - 1, age // self.width)

    def at(self, age: int) -> float:
        """Between the worth at the beginning of its stage and that at the end."""
        stage = self.stage(age)
        inside = (age - stage * self.width) / self.width
        return self.worth[stage] + min(1.0, inside) * (self.ending[stage] - self.worth[stage])


class Pace:
    """How many tuples of a stream came in the last full period as long as its window."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.begin = self.before = self.seen = self.tuples = 0

    def see(self, moment: int) -> None:
        if self.seen == 0:
            self.begin = moment
        elif moment - self.begin > self.window:
            self.tuples = self.seen - self.before
            self.begin, self.before = moment, self.seen
        self.seen += 1


# --- importances -------------------------------------------------------------------------


class Importances:
    """What a result will be worth: the importances of a stream in bins of a quarter of a doubling,
    and by bin of the other stream's tuples what their results were worth."""

    def __init__(self, kind: str, streams: int = 2) -> None:
        self.kind = kind
        self.streams = range(streams)
        self.number: list[dict[int, float]] = [defaultdict(float) for _ in self.streams]
        self.total: list[dict[int, float]] = [defaultdict(float) for _ in self.streams]
        # Of all bins, as of the last fit.
        self.seen: list[list[tuple[float, float]]] = [[] for _ in self.streams]
        self.results: list[dict[int, float]] = [defaultdict(float) for _ in self.streams]
        self.earned: list[dict[int, float]] = [defaultdict(float) for _ in self.streams]
        self.fresh: list[dict[int, tuple[float, float]]] = [{} for _ in self.streams]

    @staticmethod
    def bin(importance: float) -> int:
        return min(255, max(0, math.floor(4 * math.log2(importance)) + 128))

    def see(self, stream: int, importance: float) -> None:
        self.number[stream][self.bin(importance)] += 1.0
        self.total[stream][self.bin(importance)] += importance

    def earn(self, stream: int, own: float, other: float) -> None:
        number, earned = self.fresh[stream].get(self.bin(own), (0.0, 0.0))
        value = naive.output_importance(self.kind, (own, other))
        self.fresh[stream][self.bin(own)] = number + 1.0, earned + value

    def fade(self) -> None:
        for stream in self.streams:
            for book in (self.number[stream], self.total[stream]):
                for place in book:
                    book[place] *= FADE
            for place in range(256):
                number, earned = self.fresh[stream].get(place, (0.0, 0.0))
                results = self.results[stream][place] + number
                worth = self.earned[stream][place] + earned
                keep = FADE if results >= 256.0 else 1.0  # few are kept until there are more
                self.results[stream][place] = results * keep
                self.earned[stream][place] = worth * keep
            self.fresh[stream] = {}

    def fit(self) -> None:
        """Sums over all bins before each one, and over all."""
        for stream in self.streams:
            number = total = 0.0
            self.seen[stream] = [(0.0, 0.0)]
            for place in range(256):
                number += self.number[stream][place]
                total += self.total[stream][place]
                self.seen[stream].append((number, total))

    def worth(self, stream: int, own: float) -> float:
        number, earned = self.fresh[stream].get(self.bin(own), (0.0, 0.0))
        results = self.results[stream][self.bin(own)] + number
        worth = self.earned[stream][self.bin(own)] + earned
        return (worth + 32.0 * self.expected(1 - stream, own)) / (results + 32.0)

    def expected(self, stream: int, own: float) -> float:
        """E[f(own, Y)] over the stream; those in its own bin count with the bin's mean."""
        number, total = self.seen[stream][256] if self.seen[stream] else (0.0, 0.0)
        mean = total / number if number else own
        if self.kind in ("sum", "product", "mean"):
            return naive.output_importance(self.kind, (own, mean))
        if not number:
            return own
        below, amount = self.seen[stream][self.bin(own)]
        upto, amount_upto = self.seen[stream][self.bin(own) + 1]
        if upto - below > 0 and (amount_upto - amount) / (upto - below) < own:
            amount += amount_upto - amount
            below += upto - below
        if self.kind == "min":
            return amount / number + (1.0 - below / number) * own
        return below / number * own + (mean - amount / number)
