"""The flow at sizes where brute force cannot follow: the prices prove it, and OR-tools agrees.

The law: a placement whose value equals the bound of its prices is optimal, whoever found it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidegate as tg
from tidegate.offline import flow
from tidegate.offline.bound import account_bound, upper_bound
from tidegate.offline.instance import Account, instance_of
from tidegate.offline.network import Network, arcs_of, network_of, whole_gains


def streams(rows: int, keys: int, seed: int, skew: float = 1.0) -> dict[str, pa.Table]:
    """One tuple per instant; one stream skewed, the other uniform; few tuples matter much."""
    generator = np.random.default_rng(seed)
    tables = {}
    for name, exponent in (("left", skew), ("right", 0.0)):
        share = np.arange(1, keys + 1) ** -exponent
        weight = np.where(generator.random(rows) < 0.1, 50.0, 1.0) * generator.integers(1, 9, rows)
        tables[name] = pa.table(
            {
                "time": np.arange(rows),
                "key": generator.choice(keys, rows, p=share / share.sum()),
                "weight": weight,
            }
        )
    return tables


def spec_of(memory: int, window: int, **options: Any) -> tg.JoinSpec:
    settings = {"split": "even", "importance": "weight", "ties": "instant", **options}
    return tg.JoinSpec(on="key", time="time", within=window, memory=memory, **settings)


def accounts(memory: int, seed: int = 0, **options: Any) -> tuple[Account, ...]:
    tables = streams(1500, 40, seed)
    return instance_of(tables, spec_of(memory, 60, **options), "importance").accounts


def value_of(network: Network, flowing: flow.Flow) -> int:
    placed = flowing.place[flowing.place != flow.NOT_KEPT]
    return int(network.value[placed].sum())


@pytest.mark.parametrize("memory", [2, 10, 40, 100])
@pytest.mark.parametrize("options", [{}, {"split": "shared"}, {"ties": "arrival"}])
def test_prices_prove_the_optimum(memory: int, options: dict[str, Any]) -> None:
    for account in accounts(memory, **options):
        network = network_of(account)
        solved = flow.solve(network)
        assert value_of(network, solved) == flow.proven_bound(network, solved.price)
        assert (np.diff(solved.price) >= 0).all()
        used = account.capacity - solved.idle
        assert (used >= 0).all()
        assert (solved.idle >= 0).all()


@pytest.mark.nojit
def test_segments_change_nothing_but_the_time() -> None:
    for account in accounts(30):
        network = network_of(account)
        values = {value_of(network, flow.solve(network, segment=s)) for s in (2, 16, 10**6)}
        assert len(values) == 1


@pytest.mark.parametrize("memory", [4, 40])
def test_or_tools_agrees_on_the_same_network(memory: int) -> None:
    solver = pytest.importorskip("ortools.graph.python.min_cost_flow")
    for account in accounts(memory, seed=3):
        network = network_of(account)
        arcs = arcs_of(network)
        theirs = solver.SimpleMinCostFlow()
        theirs.add_arcs_with_capacity_and_unit_cost(arcs.tail, arcs.head, arcs.capacity, arcs.cost)
        theirs.set_nodes_supplies(
            np.array([0, arcs.chain - 1]), np.array([account.capacity, -account.capacity])
        )
        assert theirs.solve() == theirs.OPTIMAL
        assert value_of(network, flow.solve(network)) == -theirs.optimal_cost()


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    network = network_of(accounts(10)[0])
    flow.solve(network, lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1] > 0


@pytest.mark.nojit
def test_gains_become_whole_numbers() -> None:
    whole, scale = whole_gains(np.array([1.0, 20.0, 3.0]))
    assert (whole.tolist(), scale) == ([1, 20, 3], 1.0)
    fractions = np.array([0.5, 0.25, 1e-3])
    whole, scale = whole_gains(fractions)
    assert np.allclose(whole / scale, fractions, rtol=1e-12)
    large, scale = whole_gains(np.array([1e300, 2e300]))
    assert abs(int(large.sum())) < 2**60
    assert np.allclose(large / scale, [1e300, 2e300], rtol=1e-12)


@pytest.mark.parametrize("memory", [2, 10, 40, 100, 10_000])
def test_the_bound_holds_and_is_near(memory: int) -> None:
    tables, spec = streams(3000, 40, seed=1), spec_of(memory, 60)
    best = tg.optimum(tables, spec).importance
    bound = upper_bound(tables, spec)
    assert best <= bound * (1 + 1e-12)
    assert bound <= 1.1 * best


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_holds_on_small_accounts(seed: int) -> None:
    for account in accounts(6 + seed, seed=seed, split="shared"):
        network = network_of(account)
        best = value_of(network, flow.solve(network)) / network.scale
        assert best <= account_bound(account, rounds=seed) * (1 + 1e-12)
