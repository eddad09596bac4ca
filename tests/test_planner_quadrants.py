"""Scarce CPU and memory of one join: no allocation gives more results than the planner's.

The law: kang2003, section 5.2, by trying 10,000 random feasible allocations for each quadrant.
"""

from __future__ import annotations

import naive_planner
import numpy as np
import pytest

from tidegate.costs.workload import Workload
from tidegate.planner.quadrants import allocate_resources, splits
from tidegate.spec import TidegateError

FIG_5 = Workload((100, 200), (800, 200), selectivity=0.01)


def feasible(generator, most, total, least):
    """A random point of {least <= x <= most, sum(x) <= total}, often at its border."""
    while True:
        point = generator.uniform(least, most)
        if generator.random() < 0.5:
            point[1] = min(most[1], total - point[0])
        if point.sum() <= total and (point >= least).all():
            return point


def results(workload, rates, windows):
    return workload.sigma * (rates[0] * windows[1] + rates[1] * windows[0])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("quadrant", ["cpu", "memory", "cpu and memory"])
def test_no_random_allocation_gives_more(quadrant, seed):
    generator = np.random.default_rng([seed, len(quadrant)])
    windows, rates = generator.integers(10, 1000, (2, 2)).tolist()
    workload = Workload(tuple(windows), tuple(rates), selectivity=0.01)
    least = np.array([0.1, 0.05])
    cpu = 0.5 * sum(rates) if "cpu" in quadrant else None
    memory = 0.4 * sum(windows) if "memory" in quadrant else None
    least_rates, least_windows = least * rates, least * windows
    best = allocate_resources(workload, cpu, memory, least_rates, least_windows)
    assert best.scarce == quadrant
    assert best.output_rate == pytest.approx(results(workload, best.rates, best.windows))
    for got, most, low, total in (
        (best.rates, rates, least_rates, cpu),
        (best.windows, windows, least_windows, memory),
    ):
        assert (np.array(got) <= np.array(most) + 1e-9).all()
        assert (np.array(got) >= low - 1e-9).all()
        assert total is None or sum(got) <= total + 1e-9

    def draw(generator):
        return np.concatenate(
            [
                feasible(generator, rates, cpu or sum(rates), least_rates),
                feasible(generator, windows, memory or sum(windows), least_windows),
            ]
        )

    tried = naive_planner.best_of_random(
        lambda point: results(workload, point[:2], point[2:]), draw, 10_000, seed
    )
    assert tried <= best.output_rate * (1 + 1e-12)
    # The tries come close, or they would prove nothing.
    assert tried >= 0.9 * best.output_rate


def test_the_example_of_section_5_2_1():
    """Windows of 500 and 1000, 100 tuples/s: all search from A to B; 90 and 10 with a least."""
    workload = Workload((500, 1000), (1000, 1000), selectivity=1.0)
    best = allocate_resources(workload, service_rate=100)
    assert best.rates == (100, 0)
    assert best.output_rate == 100_000
    assert allocate_resources(workload, 100, least_rates=(10, 10)).rates == (90, 10)


def test_figure_5_the_searches_of_the_stream_with_the_larger_opposite_window():
    tried = splits((100, 100), FIG_5.windows, 100)
    values = {name: results(FIG_5, each, FIG_5.windows) for name, each in splits_of_cpu().items()}
    assert max(values, key=values.get) == "max a"
    assert min(values, key=values.get) == "max b"
    assert allocate_resources(FIG_5, 100).rates == tried["max a"] == (100, 0)


def splits_of_cpu():
    return splits(tuple(min(rate, 100) for rate in FIG_5.rates), FIG_5.windows, 100)


def test_section_5_2_2_memory_goes_to_the_slower_stream():
    """Equation 16: keep the slower stream, let the faster one search it."""
    workload = Workload((5000, 5000), (10, 50), selectivity=0.005)
    best = allocate_resources(workload, memory=1000)
    assert best.windows == (1000, 0)
    assert best.output_rate == pytest.approx(0.005 * 50 * 1000)
    # Equal rates: any division gives sigma * lambda * M.
    even = Workload((5000, 5000), (50, 50), selectivity=0.005)
    assert allocate_resources(even, memory=1000).output_rate == pytest.approx(0.005 * 50 * 1000)


def test_section_5_2_3_reaches_sigma_mu_m():
    workload = Workload((500, 500), (50, 50), selectivity=0.01)
    best = allocate_resources(workload, service_rate=10, memory=100)
    assert best.output_rate == pytest.approx(0.01 * 10 * 100)
    # One window is all memory, and the other stream does all searching.
    kept = best.windows.index(100)
    assert best.rates[1 - kept] == 10


def test_enough_of_everything_changes_nothing():
    best = allocate_resources(FIG_5, service_rate=1000, memory=300)
    assert (best.scarce, best.rates, best.windows) == ("nothing", FIG_5.rates, FIG_5.windows)
    assert best.output_share == 1.0


def test_what_cannot_be_is_refused_in_one_sentence():
    with pytest.raises(TidegateError, match=r"the least rates 60 and 50 need 110, which is more"):
        allocate_resources(FIG_5, 100, least_rates=(60, 50))
    with pytest.raises(TidegateError, match=r"the least of windows is 101 for stream 1"):
        allocate_resources(FIG_5, memory=150, least_windows=(101, 0))
