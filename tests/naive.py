"""The slow, obvious twin of the engine: it re-scans everything it retains for every arrival.

The law it keeps is DESIGN section 3, sentence by sentence, over lists of dicts and nothing
else: no arrays, no index, no lazy expiry. Where a sentence could be read in two ways, the
reading taken is stated beside the line that takes it, so that a difference between engine and
twin is always a difference about a named sentence.

Rows are known by their number: the count of rows its stream has sent before it, rejected rows
included. Times are integers: as given, or nanoseconds since 1970 for timestamps and dates.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from typing import Any

from tidegate.spec import Band, Equal, InnerProduct, JoinSpec, Overlap, Theta, Window

Row = Mapping[str, Any]
Result = tuple[tuple[int, ...], float]

TIME_LIMIT = 2**62
NANOSECONDS_PER_DAY = 86_400 * 10**9


@dataclass(eq=False)
class Arrival:
    """One accepted row: two rows with equal contents are still two arrivals."""

    stream: int
    row: int
    time: int
    importance: float
    values: Row
    taken: int = -1  # how many tuples, of any stream, were taken before it
    taken_of_stream: int = -1  # the same, of its own stream only
    key: Any = None  # its join key, once a policy has asked for it


@dataclass
class NaiveResult:
    """What a replay gave: the results in the order found, and the account of every row."""

    results: list[Result] = field(default_factory=list)
    stats: dict[str, float] = field(default_factory=dict)

    @property
    def pairs(self) -> list[tuple[int, ...]]:
        return [rows for rows, _ in self.results]

    @property
    def importances(self) -> list[float]:
        return [importance for _, importance in self.results]


# --- values ------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """The value as Python compares it best: instants, dates and durations in nanoseconds.

    Subtracting an epoch of the same kind (zoned or not) also undoes the time zone.
    """
    if isinstance(value, datetime):
        epoch = datetime(1970, 1, 1, tzinfo=timezone.utc if value.tzinfo else None)
        return plain(value - epoch)
    if isinstance(value, timedelta):
        seconds = value.days * 86_400 + value.seconds
        return (seconds * 10**6 + value.microseconds) * 1000 + getattr(value, "nanoseconds", 0)
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days * NANOSECONDS_PER_DAY
    return value


def missing(value: Any) -> bool:
    """NULL, and NaN: neither equals anything, itself included."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def length(window: Window) -> int:
    """A time window's length in the units of the times above."""
    return window.size * 1000 if window.kind == "duration" else window.size


def weights(value: Any) -> dict[Any, float]:
    """A weighted set as item -> weight; a dense vector's items are its positions."""
    total: dict[Any, float] = {}
    for position, entry in enumerate(value):
        if isinstance(entry, dict):
            item, weight = entry.values()
        elif isinstance(entry, tuple):
            item, weight = entry
        else:
            item, weight = position, entry
        if not missing(item) and not missing(weight):
            total[plain(item)] = total.get(plain(item), 0.0) + weight
    return total


# --- predicates --------------------------------------------------------------------------


def predicate_holds(predicate: Any, rows: Sequence[Row]) -> bool:
    """Whether one predicate holds for one row of each stream (in stream order)."""
    if isinstance(predicate, Theta):
        values = [
            row[name] for row, names in zip(rows, predicate.columns, strict=True) for name in names
        ]
        if any(value is None for value in values):
            return False
        return bool(predicate.function(*[plain(value) for value in values]))
    values = [row[name] for row, name in zip(rows, predicate.columns, strict=True)]
    if any(value is None for value in values):
        return False
    if isinstance(predicate, Equal):
        first = plain(values[0])
        return all(not missing(value) and plain(value) == first for value in values)
    if isinstance(predicate, Band):
        # lo <= b.x - a.x <= hi, literally this subtraction; only two streams have a band.
        a, b = (plain(value) for value in values)
        return bool(plain(predicate.low) <= b - a <= plain(predicate.high))
    if isinstance(predicate, Overlap):
        sets = [{plain(item) for item in value if not missing(item)} for value in values]
        return len(set.intersection(*sets)) >= predicate.at_least
    if isinstance(predicate, InnerProduct):
        vectors = [weights(value) for value in values]
        shared = set.intersection(*[set(vector) for vector in vectors])
        products = [math.prod(vector[item] for vector in vectors) for item in shared]
        return math.fsum(products) >= predicate.at_least
    raise TypeError(f"no naive form of predicate {predicate!r}")


def output_importance(kind: str, importances: Sequence[float]) -> float:
    combine: dict[str, Callable[[Sequence[float]], float]] = {
        "min": min, "max": max, "sum": sum, "product": math.prod,
        "mean": lambda values: sum(values) / len(values),
    }  # fmt: skip
    return float(combine[kind](importances))


def is_result(spec: JoinSpec, combination: Sequence[Arrival]) -> bool:
    """DESIGN section 3: the predicate holds, and each x satisfies last.ts - x.ts <= W_x.

    Count windows are judged by who is alive, not here.
    """
    last = max(arrival.time for arrival in combination)
    for arrival in combination:
        window = spec.windows[arrival.stream]
        if window.kind != "rows" and last - arrival.time > length(window):
            return False
    rows = [arrival.values for arrival in combination]
    return all(predicate_holds(predicate, rows) for predicate in spec.predicates)


# --- the join ----------------------------------------------------------------------------


def capacity_of(spec: JoinSpec, stream: int) -> float:
    """How many tuples of a stream, or of all that share its memory, may be retained."""
    memory, count = spec.memory_rows, len(spec.streams)
    if memory is None:
        return math.inf
    if spec.split_rows is not None:
        return spec.split_rows[stream]
    if spec.split in ("shared", "auto"):
        return memory
    # An even split that leaves a rest: earlier streams get one tuple more.
    return memory // count + (1 if stream < memory % count else 0)


class NaiveJoin:
    """The window join, tuple after tuple, over any number of streams."""

    def __init__(self, spec: JoinSpec) -> None:
        self.spec = spec
        self.alive: list[Arrival] = []
        self.clock: int | None = None
        self.watermark: int | None = None
        self.taken = 0
        self.taken_of_stream = [0] * len(spec.streams)
        self.counts: Counter[tuple[str, int]] = Counter()
        self.rejected_by_reason: Counter[str] = Counter()
        self.rows_out = 0
        self.importance_out = 0.0

    def push(self, tables: Mapping[str, Sequence[Row]], watermark: Any = None) -> list[Result]:
        """Take one push; a stream that is missing has sent nothing."""
        if watermark is not None:
            # The bound never moves back, also not from where the clock had brought it before the
            # first watermark; a push without one leaves it where it is.
            self.watermark = max(plain(watermark), self.bound())
            self.expire_by_time()
        accepted: list[Arrival] = []
        for stream, name in enumerate(self.spec.streams):
            accepted += self.accept(stream, tables.get(name, []))
        # By time, ties by stream, then by input order: the sort is stable.
        accepted.sort(key=lambda arrival: (arrival.time, arrival.stream))
        results: list[Result] = []
        if self.spec.ties == "instant":
            for _, instant in itertools.groupby(accepted, key=lambda arrival: arrival.time):
                results += self.take_instant(list(instant))
        else:
            for arrival in accepted:
                results += self.take(arrival)
        self.rows_out += len(results)
        self.importance_out += sum(importance for _, importance in results)
        return results

    def accept(self, stream: int, rows: Sequence[Row]) -> Iterator[Arrival]:
        time_column = self.spec.time_columns[stream]
        importances = self.spec.importance_columns
        for values in rows:
            number = self.counts["rows_in", stream]
            self.counts["rows_in", stream] += 1
            time = plain(values[time_column])
            importance = 1.0 if importances is None else values[importances[stream]]
            reason = None
            if time is None:
                reason = "null_time"
            elif isinstance(values[time_column], int) and abs(time) >= TIME_LIMIT:
                reason = "time_range"
            elif importance is None or not 0 < importance < math.inf:
                reason = "importance"
            if reason is None:
                yield Arrival(stream, number, time, float(importance), values)
            else:
                self.counts["rejected", stream] += 1
                self.rejected_by_reason[reason] += 1

    # What is still awaited: a tuple before the bound comes too late.
    def bound(self) -> float:
        if self.watermark is not None:
            return self.watermark
        return -math.inf if self.clock is None else self.clock - length(self.spec.lateness_window)

    def too_late(self, arrival: Arrival) -> bool:
        """Move the clock to this arrival; an arrival before the bound is dropped and counted."""
        self.clock = arrival.time if self.clock is None else max(self.clock, arrival.time)
        if arrival.time < self.bound():
            self.counts["too_late", arrival.stream] += 1
            return True
        return False

    def take(self, arrival: Arrival) -> list[Result]:
        """Expire, probe, admit."""
        if self.too_late(arrival):
            return []
        self.expire_by_time()
        pools = [
            [arrival] if stream == arrival.stream else self.alive_of(stream)
            for stream in range(len(self.spec.streams))
        ]
        results = self.combine(pools)
        self.admit(arrival)
        return results

    def take_instant(self, instant: list[Arrival]) -> list[Result]:
        """Pairs inside the instant; admissions; then earlier survivors meet all the new."""
        instant = [arrival for arrival in instant if not self.too_late(arrival)]
        self.expire_by_time()
        earlier = list(self.alive)
        for arrival in instant:
            self.admit(arrival)
        survivors = [arrival for arrival in earlier if arrival in self.alive]
        pools = [
            [arrival for arrival in instant + survivors if arrival.stream == stream]
            for stream in range(len(self.spec.streams))
        ]
        # With two streams a combination with a new arrival is either inside the instant or
        # one survivor with one new arrival; a combination of survivors alone is old.
        return self.combine(pools, must_touch=instant)

    def combine(
        self, pools: list[list[Arrival]], must_touch: list[Arrival] | None = None
    ) -> list[Result]:
        results = []
        for combination in itertools.product(*pools):
            if must_touch is not None and not any(a in must_touch for a in combination):
                continue
            if is_result(self.spec, combination):
                importances = [arrival.importance for arrival in combination]
                value = output_importance(self.spec.output_importance, importances)
                results.append((tuple(arrival.row for arrival in combination), value))
        return results

    def alive_of(self, stream: int) -> list[Arrival]:
        return [arrival for arrival in self.alive if arrival.stream == stream]

    # --- leaving -------------------------------------------------------------------------

    def expire_by_time(self) -> None:
        """A tuple lives while bound - x.ts <= W_x: the last it could meet is at the bound."""
        for arrival in sorted(self.alive, key=lambda arrival: arrival.stream):
            window = self.spec.windows[arrival.stream]
            if window.kind != "rows" and self.bound() - arrival.time > length(window):
                self.leave(arrival, "expired")

    def expire_by_count(self, stream: int) -> None:
        """A tuple dies when W newer ones of its own stream have been taken, refused or not."""
        window = self.spec.windows[stream]
        for arrival in self.alive_of(stream):
            newer = self.taken_of_stream[stream] - arrival.taken_of_stream - 1
            if window.kind == "rows" and newer >= window.size:
                self.leave(arrival, "expired")

    def leave(self, arrival: Arrival, cause: str) -> None:
        self.alive.remove(arrival)
        self.counts[cause, arrival.stream] += 1

    # --- staying -------------------------------------------------------------------------

    def admit(self, arrival: Arrival) -> None:
        stream = arrival.stream
        arrival.taken, arrival.taken_of_stream = self.taken, self.taken_of_stream[stream]
        self.taken += 1
        self.taken_of_stream[stream] += 1
        self.expire_by_count(stream)
        if self.spec.windows[stream] == Window("rows", 0):
            # No newer tuple is needed for its death: it has met what was there, and takes no room.
            self.counts["expired", stream] += 1
            return
        pool = self.pool_of(stream)
        if len(pool) >= self.capacity(stream):
            victim = self.victim(pool, arrival)
            if victim is arrival:
                self.counts["refused", stream] += 1
                return
            self.leave(victim, "evicted")
        self.alive.append(arrival)

    def pool_of(self, stream: int) -> list[Arrival]:
        """Who shares the memory that a tuple of this stream would take."""
        return self.alive if self.spec.split in ("shared", "auto") else self.alive_of(stream)

    def capacity(self, stream: int) -> float:
        return capacity_of(self.spec, stream)

    def victim(self, pool: list[Arrival], arrival: Arrival) -> Arrival:
        policy = self.spec.policy_choice.name
        if not pool or policy == "until-expiry":
            return arrival
        if policy == "recent":
            return min(pool, key=lambda tuple_: tuple_.taken)
        if policy == "simp":
            # The arrival is the youngest, so it goes only if it is strictly lower.
            return min([*pool, arrival], key=lambda tuple_: (tuple_.importance, tuple_.taken))
        raise ValueError(f"no naive form of policy {policy!r}")

    def stats(self) -> dict[str, float]:
        """The account, under the names the engine uses: total, and `name_stream`."""
        now = Counter({("alive", s): len(self.alive_of(s)) for s in range(len(self.spec.streams))})
        counts = self.counts + now
        stats: dict[str, float] = {"rows_out": self.rows_out, "importance_out": self.importance_out}
        causes = ("alive", "expired", "evicted", "refused", "too_late", "rejected")
        for name in ("rows_in", *causes):
            per_stream = [counts[name, stream] for stream in range(len(self.spec.streams))]
            stats[name] = sum(per_stream)
            stats |= {f"{name}_{s}": n for s, n in zip(self.spec.streams, per_stream, strict=True)}
        stats |= {f"rejected_{reason}": n for reason, n in self.rejected_by_reason.items()}
        return stats


def join(tables: Mapping[str, Sequence[Row]], spec: JoinSpec) -> NaiveResult:
    """Replay finite streams in one push."""
    twin = NaiveJoin(spec)
    return NaiveResult(twin.push(tables), twin.stats())


def definition(tables: Mapping[str, Sequence[Row]], spec: JoinSpec) -> list[Result]:
    """The exact join with time windows straight from its definition: no state, no order."""
    twin = NaiveJoin(spec)
    pools = [list(twin.accept(i, tables.get(name, []))) for i, name in enumerate(spec.streams)]
    return twin.combine(pools)
