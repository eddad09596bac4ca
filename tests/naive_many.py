"""The slow, obvious twin of the join of n streams on a common key, for n = 2 to 16.

Law: DESIGN section 3, twice. `definition` walks over all combinations of one tuple per stream and
asks of each whether it is a result; it has no state. `ManyJoin` takes tuple after tuple, retains
what a policy lets it retain, and re-scans all of that for each arrival. Without a budget both give
the same results. A result is known by the row numbers of its tuples, one per stream.

A combination is a result iff

- its keys are equal; a key with NULL or NaN in one of its columns equals nothing;
- each of its tuples x satisfies last.ts - x.ts <= W_x, where last is the latest in time;
- for a count window: fewer than W_x newer tuples of x's stream were taken when the combination's
  last tuple was taken (last by order of taking; a tuple of equal time in an instant: see below).

`ties="instant"` for n streams. Tuples of equal time in one push arrive together:

1. Combinations that lie entirely inside the instant are produced, whatever happens next.
2. Its tuples are admitted or refused one by one, by stream, then by input order; victims go.
3. Combinations of the instant's tuples with survivors from earlier instants are produced: one to
   n - 1 tuples are of the instant (refused or evicted again, that does not matter), the others
   were retained before the instant and still are after the last admission.

So a tuple of the instant takes part in all results of its instant, and whether a result is produced
depends only on who of the earlier tuples survived, not on the order inside the instant.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from naive import (
    TIME_LIMIT,
    Arrival,
    Row,
    capacity_of,
    length,
    missing,
    output_importance,
    plain,
)

from tidegate.spec import Equal, JoinSpec, Window

NOTHING = None  # the key of a tuple that can match nothing


class Result(NamedTuple):
    """One tuple of each stream, by row numbers; its time is that of the latest."""

    rows: tuple[int, ...]
    importance: float
    time: int


class Push(NamedTuple):
    tables: Mapping[str, Sequence[Row]]
    watermark: Any = None


Combination = tuple[Arrival, ...]


def key_of(spec: JoinSpec, arrival: Arrival) -> Any:
    """The values of its equality columns, or NOTHING if one is missing."""
    values = []
    for predicate in spec.predicates:
        assert isinstance(predicate, Equal), "n streams are joined on equal keys"
        values.append(arrival.values[predicate.columns[arrival.stream]])
    return NOTHING if any(map(missing, values)) else tuple(map(plain, values))


def result_of(spec: JoinSpec, combination: Combination) -> Result:
    importance = output_importance(spec.output_importance, [x.importance for x in combination])
    return Result(tuple(x.row for x in combination), importance, max(x.time for x in combination))


def within_windows(spec: JoinSpec, combination: Combination) -> bool:
    """Each tuple's time window reaches the latest; count windows are judged elsewhere."""
    last = max(x.time for x in combination)
    return all(
        spec.windows[x.stream].kind == "rows" or last - x.time <= length(spec.windows[x.stream])
        for x in combination
    )


def keys_equal(spec: JoinSpec, combination: Combination) -> bool:
    keys = [key_of(spec, x) for x in combination]
    return keys[0] is not NOTHING and all(key == keys[0] for key in keys)


# --- who is taken ------------------------------------------------------------------------


class Intake:
    """Rows become arrivals: rejected, too late, or taken, in the order of DESIGN section 3."""

    def __init__(self, spec: JoinSpec) -> None:
        self.spec = spec
        self.clock: int | None = None
        self.watermark: int | None = None
        self.taken = 0
        self.taken_of_stream = [0] * len(spec.streams)
        self.counts: Counter[tuple[str, int]] = Counter()

    def hear(self, watermark: Any) -> None:
        """A watermark from outside; the bound never moves back."""
        if watermark is not None:
            self.watermark = int(max(plain(watermark), self.bound()))

    def bound(self) -> float:
        """What is still awaited: a tuple before the bound comes too late."""
        if self.watermark is not None:
            return self.watermark
        return -math.inf if self.clock is None else self.clock - length(self.spec.lateness_window)

    def instants(self, tables: Mapping[str, Sequence[Row]]) -> Iterator[list[Arrival]]:
        """The good rows of a push in groups that arrive together: by time, then by stream."""
        good: list[Arrival] = []
        for stream, name in enumerate(self.spec.streams):
            good += self.good(stream, tables.get(name, []))
        good.sort(key=lambda x: (x.time, x.stream))
        for _, group in itertools.groupby(good, key=lambda x: x.time):
            together = list(group)
            yield from [together] if self.spec.ties == "instant" else [[x] for x in together]

    def good(self, stream: int, rows: Sequence[Row]) -> Iterator[Arrival]:
        importances = self.spec.importance_columns
        for values in rows:
            number = self.counts["rows_in", stream]
            self.counts["rows_in", stream] += 1
            given = values[self.spec.time_columns[stream]]
            importance = 1.0 if importances is None else values[importances[stream]]
            bad_time = given is None or (isinstance(given, int) and abs(given) >= TIME_LIMIT)
            if bad_time or importance is None or not 0 < importance < math.inf:
                self.counts["rejected", stream] += 1
            else:
                yield Arrival(stream, number, plain(given), float(importance), values)

    def in_time(self, instant: list[Arrival]) -> list[Arrival]:
        """Move the clock; of the instant, all are in time or none is."""
        self.clock = instant[0].time if self.clock is None else max(self.clock, instant[0].time)
        if instant[0].time >= self.bound():
            return instant
        for x in instant:
            self.counts["too_late", x.stream] += 1
        return []

    def number(self, arrival: Arrival) -> None:
        arrival.taken, arrival.taken_of_stream = self.taken, self.taken_of_stream[arrival.stream]
        self.taken += 1
        self.taken_of_stream[arrival.stream] += 1


# --- the definition ----------------------------------------------------------------------


def definition(spec: JoinSpec, pushes: Iterable[Push]) -> list[Result]:
    """Nested loops over all combinations of tuples that were taken."""
    intake = Intake(spec)
    streams: list[list[Arrival]] = [[] for _ in spec.streams]
    taken_by: dict[int, list[int]] = {}  # by order of taking: how many of each stream were taken
    for push in pushes:
        intake.hear(push.watermark)
        for instant in intake.instants(push.tables):
            together = intake.in_time(instant)
            for x in together:
                intake.number(x)
                streams[x.stream].append(x)
            # Of an instant, all are taken before the first meets an earlier tuple.
            taken_by |= {x.taken: list(intake.taken_of_stream) for x in together}
    return [
        result_of(spec, combination)
        for combination in itertools.product(*streams)
        if keys_equal(spec, combination)
        and within_windows(spec, combination)
        and within_counts(spec, combination, taken_by)
    ]


def within_counts(
    spec: JoinSpec, combination: Combination, taken_by: Mapping[int, list[int]]
) -> bool:
    """Was each tuple of a count window still in it when the last of them was taken?"""
    last = max(combination, key=lambda x: x.taken)
    for x in combination:
        window = spec.windows[x.stream]
        together = spec.ties == "instant" and taken_by[x.taken] == taken_by[last.taken]
        if window.kind == "rows" and x is not last and not together:
            if taken_by[last.taken][x.stream] - x.taken_of_stream - 1 >= window.size:
                return False
    return True


# --- the join, tuple after tuple ---------------------------------------------------------


class Shedding:
    """What a policy is told, and what it is asked. This one learns nothing.

    The order of events: `arrived` (before the arrival is admitted), `produced` (results that it
    completed), `appraised`, `victim` (only at capacity), then `admitted` or `left`, and `settled`.
    """

    def arrived(self, join: ManyJoin, arrival: Arrival) -> None:
        """An arrival was taken. It has met what it could; in an instant, not the survivors yet."""

    def produced(self, join: ManyJoin, combinations: Sequence[Combination]) -> None:
        """These combinations became results."""

    def victim(self, join: ManyJoin, pool: list[Arrival], arrival: Arrival) -> Arrival:
        """Who of pool and arrival goes: the smallest rank; the arrival itself is refused."""
        return min([*pool, arrival], key=lambda x: self.rank(join, x))

    def rank(self, join: ManyJoin, arrival: Arrival) -> Any:
        raise NotImplementedError

    def admitted(self, join: ManyJoin, arrival: Arrival) -> None:
        """The arrival is retained from now on."""

    def appraised(self, join: ManyJoin, arrival: Arrival) -> None:
        """The arrival is about to be admitted or refused; its count window has not moved yet."""

    def left(self, join: ManyJoin, arrival: Arrival, cause: str) -> None:
        """The tuple was "expired", "evicted" or "refused"."""

    def settled(self, join: ManyJoin, arrival: Arrival) -> None:
        """All that follows from the arrival is done."""


class ManyJoin:
    """The join of n streams under a budget that a policy keeps, victim by victim."""

    def __init__(self, spec: JoinSpec, policy: Shedding | None = None) -> None:
        self.spec = spec
        self.policy = policy or Shedding()
        self.intake = Intake(spec)
        self.alive: list[Arrival] = []
        self.together: list[Arrival] = []  # the arrivals of the instant that is under way
        self.victims: list[tuple[int, int, str]] = []  # (stream, row, cause), as they went
        self.rows_out = 0
        self.importance_out = 0.0
        self.peak = 0

    def push(self, tables: Mapping[str, Sequence[Row]], watermark: Any = None) -> list[Result]:
        """Take one push; a stream that is missing has sent nothing."""
        self.intake.hear(watermark)
        self.expire_by_time()
        results: list[Result] = []
        for instant in self.intake.instants(tables):
            self.together = self.intake.in_time(instant)
            self.expire_by_time()
            combinations = self.take(self.together)
            results += [result_of(self.spec, combination) for combination in combinations]
        self.together = []
        self.rows_out += len(results)
        self.importance_out += sum(result.importance for result in results)
        return results

    def take(self, instant: list[Arrival]) -> list[Combination]:
        """With `ties="arrival"` an instant is one tuple: it probes, then it is admitted."""
        one_by_one = self.spec.ties == "arrival"
        earlier = list(self.alive)
        inside = self.combinations(instant, earlier if one_by_one else [])
        for arrival in instant:
            self.intake.number(arrival)
            self.policy.arrived(self, arrival)
        self.policy.produced(self, inside)
        for arrival in instant:
            self.admit(arrival)
            self.policy.settled(self, arrival)
            self.peak = max(self.peak, len(self.alive))
        if one_by_one:
            return inside
        survivors = [x for x in earlier if x in self.alive]
        mixed = [
            combination
            for combination in self.combinations(instant, survivors)
            if any(x in survivors for x in combination)
        ]
        self.policy.produced(self, mixed)
        return inside + mixed

    def combinations(self, new: list[Arrival], old: list[Arrival]) -> list[Combination]:
        """All results with at least one tuple of `new`, the others from `new` and `old`."""
        found = []
        for key in {key_of(self.spec, x) for x in new} - {NOTHING}:
            streams: list[list[Arrival]] = [[] for _ in self.spec.streams]
            for x in new + old:
                if key_of(self.spec, x) == key:
                    streams[x.stream].append(x)
            for combination in itertools.product(*streams):
                if any(x in new for x in combination) and within_windows(self.spec, combination):
                    found.append(combination)
        return found

    def standing(self, key: Any) -> list[Arrival]:
        """Retained tuples with this key, and all of the instant that is under way."""
        if key is NOTHING:
            return []
        here = self.alive + [x for x in self.together if x not in self.alive]
        return [x for x in here if key_of(self.spec, x) == key]

    # --- leaving -------------------------------------------------------------------------

    def expire_by_time(self) -> None:
        """A tuple lives while bound - x.ts <= W_x: the last it could meet is at the bound."""
        for x in list(self.alive):
            window = self.spec.windows[x.stream]
            if window.kind != "rows" and self.intake.bound() - x.time > length(window):
                self.leave(x, "expired")

    def expire_by_count(self, stream: int) -> None:
        """A tuple dies when W newer ones of its own stream have been taken, refused or not.

        Newer are those that were admitted or refused: the later ones of an instant wait.
        """
        window = self.spec.windows[stream]
        for x in [x for x in self.alive if x.stream == stream]:
            newer = self.intake.counts["settled", stream] - x.taken_of_stream - 1
            if window.kind == "rows" and newer >= window.size:
                self.leave(x, "expired")

    def leave(self, arrival: Arrival, cause: str) -> None:
        if cause != "refused":
            self.alive.remove(arrival)
        self.intake.counts[cause, arrival.stream] += 1
        if cause != "expired":
            self.victims.append((arrival.stream, arrival.row, cause))
        self.policy.left(self, arrival, cause)

    # --- staying -------------------------------------------------------------------------

    def admit(self, arrival: Arrival) -> None:
        stream = arrival.stream
        self.intake.counts["settled", stream] += 1
        if self.spec.windows[stream] == Window("rows", 0):
            # It has met what was there, and takes no room.
            self.intake.counts["expired", stream] += 1
            return
        self.policy.appraised(self, arrival)
        self.expire_by_count(stream)
        pool = self.pool_of(stream)
        if len(pool) >= self.capacity(stream):
            victim = self.policy.victim(self, pool, arrival) if pool else arrival
            if victim is arrival:
                self.leave(arrival, "refused")
                return
            self.leave(victim, "evicted")
        self.alive.append(arrival)
        self.policy.admitted(self, arrival)

    def pool_of(self, stream: int) -> list[Arrival]:
        """Who shares the memory that a tuple of this stream would take."""
        if self.spec.split in ("shared", "auto"):
            return self.alive
        return [x for x in self.alive if x.stream == stream]

    def capacity(self, stream: int) -> float:
        return capacity_of(self.spec, stream)

    def stats(self) -> dict[str, float]:
        """The account, under the names the engine uses: total, and `name_stream`."""
        stats: dict[str, float] = {"rows_out": self.rows_out, "importance_out": self.importance_out}
        alive = Counter(("alive", x.stream) for x in self.alive)
        counts = self.intake.counts + alive
        causes = ("alive", "expired", "evicted", "refused", "too_late", "rejected")
        for name in ("rows_in", *causes):
            stats[name] = 0
            for stream, label in enumerate(self.spec.streams):
                stats[f"{name}_{label}"] = counts[name, stream]
                stats[name] += counts[name, stream]
        return stats
