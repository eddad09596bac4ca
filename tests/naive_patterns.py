"""EP, the policy `arrival-order` (kwon2011, section 3): the slow, obvious twin.

Law: the existence pattern of a tuple says on which streams its key was present when it came, its
own included; it never changes. Per stream a table has an entry (l, r, n) per pattern: the tuples
retained with it, the results that tuples with it took part in, and how many were admitted with it.
The priority of a tuple is r/n of its pattern, and 0 if all streams are in the pattern. The lowest
priority goes, the oldest first. Complete patterns go before others whose priority is 0 too, and the
arrival itself stays (Insertion (a) of section 3.2), unless there is no memory at all.

What the paper leaves open:

- Patterns of equal r/n (all, at the beginning): the oldest of all their tuples goes.
- r counts once per result row, also where keys repeat.
- n counts an arrival after its victim was chosen, as in the paper's order (a), (c).
- `ties="instant"`: all tuples of an instant are present when the first of them is admitted.
- A key with NULL produces nothing: its tuple stands with those of the complete pattern, at 0.
- One pool for all streams: r/n are results per tuple on every stream, so they are compared as they
  are.

Fading. `fade=None` is the paper's rule: r and n only grow, so a table that has seen a million
tuples does not notice when streams change their ways. With `fade=limit`, r and n of an entry are
halved when n reaches the limit: the entry remembers about its last `limit` tuples. Why so:

- Halving both leaves r/n as it is, so no tuple changes its place among the victims: O(1), once per
  limit/2 tuples, and no walk over the table.
- It is counted by tuples of the pattern and not by time: a rare pattern keeps its little evidence.
- Results come later than the tuple. A tuple remembers how often its entry had been halved when it
  was admitted, and its results count in r with the weight that the tuple has in n by now. Without
  that, the results of all tuples that wait would count double after each halving.
- Powers of two: all sums are exact, so the order of evidence does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from naive import Arrival
from naive_many import NOTHING, Combination, ManyJoin, Shedding, key_of

FADE = 1024  # tuples of a pattern, by default


@dataclass
class Entry:
    """(l, r, n) of one pattern of one stream."""

    retained: list[Arrival] = field(default_factory=list)
    results: float = 0.0
    admitted: float = 0.0
    halved: int = 0


class ArrivalOrder(Shedding):
    """EP; a pattern is a text such as "011": present on the second and the third stream."""

    def __init__(self, streams: int, fade: int | None = FADE, most: int | None = None) -> None:
        """`most`: so many patterns have an entry, by the streams besides that of the tuple; those
        that are seen later share one."""
        self.fade = fade
        self.most = 2**streams if most is None else most
        self.known = ["1" * (streams - 1)]
        self.complete = "1" * streams
        self.tables: list[dict[str, Entry]] = [{} for _ in range(streams)]
        self.pattern_of: dict[int, str] = {}  # by order of arrival
        self.halved_before: dict[int, int] = {}

    def entry(self, stream: int, pattern: str) -> Entry:
        others = pattern[:stream] + pattern[stream + 1 :]
        if others not in self.known:
            if len(self.known) < self.most:
                self.known.append(others)
            else:
                pattern = "others"
        return self.tables[stream].setdefault(pattern, Entry())

    def entry_of(self, arrival: Arrival) -> Entry:
        """An arrival that completes a result before it is admitted has the complete pattern."""
        return self.entry(arrival.stream, self.pattern_of.get(arrival.taken, self.complete))

    def existence_pattern(self, join: ManyJoin, arrival: Arrival) -> str:
        """Definition 1."""
        key = key_of(join.spec, arrival)
        if key is NOTHING:
            return self.complete
        present = {arrival.stream, *(x.stream for x in join.standing(key))}
        return "".join("1" if s in present else "0" for s in range(len(self.tables)))

    def priority(self, stream: int, pattern: str) -> float:
        """Definition 3."""
        entry = self.entry(stream, pattern)
        return 0.0 if pattern == self.complete else entry.results / entry.admitted

    # --- what it is told -----------------------------------------------------------------

    def produced(self, join: ManyJoin, combinations: Sequence[Combination]) -> None:
        for combination in combinations:
            for x in combination:
                entry = self.entry_of(x)
                since = entry.halved - self.halved_before.get(x.taken, entry.halved)
                entry.results += 0.5**since

    def appraised(self, join: ManyJoin, arrival: Arrival) -> None:
        self.pattern_of[arrival.taken] = self.existence_pattern(join, arrival)
        self.entry_of(arrival)

    def admitted(self, join: ManyJoin, arrival: Arrival) -> None:
        entry = self.entry_of(arrival)
        entry.retained.append(arrival)
        entry.admitted += 1.0
        self.halved_before[arrival.taken] = entry.halved
        if self.fade is not None and entry.admitted >= self.fade:
            entry.results /= 2
            entry.admitted /= 2
            entry.halved += 1

    def left(self, join: ManyJoin, arrival: Arrival, cause: str) -> None:
        if cause != "refused":
            self.entry_of(arrival).retained.remove(arrival)

    # --- what it is asked ----------------------------------------------------------------

    def victim(self, join: ManyJoin, pool: list[Arrival], arrival: Arrival) -> Arrival:
        """The oldest of the first pattern, over the streams that share the memory."""
        streams = {x.stream for x in pool}
        heads = [
            entry.retained[0]
            for stream in streams
            for entry in self.tables[stream].values()
            if entry.retained
        ]
        return min(heads, key=lambda x: self.rank(join, x))

    def rank(self, join: ManyJoin, arrival: Arrival) -> Any:
        """Priorities are compared in 32 bits, as the engine has them."""
        pattern = self.pattern_of[arrival.taken]
        return (
            pattern != self.complete,
            float(np.float32(self.priority(arrival.stream, pattern))),
            arrival.taken,
        )
