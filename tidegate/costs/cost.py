"""What a window join costs per unit of time (kang2003, section 4).

Law: the cost of a pair is the sum of its two join directions, and each is a sum of rates times
accesses times weights, beside what any pair costs. In equation 2 the direction from A to B is all
that touches window B: the searches of stream A's tuples, and the insertions and invalidations of
stream B's own.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.costs.accesses import Accesses, paper_accesses
from tidegate.costs.engine_accesses import engine_accesses
from tidegate.costs.structures import pairs
from tidegate.costs.weights import Weights
from tidegate.costs.workload import Workload


def accesses(letter: str, workload: Workload, stream: int, weights: Weights) -> Accesses:
    """What an operation on the window of a stream touches."""
    tuples = workload.windows[stream]
    if weights.shape == "engine":
        return engine_accesses(letter, tuples, workload, stream)
    bucket = workload.bucket_size or weights.bucket_size
    return paper_accesses(letter, tuples, bucket, workload.node_size or weights.node_size)


def direction_cost(letter: str, workload: Workload, stream: int, weights: Weights) -> float:
    """Equation 2: all that happens in the window of `stream`, per unit of time."""
    search, update, matches = accesses(letter, workload, stream, weights)
    searching, own = workload.rates[1 - stream], workload.rates[stream]
    dearer = weights.band_scan if letter == "N" and workload.predicate == "band" else 1.0
    one_search = (
        weights.per_search[letter]
        + dearer * weights.search[letter] * (search - matches)
        + weights.per_match[letter] * matches
    )
    one_update = weights.per_update[letter] + weights.update[letter] * update
    return searching * one_search + own * one_update


def pair_cost(pair: str, workload: Workload, weights: Weights) -> float:
    """The full join: both directions, each with its own structure."""
    common = sum(workload.rates) * (weights.per_arrival - weights.saved.get(pair, 0.0))
    directions = (
        direction_cost(letter, workload, stream, weights) for stream, letter in enumerate(pair)
    )
    return common + sum(directions)


def pair_costs(workload: Workload, weights: Weights, letters: str = "NHBT") -> Mapping[str, float]:
    """The cost of every pair of these structures."""
    return {pair: pair_cost(pair, workload, weights) for pair in pairs(letters)}
