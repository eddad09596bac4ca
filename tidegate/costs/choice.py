"""The pair of structures for a workload.

Law: the cheapest pair of those that serve the predicate and are asked for; of two that cost the
same, the one that takes less memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.costs.cost import pair_costs
from tidegate.costs.state_bytes import KEY_AND_TIME_BYTES, state_bytes
from tidegate.costs.structures import INDEX_NAMES, SERVES, pairs, read_letters
from tidegate.costs.weights import Weights
from tidegate.costs.workload import Workload
from tidegate.spec import TidegateError

_SAME = 1e-12


@dataclass(frozen=True)
class Choice:
    """A pair with its cost per unit of time, the bytes of its state, and what it was chosen from.

    costs
        Every pair that serves the predicate, also those that were not to be chosen.
    considered
        The structures that could be chosen.
    """

    pair: str
    cost: float
    bytes: int
    costs: Mapping[str, float]
    considered: str


def choose(
    workload: Workload,
    weights: Weights,
    structures: str | None = None,
    row_bytes: float = KEY_AND_TIME_BYTES,
) -> Choice:
    """The cheapest pair; `structures` are letters of NHBT, by default those of the weights."""
    serving = SERVES[workload.predicate]
    wanted = read_letters(structures) if structures else weights.structures
    considered = "".join(letter for letter in wanted if letter in serving)
    if not considered:
        raise TidegateError(
            f"structures {wanted!r} do not serve a {workload.predicate} join; "
            f"{', '.join(f'{letter} ({INDEX_NAMES[letter]})' for letter in serving)} do"
        )
    costs = pair_costs(workload, weights, serving)
    least = min(costs[pair] for pair in pairs(considered))
    cheapest = [pair for pair in pairs(considered) if costs[pair] <= least * (1 + _SAME)]
    best = min(cheapest, key=lambda pair: state_bytes(pair, workload.windows, row_bytes))
    held = state_bytes(best, workload.windows, row_bytes)
    return Choice(best, costs[best], held, costs, considered)
