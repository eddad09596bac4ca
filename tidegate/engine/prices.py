"""What tuples take of a memory, where a target is to be kept with few of them.

Law: `memory` and `tuples` are each other's inverse but for rounding up. In bytes it is an estimate
from what is retained now; the budget itself is kept by `state.byte_budget`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from tidegate.loss.sentinel import FEWEST_WITNESSES, WITNESS_BYTES
from tidegate.shed.shed_records import Shed
from tidegate.spec import JoinSpec
from tidegate.state import arrays, byte_budget, shed_arrays
from tidegate.state.join_state import State

UNUSED = 1.1  # slots grow in steps, so some are empty
_PAYLOAD = 64.0  # bytes of a row, until there are some
_FEWEST = 64.0  # rows that a memory in bytes has room for


class Price(NamedTuple):
    """What tuples take of the memory: share * memory = fixed + each * tuples."""

    share: float  # of the memory, that the sentinel leaves
    fixed: float
    each: float

    def tuples(self, memory: float) -> float:
        return max(1.0, (self.share * memory - self.fixed) / self.each)

    def memory(self, tuples: float) -> int:
        return math.ceil((self.fixed + self.each * tuples) / self.share)


def memory_of(spec: JoinSpec) -> int:
    """The budget of a spec, in its unit."""
    return spec.memory_bytes or spec.memory_rows or 0


def price_of(spec: JoinSpec, reserved: int, state: State, shed: Shed) -> Price:
    """What the tuples of a join take, of whose memory a part is reserved."""
    share = 1.0 - (spec.sentinel or 0.0)
    if spec.memory_bytes is None:
        return Price(share, reserved, 1.0)
    slot = arrays.slot_bytes(state) + shed_arrays.slot_bytes(shed)
    fixed = byte_budget.held(state, shed) - slot * len(state.slots)
    alive = int(state.pool[0].alive)
    payload = int(state.accounts.used.sum()) / alive if alive else _PAYLOAD
    return Price(share, reserved + fixed, UNUSED * slot + payload)


def least_memory(spec: JoinSpec, price: Price) -> int:
    """A memory below which a sentinel would see nothing, or arrays have no room."""
    witnesses = FEWEST_WITNESSES / (1.0 - price.share)
    if spec.memory_bytes is None:
        return max(price.memory(2.0 * len(spec.streams)), math.ceil(witnesses))
    return math.ceil(max(1.3 * price.memory(_FEWEST), witnesses * WITNESS_BYTES))
