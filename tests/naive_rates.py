"""What VALUE believes of matches: hits per trial, fitted, in slow plain Python.

Law: the rules are those of `estimators.match_rate`, `rate_fit`, `look_ahead` and `partners_met`,
and none of that code is called. Sums are taken in the stated order (levels, ages, waits, upwards),
so that equal worth is equal to the last bit.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from naive_estimates import FADE

LEVELS, WAITS, AGES = 24, 10, 20
POWERS = (-2.0, -1.0, -0.5, 0.0, 0.25, 0.5, 0.75, 1.0)
CAUTION, ENOUGH = 4.0, 8.0  # hits
HOLD = 0.1  # more is a tuple worth at the end of its life, as long as nothing is known


def level_of(count: float) -> int:
    """One level for each count below 8, then two to a doubling."""
    if count < 7.5:
        return math.floor(count + 0.5)
    return min(23, 8 + math.floor(2 * math.log2(max(1.0, count / 8))))


def typical(level: int) -> float:
    return float(level) if level < 8 else 8.0 * 2.0 ** ((level - 8 + 0.5) / 2)


Cell = tuple[int, int, int]  # level, age, wait (those since the opposite stream after the others)
LEVEL, AGE, WAIT = range(3)


class Rates:
    """Hits per trial of the tuples of one stream: level x age x wait."""

    def __init__(self, span: int) -> None:
        self.span = span  # the longest window
        self.trials: dict[Cell, int] = defaultdict(int)
        self.hits: list[dict[int, int]] = [defaultdict(int) for _ in range(3)]
        self.old_hits: list[dict[int, float]] = [defaultdict(float) for _ in range(3)]
        # Waits since a key came on the own stream, then those since it came on the opposite one.
        self.factors = [[0.0] * LEVELS, [1.0] * AGES, [1.0] * WAITS * 2]
        self.believed = [[1.0] * LEVELS, [1.0] * AGES, [1.0] * WAITS * 2]
        self.ahead = [
            [1.0 + HOLD * age / AGES for age in range(AGES + 1)] for _ in range(2 * WAITS)
        ]
        self.renewed: dict[int, int] = defaultdict(int)  # by wait: own arrivals of its key
        self.lived = [0, 0]  # trials, and how long they took
        # Where more than keys is compared: what arrivals were promised, and the partners that they
        # found at once. And what a tuple that is promised 76 has met up to each age.
        self.met = [0, 0]
        self.promised = [0.0] * (AGES + 1)
        self.life = self.unit = 1  # the window, in which units times are kept, and the window
        self.share = 1.0  # as a part of the longest
        self.weight = 0.0  # arrivals of the stream, faded
        self.unfitted = 0  # places of waits that have no factor
        self.known = False
        self.clump_hits = self.clump_squares = self.run = 0.0
        self.last_arrival: int = 0

    # --- places ---------------------------------------------------------------------------

    def wait_ends(self) -> list[int]:
        """The first wait ends at a 256th of the span, each next one is twice as long."""
        return [max(1, self.span // 256) << place for place in range(WAITS - 1)]

    def wait_of(self, elapsed: int) -> int:
        return sum(elapsed >= end for end in self.wait_ends())

    @staticmethod
    def age_of(age: int, window: int) -> int:
        return max(0, min(AGES - 1, age * AGES // max(1, window)))

    # --- evidence -------------------------------------------------------------------------

    def spread(
        self,
        level: int,
        ages: tuple[int, int],
        waits: tuple[int, int],
        window: int,
        trials: int,
        side: int = 0,
    ) -> tuple[int, int]:
        """Trials over the cells that a tuple went through, each by its share of the way; whole
        numbers, so that up to any point they are rounded right. Returns the last age and wait."""
        age, wait = self.age_of(ages[0], window), self.wait_of(waits[0])
        older = [-(-(place + 1) * window // AGES) for place in range(age, AGES - 1)]
        longer = self.wait_ends()[wait:]
        by_age = [share for end in older if (share := share_of(end, ages)) < 1.0]
        by_wait = [share for end in longer if (share := share_of(end, waits)) < 1.0]
        done = 0
        for share in [*sorted({*by_age, *by_wait}), 1.0]:
            place = sum(other < share for other in by_age), sum(s < share for s in by_wait)
            upto = int(trials * share + 0.5)
            self.trials[level, age + place[0], side * WAITS + wait + place[1]] += upto - done
            done = upto
        return age + len(by_age), side * WAITS + wait + len(by_wait)

    def hit(self, level: int, age: int, wait: int, arrival: int) -> None:
        for feature, place in enumerate((level, age, wait)):
            self.hits[feature][place] += 1
        self.run = self.run + 1.0 if self.last_arrival == arrival else 1.0
        self.last_arrival = arrival
        self.clump_hits += 1.0
        self.clump_squares += 2.0 * self.run - 1.0

    def fade(self) -> None:
        self.weight *= FADE
        keep = FADE if self.clump_hits >= 1000.0 else 1.0
        if keep < 1.0:
            self.lived = [number * 4 // 5 for number in self.lived]
            self.met = [number * 4 // 5 for number in self.met]
            for wait in self.renewed:
                self.renewed[wait] = self.renewed[wait] * 4 // 5
        self.clump_hits *= keep
        self.clump_squares *= keep
        for feature in range(3):
            for place in {*self.hits[feature], *self.old_hits[feature]}:
                self.old_hits[feature][place] = self.hits_at(feature, place) * keep
            self.hits[feature].clear()
        if keep < 1.0:
            for cell in self.trials:
                self.trials[cell] = self.trials[cell] * 4 // 5

    def hits_at(self, feature: int, place: int) -> float:
        return self.old_hits[feature].get(place, 0.0) + self.hits[feature].get(place, 0)

    def cells(self) -> list[tuple[Cell, float]]:
        found = {cell: float(trials) for cell, trials in self.trials.items()}
        return sorted((cell, trials) for cell, trials in found.items() if trials > 0.0)

    # --- fitting --------------------------------------------------------------------------

    def fit(self, opposite_weight: float, has_shadows: bool, keyless: bool) -> None:
        cells = self.cells()
        # Where more than equal keys is compared, tuples that have met nobody have no wait.
        self.unfitted = 0 if has_shadows else WAITS
        for _ in range(2):
            for feature in (AGE, WAIT):
                expected = self.expected(feature, cells)
                scale = self.excess(feature, expected)
                few = 8.0 if feature == WAIT else 1.0
                self.factors[feature] = [
                    (self.hits_at(feature, place) + few) / (scale * hits + few)
                    if self.is_fitted(feature, place)
                    else 1.0
                    for place, hits in enumerate(expected)
                ]
            expected = self.expected(LEVEL, cells)
            hits = [self.hits_at(LEVEL, level) for level in range(LEVELS)]
            mean = (added(hits) + 1.0) / (added(expected) + opposite_weight + 1.0)
            few = 1.0 if has_shadows else 200.0 if keyless else 8.0
            self.factors[LEVEL] = [
                (hit + few) / (trials + few / mean)
                for hit, trials in zip(hits, expected, strict=True)
            ]
        clump = math.sqrt(self.clump_squares / self.clump_hits) if self.clump_hits > 0 else 1.0
        # Each is judged against what is believed of those before; the level comes last.
        self.judge_factor(WAIT, self.expected(WAIT, cells), clump)
        expected = self.expected(AGE, cells, believed=(WAIT,))
        self.known = self.judge_factor(AGE, expected, clump) >= ENOUGH * clump
        expected = self.expected(LEVEL, cells, believed=(AGE, WAIT))
        if not has_shadows:
            self.promise(expected, keyless)
        is_known = self.judge_level(expected, clump, opposite_weight)
        self.look_ahead(cells, is_known and (has_shadows or self.known))

    def promise(self, trials_of: list[float], keyless: bool) -> None:
        """How many partners tuples that are promised 76 have met, by age."""
        hits = added([self.hits_at(LEVEL, level) for level in range(LEVELS)])
        trials, time = self.lived
        arrivals, at_once = self.met
        weights = [1.0 if keyless else (typical(level) + 1.0) / 76.0 for level in range(LEVELS)]
        expected = added([t * weight for t, weight in zip(trials_of, weights, strict=True)])
        each = trials * float(self.life // self.unit) / max(1, time) / AGES
        each *= hits / expected if expected > 0 else 0.0
        self.promised = [(1.0 if keyless else 76.0) * (at_once / max(1, arrivals))]
        for age in range(AGES):
            self.promised.append(self.promised[age] + each * self.believed[AGE][age])

    def level_by_met(self, met: float, age: int, base: float | None) -> int:
        """The level of a tuple that has met so many partners, beside what others of a place of ages
        before its own have met; `base` is what its key promises."""
        at = max(0.0, float(min(age, self.life)) / self.life * AGES - 1.0)
        first = min(AGES - 1, int(at))
        here, later = self.promised[first], self.promised[first + 1]
        promised = here + min(1.0, at - first) * (later - here)
        if base is not None:
            return level_of(base * (met + 1.0) / (promised * base / 76.0 + 1.0) - 1.0)
        return level_of(76.0 * (met + 1.0) / (promised + 1.0))

    def expected(
        self, feature: int, cells: list[tuple[Cell, float]], believed: Sequence[int] = ()
    ) -> list[float]:
        """Hits at each place as the two other factors expect them; for LEVEL, weighed trials."""
        expected = [0.0] * len(self.factors[feature])
        for cell, hits in cells:
            for other in range(3):
                if other != feature:
                    factors = self.believed if other in believed else self.factors
                    hits *= factors[other][cell[other]]
            expected[cell[feature]] += hits
        return expected

    def is_fitted(self, feature: int, place: int) -> bool:
        return feature != WAIT or place >= self.unfitted

    def excess(self, feature: int, expected: list[float]) -> float:
        places = [place for place in range(len(expected)) if self.is_fitted(feature, place)]
        hits = added([self.hits_at(feature, place) for place in places])
        total = added([expected[place] for place in places])
        return hits / total if hits > 0 and total > 0 else 1.0

    def judge_level(self, trials: list[float], clump: float, opposite_weight: float) -> bool:
        """Shrunk towards the power of the count that explains the hits best, the less willingly
        the further it is from 1; was enough seen?"""
        hits = [self.hits_at(LEVEL, level) for level in range(LEVELS)]
        total = added(hits)
        power, scale, best = 0.0, 1.0 / max(1.0, opposite_weight), -math.inf
        if total < ENOUGH * clump:
            promised = added([t * (typical(level) + 0.5) * scale for level, t in enumerate(trials)])
            scale *= min(1.0, (total + CAUTION * clump) / (promised + CAUTION * clump))
        for candidate in POWERS if total >= ENOUGH * clump else ():
            plain = [(typical(level) + 0.5) ** candidate for level in range(LEVELS)]
            sum_expected = added([t * p for t, p in zip(trials, plain, strict=True)])
            fit = added([hit * math.log(p) for hit, p in zip(hits, plain, strict=True)])
            fit = (fit - total * math.log(sum_expected)) / clump - 2.0 * abs(1.0 - candidate)
            if fit > best:
                power, scale, best = candidate, total / sum_expected, fit
        plain = [scale * (typical(level) + 0.5) ** power for level in range(LEVELS)]
        expected = [t * p for t, p in zip(trials, plain, strict=True)]
        trust = self.trust(LEVEL, expected, 1.0, clump)
        self.believed[LEVEL] = [
            p * (1.0 + trust * ((hit + CAUTION * clump) / (e + CAUTION * clump) - 1.0))
            for p, hit, e in zip(plain, hits, expected, strict=True)
        ]
        return total >= ENOUGH * clump

    def judge_factor(self, feature: int, expected: list[float], clump: float) -> float:
        """Shrunk towards 1; returns the hits expected where the fewest are."""
        scale = self.excess(feature, expected)
        trust = self.trust(feature, expected, scale, clump)
        caution = CAUTION * clump
        for place, e in enumerate(expected):
            if not self.is_fitted(feature, place):
                continue
            run = WAITS if feature == WAIT else len(expected)
            beside = [p for p in (place - 1, place + 1) if p >= 0 and p // run == place // run]
            beside = [p for p in beside if p < len(expected)]
            near_hits, near_expected = caution, caution
            for other in beside:
                near_hits += self.hits_at(feature, other)
                near_expected += scale * expected[other]
            hits = self.hits_at(feature, place) + caution * (near_hits / near_expected)
            self.believed[feature][place] = 1.0 + trust * (hits / (scale * e + caution) - 1.0)
        return min(scale * e for e in expected)

    def trust(self, feature: int, expected: list[float], scale: float, clump: float) -> float:
        """How far the differences are more than noise would make them."""
        seen = surprise = 0.0
        for place, unscaled in enumerate(expected):
            e = scale * unscaled
            if e > 0.0 and self.is_fitted(feature, place):
                hits = self.hits_at(feature, place)
                seen += 1.0
                surprise += (hits - e) ** 2 / (e + CAUTION * clump) / clump
        by_chance = seen + math.sqrt(2.0 * seen)  # and a standard deviation
        return max(0.0, 1.0 - by_chance / surprise) if surprise > 0.0 else 0.0

    # --- what lies ahead ------------------------------------------------------------------

    def look_ahead(self, cells: list[tuple[Cell, float]], is_known: bool) -> None:
        """The best mean of age x wait from each pair on, once as if keys did not come again and
        once as if a tuple whose key comes moved on to a new wait; the better one counts."""
        renews = any(factor != 1.0 for factor in self.believed[WAIT])
        per_trial = self.own_per_trial(cells)
        stay = [(0.0, 0.0), (0.0, 0.0)]  # by side, what a new wait brings and how long
        for _ in range(3 if renews else 0):
            for side in range(2):
                stay[side] = self.best_mean(side * WAITS, None, per_trial, stay)
        for place in range(2 * WAITS):
            for age in range(AGES + 1):
                at = min(AGES - 0.5, float(age)) / AGES
                best = mean_of(self.best_mean(place, at, None, stay))
                if renews:
                    best = max(best, mean_of(self.best_mean(place, at, per_trial, stay)))
                if not is_known:
                    best *= 1.0 + HOLD * age / AGES
                self.ahead[place][age] = best

    def own_per_trial(self, cells: list[tuple[Cell, float]]) -> PerTrial:
        by_wait = [0.0] * WAITS * 2
        total = hits = 0.0
        for (level, _, wait), trials in cells:
            by_wait[wait] += trials
            total += trials
            hits += trials * self.believed[LEVEL][level]
        mean = sum(self.renewed.values()) / max(1.0, total)
        own = [
            (self.renewed.get(wait, 0) + 2.0) / (trials + 2.0 / mean) if mean > 0.0 else 0.0
            for wait, trials in enumerate(by_wait)
        ]
        trials, time = self.lived
        in_window = trials * float(self.life // self.unit) / time if time > 0 else 0.0
        return PerTrial(hits / max(1.0, total), own, in_window)

    def best_mean(
        self,
        place: int,
        at: float | None,
        per_trial: PerTrial | None,
        stay: list[tuple[float, float]],
    ) -> tuple[float, float]:
        """Factors earned and the time that it takes, up to where their ratio is best."""
        side, wait = place // WAITS, place % WAITS
        begun = 0.75 * 2.0**wait / 256 if wait > 0 else 0.5 / 256
        begun = 0.0 if at is None else begun
        life = 1.0 if at is None else 1.0 - at
        total = length = spent = best = 0.0
        alone, best_way = 1.0, (0.0, 0.0)
        wide = 1.0 / 256 / self.share
        while length < 0.999999 * life and alone > 0.01:
            time = min(wide, 1.0 / AGES, life - length)
            middle = length + 0.5 * time
            waited = (begun + middle * self.share) * 256
            its = side * WAITS + sum(waited >= 2.0**end for end in range(WAITS - 1))
            aged = (
                1.0 if at is None else self.believed[AGE][min(AGES - 1, int((at + middle) * AGES))]
            )
            if per_trial is None:
                total += time * self.believed[WAIT][its] * aged
                length += time
                spent = length
            else:
                rate = self.believed[WAIT][its] * aged
                hits = per_trial.hits * rate * per_trial.in_window * time
                own = per_trial.own[its] * per_trial.in_window * time
                gone = (hits + own) / (1.0 + hits + own)
                total += alone * time * rate / (1.0 + hits + own)
                spent += alone * (1.0 - 0.5 * gone) * time
                for to, (brings, lasts) in enumerate(stay):
                    if lasts > 0.0:
                        moved = alone * (hits if to == 1 else own) / (1.0 + hits + own)
                        stays = min(lasts, life - length)
                        total += moved * brings * stays / lasts * aged
                        spent += moved * stays
                alone *= 1.0 - gone
                length += time
            if total / spent > best:
                best, best_way = total / spent, (total, spent)
            wide *= 1.5
        return best_way


@dataclass
class PerTrial:
    """Of the tuples of a stream: hits, and own arrivals by wait, and trials in a window."""

    hits: float
    own: list[float]
    in_window: float


def mean_of(way: tuple[float, float]) -> float:
    return way[0] / way[1] if way[1] > 0.0 else 0.0


def share_of(end: int, way: tuple[int, int]) -> float:
    """Where on its way from one number to another something passes `end`."""
    return (end - way[0]) / (way[1] - way[0]) if way[1] > way[0] else 1.0


def added(numbers: Sequence[float]) -> float:
    """The sum from left to right, which `sum` of newer Pythons is not."""
    total = 0.0
    for number in numbers:
        total += number
    return total
