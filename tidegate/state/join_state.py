"""What a join remembers between arrivals.

Law: everything the driver reads or writes stands in `State`; a snapshot of it, restored anywhere,
goes on with the same results. `Output` and `Work` are scratch and never part of a snapshot.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.compiled.frames import frame
from tidegate.compiled.layout import Records
from tidegate.index import btree, ttree


@frame
class State(NamedTuple):
    gate: Records  # [0]: options and counts of the whole join
    lanes: Records  # [stream]
    pool: Records  # [0]
    slots: Records
    notes: Records  # [slot]
    importance: NDArray[np.float64]  # [slot], if the join has importances
    lines: NDArray[np.int32]  # [stream, position] -> slot or -1
    late: NDArray[np.int32]  # heap of tuples that came out of order
    values: NDArray[np.int64]  # [slot, k]: numbers of band and theta terms, floats as their bits
    reals: NDArray[np.float64]  # the same memory, read as floats
    spans: NDArray[np.int64]  # [slot, set term, (begin, length)]
    bands: Records
    set_terms: Records
    thetas: Records
    buckets: NDArray[np.int32]  # hash index
    btree: btree.Tree | None  # None: no stream of this join has a tree
    ttree: ttree.Tree | None
    lists: NDArray[np.int32]  # inverted index
    arena: Records
    arena_used: NDArray[np.int64]  # [0]
    accounts: Records


@frame
class Output(NamedTuple):
    """Results not yet turned into a table: addresses of the payload rows, and importance."""

    rows: NDArray[np.int64]  # [stream, result]
    importance: NDArray[np.float64]
    filled: NDArray[np.int64]  # [0]: results, [1]: room that the next arrival asks for


@frame
class Work(NamedTuple):
    """Scratch of one push."""

    cursor: NDArray[np.int64]  # [stream]: its next arrival
    found: NDArray[np.int64]  # candidates of one probe
    totals: NDArray[np.float64]  # [slot, 2]: sums of the inverted index, zero between probes
    group: NDArray[np.int64]  # arrivals of one instant: (stream, arrival, slot)
    bucket: NDArray[np.uint32]  # [arrival]: where the hash index looks for it (`in_order`)
    hashed: NDArray[np.int64]  # [0]: of how many buckets


def alive_slots(state: State) -> NDArray[np.int64]:
    """The retained slots of all streams, stream by stream, in order of arrival."""
    parts = [line_of(state, stream) for stream in range(len(state.lanes))]
    return np.concatenate(parts)


def head_of(state: State, stream: int) -> int:
    """The slot that stands first in the line of a stream, -1 if the line is empty."""
    lane = state.lanes[stream]
    line = state.lines[stream, lane.begin : lane.end]
    return int(line[np.argmax(line >= 0)]) if len(line) else -1


def line_of(state: State, stream: int) -> NDArray[np.int64]:
    """The retained slots of one stream, in order of arrival."""
    lane = state.lanes[stream]
    line = state.lines[stream, lane.begin : lane.end]
    return line[line >= 0].astype(np.int64)
