"""Who is alive.

Law, stated once for the whole project: **both ends of a window are inclusive**. A tuple x of
stream i with a time window W_i is alive as long as `watermark - x.time <= W_i`; it meets a later
tuple y iff `y.time - x.time <= W_i`. With a count window W_i it is dead once W_i newer tuples of
its own stream were taken.

A retained tuple is a *slot*: a record in one array shared by all streams. The slots of a stream
stand in its *line* in order of arrival; a slot that left early leaves a gap (-1). Tuples that came
out of order stand in the line too, and besides in a heap of deadlines, because they expire before
the tuples ahead of them:

    line of a stream   [ gap  10  12  gap  11*  15  17 ]      * came late: also in the heap
                          ^begin                      ^end

A tuple in order expires no earlier than all that stand before it in the line, so looking at the
head of the line (after the heap) is enough: expiry is one access.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidegate.compiled import layout
from tidegate.compiled.kernel import kernel, part, step
from tidegate.compiled.layout import Records, records
from tidegate.windows import late_heap

# What a probe reads, and nothing else: the smaller a slot, the more of them the CPU's caches hold.
SLOT = np.dtype(
    [
        ("time", np.int64),
        ("code", np.int64),  # 64-bit equality key
        ("row", np.int64),  # address of its payload in the stream's store
        ("newer", np.int32),  # chain of the hash index; of unused slots, the next unused one
        ("older", np.int32),  # the same chain; NOT_INDEXED: no index holds this tuple
    ]
)

NOT_INDEXED = -2  # a NULL or NaN in a join column: the tuple never matches

# What is needed only where a tuple may leave before those that came before it: under a budget,
# out of order, or in a count window. Written only there (`POOL.tracked`).
NOTE = np.dtype(
    [
        ("order", np.int32),  # later than that of every tuple taken before; see `GATE.order`
        ("place", np.int32),  # where it stands in its line
        ("stream", np.int16),
        ("monitor", np.int16),  # under a budget: its number as a monitor, or one of those below
    ]
)
NOT_CHARGED = -2  # it is charged to no account: there is no budget, or it only visits
ORDINARY = -1  # charged, and no monitor

LANE = np.dtype(
    [
        ("window", np.int64),
        ("is_time_window", np.int64),
        ("index", np.int64),  # kind of its index
        ("account", np.int64),  # share of the memory that it is charged to
        ("first", np.int64),  # of `lines`: the stretch for this stream
        ("stop", np.int64),
        ("begin", np.int64),  # its line, within that stretch
        ("end", np.int64),
        ("alive", np.int64),
        ("newest", np.int64),  # time of the newest tuple that stands in order
        ("taken", np.int64),  # also the number of the next tuple
        ("too_late", np.int64),
        ("expired", np.int64),
        ("evicted", np.int64),
        ("refused", np.int64),
        ("comparisons", np.int64),  # made by its tuples when they probe
        ("visits", np.int64),  # of index nodes
        ("updates", np.int64),  # comparisons made to maintain its index
        ("peak", np.int64),
        ("walks", np.float64),  # of its chains by probes of n streams, old ones for less
        ("misses", np.float64),  # of which so many found nothing
    ]
)

POOL = np.dtype(
    [
        ("tracked", np.int64),  # are notes kept?
        ("alive", np.int64),  # tuples of all streams
        ("unused", np.int64),  # number of unused slots
        ("first_unused", np.int64),
        ("late", np.int64),  # number of slots in the heap of late tuples
        ("peak", np.int64),
        ("closed_until", np.int64),  # budget in bytes: no more slots before this many were taken
    ]
)


def unused_slots(capacity: int) -> tuple[Records, Records, Records]:
    """`capacity` slots in a chain of unused ones, their notes, and the record of the pool."""
    slots, notes, pool = records(SLOT, capacity), records(NOTE, capacity), records(POOL, 1)
    _chain(slots, 0)
    pool.unused = capacity
    return slots, notes, pool


@kernel
def _chain(slots, first):
    for slot in range(first, len(slots)):
        slots[slot].newer = slot + 1


def grown_slots(
    slots: Records, notes: Records, pool: Records, capacity: int
) -> tuple[Records, Records]:
    """The same tuples in the same slots, with room for `capacity`.

    New slots go to the end of the chain of unused ones, so which slot a tuple gets does not depend
    on when the array grew.
    """
    before = len(slots)
    more_slots = records(SLOT, capacity)
    layout.copy(slots, more_slots)
    _chain(more_slots, before)
    more_notes = records(NOTE, capacity)  # where nothing is noted the system gives no pages
    if pool[0].tracked:
        layout.copy(notes, more_notes)
    if pool[0].unused == 0:
        pool[0].first_unused = before
    else:
        last = int(pool[0].first_unused)
        while more_slots[last].newer < before:
            last = int(more_slots[last].newer)
        more_slots[last].newer = before
    pool[0].unused += capacity - before
    return more_slots, more_notes


def places_per_slot(streams: int) -> int:
    """How many places the lines have for each slot: two; more where many streams share them."""
    return 1 + -(-streams // 6)


def places_for(slots: int, streams: int) -> int:
    """The length of all lines together: with so many no stream is ever cramped."""
    return slots * places_per_slot(streams) + (2 * streams if streams > 2 else 0)


def line_starts(alive: Sequence[int], length: int) -> list[int]:
    """Where the stretch of each stream begins in an array of lines, and the end of the last.

    What is not needed for the tuples alive is shared out evenly.
    """
    spare = (length - sum(alive)) // len(alive)
    return [0, *np.cumsum([number + spare for number in alive]).tolist()]


@kernel
def move_lines(notes, tracked, lanes, lines, starts, more):
    """Write all lines into another array, without gaps, each at the start of its stretch."""
    for stream in range(len(lanes)):
        lane = lanes[stream]
        end = starts[stream]
        for position in range(lane.begin, lane.end):
            slot = lines[position]
            if slot >= 0:
                more[end] = slot
                if tracked:
                    notes[slot].place = end
                end += 1
        lane.begin, lane.end = starts[stream], end
        lane.first, lane.stop = starts[stream], starts[stream + 1]


@step
def is_cramped(lane, alive):
    """Is a line at the end of its stretch, and would closing its gaps free too little of it?"""
    room = lane.stop - lane.first
    return lane.end == lane.stop and 8 * (room - alive) < room


@part
def close_gaps(notes, tracked, lane, lines):
    """Move a line to the beginning of its stretch, without gaps."""
    end = lane.first
    for position in range(lane.begin, lane.end):
        slot = lines[position]
        if slot >= 0:
            lines[end] = slot
            if tracked:
                notes[slot].place = end
            end += 1
    lane.begin = lane.first
    lane.end = end


@step
def occupy(slots, notes, pool, lanes, lines, stream, time):
    """Give a tuple of `stream` a slot at the end of its line; it is already counted as taken."""
    slot = pool[0].first_unused
    pool[0].first_unused = slots[slot].newer
    pool[0].unused -= 1
    pool[0].alive += 1
    lane = lanes[stream]
    if lane.end == lane.stop:
        close_gaps(notes, pool[0].tracked, lane, lines)
    lines[lane.end] = slot
    slots[slot].time = time
    lane.newest = max(time, lane.newest)
    lane.end += 1
    lane.alive += 1
    return slot


@step
def write_note(state, stream, slot, order, in_order):
    """What has to be known of the tuple at the end of a line, if it may leave before others."""
    note = state.notes[slot]
    lane = state.lanes[stream]
    note.stream = stream
    note.place = lane.end - 1
    note.order = order
    note.monitor = NOT_CHARGED
    if not lane.is_time_window:
        state.numbers[slot] = lane.taken - 1
    elif state.gate[0].takes_late:
        state.late_place[slot] = -1
        if not in_order:
            late_heap.push(state, slot)


@step
def vacate(slots, pool, lanes, lines, stream, place, slot):
    """The tuple is retained no longer: its slot is unused, its place in the line a gap."""
    lanes[stream].alive -= 1
    pool[0].alive -= 1
    lines[place] = -1
    slots[slot].newer = pool[0].first_unused
    pool[0].first_unused = slot
    pool[0].unused += 1


@step
def drop_note(state, slot):
    """Out of the heap of late tuples, if it stands there."""
    if state.pool[0].late > 0 and state.lanes[state.notes[slot].stream].is_time_window:
        if state.late_place[slot] >= 0:
            late_heap.remove(state, slot)


@step
def expired_late(state):
    """A tuple that came out of order and is dead at the watermark, or -1; ask until -1."""
    slot = np.int64(-1)
    if state.pool[0].late > 0:
        if late_heap.deadline(state, state.late[0]) < state.gate[0].watermark:
            slot = np.int64(state.late[0])
    return slot


@step
def expired_head(state, stream, watermark):
    """The head of the line of `stream` if it is dead at `watermark`, or -1; ask until -1."""
    lane = state.lanes[stream]
    position = lane.begin
    end = lane.end
    while position < end and state.lines[position] < 0:
        position += 1
    lane.begin = position
    if position == end:
        return np.int64(-1)
    slot = np.int64(state.lines[position])
    if lane.is_time_window:
        dead = state.slots[slot].time + lane.window < watermark
    else:
        dead = lane.taken - 1 - state.numbers[slot] >= lane.window
    return slot if dead else np.int64(-1)


@step
def note_peak(pool, lane):
    """Remember the largest number of tuples ever retained; asked after each tuple of a stream."""
    if pool[0].alive > pool[0].peak:
        pool[0].peak = pool[0].alive
    if lane.alive > lane.peak:
        lane.peak = lane.alive
