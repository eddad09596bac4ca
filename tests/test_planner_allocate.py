"""Memory inside one join and across joins: no other division does better.

The law: srivastava2004, equations 2 and 3, sections 3.3 and 5, by trying 10,000 random divisions,
and with the real engine against equal, proportional and inverse ones.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tidegate.lab.paper_streams import TICKS, age_curve, age_streams
from tidegate.planner.allocate import allocate, proportional
from tidegate.planner.curves import observed_curve
from tidegate.planner.recall_models import AgeModel, FrequencyModel, JoinModel
from tidegate.spec import TidegateError

# --- one join -----------------------------------------------------------------------------


def zipf(count, skew, backwards=False):
    shares = np.arange(1, count + 1) ** -float(skew)
    shares /= shares.sum()
    return shares[::-1] if backwards else shares


def no_minima(draw_peak, rising, falling):
    """A curve that rises to a peak and falls after it."""
    return np.array(
        [*sorted(rising), draw_peak + max([0, *rising, *falling]), *sorted(falling)[::-1]]
    )


heights = st.lists(st.floats(0, 10), max_size=8)


@given(st.floats(0.1, 10), heights, heights, st.floats(0.2, 5), st.floats(0, 1))
def test_curves_without_minima_follow_equation_3(peak, rising, falling, rate, share):
    model = AgeModel(no_minima(peak, rising, falling), 2.0, rate)
    memory = share * rate * 2.0 * len(model.curve)
    assert JoinModel(model).curve().value(memory) == pytest.approx(model.recall(memory), abs=1e-9)


def test_a_curve_with_a_minimum_reaches_what_example_3_4_reaches():
    """p = 3, 0, 2 with two cells: 4 results per unit of time, where keeping all for 2 gives 3."""
    model = AgeModel(np.array([3.0, 0.0, 2.0]), 1.0, 1.0)
    assert JoinModel(model).curve().value(2) * 5 == pytest.approx(4.0)
    assert model.result_rate(2) == 3.0


def test_example_3_3():
    model = AgeModel(np.array([1.0, 1.0, 2.0, 1.0]), 1.0, 1.0)
    assert JoinModel(model).curve().value(1) * 5 == pytest.approx(4 / 3)


def slow_frequency_recall(own, opposite, memory, rate, opposite_rate, window):
    """Section 3.3 tuple by tuple: keep the values that come most often on the other stream."""
    gained, left = 0.0, memory
    for value in sorted(range(len(own)), key=lambda v: -opposite[v]):
        held = rate * window * own[value]
        kept = min(held, left)
        gained += opposite_rate * kept * opposite[value]
        left -= kept
    return gained / (rate * opposite_rate * window * float(np.dot(own, opposite)))


@pytest.mark.parametrize("share", [0.05, 0.2, 0.7, 1.0])
@pytest.mark.parametrize("backwards", [False, True])
def test_the_frequency_model(share, backwards):
    own, opposite = zipf(50, 1.2), zipf(50, 1.2, backwards)
    model = FrequencyModel(own, opposite, rate=1.0, opposite_rate=5.0, window=500)
    expected = slow_frequency_recall(own, opposite, share * 500, 1.0, 5.0, 500)
    assert JoinModel(model).curve().value(share * 500) == pytest.approx(expected)


JOINS = {
    "ages": JoinModel(
        AgeModel(np.array([1.0, 4.0, 2.0, 0.5]), 50.0, 1.0),
        AgeModel(np.array([3.0, 1.0]), 40.0, 3.0),
    ),
    "frequencies": JoinModel(
        FrequencyModel(zipf(20, 1.0), zipf(20, 0.5), 2.0, 5.0, 100),
        FrequencyModel(zipf(20, 0.5), zipf(20, 1.0), 5.0, 2.0, 30),
    ),
}


@pytest.mark.parametrize("share", [0.1, 0.4, 0.8])
@pytest.mark.parametrize("name", JOINS)
def test_no_random_division_inside_a_join_has_more_recall(name, share):
    join = JOINS[name]
    memory = share * join.curve().full
    first, second = join.divide(memory)
    assert first + second <= memory + 1e-9
    best = join.recall((first, second))
    assert best == pytest.approx(join.curve().value(memory))
    generator = np.random.default_rng(0)
    tried = [join.recall((part, memory - part)) for part in generator.uniform(0, memory, 10_000)]
    assert max(tried) <= best + 1e-9
    assert min(tried) < best - 0.02


# --- across joins -------------------------------------------------------------------------


def random_curve(generator):
    """Observed points: rising, with flat parts and not to the top everywhere."""
    count = int(generator.integers(2, 7))
    memory = np.cumsum(generator.integers(1, 60, count))
    recall = np.sort(generator.random(count)) * generator.choice([1.0, 0.7])
    if generator.random() < 0.3:
        recall[1:] = np.where(generator.random(count - 1) < 0.4, recall[:-1], recall[1:])
        recall = np.maximum.accumulate(recall)
    return [(int(m), float(r)) for m, r in zip(memory, recall, strict=True)]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_no_random_division_has_a_greater_least_recall(seed, weighted):
    generator = np.random.default_rng(seed)
    names = "abcd"[: int(generator.integers(2, 5))]
    joins = {name: random_curve(generator) for name in names}
    curves = [observed_curve(points) for points in joins.values()]
    weights = dict(zip(names, generator.uniform(0.5, 2, len(names)), strict=True))
    memory = int(0.5 * sum(curve.full for curve in curves))
    found = allocate(joins, memory, weights if weighted else None)
    assert sum(found.memory.values()) <= memory
    by = [weights[name] if weighted else 1.0 for name in names]

    def least(shares):
        return min(c.value(m) / w for c, m, w in zip(curves, shares, by, strict=True))

    assert found.worst == pytest.approx(least(found.memory.values()))
    cuts = np.sort(generator.integers(0, memory + 1, (10_000, len(names) - 1)), axis=1)
    ends = np.full((10_000, 1), memory)
    shares = np.diff(np.concatenate([np.zeros((10_000, 1), int), cuts, ends], axis=1), axis=1)
    tried = max(least(row) for row in shares)
    assert tried <= found.worst + 1e-9
    assert tried > 0.6 * found.worst
    assert found.proportional <= found.worst + 1e-9
    assert found.equal <= found.worst + 1e-9


def test_no_random_division_has_a_smaller_greatest_error():
    joins = {"a": [(10, 0.9), (40, 0.3), (90, 0.1)], "b": [(20, 0.5), (50, 0.45), (80, 0.05)]}
    found = allocate(joins, 100, metric="error")
    assert sum(found.memory.values()) <= 100

    def greatest(first):
        def error(points, memory):
            return np.interp(memory, *zip(*points, strict=True))

        return max(error(joins["a"], first), error(joins["b"], 100 - first))

    tried = [greatest(first) for first in range(10, 81)]
    assert min(tried) == pytest.approx(found.worst)
    assert found.expected["a"] == pytest.approx(found.expected["b"], abs=0.02)
    # A join that counts twice has about half the error.
    twice = allocate(joins, 100, {"a": 2, "b": 1}, "error")
    assert twice.expected["a"] < found.expected["a"] < twice.expected["b"]


def test_all_joins_have_the_same_recall_where_they_can():
    """Theorem 5.1, and its weighted form."""
    joins = {
        "inc": AgeModel(age_curve("INC"), 25.0, 1.0),
        "dec": AgeModel(age_curve("DEC"), 25.0, 1.0),
    }
    found = allocate(joins, 500)
    assert found.expected["inc"] == pytest.approx(found.expected["dec"], abs=0.01)
    assert found.worst > found.proportional + 0.05
    one, two = allocate(joins, 300, [1, 2]).expected.values()
    assert two == pytest.approx(2 * one, rel=0.03)


def test_memory_that_one_join_cannot_use_goes_to_the_others():
    joins = {"stuck": [(10, 0.2)], "free": [(1000, 1.0)]}
    found = allocate(joins, 500)
    assert found.memory == {"stuck": 10, "free": 490}
    # Past a flat part that costs more than there is, the rest goes to the other join.
    jump = allocate({"jump": [(10, 0.2), (500, 0.2), (900, 0.9)], "free": [(100, 1.0)]}, 60)
    assert jump.memory == {"jump": 10, "free": 50}


def test_enough_memory_gives_everybody_all():
    joins = {"a": [(100, 0.9)], "b": [(50, 1.0)]}
    found = allocate(joins, 10_000)
    assert found.expected == {"a": 0.9, "b": 1.0}
    assert sum(found.memory.values()) == 150


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (({}, 10), "there are no joins"),
        ((5, 10), "joins is a int; give a dict by name"),
        (({"a": [(10, 1.5)]}, 10), r"the recall curve of a has the point \(10, 1.5\)"),
        (({"a": []}, 10), "the recall curve of a has no points"),
        (({"a": [1, 2]}, 10), "the recall curve of a is not a list of points; give pairs"),
        (({"a": [(1, -1)]}, 10, None, "error"), "has a negative or infinite number"),
        (({"a": object()}, 10), "join a is a object; give a model"),
        (({"a": [(1, 1)]}, -1), "memory is -1; give a number of tuples"),
        (({"a": [(1, 1)]}, 1, {"b": 1}), "weights must name each join once: a"),
        (({"a": [(1, 1)]}, 1, [0]), "the weight of join a is 0; give a number above 0"),
        (({"a": [(1, 1)]}, 1, None, "recal"), "did you mean 'recall'"),
        (({"a": JOINS["ages"]}, 1, None, "error"), "is a model, which gives recall"),
        (({"a": [(50, 0.1)]}, 1, None, "error"), "the error curves begin at 50 in total"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(arguments, sentence):
    with pytest.raises(TidegateError, match=sentence):
        tg.allocate(*arguments)


# --- with the real engine -----------------------------------------------------------------


def simulated_recall(shape, memory):
    """Recall of a join whose tuples of s1 wait, under AGE with the curve known."""
    curve = [round(float(p), 6) for p in 5.0 * age_curve(shape)]
    spec = tg.JoinSpec(
        on="key",
        time="ts",
        streams=("s1", "s2"),
        within={"s1": 500 * TICKS, "s2": 0},
    )
    streams = age_streams(shape, 3_000, seed=1)
    exact = tg.join(streams, spec).stats["rows_out"]
    under = spec.replace(
        memory=max(1, int(memory)),
        split={"s1": 1.0, "s2": 0.0},
        policy=tg.age(curve=curve, bucket=25 * TICKS),
    )
    return tg.join(streams, under).stats["rows_out"] / exact


def test_the_planners_division_is_best_in_the_engine():
    shapes = ("INC", "DEC")
    rate, window = 0.8, 500.0
    models = {shape: AgeModel(5.0 * age_curve(shape), window / 20, rate) for shape in shapes}
    needs = [rate * window] * 2
    memory = int(0.5 * sum(needs))
    planned = list(allocate(models, memory).memory.values())
    divisions = {
        "equal": [memory / 2] * 2,
        "proportional": proportional(needs, memory),
        "inverse": planned[::-1],
    }
    least = min(simulated_recall(*each) for each in zip(shapes, planned, strict=True))
    for name, shares in divisions.items():
        other = min(simulated_recall(*each) for each in zip(shapes, shares, strict=True))
        assert least > other + 0.03, name
