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
from tidegate.throttle.throttle_records import Throttle


@frame
class State(NamedTuple):
    gate: Records  # [0]: options and counts of the whole join
    lanes: Records  # [stream]
    pool: Records  # [0]
    slots: Records
    notes: Records  # [slot]
    importance: NDArray[np.float64]  # [slot], if the join has importances
    lines: NDArray[np.int32]  # stretch by stretch: slot or -1
    numbers: NDArray[np.int64]  # [slot], if a window is counted: n-th tuple taken from its stream
    late: NDArray[np.int32]  # heap of tuples that came out of order, where some may
    late_place: NDArray[np.int32]  # [slot]: where it stands in that heap, -1: in order
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
    throttle: Throttle | None  # None: no budget of CPU time


@frame
class Output(NamedTuple):
    """Results not yet turned into a table: addresses of the payload rows, and importance."""

    rows: NDArray[np.int64]  # [stream, result]
    importance: NDArray[np.float64]
    weight: NDArray[np.float64]  # of a sampled join
    left: NDArray[np.int64]  # [departure, see STREAM_LEFT]; empty unless they are reported
    worth: NDArray[np.float64]  # [departure]: what the policy took it for
    filled: NDArray[np.int64]  # how much of it is in use: see RESULTS, DEPARTURES


RESULTS, DEPARTURES = range(2)  # of `Output.filled`
# Of `Output.left`: the stream, the address of the row, the reason, the tuple's order of arrival,
# that of the next arrival, and the clock.
STREAM_LEFT, ADDRESS, WHY, OWN_ORDER, NEXT_ORDER, CLOCK = range(6)
DEPARTURE = 6


@frame
class Work(NamedTuple):
    """Scratch of one push."""

    cursor: NDArray[np.int64]  # [stream]: its next arrival
    progress: NDArray[np.int64]  # how far the driver came: see below
    part: NDArray[np.int64]  # [stream, (youngest, oldest)]: ages that probes look at
    found: NDArray[np.int64]  # candidates of one probe
    totals: NDArray[np.float64]  # [slot, 2]: sums of the inverted index, zero between probes
    group: NDArray[np.int64]  # arrivals of one instant: see STREAM, ARRIVAL, SLOT, TOGETHER
    bucket: NDArray[np.uint32]  # [arrival]: where the hash index looks for it (`in_order`)
    hashed: NDArray[np.int64]  # [0]: of how many buckets
    next: NDArray[np.int64]  # [stream]: when its next tuple comes (`in_order`)
    since: NDArray[np.int64]  # [stream]: the number of the oldest tuple that it holds
    held: NDArray[np.int64]  # [stream]: how many it holds


@frame
class Many(NamedTuple):
    """Scratch of the probes of more than two streams, see `driver.probing_many`."""

    way: NDArray[np.int64]  # [0]: how a probe goes
    order: NDArray[np.int64]  # streams in the order in which their chains are walked
    reach: NDArray[np.int64]  # [stream, (BEGIN, END)]: its segment of `Work.found`
    ranges: NDArray[np.int64]  # [stream, (BEGIN, END)]: the part of it in the block under way
    block: NDArray[np.int64]  # which block that is: see LAST, POSITION
    digit: NDArray[np.int64]  # [stream]: the position of its tuple in the next result
    shares: NDArray[np.float64]  # [position]: results that the tuple found takes part in


BEGIN, END = range(2)
LAST, POSITION = range(2)  # of `Many.block`: the stream of the latest tuple, and where it stands


# Of `Work.progress`. Of the arrival at hand: candidates found (`in_order`: the node to go on with),
# the next to check, those that match. Of the instant at hand: phase, place, size, the number of its
# first tuple, and the slots that were unused when its admissions began.
FOUND, NEXT_FOUND, MATCHES, PHASE, PLACE, GROUP_SIZE, GROUP_ORDER, UNUSED = range(8)
NOTHING_FOUND = -1  # nothing of the next arrival was done yet
STREAM, ARRIVAL, SLOT, TOGETHER = range(4)  # of `Work.group`
ALL_AGES = (-(2**62), 2**62)


def alive_slots(state: State) -> NDArray[np.int64]:
    """The retained slots of all streams, stream by stream, in order of arrival."""
    parts = [line_of(state, stream) for stream in range(len(state.lanes))]
    return np.concatenate(parts)


def head_of(state: State, stream: int) -> int:
    """The slot that stands first in the line of a stream, -1 if the line is empty."""
    lane = state.lanes[stream]
    line = state.lines[lane.begin : lane.end]
    return int(line[np.argmax(line >= 0)]) if len(line) else -1


def line_of(state: State, stream: int) -> NDArray[np.int64]:
    """The retained slots of one stream, in order of arrival."""
    lane = state.lanes[stream]
    line = state.lines[lane.begin : lane.end]
    return line[line >= 0].astype(np.int64)
