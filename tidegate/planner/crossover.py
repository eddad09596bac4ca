"""Where the cheapest pair changes as the load moves from one stream to the other.

Law: all of it follows from the cost model numerically, for any pair, any weights and any windows;
the closed forms of kang2003 (equations 8 to 11) are only what tests compare it with.

The position is the first stream's share of all arrivals, from 0 to 1; the paper's equations give
the ratio of the two rates, share / (1 - share).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

from tidegate.costs.cost import pair_cost, pair_costs
from tidegate.costs.weights import Weights
from tidegate.costs.workload import Workload


@dataclass(frozen=True)
class Winner:
    """A pair, and the shares of the first stream between which it is the cheapest."""

    pair: str
    begin: float
    end: float


def at_share(workload: Workload, share: float) -> Workload:
    """The same arrivals in total, of which `share` come on the first stream."""
    total = sum(workload.rates)
    return replace(workload, rates=(share * total, (1.0 - share) * total))


def ratio(share: float) -> float:
    """Rate of the first stream over that of the second."""
    return share / (1.0 - share) if share < 1.0 else float("inf")


def crossover(one: str, other: str, workload: Workload, weights: Weights) -> float | None:
    """The share at which two pairs cost the same; None if one is cheaper everywhere.

    Costs are linear in the share, since windows are counted in tuples: the two ends say all.
    """
    ends = [at_share(workload, share) for share in (0.0, 1.0)]
    first, last = (pair_cost(one, end, weights) - pair_cost(other, end, weights) for end in ends)
    return first / (first - last) if first * last < 0.0 else None


def winners(workload: Workload, weights: Weights, candidates: Sequence[str]) -> list[Winner]:
    """The cheapest candidates in order, as the load moves from the second stream to the first.

    Between two neighbouring crossovers of any two candidates the cheapest stays the same.
    """
    found = [crossover(*two, workload, weights) for two in combinations(candidates, 2)]
    borders = [0.0, *sorted({share for share in found if share is not None}), 1.0]
    won: list[Winner] = []
    for begin, end in pairwise(borders):
        costs = pair_costs(at_share(workload, (begin + end) / 2.0), weights)
        pair = min(candidates, key=lambda each: costs[each])
        if won and won[-1].pair == pair:
            begin = won.pop().begin
        won.append(Winner(pair, begin, end))
    return won
