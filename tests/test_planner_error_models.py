"""The error that is planned for a sampled average against samples that were drawn.

Law: the planned standard error is that of many samples; errors fall as memory grows; a memory that
is divided by them leaves no join worse off than a division in proportion.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import tidegate as tg
from tidegate.planner.error_models import SampledAverage, Sampling
from tidegate.sample.inclusion import inclusion_probabilities

TUPLES, MATCHES = np.array([40.0, 100.0, 260.0]), np.array([30.0, 6.0, 1.0])
POLICIES: tuple[Sampling, ...] = ("uniform", "eq-cluster", "pps-cluster")


def drawn_error(policy: Sampling, memory: float, shared: bool) -> float:
    """The relative error of averages over samples of clusters with Poisson sizes."""
    rng = np.random.default_rng(4)
    size = np.ones(3) if policy == "eq-cluster" else MATCHES
    chance = inclusion_probabilities(size, memory, TUPLES)
    errors = []
    for _ in range(1500):
        value = np.repeat(np.arange(3), TUPLES.astype(int))
        sizes = rng.poisson(MATCHES[value])
        cluster = np.repeat(np.arange(len(value)), sizes)
        x = (
            rng.normal(100, 50, len(value))[cluster]
            if shared
            else rng.normal(100, 50, len(cluster))
        )
        is_in = (rng.random(len(value)) < chance[value])[cluster]
        weights = 1.0 / chance[value][cluster]
        estimate = np.average(x[is_in], weights=weights[is_in])
        errors.append(estimate / x.mean() - 1.0)
    return float(np.std(errors))


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("policy", POLICIES[1:])
def test_planned_errors_are_those_of_samples(policy: Sampling, shared: bool) -> None:
    model = SampledAverage(TUPLES, MATCHES, 0.5, policy, shared)
    assert model.error(80) == pytest.approx(drawn_error(policy, 80, shared), rel=0.1)


@pytest.mark.parametrize("policy", POLICIES)
def test_errors_fall_with_memory(policy: Sampling) -> None:
    errors = [e for _, e in SampledAverage(TUPLES, MATCHES, 1.0, policy).points(range(5, 401, 5))]
    assert all(later <= earlier for earlier, later in pairwise(errors))
    assert errors[-1] == 0.0
    with pytest.raises(tg.TidegateError, match="holds no tuple"):
        SampledAverage(TUPLES, MATCHES, 1.0, policy).error(0)


def test_memory_across_joins_by_error() -> None:
    models = [
        SampledAverage(TUPLES, MATCHES, 1.0, "pps-cluster", shared) for shared in (True, False)
    ]
    found = tg.allocate([m.points(range(2, 401)) for m in models], 100, metric="error")
    assert sum(found.memory.values()) <= 100
    assert found.memory["0"] > found.memory["1"]
    assert found.worst < 0.9 * found.proportional
