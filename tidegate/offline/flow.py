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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.kernel import inlined, kernel
from tidegate.offline.network import Network

NOT_KEPT = -1
SEGMENT = 512  # nodes of the smallest segments; between 128 and 2048 the time hardly changes
TUPLES_PER_CALL = 20_000  # between two reports of progress

_FAR = 2**62
_WAITED, _WENT_BACK, _STARTED = -1, -2, -3  # how a search came to a node, if not by a tuple


class Flow(NamedTuple):
    """The placement, its prices, and the room that a search needs."""

    price: NDArray[np.int64]  # [node]
    idle: NDArray[np.int64]  # [slot]
    place: NDArray[np.int64]  # [tuple]: the option taken, or NOT_KEPT
    newest: NDArray[np.int32]  # [node]: chain of the tuples that sit there
    following: NDArray[np.int32]  # [tuple]
    preceding: NDArray[np.int32]
    distance: NDArray[np.int64]  # [node]: of the search under way, else _FAR
    done: NDArray[np.int64]  # [node]: number of the last search that was finished with it
    came_by: NDArray[np.int64]  # [node]: a tuple, or one of the marks above
    came_from: NDArray[np.int64]
    came_to: NDArray[np.int64]  # [node]: the option by which the tuple gets there
    touched: NDArray[np.int64]
    keys: NDArray[np.int64]  # heap of the search
    heap: NDArray[np.int64]
    level: NDArray[np.int64]  # stack of nodes as near as the one at hand: no heap needed
    sizes: NDArray[np.int64]  # of touched, heap, level; the number of searches; of nodes visited


_TOUCHED, _HEAP, _LEVEL, _SEARCHES, _VISITED = range(5)


def empty_flow(network: Network) -> Flow:
    """Nothing placed: all cells idle, all rents zero."""
    nodes, tuples, options = network.nodes, len(network.enter), len(network.leave)
    # Each arc of the residual network is looked at once in a search, so this is enough.
    room = 2 * options + tuples + 2 * nodes + 1
    return Flow(
        price=np.zeros(nodes, np.int64),
        idle=np.full(nodes, network.capacity, np.int64),
        place=np.full(tuples, NOT_KEPT, np.int64),
        newest=np.full(nodes, -1, np.int32),
        following=np.full(tuples, -1, np.int32),
        preceding=np.full(tuples, -1, np.int32),
        distance=np.full(nodes, _FAR, np.int64),
        done=np.zeros(nodes, np.int64),
        came_by=np.zeros(nodes, np.int64),
        came_from=np.zeros(nodes, np.int64),
        came_to=np.zeros(nodes, np.int64),
        touched=np.zeros(nodes, np.int64),
        keys=np.zeros(room, np.int64),
        heap=np.zeros(room, np.int64),
        level=np.zeros(room, np.int64),
        sizes=np.zeros(5, np.int64),
    )


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


@inlined
def _sit_down(flow, x, node):
    newest = flow.newest[node]
    flow.following[x] = newest
    flow.preceding[x] = -1
    if newest >= 0:
        flow.preceding[newest] = x
    flow.newest[node] = x


@inlined
def _stand_up(flow, x, node):
    before, after = flow.preceding[x], flow.following[x]
    if before >= 0:
        flow.following[before] = after
    else:
        flow.newest[node] = after
    if after >= 0:
        flow.preceding[after] = before


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
def _push(keys, heap, sizes, key, node):
    hole = sizes[_HEAP]
    sizes[_HEAP] += 1
    while hole > 0 and keys[(hole - 1) >> 1] > key:
        above = (hole - 1) >> 1
        keys[hole] = keys[above]
        heap[hole] = heap[above]
        hole = above
    keys[hole] = key
    heap[hole] = node


@inlined
def _reach(flow, node, distance, nearest, by, origin, option):
    """The search can be at `node` for `distance`: remember it if that is better."""
    if distance < flow.distance[node]:
        if flow.distance[node] == _FAR:
            flow.touched[flow.sizes[_TOUCHED]] = node
            flow.sizes[_TOUCHED] += 1
        flow.distance[node] = distance
        flow.came_by[node] = by
        flow.came_from[node] = origin
        flow.came_to[node] = option
        if distance == nearest:
            flow.level[flow.sizes[_LEVEL]] = node
            flow.sizes[_LEVEL] += 1
        else:
            _push(flow.keys, flow.heap, flow.sizes, distance, node)


@kernel
def _nearest(keys, heap, sizes):
    """Take the nearest node from the heap and return it."""
    node = heap[0]
    sizes[_HEAP] -= 1
    size = sizes[_HEAP]
    key, last = keys[size], heap[size]
    hole = 0
    while 2 * hole + 1 < size:
        below = 2 * hole + 1
        if below + 1 < size and keys[below + 1] < keys[below]:
            below += 1
        if keys[below] >= key:
            break
        keys[hole] = keys[below]
        heap[hole] = heap[below]
        hole = below
    keys[hole] = key
    heap[hole] = last
    return node


@inlined
def _look_around(network, flow, node, distance, limit, low, high):
    """Where a unit of flow can go from `node`: along idle cells, and wherever a tuple here can."""
    price = flow.price
    flow.sizes[_VISITED] += 1
    if node + 1 < high:
        further = distance + price[node + 1] - price[node]
        if further < limit:
            _reach(flow, node + 1, further, distance, _WAITED, node, 0)
    if node > low and flow.idle[node - 1] > 0:
        _reach(flow, node - 1, distance, distance, _WENT_BACK, node, 0)
    x = np.int64(flow.newest[node])
    while x >= 0:
        enter = network.enter[x]
        place = flow.place[x]
        base = distance
        if place != NOT_KEPT:
            base += network.value[place] - (price[node] - price[enter])
            if base < limit:
                _reach(flow, enter, base, distance, x, node, NOT_KEPT)
        for option in range(network.first[x], network.first[x + 1]):
            leave = network.leave[option]
            further = base - network.value[option] + (price[leave] - price[enter])
            if further < limit:
                _reach(flow, leave, further, distance, x, node, option)
        x = np.int64(flow.following[x])


@kernel
def _search(network, flow, x, profit, low, high):
    """The cheapest way to lead a unit back to the entrance of x, if below `profit`.

    Returns its cost, or `profit` if there is none; the way stands in `came_by` and its fellows.
    """
    sizes = flow.sizes
    sizes[_TOUCHED] = sizes[_HEAP] = sizes[_LEVEL] = 0
    sizes[_SEARCHES] += 1
    enter = network.enter[x]
    for option in range(network.first[x], network.first[x + 1]):
        leave = network.leave[option]
        distance = profit - network.value[option] + (flow.price[leave] - flow.price[enter])
        if distance < profit:
            _reach(flow, leave, distance, -1, _STARTED, leave, option)
    nearest = np.int64(0)
    while sizes[_LEVEL] > 0 or sizes[_HEAP] > 0:
        if sizes[_LEVEL] > 0:
            sizes[_LEVEL] -= 1
            node = flow.level[sizes[_LEVEL]]
        else:
            node = _nearest(flow.keys, flow.heap, flow.sizes)
            if flow.done[node] < sizes[_SEARCHES]:
                nearest = flow.distance[node]
        if flow.done[node] == sizes[_SEARCHES]:
            continue
        flow.done[node] = sizes[_SEARCHES]
        if node == enter:
            return nearest
        _look_around(network, flow, node, nearest, profit, low, high)
    return profit


@kernel
def _lead_back(network, flow, x):
    """Walk the way that the search found, from its end; everyone on it changes places."""
    node = np.int64(network.enter[x])
    while flow.came_by[node] != _STARTED:
        by, origin = flow.came_by[node], flow.came_from[node]
        if by == _WAITED:
            flow.idle[origin] += 1
        elif by == _WENT_BACK:
            flow.idle[node] -= 1
        else:
            _stand_up(flow, by, origin)
            flow.place[by] = flow.came_to[node]
            _sit_down(flow, by, node)
        node = origin
    flow.place[x] = flow.came_to[node]


@kernel
def _raise_prices(flow, cost):
    """Nodes nearer than the end of the way become dearer by the difference."""
    for k in range(flow.sizes[_TOUCHED]):
        node = flow.touched[k]
        if flow.distance[node] < cost:
            flow.price[node] += cost - flow.distance[node]
        flow.distance[node] = _FAR


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
                cost = _search(
                    network, flow, x, profit, low, min(low + size, np.int64(network.nodes))
                )
                if cost < profit:
                    _lead_back(network, flow, x)
                _raise_prices(flow, cost)
        place = flow.place[x]
        _sit_down(flow, x, enter if place == NOT_KEPT else np.int64(network.leave[place]))


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
