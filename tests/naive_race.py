"""A race, slowly: lists of tokens, scores computed anew for each decision.

Law: as `tidegate.race.contest`, for `split="auto"` and rows in order of time. What is random there
(hashes of keys, the first phase of a cell, the draws of `random`) is taken from it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from standalone import Standalone

from tidegate.race import contest, race_records
from tidegate.race.race_records import KINDS
from tidegate.shed import worth

WORTH = Standalone(worth)


def mixed(code: int) -> int:
    """A hash of 32 bits."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        code = (code ^ (code >> 33)) * factor % 2**64
    return code >> 32


@dataclass
class Token:
    """A sampled tuple."""

    stream: int
    time: int
    code: int
    importance: float
    order: int
    gained: float
    holders: set[str] = field(default_factory=set)


class NaiveRace:
    """The same race from the same beginning."""

    def __init__(self, course: Any, names: tuple[str, ...]) -> None:
        self.names, self.head = names, course.head[0].copy()
        self.windows = course.streams.window.tolist()
        self.capacity = int(course.capacity.sum())
        self.phases = {
            (s, c): course.phases[s, c] for s in (0, 1) for c in range(course.phases.shape[1])
        }
        self.course, self.tokens, self.order = course, [], 0
        self.counts: dict[Any, Any] = defaultdict(np.float32)
        self.earned: dict[Any, Any] = defaultdict(np.float32)
        self.found = dict.fromkeys(names, 0.0)
        self.worths = course.worths.copy()
        self.clock = self.faded = -(2**62)
        self.arrived, self.precedence = [0.0, 0.0], [False, False]
        self.until_plan, self.instant = 0, -1

    def cells(self, code: int, stream: int) -> list[Any]:
        mark = max(1, mixed(code))
        return [(stream, row, (mark >> (18 * row)) % race_records.CELLS) for row in (0, 1)]

    def count(self, code: int, stream: int) -> float:
        return float(min(self.counts[cell] for cell in self.cells(code, stream)))

    def take(self, stream: int, time: int, code: int, importance: float) -> None:
        """One arrival."""
        if time > self.clock:
            self.clock = time
            if contest.FADES * (time - self.faded) > self.head.span:
                self.faded = time
                for cell in self.counts:
                    self.counts[cell] *= np.float32(contest.FADING)
                for cell in self.earned:
                    self.earned[cell] *= np.float32(contest.SLOWLY)
        self.order += 1
        if self.until_plan <= 0 and time > self.instant and min(self.arrived) > 0:
            one, other = self.arrived
            self.precedence = [other > 1.1 * one, one > 1.1 * other]
            self.arrived = [number * 0.5 ** (1 / 16) for number in self.arrived]
            self.until_plan = 64
        self.until_plan -= 1
        self.instant = time
        self.arrived[stream] += 1.0
        self.tokens = [t for t in self.tokens if t.time + self.windows[t.stream] >= self.clock]
        for token in (t for t in self.tokens if t.stream != stream):
            if token.code == code:
                self.meet(token, time, stream, importance)
            else:
                token.gained *= contest.DECAY
        for cell in self.cells(code, stream):
            self.counts[cell] += np.float32(1.0)
        place = (stream, self.cells(code, stream)[0][2])
        phase = float(self.phases[place]) + float(self.head.rate)
        self.phases[place] = np.float32(phase - 1.0 if phase >= 1.0 else phase)
        if phase >= 1.0:
            self.enlist(stream, time, code, importance)

    def meet(self, token: Token, time: int, stream: int, importance: float) -> None:
        for name in token.holders:
            if name == "output":
                for _, row, cell in self.cells(token.code, stream):
                    self.earned[row, cell] += np.float32(1.0)
            self.found[name] += min(token.importance, importance) if self.head.weighed else 1.0
        window = self.windows[token.stream]
        left = (token.time + window - time) / window
        matches = self.count(token.code, stream)
        token.gained += contest.GAIN * token.importance * matches * left

    def enlist(self, stream: int, time: int, code: int, importance: float) -> None:
        gained = importance * (1.0 + contest.GAIN * self.count(code, 1 - stream))
        token = Token(stream, time, code, importance, self.order, gained, set(self.names))
        self.tokens.append(token)
        for name in self.names:
            held = [t for t in self.tokens if name in t.holders]
            if len(held) > self.capacity:
                min(held, key=lambda t: self.rank(name, t)).holders.remove(name)
        self.tokens = [t for t in self.tokens if t.holders]

    def rank(self, name: str, token: Token) -> tuple[bool, float, int]:
        """Who goes first."""
        other = 1 - token.stream
        by_pace = name in ("recent", "until-expiry", "random", "dgl", "output")
        above = by_pace and self.precedence[token.stream]
        matches = self.count(token.code, other) / self.windows[other]
        priority = {
            "recent": token.order,
            "until-expiry": -token.order,
            "random": WORTH.chance(self.head.seed, token.stream, token.order),
            "dgl": token.gained,
            "age": self.worth_at(token),
            "prob": matches,
            "output": min(self.earned[row, cell] for _, row, cell in self.cells(token.code, 0)),
            "dimpprob": matches * token.importance,
            "simp": token.importance * self.arrived[other],
        }[name]
        return above, float(priority), token.order

    def worth_at(self, token: Token) -> float:
        ages = race_records.AGES
        bucket = (self.clock - token.time) * ages // (self.windows[token.stream] + 1)
        return float(self.worths[token.stream, min(ages - 1, bucket)])


assert set(KINDS) == {
    "recent", "until-expiry", "random", "dgl", "age", "prob", "dimpprob", "simp", "output"
}  # fmt: skip
