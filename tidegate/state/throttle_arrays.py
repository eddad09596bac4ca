"""The arrays of a CPU budget, made from a spec."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidegate.binding.binding import Binding
from tidegate.compiled.layout import Records, records
from tidegate.spec import Cpu, JoinSpec, TidegateError
from tidegate.throttle.throttle_records import (
    CELL,
    DIRECTIONS,
    LOOK,
    ORDERS,
    SIDE,
    TANK,
    Throttle,
)

MOST_WINDOWS = 1024  # each probe visits all basic windows
WINDOWS_BY_DEFAULT, PERIODS_BY_DEFAULT = 20, 4  # of the longest window, as in the paper
_TICKS = {"integer": 1, "unknown": 10**6, "us": 10**6, "ns": 10**9}  # of a second


def throttle_of(spec: JoinSpec, binding: Binding, lanes: Records) -> Throttle | None:
    """A full tank, and nothing learned yet; None without a CPU budget."""
    if spec.cpu is None or spec.cpu.comparisons_per_second is None:
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
    tank.rate = spec.cpu.comparisons_per_second / _TICKS[binding.time_unit]
    tank.most = tank.fuel = tank.rate * every
    tank.every, tank.basic = every, basic
    tank.boost, tank.sample, tank.fraction = spec.cpu.boost, spec.cpu.sample, 1.0
    tank.order, tank.direction = ORDERS[spec.cpu.order], DIRECTIONS[spec.cpu.direction]
    sides.windows, sides.window = windows, lanes.window
    cells = records(CELL, (len(lanes), max(windows)))
    cells.share, cells.turn = 1.0, np.arange(max(windows))
    return Throttle(
        tank=tank,
        sides=sides,
        cells=cells,
        held=np.zeros((len(lanes), max(windows) + 1), np.int64),
        looks=records(LOOK, max(windows)),
        density=np.zeros(cells.shape),
        amount=np.zeros(cells.shape),
    )


def _length(cpu: Cpu, binding: Binding, field: str, otherwise: int) -> int:
    window = cpu.windows[field]
    return otherwise if window is None else binding.in_units(window, f"cpu: {field}")


def recount(throttle: Throttle, stream: int, times: NDArray[np.int64]) -> None:
    """Count the retained tuples of a stream that can match, given by their times."""
    throttle.held[stream] = 0
    places = times // throttle.tank[0].basic % throttle.held.shape[1]
    np.add.at(throttle.held[stream], places, 1)
