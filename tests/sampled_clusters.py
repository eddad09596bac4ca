"""Samples of a known whole, drawn as the sampling policies draw them, but without a join."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.sample.inclusion import inclusion_probabilities
from tidegate.sample.tags import tagged


class Whole(NamedTuple):
    """All rows of a join: the retained tuple of each, its group and its number."""

    cluster: NDArray[np.int64]
    group: NDArray[np.int64]
    x: NDArray[np.float64]

    def truth(self, aggregate: str, group: int | None = None) -> float:
        x = self.x if group is None else self.x[self.group == group]
        return {"count(*)": float(len(x)), "sum(x)": float(x.sum()), "avg(x)": float(x.mean())}[
            aggregate
        ]


def whole_of(clusters: int, seed: int, groups: int = 1, between: float = 20.0) -> Whole:
    """Clusters of skewed sizes whose numbers differ from cluster to cluster and inside them."""
    rng = np.random.default_rng(seed)
    sizes = rng.poisson(rng.gamma(2.0, 3.0, clusters))
    cluster = np.repeat(np.arange(clusters), sizes)
    x = 100.0 + rng.normal(0, between, clusters)[cluster] + rng.normal(0, 20, len(cluster))
    return Whole(cluster, rng.integers(0, groups, len(cluster)), x)


def sample_of(whole: Whole, policy: str, share: float, rng: np.random.Generator) -> pa.Table:
    """A sample with a share of the tuples, or of the rows, and the weight of each row."""
    clusters = int(whole.cluster.max()) + 1
    sizes = np.bincount(whole.cluster, minlength=clusters)
    if policy == "uniform":
        probability = np.full(len(whole.x), share)
        names = rng.integers(0, 2**26, len(whole.x)).astype(np.uint64)
        is_in = rng.random(len(whole.x)) < probability
    else:
        expected = np.ones(clusters) if policy == "eq-cluster" else sizes + 0.5
        of_cluster = inclusion_probabilities(expected, share * clusters)
        probability = of_cluster[whole.cluster]
        names = rng.integers(0, 2**26, clusters).astype(np.uint64)[whole.cluster]
        is_in = (rng.random(clusters) < of_cluster)[whole.cluster]
    weights = tagged(1.0 / probability[is_in], names[is_in])
    return pa.table({"group": whole.group[is_in], "x": whole.x[is_in], "_weight": weights})
