"""The network of one account: a chain of moments, and for each tuple the ways to leave it.

Law: a network is the account's problem and nothing less. A flow of `capacity` units runs from the
first node to the last; each unit is a cell of memory. Between node i and node i + 1 lies *slot* i,
which a cell passes idle or holding a tuple. A tuple enters at its node `enter` and may leave at any
of its nodes `leave`, which rise; leaving at the k-th has earned `value` k.

The nodes are fewer than the events of the streams. Where several tuples arrive before the next one
may leave, only the last of these moments can be too full, so they are one node:

    events     arrive  arrive  leave  leave  arrive  leave
    nodes     |-------0------||------1--------------||--2---
    slots                   slot 0             slot 1

Earnings are whole numbers here, so that no rounding can make a price inconsistent: floats are
scaled by a power of two until their sum fills 60 bits, which keeps integers and short binary
fractions as they are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.compiled.kernel import kernel
from tidegate.offline.instance import Account

_ROOM = 60  # bits for the sum of all earnings; prices stay below it
_ARRIVE, _LEAVE = 1, 2


class Network(NamedTuple):
    """Tuples as rows `first[x]:first[x + 1]` of `leave` and `value`."""

    nodes: int
    capacity: int
    enter: NDArray[np.int32]
    first: NDArray[np.int64]
    leave: NDArray[np.int32]
    value: NDArray[np.int64]  # what a tuple has earned when it leaves there
    scale: float  # value / scale is in the unit of the gains


def network_of(account: Account, *, every_event: bool = False) -> Network:
    """The network of an account; `every_event` asks for the paper's, where each event is a node."""
    gains, scale = whole_gains(account.gain)
    total = np.concatenate([[0], np.cumsum(gains)])
    lengths = np.diff(account.first)
    value = total[1:] - np.repeat(total[account.first[:-1]], lengths)
    events = int(max(account.begin.max(initial=0), account.end.max(initial=0))) + 1
    if every_event:
        numbers = np.arange(events)
        node = np.stack([numbers, numbers])
    else:
        node = np.zeros((2, events), np.int64)
        _number_nodes(account.begin, account.first, account.end, node)
    return Network(
        nodes=int(node.max(initial=0)) + 1,
        capacity=account.capacity,
        enter=node[0, account.begin].astype(np.int32),
        first=account.first,
        leave=node[1, account.end].astype(np.int32),
        value=value,
        scale=scale,
    )


def whole_gains(gains: NDArray[np.float64]) -> tuple[NDArray[np.int64], float]:
    """The gains as whole numbers, and the power of two they were multiplied by."""
    total = float(np.abs(gains).sum())
    if total == 0.0:
        return np.zeros(len(gains), np.int64), 1.0
    bits = _ROOM - int(np.ceil(np.log2(total))) - 1
    if bits >= 0 and (gains == np.floor(gains)).all():
        bits = 0
    scale = float(2.0**bits)
    return np.rint(gains * scale).astype(np.int64), scale


@kernel
def _number_nodes(begin, first, end, node):
    """Write for each event the node where tuples arrive (row 0) and where they leave (row 1)."""
    for x in range(len(begin)):
        if first[x + 1] > first[x]:
            node[0, begin[x]] |= _ARRIVE
    for option in range(len(end)):
        node[0, end[option]] |= _LEAVE
    current = 0
    occupied = False
    for event in range(node.shape[1]):
        kind = node[0, event]
        # At one event those who leave go first: their cells can be taken by those who arrive.
        if kind & _LEAVE and occupied:
            current += 1
            occupied = False
        node[1, event] = current
        if kind & _ARRIVE:
            occupied = True
        node[0, event] = current


class Arcs(NamedTuple):
    """The network as a list of arcs, for solvers that know nothing of chains."""

    tail: NDArray[np.int64]
    head: NDArray[np.int64]
    capacity: NDArray[np.int64]
    cost: NDArray[np.int64]
    nodes: int  # the first `chain` of them are the chain: flow runs from 0 to chain - 1
    chain: int


def arcs_of(network: Network) -> Arcs:
    """Each tuple as a chain of arcs through its ways to leave, with an arc back from each."""
    chain, options = network.nodes, len(network.leave)
    inner = chain + np.arange(options, dtype=np.int64)
    starts = network.first[:-1][np.diff(network.first) > 0]
    tail = inner - 1
    tail[starts] = network.enter[np.diff(network.first) > 0]
    gain = np.diff(network.value, prepend=0)
    gain[starts] = network.value[starts]
    idle = np.arange(chain - 1, dtype=np.int64)
    return Arcs(
        tail=np.concatenate([idle, tail, inner]),
        head=np.concatenate([idle + 1, inner, network.leave.astype(np.int64)]),
        capacity=np.concatenate(
            [np.full(chain - 1, network.capacity), np.ones(2 * options, np.int64)]
        ),
        cost=np.concatenate([np.zeros(chain - 1, np.int64), -gain, np.zeros(options, np.int64)]),
        nodes=chain + options,
        chain=chain,
    )
