"""A budget in bytes: what of it is left for payload, and how far the arrays may grow.

Law: arrays and payload together never exceed the budget. The arrays are counted as they are, slots
in use or not; what is left is the capacity of the accounts, to which the payload of retained tuples
is charged. Slots grow only while the budget has room for the larger arrays and for payload to fill
them; then slots are scarce too, and an arrival gets one when a victim gives one up.

What the store of the payload may hold beyond the rows that are alive is part of a row's charge.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tidegate.shed.shed_records import Shed
from tidegate.spec import JoinSpec, TidegateError
from tidegate.state import arrays, shed_arrays
from tidegate.state.join_state import State
from tidegate.state.settings import capacities

OVERHEAD = 16_384  # objects of Python around the arrays, and the smallest store of payload
_FEWEST_ROWS = 16  # of 64 bytes: less is no budget
_STEPS = (2.0, 1.5, 1.25, 1.1)  # by which slots grow, the largest that the budget can pay


def charges(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """What rows of these sizes are charged: a store holds up to an eighth more than is alive."""
    return sizes + (sizes + 7) // 8


def held(state: State, shed: Shed) -> int:
    """Bytes of all arrays."""
    return arrays.nbytes(state) + shed_arrays.nbytes(shed) + OVERHEAD


def set_capacities(spec: JoinSpec, state: State, shed: Shed) -> None:
    """Give the accounts what the arrays leave of the budget, and their shares of the slots."""
    assert spec.memory_bytes is not None
    left = max(0, spec.memory_bytes - held(state, shed))
    state.accounts.capacity = capacities(spec, left)
    state.accounts.slots = capacities(spec, len(state.slots))
    shed.rule[0].slot_price = arrays.slot_bytes(state) + shed_arrays.slot_bytes(shed)


def fits(spec: JoinSpec, state: State, shed: Shed) -> bool:
    """Is there room for the payload that is charged beside the arrays as they are?"""
    assert spec.memory_bytes is not None
    return held(state, shed) + int(state.accounts.used.sum()) <= spec.memory_bytes


def check(spec: JoinSpec, state: State, shed: Shed, held_under: Callable[[JoinSpec], int]) -> None:
    """Refuse a budget that is too small for anything, and name the smallest that works.

    `held_under` gives the bytes of all arrays of the empty join under another budget.
    """
    assert spec.memory_bytes is not None
    least = 64 * _FEWEST_ROWS
    if held(state, shed) + least <= spec.memory_bytes:
        return
    kilobytes, needed = 0, 1
    while needed > kilobytes:  # a larger budget gives more to what it learns
        kilobytes = needed
        arrays_then = held_under(spec.replace(memory=f"{kilobytes} KB"))
        needed = -(-(arrays_then + least) // 1000)
    raise TidegateError(
        f"memory {spec.memory!r} is too small for policy {spec.policy_choice.name!r}: what it "
        f"learns takes most of that; give at least '{kilobytes} KB', or a policy that learns "
        "less, such as 'random'"
    )


def larger_capacity(spec: JoinSpec, state: State, shed: Shed) -> int | None:
    """How many slots there may be next; None if the budget has no room for more."""
    assert spec.memory_bytes is not None
    slots, used = len(state.slots), state.accounts.used
    each = arrays.slot_bytes(state) + shed_arrays.slot_bytes(shed)
    mean = int(used.sum()) // max(1, int(state.pool[0].alive))
    for step in _STEPS:
        more = max(16, int(slots * (step - 1)))
        left = spec.memory_bytes - held(state, shed) - more * each
        fits = left >= int(used.sum()) + more * mean
        if fits and all(np.array(capacities(spec, left)) >= used):
            return slots + more
    return None
