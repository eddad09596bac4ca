"""The slow, obvious twins of `eq-cluster` and `pps-cluster` for n streams.

Law: each tuple carries its own threshold, the largest priority of a victim since it came. The
weight of a result is the product of max(1, threshold / size) over its tuples that were retained:
all but the one that completes it, and in an instant all but those of the instant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from naive import Arrival, length
from naive_many import NOTHING, Combination, ManyJoin, key_of
from naive_many_policies import Frequency
from naive_policies import chance
from naive_sampling import CERTAIN, UNSEEN

from tidegate.sample.waiting import waiting

_DRAW = 0xD6E8FEB86659FD93


class Cluster(Frequency):
    """Priority size / v with a number v that the tuple drew; the smallest goes."""

    def __init__(self, by_size: bool) -> None:
        super().__init__()
        self.by_size = by_size
        self.size: dict[int, float] = {}
        self.priority: dict[int, float] = {}
        self.threshold: dict[int, float] = {}
        self.weights: list[tuple[tuple[int, ...], float]] = []

    def appraised(self, join: ManyJoin, arrival: Arrival) -> None:
        size = self.expected(join, arrival) if self.by_size else 1.0
        self.size[arrival.taken] = size
        self.priority[arrival.taken] = size / drawn(join.spec.seed, arrival)
        self.threshold[arrival.taken] = 0.0

    def expected(self, join: ManyJoin, arrival: Arrival) -> float:
        """The geometric mean over the other streams of the tuples that it can expect to meet and
        half a tuple: those in the window x the ratio of the windows."""
        others = [s for s in range(len(join.spec.streams)) if s != arrival.stream]
        found = math.prod(
            self.number(join, arrival, other) * self.ratio(join, arrival.stream, other) + UNSEEN
            for other in others
        )
        return found ** (1.0 / len(others))

    def ratio(self, join: ManyJoin, own: int, other: int) -> float:
        kinds = [join.spec.windows[s].kind == "rows" for s in (own, other)]
        lengths = [
            join.spec.windows[s].size / max(1, sum(x.stream == s for x, _ in self.seen))
            if counted
            else float(length(join.spec.windows[s]))
            for s, counted in zip((own, other), kinds, strict=True)
        ]
        if any(window.size == 0 for window in join.spec.windows) and not kinds[0]:
            # Counts of all time so far are a rate.
            assert join.intake.clock is not None
            return lengths[0] / max(1.0, join.intake.clock - self.seen[0][1])
        return 1.0 if kinds[0] != kinds[1] or lengths[1] == 0.0 else lengths[0] / lengths[1]

    def number(self, join: ManyJoin, arrival: Arrival, other: int) -> int:
        """Tuples of its key in the window of another stream. Where a window is empty, all tuples so
        far are counted (see `naive_sampling`)."""
        has_empty = any(window.size == 0 for window in join.spec.windows)
        counted = [x for x, _ in self.seen] if has_empty else self.counted(join)
        key = key_of(join.spec, arrival)
        if key is NOTHING:
            return 0
        return sum(x.stream == other and key_of(join.spec, x) == key for x in counted)

    def rank(self, join: ManyJoin, arrival: Arrival) -> Any:
        return self.priority[arrival.taken], self.size[arrival.taken], arrival.taken

    def victim(self, join: ManyJoin, pool: list[Arrival], arrival: Arrival) -> Arrival:
        victim = super().victim(join, pool, arrival)
        for x in [*pool, arrival]:
            raised = max(self.threshold[x.taken], self.priority[victim.taken])
            self.threshold[x.taken] = raised
        return victim

    def produced(self, join: ManyJoin, combinations: Sequence[Combination]) -> None:
        for combination in combinations:
            retained = [x.taken for x in combination if x not in join.together]
            weight = math.prod(max(1.0, self.threshold[at] / self.size[at]) for at in retained)
            weight = weight if weight > 1.0 else certain(join)
            self.weights.append((tuple(x.row for x in combination), weight))


def certain(join: ManyJoin) -> float:
    """The weight of a certain result: exactly 1 while nothing that waits for results was lost."""
    lost = sum(
        join.intake.counts[cause, stream]
        for cause in ("evicted", "refused")
        for stream, waits in enumerate(waiting(join.spec))
        if waits
    )
    return CERTAIN if lost else 1.0


def drawn(seed: int, arrival: Arrival) -> float:
    """The first number in (0, 1] of a tuple."""
    mixed = (seed + _DRAW) % 2**64
    mixed = (mixed ^ mixed >> 32) * _DRAW % 2**64
    return 1.0 - chance(mixed ^ mixed >> 29, arrival.stream, arrival.taken)
