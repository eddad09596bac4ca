"""The figures of kang2003 and of memory across joins, in their quick form.

The law: every claim that does not depend on the machine holds; simulation agrees with the model.
"""

from __future__ import annotations

import pytest

pytest.importorskip("altair")

from tidegate.costs.workload import Workload
from tidegate.lab import kang2003, kang2003_engine, kang2003_scarce, srivastava2004_alloc
from tidegate.lab.claims import Claim
from tidegate.lab.figures import Scale, choose
from tidegate.planner.crossover import Winner
from tidegate.planner.quadrants import allocate_resources, allocation, splits

QUICK = Scale(quick=True)


@pytest.mark.parametrize("figure", kang2003.FIGURES, ids=lambda each: each.slug)
def test_what_the_model_gives_is_what_the_paper_prints(figure):
    found = figure.read([], QUICK)
    assert found.claims
    assert all(claim.holds for claim in found.claims)
    assert found.charts


@pytest.mark.parametrize("figure", kang2003_engine.FIGURES, ids=lambda each: each.slug)
def test_running_times_are_left_out_of_the_quick_form(figure):
    found = figure.read([], QUICK)
    assert not found.claims
    assert found.notes


def test_all_figures_are_listed():
    slugs = {each.slug for each in choose("kang2003")}
    assert slugs == {f"kang2003-{name}" for name in
                     ("fig2", "fig3", "fig4", "fig5", "fig6", "fig7", "table3")}  # fmt: skip
    assert {"srivastava2004-fig10", "srivastava2004-fig11"} <= {
        each.slug for each in choose("srivastava2004")
    }


def test_winners_of_another_kind_do_not_hold():
    claim = Claim("kang2003", "Fig. 3", "winners", kang2003.FIVE, "order")
    assert kang2003.in_order([Winner("HH", 0.0, 1.0)], claim, "why").holds is False
    shuffled = [Winner(pair, k / 5, (k + 1) / 5) for k, pair in enumerate(reversed(kang2003.FIVE))]
    assert kang2003.in_order(shuffled, claim).holds is False


@pytest.mark.parametrize(
    ("rates", "windows"), [((20, 50), (300, 300)), ((10, 5), (300, 300)), ((20, 50), (60, 200))]
)
def test_a_simulation_gives_the_rate_of_the_model(rates, windows):
    """Random searches, random keeping and both full: the engine makes sigma (a' B' + b' A')."""
    workload = Workload((300, 300), (20, 50), keys=(40, 40))
    expected = allocation(workload, rates, windows).output_rate
    found = kang2003_scarce.simulated_rate(workload, rates, windows, 60.0, seed=3)
    assert found == pytest.approx(expected, rel=0.08)


@pytest.mark.parametrize("scarce", ["memory", "cpu"])
def test_the_planners_allocation_is_best_in_simulation(scarce):
    """Against equal, proportional and inverse divisions of the same memory, or of the same CPU."""
    workload = Workload((300, 120), (20, 50), keys=(40, 40))
    if scarce == "memory":
        planned = allocate_resources(workload, memory=150)
        others = splits(workload.windows, workload.rates, 150)
        tried = {name: (workload.rates, windows) for name, windows in others.items()}
    else:
        planned = allocate_resources(workload, service_rate=20)
        others = splits(workload.rates, workload.windows, 20)
        tried = {name: (rates, workload.windows) for name, rates in others.items()}

    def simulated(rates, windows):
        seeds = (1, 2)
        each = [kang2003_scarce.simulated_rate(workload, rates, windows, 60.0, s) for s in seeds]
        return sum(each) / len(each)

    best = simulated(planned.rates, planned.windows)
    for name in ("equal", "proportional", "inverse"):
        assert best > 1.05 * simulated(*tried[name]), name


def test_windows_of_measured_joins_hold_what_the_workload_says():
    workload = Workload((400, 50), (3, 9))
    pushes = kang2003_engine.pushes_of(workload, 1_200)
    assert [table.num_rows for table in pushes[0].values()] == [400, 50]
    assert [table.num_rows for table in pushes[1].values()] == [300, 900]
    costs = kang2003_engine.measured_costs(workload, ("HH", "NN"), 1_200, rounds=1)
    assert min(costs.values()) > 0


def test_divisions_keep_the_memory_and_alloc_gives_more_to_the_harder_join():
    models = srivastava2004_alloc._frequency_models(2.0)
    found = srivastava2004_alloc.divisions(models, 0.2)
    assert sum(found["ALLOC"].values()) <= 160
    assert sum(found["PROP"].values()) <= 160
    assert found["ALLOC"]["DC"] > found["PROP"]["DC"] > found["ALLOC"]["IC"]
