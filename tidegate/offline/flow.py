"""The minimum-cost flow on the chain: each slot gets a rent, each tuple the place it prefers.

Law: what is placed is optimal for the tuples taken so far, and the prices prove it. `price` rises
along the chain; its rise over slot i is the *rent* of a cell there. At all times
    a tuple sits at the place with the largest profit = value - rent from where it entered,
    a slot with an idle cell costs no rent,
which is complementary slackness, so the sum of the values placed equals
    capacity x (all rents) + the sum of the profits,
a bound that no placement can exceed (weak duality).

Tuples are inserted one by one. One whose profit is not positive needs nothing. If the cells from
its place back to its entrance are idle, it takes one. Otherwise a unit of flow must be led back
from a place where the tuple could leave to its entrance: through tuples that leave earlier or
later, through cells that become idle. The cheapest way (Dijkstra, reduced costs are non-negative)
is taken if it costs less than the profit; prices of the nodes that are nearer than its end rise.

    enter      e ------------------ p     a new tuple wants e..p
    residual   q <----- y ------- p       y, who leaves at p, leaves at q instead
    residual        q ---idle---> e       its cell waits until e

Two choices make it fast. Tuples with much value per slot come first, so that most of the others
find a rent that is too high and need no search. And the chain is cut into segments that are joined
two by two: a tuple is inserted when its segment spans all of it, and its search stays inside,
since nothing crosses the border of a segment yet. So searches do not wander over a long stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.compiled.kernel import kernel
from tidegate.offline.network import Network
from tidegate.offline.search import (
    NOT_KEPT,
    Flow,
    empty_flow,
    lead_back,
    raise_prices,
    search,
    sit_down,
)

__all__ = ["NOT_KEPT", "Flow", "proven_bound", "solve"]

SEGMENT = 512  # nodes of the smallest segments; between 128 and 2048 the time hardly changes
TUPLES_PER_CALL = 20_000  # between two reports of progress


def solve(
    network: Network,
    progress: Callable[[int, int], None] | None = None,
    *,
    segment: int = SEGMENT,
) -> Flow:
    """An optimal placement of the tuples of a network."""
    flow = empty_flow(network)
    order, levels = _order_of_insertion(network, segment)
    done = 0
    for level, begin, end in levels:
        size = segment << level
        if level:
            _join_segments(flow.price, size)
        for start in range(begin, end, TUPLES_PER_CALL):
            piece = order[start : min(end, start + TUPLES_PER_CALL)]
            _insert(network, flow, piece, size)
            done += len(piece)
            if progress is not None:
                progress(done, len(order))
    return flow


def _order_of_insertion(
    network: Network, segment: int
) -> tuple[NDArray[np.int64], list[tuple[int, int, int]]]:
    """Tuples that can leave somewhere, and the span of each level of segments among them."""
    lengths = np.diff(network.first)
    taken = np.flatnonzero(lengths > 0)
    enter = network.enter[taken].astype(np.int64)
    last = network.leave[network.first[taken + 1] - 1].astype(np.int64)
    slots = network.leave - np.repeat(network.enter, lengths)
    density = np.zeros(0)
    if len(taken):
        density = np.maximum.reduceat(network.value / slots, network.first[taken])
    # The lowest level at which enter and last fall into one segment.
    apart = (enter // segment) ^ (last // segment)
    level = np.where(apart > 0, np.frexp(apart.astype(np.float64))[1], 0)
    order = np.lexsort((-density, (enter // segment) >> level, level))
    height = ((network.nodes - 1) // segment).bit_length()
    bounds = np.searchsorted(level[order], np.arange(height + 2))
    levels = [(h, int(bounds[h]), int(bounds[h + 1])) for h in range(height + 1)]
    return taken[order], levels


@kernel
def _join_segments(price, size):
    """Lift the prices of each right half, so that the rent at the border of the halves is zero."""
    for middle in range(size // 2, len(price), size):
        lift = price[middle - 1] - price[middle]
        for node in range(middle, min(middle + size // 2, len(price))):
            price[node] += lift


@kernel
def _take_idle_cells(flow, begin, end):
    """Take an idle cell from node `begin` to node `end`; False, with nothing done, if none is."""
    for slot in range(begin, end):
        if flow.idle[slot] == 0:
            return False
    for slot in range(begin, end):
        flow.idle[slot] -= 1
    return True


@kernel
def _insert(network, flow, order, size):
    """Insert tuples, each into its segment of `size` nodes."""
    for k in range(len(order)):
        x = order[k]
        enter = np.int64(network.enter[x])
        best, profit = np.int64(NOT_KEPT), np.int64(0)
        for option in range(network.first[x], network.first[x + 1]):
            rent = flow.price[network.leave[option]] - flow.price[enter]
            if network.value[option] - rent > profit:
                best, profit = np.int64(option), network.value[option] - rent
        if best != NOT_KEPT:
            if _take_idle_cells(flow, enter, network.leave[best]):
                flow.place[x] = best
            else:
                low = enter // size * size
                cost = search(
                    network, flow, x, profit, low, min(low + size, np.int64(network.nodes))
                )
                if cost < profit:
                    lead_back(network, flow, x)
                raise_prices(flow, cost)
        place = flow.place[x]
        sit_down(flow, x, enter if place == NOT_KEPT else np.int64(network.leave[place]))


def proven_bound(network: Network, prices: NDArray[Any]) -> int:
    """capacity x rents + profits: no placement is worth more, whatever the (rising) prices."""
    prices = prices.astype(np.int64)
    rent = prices[network.leave] - np.repeat(prices[network.enter], np.diff(network.first))
    profits = _best_of_each(network.value - rent, network.first)
    return int(network.capacity * (prices[-1] - prices[0]) + profits.sum())


def _best_of_each(profit: NDArray[np.int64], first: NDArray[np.int64]) -> NDArray[np.int64]:
    taken = first[:-1][np.diff(first) > 0]
    if not len(taken):
        return np.zeros(0, np.int64)
    return np.maximum(np.maximum.reduceat(profit, taken), 0)
