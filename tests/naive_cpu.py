"""The slow, obvious twin of a join under a CPU budget: gedik2005 over lists of dicts.

It is `naive.NaiveJoin` whose probes ask a `Budget` which tuples of the opposite window they may
look at. The budget keeps, for each side and basic window, plain numbers in dicts, and plans by
sorting a list of all (side, basic window). Where the engine counts comparisons by index, the twin
says what one is: see `comparisons_with`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

import naive
from naive import Arrival, NaiveJoin, Result, length, missing, plain
from naive_policies import chance

from tidegate.spec import Cpu, Equal, JoinSpec, Overlap
from tidegate.state.settings import index_of

SAMPLING = 0xA0761D6478BD642F


def total(values: Iterable[float]) -> float:
    """Added one after the other; the built-in sum rounds in another way."""
    return reduce(lambda a, b: a + b, values, 0.0)


class Cell:
    """A basic window: what was seen of it, and the share of it that probes look at."""

    def __init__(self) -> None:
        self.tries = self.comparisons = self.hits = self.worth = 0.0
        self.old_comparisons = self.old_worth = 0.0
        self.share = 1.0


class Budget:
    """Fuel, r, the basic windows of all sides and the plan for them."""

    def __init__(self, cpu: Cpu, lengths: list[int], basic: int, every: int, rate: float) -> None:
        self.cpu, self.lengths = cpu, lengths
        self.basic, self.every, self.rate = basic, every, rate
        self.sides = [[Cell() for _ in range(1 + math.ceil(w / basic))] for w in lengths]
        self.orders = [list(range(len(cells))) for cells in self.sides]
        self.streams = range(len(lengths))
        self.probes = [0.0 for _ in lengths]
        self.most = self.fuel = rate * every
        self.now: int | None = None
        self.period = 0
        self.fraction = 1.0
        self.wanted = 0.0
        self.probed = self.probed_before = 0.0
        self.allowed = math.inf
        self.denied = 0.0
        self.others, self.stood, self.missed = ([0.0 for _ in lengths] for _ in range(3))
        self.skipped = [0.0 for _ in lengths]
        self.made = [0 for _ in lengths]

    # --- Algorithm 1 -----------------------------------------------------------------------

    def grant(self, clock: int) -> None:
        if self.now is None:
            self.now, self.period = clock, clock // self.every
        if clock > self.now:
            self.fuel = min(self.most, self.fuel + self.rate * (clock - self.now))
            self.now = clock
        if clock // self.every > self.period:
            growth = boost = self.cpu.boost
            if self.wanted:
                beta = self.rate * self.every / self.wanted
                growth = min(beta, max(boost, beta / boost))
            self.fraction = min(1.0, self.fraction * growth)
            for _ in range(min(1000, clock // self.every - self.period - 1)):
                self.fraction = min(1.0, self.fraction * self.cpu.boost)
            self.fraction = max(2.0**-10, self.fraction)
            self.wanted, self.period = 0.0, clock // self.every
            self.probed, self.probed_before = 0.0, self.probed
            self.plan()

    # --- Algorithms 2 and 4, and the knapsack ------------------------------------------------

    def plan(self) -> None:
        everything = [(side, j) for side in self.streams for j in range(len(self.sides[side]))]
        compared = total(self.sides[side][j].comparisons for side, j in everything)
        # What looks at everything find in a period, by what looks at each basic window found.
        of_full = {
            name: total(
                self.probes[side] / cell.tries * getattr(cell, name)
                for side, cells in enumerate(self.sides)
                for cell in cells
                if cell.tries
            )
            for name in ("comparisons", "hits", "worth")
        }
        doubt, mean, unit = 1.0, 0.0, 1.0
        if of_full["hits"] and of_full["comparisons"]:
            # comparisons that give four results
            doubt = 4.0 * (of_full["comparisons"] / of_full["hits"])
            mean = of_full["worth"] / of_full["comparisons"]
            unit = of_full["worth"] / of_full["hits"]
        density, amount = {}, {}
        for side, cells in enumerate(self.sides):
            costs = [cell.comparisons / cell.tries for cell in cells if cell.comparisons]
            usual = total(costs) / len(costs) if costs else 1.0
            rough = []
            for j, cell in enumerate(cells):
                if cell.old_comparisons:
                    # Old evidence goes where the recent one is three standard deviations off.
                    times = cell.comparisons / cell.old_comparisons
                    expected = times * cell.old_worth
                    variance = unit * (expected * (1.0 + times) + unit)
                    if (cell.worth - expected) ** 2 > 9.0 * variance:
                        cell.old_comparisons = cell.old_worth = 0.0
                both = cell.worth + cell.old_worth, cell.comparisons + cell.old_comparisons
                rough.append((both[0] + doubt * mean) / (both[1] + doubt))
                cost = cell.comparisons / cell.tries if cell.comparisons else usual
                amount[side, j] = cost * self.probes[side]
            for j, cell in enumerate(cells):
                # Doubt again, now towards the two neighbours; an end is its own neighbour.
                near = (rough[max(j - 1, 0)] + rough[min(j + 1, len(cells) - 1)]) / 2
                both = cell.worth + cell.old_worth, cell.comparisons + cell.old_comparisons
                expected = (both[0] + doubt * near) / (both[1] + doubt)
                # What was seen lately counts in full, and 16 results of what is expected.
                trust = 4.0 * doubt
                density[side, j] = (cell.worth + trust * expected) / (cell.comparisons + trust)
        learned = self.cpu.order == "learned" and compared > 0
        for side, cells in enumerate(self.sides):
            self.orders[side] = list(range(len(cells)))
            if learned:
                self.orders[side].sort(key=lambda j: -density[side, j])
        of_side = [
            total(amount[side, j] for j in range(len(self.sides[side]))) for side in self.streams
        ]
        if self.fraction == 1.0:
            for side, j in everything:
                self.sides[side][j].share = 1.0
        elif self.cpu.direction == "adaptive" and learned:
            items = [(side, j) for side in self.streams for j in self.orders[side]]
            items.sort(key=lambda item: -density[item])
            self.fill(items, amount, self.fraction * total(of_side))
        elif self.cpu.direction == "even" or not compared:
            for side in self.streams:
                items = [(side, j) for j in self.orders[side]]
                self.fill(items, amount, self.fraction * of_side[side])
        else:
            o = [
                total(amount[side, j] * density[side, j] for j in range(len(self.sides[side])))
                / of_side[side]
                if of_side[side]
                else 0.0
                for side in self.streams
            ]
            left = self.fraction * total(of_side)
            for side in sorted(self.streams, key=lambda side: -o[side]):
                budget = min(left, of_side[side])
                left -= budget
                self.fill([(side, j) for j in self.orders[side]], amount, budget)
        self.probes = [number / 4 for number in self.probes]
        for side, j in everything:
            cell = self.sides[side][j]
            cell.old_comparisons = 0.95 * cell.old_comparisons + 0.75 * cell.comparisons
            cell.old_worth = 0.95 * cell.old_worth + 0.75 * cell.worth
            for name in ("tries", "comparisons", "hits", "worth"):
                setattr(cell, name, getattr(cell, name) / 4)

    def fill(self, items: list[tuple[int, int]], amount: dict[Any, float], left: float) -> None:
        for side, j in items:
            enough = amount[side, j] <= left
            self.sides[side][j].share = 1.0 if enough else left / amount[side, j]
            left = left - amount[side, j] if enough else 0.0

    def draw(self, seed: int, stream: int, taken: int) -> tuple[bool, float, float]:
        """Whether a probe asks for whole windows; which share of that the plan asks for; for how
        many others it stands."""
        self.probed += 1.0
        likely = min(self.cpu.sample * self.fraction, 16.0 / max(1.0, self.probed_before))
        sampled = chance(seed ^ SAMPLING, stream, taken) < likely
        spare = self.fuel > self.most / 2
        self.allowed = math.inf
        if (self.fraction < 1.0 or not spare) and self.probed_before and not sampled:
            self.allowed = 8.0 * self.fuel / self.probed_before
        planned = self.fraction if spare and not sampled else 1.0
        weight = (1 - likely) / likely if sampled and not spare else 0.0
        return sampled or spare, planned, weight

    # --- Algorithm 3 -----------------------------------------------------------------------

    def window_of(self, side: int, now: int, time: int) -> int:
        """As many as there are basic windows if the tuple is older than all of them."""
        j = now // self.basic - time // self.basic
        return min(max(j, 0), len(self.sides[side]))

    def is_asked(self, side: int, now: int, time: int) -> bool:
        """Whether a tuple is in the youngest part of its basic window that the plan asks for."""
        j = self.window_of(side, now, time)
        if j == len(self.sides[side]):
            return False
        share = self.sides[side][j].share
        if share in (0.0, 1.0):
            return share == 1.0
        return time % self.basic >= self.asked_from(side, now, j)

    def asked_from(self, side: int, now: int, j: int) -> int:
        """The offset in a basic window, taken in part, from which on it is asked for."""
        share = self.sides[side][j].share
        start = (now // self.basic - j) * self.basic
        alive_from = min(self.basic, max(0, now - self.lengths[side] - start))
        alive_until = min(self.basic, now - start + 1)
        room = max(0, alive_until - alive_from)
        return alive_until - math.floor(share * room + 0.5)

    def is_asked_at_all(self, side: int, now: int, j: int) -> bool:
        """Whether any moment of a basic window is asked for."""
        share = self.sides[side][j].share
        if share in (0.0, 1.0):
            return share == 1.0
        return self.asked_from(side, now, j) < self.basic

    def choose(
        self,
        side: int,
        now: int,
        full: bool,
        planned: float,
        costs: list[tuple[int, int]],
        stream: int,
        counts: bool = True,
        in_order: bool = False,
    ) -> tuple[list[bool], set[int]]:
        """Which of the tuples (given by time and comparisons) are looked at by one of `stream`, and
        which basic windows are looked at whole, which is evidence if it `counts`.

        Chains that are `in_order` are not walked beyond the oldest basic window that is asked for;
        what is passed behind it is what whole looks at it took.
        """
        self.probes[side] += 1.0
        windows = [self.window_of(side, now, time) for time, _ in costs]
        asked = [full or self.is_asked(side, now, time) for time, _ in costs]
        taken: set[int] = set()
        whole: set[int] = set()
        reach = max(
            (j for j in range(len(self.sides[side])) if full or self.is_asked_at_all(side, now, j)),
            default=-1,
        )
        made = 0
        for j in self.orders[side]:
            cell = self.sides[side][j]
            wanted, skipped = 0, 0.0
            for window, is_asked, (_, number) in zip(windows, asked, costs, strict=True):
                if window == j:
                    wanted += number if is_asked else 0
                    skipped += 0 if is_asked else number
            cell_passed = cell.comparisons / cell.tries if cell.tries else 0.0
            self.wanted += planned * wanted
            if in_order and j > reach:
                skipped = cell_passed
            too_much = made > 0 and made + wanted > self.allowed
            if wanted and (self.fuel <= 0 or too_much):
                skipped += wanted
                if cell.comparisons:
                    expected = wanted * (cell.hits / cell.comparisons)
                    self.denied += expected / (len(self.sides) - 1)
            else:
                self.fuel -= wanted
                made += wanted
                self.made[stream] += wanted
                taken.add(j)
                if full or cell.share == 1.0:
                    whole.add(j)
                    cell.tries += 1.0 if counts else 0.0
                    cell.comparisons += wanted if counts else 0
            self.skipped[stream] += skipped
        return [a and j in taken for a, j in zip(asked, windows, strict=True)], whole

    def lost(self) -> float:
        """Results that were not found: denied by the tank, or outside of the plan."""
        outside = [
            missed / stood * others
            for missed, stood, others in zip(self.missed, self.stood, self.others, strict=True)
            if stood
        ]
        return self.denied + total(outside)

    def learn(
        self, side: int, now: int, time: int, whole: set[int], worth: float, weight: float
    ) -> None:
        """A tuple of `time` gave a result; a sampled probe stands for `weight` others."""
        j = self.window_of(side, now, time)
        if j in whole:
            if not self.is_asked(side, now, time):
                self.missed[side] += weight
            self.sides[side][j].hits += 1.0
            self.sides[side][j].worth += worth


def columns_of(predicate: Any, stream: int) -> Sequence[str]:
    columns = predicate.columns[stream]
    return (columns,) if isinstance(columns, str) else columns


def can_match(spec: JoinSpec, arrival: Arrival) -> bool:
    """NULL matches nothing, and NaN equals nothing: such a tuple is not compared at all."""
    for predicate in spec.predicates:
        for column in columns_of(predicate, arrival.stream):
            value = arrival.values[column]
            if value is None or (not isinstance(value, list) and missing(value)):
                return False
    return True


def comparisons_with(spec: JoinSpec, arrival: Arrival, other: Arrival) -> int:
    """How many comparisons the index of the other stream makes with one of its tuples."""
    if not can_match(spec, other):
        return 0
    rows = [x.values for x in sorted((arrival, other), key=lambda x: x.stream)]
    kind = index_of(spec, other.stream)
    if kind == "hash":
        equalities = [p for p in spec.predicates if isinstance(p, Equal)]
        return int(all(naive.predicate_holds(p, rows) for p in equalities))
    if kind == "inverted":
        sets = next(p for p in spec.predicates if not isinstance(p, Equal))
        one, two = (row[name] for row, name in zip(rows, sets.columns, strict=True))
        if isinstance(sets, Overlap):
            common = {plain(i) for i in one if not missing(i)} & {
                plain(i) for i in two if not missing(i)
            }
        else:
            common = set(naive.weights(one)) & set(naive.weights(two))
        return len(common)
    return 1


def budget_of(spec: JoinSpec, nanoseconds: int = 1, second: int = 1) -> Budget:
    """The budget that a spec asks for, `second` units of time in a second."""
    lengths = [length(window) // nanoseconds for window in spec.windows]
    assert spec.cpu is not None
    basic, every = spec.cpu.windows["basic_window"], spec.cpu.windows["adapt_every"]
    return Budget(
        spec.cpu,
        lengths,
        -(-max(1, *lengths) // 20) if basic is None else length(basic) // nanoseconds,
        -(-max(1, *lengths) // 4) if every is None else length(every) // nanoseconds,
        2.0**60 if spec.cpu.keep_up else (spec.cpu.comparisons_per_second or 0.0) / second,
    )


class NaiveCpuJoin(NaiveJoin):
    """The window join under a CPU budget, with or without a budget of memory.

    `nanoseconds` per unit of time: 1000 unless times are integers, as in the engine, which cuts
    basic windows at whole units.
    """

    def __init__(self, spec: JoinSpec, nanoseconds: int = 1) -> None:
        super().__init__(spec)
        self.nanoseconds = nanoseconds
        self.second = 1 if nanoseconds == 1 else 10**9 // nanoseconds
        self.budget = budget_of(spec, nanoseconds, self.second)
        self.newest = [-math.inf, -math.inf]  # of the tuples that were ever retained
        self.late: set[int] = set()  # who came behind a younger tuple of its stream
        self.kept_alive: list[Arrival] = []  # so that nobody gets the id of one that has gone

    def set_fuel(self, per_second: float) -> None:
        """So many comparisons per second of event time from now on."""
        budget = self.budget
        budget.rate = per_second / self.second
        budget.most = budget.rate * budget.every
        budget.fuel = min(budget.fuel, budget.most)

    def take(self, arrival: Arrival) -> list[Result]:
        """Expire, probe what the budget allows, admit."""
        if self.too_late(arrival):
            return []
        self.expire_by_time()
        results = self.probe(arrival) if can_match(self.spec, arrival) else []
        self.admit(arrival)
        if arrival in self.alive:
            if arrival.time < self.newest[arrival.stream]:
                self.late.add(id(arrival))
                self.kept_alive.append(arrival)
            self.newest[arrival.stream] = max(self.newest[arrival.stream], arrival.time)
        return results

    def candidates(self, side: int, time: int) -> list[Arrival]:
        """What is retained, in the order in which the engine looks at it.

        Without an index basic window by basic window, the oldest first, unless the arrival comes
        behind a younger basic window.
        """
        found, basic = self.alive_of(side), self.budget.basic * self.nanoseconds
        if (
            index_of(self.spec, side) == "nested-loop"
            and time // basic >= self.newest[side] // basic
        ):
            found.sort(key=lambda x: x.time // basic)
        return found

    def probe(self, arrival: Arrival) -> list[Result]:
        assert self.clock is not None
        budget, stream, side = self.budget, arrival.stream, 1 - arrival.stream
        now = arrival.time // self.nanoseconds
        budget.grant(self.clock // self.nanoseconds)
        taken = self.taken_of_stream[stream]
        full, planned, weight = budget.draw(self.spec.seed, stream, taken)
        found = self.candidates(side, arrival.time)
        costs = [
            (x.time // self.nanoseconds, comparisons_with(self.spec, arrival, x)) for x in found
        ]
        budget.stood[side] += weight
        budget.others[side] += 0.0 if full else 1.0
        indexed = index_of(self.spec, side) != "nested-loop"
        in_order = indexed and not any(id(x) in self.late for x in self.alive)
        looked_at, whole = budget.choose(side, now, full, planned, costs, stream, True, in_order)
        results = []
        for x, is_looked_at in zip(found, looked_at, strict=True):
            pools = [[arrival], [x]] if stream == 0 else [[x], [arrival]]
            for result in self.combine(pools) if is_looked_at else ():
                time = x.time // self.nanoseconds
                budget.learn(side, now, time, whole, result[1], weight)
                results.append(result)
        return results

    def stats(self) -> dict[str, float]:
        return super().stats() | stats_of(self.budget, self.spec)


def stats_of(budget: Budget, spec: JoinSpec) -> dict[str, float]:
    """What became of the comparisons."""
    stats: dict[str, float] = {
        "comparisons": sum(budget.made),
        "skipped_comparisons": sum(map(round, budget.skipped)),
        "cpu_fraction": budget.fraction,
    }
    if budget.cpu.sample:
        stats["skipped_results_estimate"] = budget.lost()
    for name, made, skipped in zip(spec.streams, budget.made, budget.skipped, strict=True):
        stats |= {f"comparisons_{name}": made, f"skipped_comparisons_{name}": round(skipped)}
    return stats
