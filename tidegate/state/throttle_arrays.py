"""The arrays of a CPU budget, made from a spec."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.binding.binding import Binding
from tidegate.binding.spec_records import NESTED_LOOP
from tidegate.compiled.layout import Records, records
from tidegate.spec import Cpu, JoinSpec, TidegateError
from tidegate.state.join_state import State, head_of, line_of
from tidegate.throttle import ring
from tidegate.throttle.throttle_records import (
    CELL,
    DIRECTIONS,
    LOOK,
    ORDERS,
    SIDE,
    TANK,
    Throttle,
)
from tidegate.windows import lifetime

MOST_WINDOWS = 1024  # each probe visits all basic windows
MOST_PLACES = 65_536  # of the ring
_UNLIMITED = 2.0**60  # comparisons per adaptation period
WINDOWS_BY_DEFAULT, PERIODS_BY_DEFAULT = 20, 4  # of the longest window, as in the paper
_TICKS = {"integer": 1, "unknown": 10**6, "us": 10**6, "ns": 10**9}  # of a second


def throttle_of(spec: JoinSpec, binding: Binding, lanes: Records) -> Throttle | None:
    """A full tank, and nothing learned yet; None without a CPU budget."""
    if spec.cpu is None or not spec.cpu.has_fuel:
        return None
    longest = max(1, int(lanes.window.max()))
    basic = _length(spec.cpu, binding, "basic_window", -(-longest // WINDOWS_BY_DEFAULT))
    windows = [1 + -(-int(lane.window) // basic) for lane in lanes]
    if max(windows) > MOST_WINDOWS:
        raise TidegateError(
            f"cpu: basic_window cuts a window into {max(windows):,} parts, of which at most "
            f"{MOST_WINDOWS:,} can be told apart; give a longer basic_window"
        )
    tank, sides = records(TANK, 1), records(SIDE, len(lanes))
    every = _length(spec.cpu, binding, "adapt_every", -(-longest // PERIODS_BY_DEFAULT))
    tank.every, tank.basic = every, basic
    tank.boost, tank.sample, tank.fraction = spec.cpu.boost, spec.cpu.sample, 1.0
    tank.order, tank.direction = ORDERS[spec.cpu.order], DIRECTIONS[spec.cpu.direction]
    sides.windows, sides.window = windows, lanes.window
    sides.linked = lanes.index == NESTED_LOOP
    cells = records(CELL, (len(lanes), max(windows)))
    cells.share, cells.turn = 1.0, np.arange(max(windows))
    throttle = Throttle(
        tank=tank,
        sides=sides,
        cells=cells,
        **_ring(sides, max(windows) + 1),
        looks=records(LOOK, max(windows)),
        density=np.zeros(cells.shape),
        amount=np.zeros(cells.shape),
    )
    set_fuel(throttle, binding, spec.cpu.comparisons_per_second)
    tank.fuel = tank.most
    return throttle


def set_fuel(throttle: Throttle, binding: Binding, per_second: float | None) -> None:
    """Grant so many comparisons per second of event time from now on; None: without a limit."""
    tank = throttle.tank[0]
    rate = _UNLIMITED / tank.every
    if per_second is not None:
        rate = min(rate, per_second / _TICKS[binding.time_unit])
    tank.rate, tank.most = rate, rate * tank.every
    tank.fuel = min(tank.fuel, tank.most)


def _ring(sides: Records, places: int) -> dict[str, NDArray[Any]]:
    chained = places if sides.linked.any() else 1
    return {
        "held": np.zeros((len(sides), places), np.int64),
        "chains": np.full((chained, len(sides), 2), -1, np.int32),
    }


def with_room(state: State, earliest: int, latest: int) -> State:
    """The same join, its ring long enough for tuples from the earliest to the latest time.

    Under a budget in bytes the ring stays as it is.
    """
    throttle = state.throttle
    assert throttle is not None
    basic = int(throttle.tank[0].basic)
    needed = latest // basic - earliest // basic + 1
    throttle.tank[0].fits = needed <= throttle.held.shape[1]
    if throttle.tank[0].fits or needed > MOST_PLACES or state.gate[0].by_bytes:
        return state
    throttle = throttle._replace(**_ring(throttle.sides, min(MOST_PLACES, 2 * needed)))
    throttle.tank[0].fits = 1
    state = state._replace(throttle=throttle)
    fill_ring(state)
    return state


def fill_ring(state: State) -> None:
    """Enter the retained tuples of all streams into an empty ring."""
    for stream in range(len(state.lanes)):
        line = line_of(state, stream)
        can_match = line[state.slots.older[line] != lifetime.NOT_INDEXED]
        ring.enter_all(state.throttle, state.slots, stream, can_match)


def span_of(state: State, times: NDArray[np.int64]) -> tuple[int, int]:
    """The earliest and the latest time that may be retained while arrivals of `times` are taken."""
    slots = [slot for slot in map(partial(head_of, state), range(len(state.lanes))) if slot >= 0]
    slots += state.late[: state.pool[0].late].tolist()
    earliest = min(times.min(), state.slots.time[slots].min(initial=times[0]))
    newest = [int(lane.newest) for lane in state.lanes if lane.alive > 0]
    return int(earliest), max([int(times.max()), *newest])


def _length(cpu: Cpu, binding: Binding, field: str, otherwise: int) -> int:
    window = cpu.windows[field]
    return otherwise if window is None else binding.in_units(window, f"cpu: {field}")
