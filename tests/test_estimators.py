"""The estimators against what they estimate, recomputed from scratch.

Law: each estimator is fed a random stream and compared with the definition over the whole stream,
kept in a list. What only holds on average is checked with a margin and a fixed seed.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive import output_importance
from naive_estimates import faded
from standalone import Standalone

from tidegate.estimators import (
    age_curve,
    frequency,
    hashes,
    importance,
    key_lines,
    match_rate,
    rate_fit,
)
from tidegate.shed import groups, queue
from tidegate.shed.members import Needs
from tidegate.shed.members import empty as empty_members
from tidegate.windows.lifetime import NOTE, SLOT

age_curve = Standalone(age_curve)
frequency = Standalone(frequency)
hashes = Standalone(hashes)
importance = Standalone(importance)
match_rate = Standalone(match_rate)
rate_fit = Standalone(rate_fit)
key_lines = Standalone(key_lines)
groups = Standalone(groups)
queue = Standalone(queue)


pytestmark = pytest.mark.nojit

COMBINE = ("min", "max", "sum", "product", "mean")


def fed(book: frequency.Frequency, codes: list[int], lines: int) -> None:
    """A window of the last `lines` codes of stream 0; each key is let go at once."""
    for moment, code in enumerate(np.array(codes, np.int64)):
        while frequency.is_due(book, 0, moment - lines + 1):
            frequency.count_out(book, 0)
        key = frequency.find_or_add(book, code)
        frequency.hold(book.keys, key)
        frequency.log_line(book, 0, moment, key)
        frequency.let_go(book, key)


@given(st.lists(st.integers(-4, 12), max_size=80), st.integers(1, 9))
def test_a_log_counts_what_a_window_holds(codes: list[int], lines: int) -> None:
    book = frequency.empty(2, 2, lines, frequency.WINDOW, most_rare=64)
    fed(book, codes, lines)
    expected = Counter(codes[-lines:])
    assert book.book[0].rare == len(expected)
    assert not book.book[0].used
    frequency.give_up_log(book)
    assert book.pages[0].length == 0
    for code in np.arange(-4, 13):
        key = frequency.find_or_add(book, code)
        frequency.hold(book.keys, key)
        assert book.counts[key, 0] == expected[code]
        assert book.counts[key, 1] == 0.0
        frequency.let_go(book, key)


@given(st.lists(st.integers(0, 500), max_size=300), st.integers(16, 80))
def test_rare_keys_fade_when_their_table_is_full(codes: list[int], room: int) -> None:
    book = frequency.empty(2, 1, 1, frequency.FADED, most_rare=room)
    known: dict[int, float] = {}
    for code in codes:
        key = frequency.find_or_add(book, code)
        frequency.hold(book.keys, key)
        assert book.counts[key, 1] == known.get(code, 0.0)
        book.counts[key, 1] += 1.0
        count = float(book.counts[key, 1])
        lines = len(book.marks)
        if code not in known and 10 * (len(known) + 1) > 7 * lines:
            while 3 * len(known) > 2 * (7 * lines // 10):
                known = {c: faded(n) for c, n in known.items() if faded(n) >= 0.75}
        frequency.let_go(book, key)
        known[code] = count
        assert book.book[0].rare == len(known)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 1)), max_size=120))
def test_counts_survive_being_rare_and_growing(seen: list[tuple[int, int]]) -> None:
    book = frequency.empty(2, 1, 1, frequency.FADED, most_rare=1024)
    book = key_lines.with_lines(book, 4, book.marks[:0], book.tallies[:0])
    known: dict[int, list[float]] = {}
    for at, (code, stream) in enumerate(seen):
        while key_lines.needs_lines(book):
            book = key_lines.with_more(book)
        key = frequency.find_or_add(book, code)
        frequency.hold(book.keys, key)
        assert list(book.counts[key]) == known.get(code, [0.0, 0.0])
        book.counts[key, stream] += 1.0
        known[code] = list(map(float, book.counts[key]))
        frequency.let_go(book, key)
        if at % 11 == 10:
            frequency.fade(book)
            known = {c: [faded(n) for n in counts] for c, counts in known.items()}
            known = {c: counts for c, counts in known.items() if max(counts) >= 0.75}


def of_one_hash(number: int) -> list[int]:
    """Codes whose hashes are the same: those that the table cannot tell apart once they are rare.

    `hashes` mixes by steps that can be undone, so codes are computed from what they become.
    """
    word = (1 << 64) - 1
    codes = []
    for low in range(number):
        mixed = (0x1234_5678 << 32) | low
        for factor in (0xC4CEB9FE1A85EC53, 0xFF51AFD7ED558CCD):
            mixed = mixed * pow(factor, -1, 1 << 64) & word
            mixed ^= mixed >> 33
        codes.append(mixed - (1 << 64) if mixed >> 63 else mixed)
    return codes


SAME = of_one_hash(3)


@given(st.lists(st.tuples(st.integers(0, 8), st.booleans()), max_size=80))
def test_keys_of_one_hash_share_their_counts_only_while_they_are_rare(
    moves: list[tuple[int, bool]],
) -> None:
    codes = [*SAME, *range(6)]
    assert len({int(hashes.mark_of(np.int64(code))) for code in SAME}) == 1
    book = frequency.empty(2, 9, 1, frequency.FADED, most_rare=16)
    records: dict[int, int] = {}  # code: its key
    counts: dict[int, float] = {}
    rare: dict[int, float] = {}  # hash: the count of whoever became rare last
    for which, comes in moves:
        code = codes[which]
        mark = int(key_lines.mark_of(np.int64(code)))
        if comes and code not in records:
            records[code] = frequency.find_or_add(book, np.int64(code))
            frequency.hold(book.keys, records[code])
            counts[code] = rare.pop(mark, 0.0)
        if comes:
            counts[code] += 1.0
            book.counts[records[code], 1] += 1.0
        elif code in records:
            frequency.let_go(book, records.pop(code))
            rare[mark] = counts.pop(code)
        assert book.book[0].rare == len(rare)
        assert book.book[0].used == len(records)
        for known, key in records.items():
            assert frequency.find(book, np.int64(known)) == key
            assert book.counts[key, 1] == counts[known]
        for other in set(codes) - set(records):
            assert frequency.find(book, np.int64(other)) == frequency.FULL


@given(
    st.lists(st.floats(0.01, 1000.0), min_size=1, max_size=60),
    st.floats(0.01, 1000.0),
    st.sampled_from(COMBINE),
)
def test_expected_importance_is_near_the_mean_over_all(
    seen: list[float], own: float, kind: str
) -> None:
    book = importance.empty(2)
    for value in seen:
        importance.observe(book, 1, value)
    importance.summarise(book)
    expected = math.fsum(output_importance(kind, (own, other)) for other in seen) / len(seen)
    estimate = importance.expected(book, 1, COMBINE.index(kind), own)
    # Wrong only for those in the bin of the own importance, by at most the width of a bin: 2^(1/4).
    assert estimate == pytest.approx(expected, rel=2**0.25 - 1)


def test_what_results_were_worth_takes_the_place_of_the_expectation() -> None:
    """Importances go together: what is worth 8 meets 8, though most tuples are worth 1."""
    book = importance.empty(2)
    for value in [1.0] * 90 + [8.0] * 10:
        importance.observe(book, 1, value)
    importance.summarise(book)
    before = importance.worth(book, 0, COMBINE.index("min"), 8.0)
    assert before == importance.expected(book, 1, COMBINE.index("min"), 8.0)
    for _ in range(300):
        importance.earn(book, 0, COMBINE.index("min"), 8.0, 8.0)
    assert importance.worth(book, 0, COMBINE.index("min"), 8.0) == pytest.approx(8.0, rel=0.1)


def test_without_evidence_whom_it_meets_counts_as_much_as_itself() -> None:
    book = importance.empty(2)
    assert [importance.expected(book, 0, c, 3.0) for c in range(5)] == [3.0, 3.0, 6.0, 9.0, 3.0]


@given(
    st.lists(st.floats(0.01, 100.0), min_size=1, max_size=30),
    st.lists(st.floats(0.01, 100.0), min_size=2, max_size=10),
    st.sampled_from(COMBINE),
)
def test_more_importance_is_never_worth_less(
    seen: list[float], own: list[float], kind: str
) -> None:
    book = importance.empty(1)
    for value in seen:
        importance.observe(book, 0, value)
    importance.summarise(book)
    worth = [importance.expected(book, 0, COMBINE.index(kind), value) for value in sorted(own)]
    for lower, higher in itertools.pairwise(worth):
        assert lower <= higher * (1 + 1e-12)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8))
def test_rate_ahead_is_its_definition(curve: list[int]) -> None:
    p = np.array(curve, np.float64)
    worth, rising = np.zeros(len(p) + 1), np.zeros(len(p) + 1, np.int32)
    ending = np.zeros(len(p) + 1)
    age_curve.rate_ahead(p, worth, rising, ending)
    for i in range(len(p)):
        rates = [p[i:j].sum() / (j - i) for j in range(i + 1, len(p) + 1)]
        assert worth[i] == max(rates)
        assert bool(rising[i]) == (max(rates) > p[i])
        assert ending[i] >= worth[i]
    assert worth[len(p)] == 0


def watched(lives: list[list[float]]) -> age_curve.AgeCurve:
    curve = age_curve.empty(1, len(lives[0]), 4)
    curve.watch.limit = 4
    for life in lives:
        monitor = age_curve.begin(curve, 0, 0)
        curve.life[0, monitor] = life
        age_curve.end(curve, 0, monitor, True)
    return curve


def test_a_curve_is_learned_where_there_is_one_and_flat_where_there_is_none() -> None:
    generator = np.random.default_rng(0)
    rises = np.arange(10) / 5
    p = np.zeros(10)
    age_curve.estimate(watched(generator.poisson(rises, (200, 10)).tolist()), 0, p)
    assert p == pytest.approx(rises, abs=0.3)
    # Clumps: each life is lucky or not as a whole, and results come in tens.
    flat = 10.0 * generator.poisson(0.2, (100, 10))
    age_curve.estimate(watched(flat.tolist()), 0, p)
    assert p.std() < 0.5 * flat.mean(axis=0).std()


def test_there_are_never_more_monitors_than_allowed() -> None:
    curve = age_curve.empty(1, 5, 8)
    curve.watch.limit = 3
    begun = [age_curve.begin(curve, 0, 0) for _ in range(6)]
    assert begun == [0, 1, 2, -1, -1, -1]
    age_curve.end(curve, 0, 1, False)
    assert curve.watch[0].lives == 0
    assert age_curve.begin(curve, 0, 0) == 1


def rates_of(
    level: np.ndarray, age: np.ndarray, wait: np.ndarray, trials: np.ndarray, seed: int
) -> match_rate.MatchRate:
    """Rates fitted to hits that were drawn from a product of three factors."""
    rates = match_rate.empty(2, len(age))
    rates.weight[:] = 1000.0
    chance = level[:, None, None] * age[None, :, None] * wait[None, None, :]
    hits = np.random.default_rng(seed).poisson(trials * chance)
    rates.trials[0, : len(level)] = trials
    rates.hits[0, match_rate.LEVEL, : len(level)] = hits.sum(axis=(1, 2))
    rates.hits[0, match_rate.AGE, : len(age)] = hits.sum(axis=(0, 2))
    rates.hits[0, match_rate.WAIT, : len(wait)] = hits.sum(axis=(0, 1))
    rates.clumps[0, :2] = hits.sum()
    for _ in range(20):
        rate_fit.fit(rates)
    return rates


WAITS = np.ones(2 * match_rate.WAITS)
EVEN = np.full((10, 20, 2 * match_rate.WAITS), 500)


def test_rates_follow_counts_where_these_predict() -> None:
    level = 0.001 * np.arange(1, 11)
    rates = rates_of(level, np.ones(20), WAITS, EVEN, 1)
    assert rates.level_rate[0, :10] == pytest.approx(level, rel=0.15)
    assert rates.age_rate[0] == pytest.approx(np.ones(20), abs=0.1)
    assert rates.wait_rate[0] == pytest.approx(WAITS, abs=0.1)


def test_rates_are_flat_where_counts_say_nothing() -> None:
    rates = rates_of(np.full(10, 0.003), np.ones(20), WAITS, EVEN, 2)
    assert rates.level_rate[0, :10] == pytest.approx(np.full(10, 0.003), rel=0.1)


def test_what_age_explains_is_not_counted_twice() -> None:
    """A key's count grows with its age: on the diagonal both predict, in truth only age does."""
    age = np.linspace(0.1, 1.9, 20)
    places = np.arange(20) // 2
    trials = np.zeros((10, 20, 2 * match_rate.WAITS), np.int64)
    for spread, weight in ((0, 2000), (1, 1000), (2, 500)):
        for side in (-spread, spread):
            trials[np.clip(places + side, 0, 9), np.arange(20)] += weight
    rates = rates_of(np.full(10, 0.004), age, WAITS, trials, 3)
    level = rates.level_rate[0, :10]
    assert level == pytest.approx(np.full(10, level.mean()), rel=0.25)
    shape = rates.age_rate[0] / rates.age_rate[0].mean()
    # Places are drawn to their neighbours, so the ends of a slope come out less steep.
    assert shape == pytest.approx(age, abs=0.25)


def test_where_only_age_matters_what_lies_ahead_is_the_best_mean_of_the_curve() -> None:
    age = np.concatenate([np.linspace(0.2, 2.6, 12), np.full(8, 0.3)])
    rates = rates_of(np.full(10, 0.004), age, WAITS, EVEN, 6)
    worth, rising, ending = np.zeros(21), np.zeros(21, np.int32), np.zeros(21)
    age_curve.rate_ahead(rates.age_rate[0], worth, rising, ending)
    # Steps of time do not end where ages do.
    assert rates.ahead[0, 0, :20] == pytest.approx(worth[:20], rel=0.1)
    assert (rates.ahead[0] == rates.ahead[0, 0]).all()


def test_waits_since_the_own_and_since_the_opposite_stream_differ() -> None:
    """After a key came on the own stream only fresh tuples are met, after the opposite one all."""
    half = match_rate.WAITS
    wait = np.concatenate([np.full(half, 0.1), np.ones(half)])
    wait[0] = 8.0
    rates = rates_of(np.full(10, 0.004), np.ones(20), wait, EVEN, 5)
    own, opposite = np.split(rates.wait_rate[0], 2)
    assert own[0] > 5 * opposite.max()
    assert opposite.min() > 5 * own[1:].max()


def test_what_comes_once_is_not_expected_again() -> None:
    level = np.zeros(10)
    level[0] = 0.01
    rates = rates_of(level, np.ones(20), WAITS, EVEN, 4)
    assert rates.level_rate[0, 0] > 20 * rates.level_rate[0, 1]


@given(
    st.tuples(st.integers(0, 500), st.integers(0, 500)),
    st.tuples(st.integers(0, 500), st.integers(0, 500)),
    st.integers(0, 300),
)
def test_trials_are_spread_over_what_a_tuple_went_through(
    ages: tuple[int, int], waits: tuple[int, int], trials: int
) -> None:
    ages, waits = (min(ages), max(ages)), (min(waits), max(waits))
    rates = match_rate.empty(2, 20)
    rates.span[match_rate.SHORT_SPAN] = 400
    age, wait = match_rate.spread(rates, 0, 3, ages, waits, 0, 400, trials)
    counted = rates.trials[0, 3]
    assert counted.sum() == rates.trials.sum() == trials
    # What ends just where a place ends has not reached the next.
    assert age in {match_rate.age_place(max(0, ages[1] - n), 400, 20) for n in (0, 1)}
    assert wait in {match_rate.wait_of(max(0, waits[1] - n), 400) for n in (0, 1)}
    # Each share of the way is worth its share of the trials, up to rounding.
    steps = np.linspace(0.0, 1.0, 401)
    expected = np.zeros(counted.shape)
    for step in steps:
        at_age = int(ages[0] + step * (ages[1] - ages[0]))
        at_wait = int(waits[0] + step * (waits[1] - waits[0]))
        place = match_rate.age_place(at_age, 400, 20), match_rate.wait_of(at_wait, 400)
        expected[place] += trials / len(steps)
    assert np.abs(counted - expected).max() <= 2 + trials / 40


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=40))
def test_a_heap_gives_back_what_it_got_in_order(keys: list[tuple[int, int]]) -> None:
    start = 3  # not all heaps begin where the array does
    heaps, again = (
        queue.empty(start + len(keys) + 2, True),
        queue.empty(start + len(keys) + 2, True),
    )
    count = 0
    for order, (priority, basis) in enumerate(keys):
        count = queue.push(heaps, start, count, float(priority), float(basis), order, order)
    expected = sorted((p, b, order) for order, (p, b) in enumerate(keys))
    for old, new in zip(heaps, again, strict=True):
        new[:] = old
    queue.heapify(again, start, count)
    for some in (heaps, again):
        left, given_back = count, []
        while left:
            top = some.entries[start]
            given_back.append((top.priority, some.bases[start], int(top.order)))
            left = queue.pop(some, start, left)
        assert given_back == expected


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=60), st.booleans())
def test_a_group_has_its_first_at_the_root(steps: list[tuple[bool, int]], is_heap: bool) -> None:
    notes = np.zeros(len(steps) + 2, NOTE).view(np.recarray)
    needs = Needs(
        priority=False, basis=True, born=False, cost=False, key=False, met=False,
        last_met=False, links=True, below=is_heap,
    )  # fmt: skip
    slots = np.zeros(len(notes), SLOT).view(np.recarray)
    members = empty_members(slots, notes, needs)
    root, inside = groups.NOBODY, []
    for slot, (adds, number) in enumerate(steps):
        if adds or not inside:
            members.basis[slot], notes[slot].order = float(number) if is_heap else 1.0, slot
            root = groups.insert(members, root, slot)
            inside.append(slot)
        else:
            root = groups.remove(members, root, inside.pop(number % len(inside)))
        first = min(inside, key=lambda s: (members.basis[s], s), default=groups.NOBODY)
        assert root == first


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
def test_hashes_are_the_same_one_by_one(codes: list[int]) -> None:
    numbers = np.array(codes, np.int64)
    assert hashes.marks_of(numbers).tolist() == [hashes.mark_of(code) for code in numbers]
