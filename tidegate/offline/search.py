"""The search of the flow: the cheapest way to lead a unit back, and what changes on it.

Law: Dijkstra's algorithm on reduced costs, none of which is negative while the law of `flow` holds.
From a node a unit can wait (idle forward, at the rent), go back where a cell is idle (free, since
there the rent is zero), or go wherever a tuple that sits here can leave instead, or never enter, at
the difference of the profits. A search that cannot end below its limit ends there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.compiled.kernel import kernel, step
from tidegate.offline.network import Network

NOT_KEPT = -1

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


@step
def sit_down(flow, x, node):
    newest = flow.newest[node]
    flow.following[x] = newest
    flow.preceding[x] = -1
    if newest >= 0:
        flow.preceding[newest] = x
    flow.newest[node] = x


@step
def _stand_up(flow, x, node):
    before, after = flow.preceding[x], flow.following[x]
    if before >= 0:
        flow.following[before] = after
    else:
        flow.newest[node] = after
    if after >= 0:
        flow.preceding[after] = before


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


@step
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


@step
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
def search(network, flow, x, profit, low, high):
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
def lead_back(network, flow, x):
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
            sit_down(flow, by, node)
        node = origin
    flow.place[x] = flow.came_to[node]


@kernel
def raise_prices(flow, cost):
    """Nodes nearer than the end of the way become dearer by the difference."""
    for k in range(flow.sizes[_TOUCHED]):
        node = flow.touched[k]
        if flow.distance[node] < cost:
            flow.price[node] += cost - flow.distance[node]
        flow.distance[node] = _FAR
