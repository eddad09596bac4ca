"""What shedding knows of each retained tuple: a member is a slot that is charged to an account.

Law: a policy pays for what it reads. Each column is an array by slot where the policy needs one and
a single number for all where it does not, so that one driver serves all policies.

| column | who needs it |
|---|---|
| `slots`, `notes` | all: time, order, stream, monitor; the records of `windows.lifetime` |
| `priority` | policies whose tuples stand one by one |
| `basis` | those with importance or time in it |
| `born` | those that know ages, by count or by order of arrival; else it is the slot's time |
| `cost` | budgets in bytes |
| `key` | those that count keys |
| `met` | `value`, where no keys are compared: how many partners the tuple has met so far |
| `links` | tuples that stand by key or by age: neighbours in a list |
| `below` | the first child, where the tuples of a key form a heap; the stage, of tuples by age |
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.compiled import layout
from tidegate.compiled.frames import frame
from tidegate.compiled.kernel import step
from tidegate.compiled.layout import records
from tidegate.windows.lifetime import NOT_CHARGED

LINK = np.dtype([("next", np.int32), ("prev", np.int32)])


@frame
class Members(NamedTuple):
    slots: Any  # [slot]: the same arrays as those of the join
    notes: Any
    priority: NDArray[np.float64]
    basis: NDArray[np.float64]
    born: NDArray[np.int64]
    cost: NDArray[np.int32]
    key: NDArray[np.int32]
    met: NDArray[np.float32]
    last_met: NDArray[np.uint32]
    links: Any
    below: NDArray[np.int32]


class Needs(NamedTuple):
    """Which columns are arrays by slot."""

    priority: bool
    basis: bool
    born: bool
    cost: bool
    key: bool
    met: bool
    last_met: bool
    links: bool
    below: bool


def empty(slots: Any, notes: Any, needs: Needs) -> Members:
    """Nobody is a member yet."""
    lengths = [max(2, len(notes)) if needed else 1 for needed in needs]
    priority, basis, born, cost, key, met, last_met, links, below = lengths
    return Members(
        slots=slots,
        notes=notes,
        priority=np.zeros(priority, np.float64),
        basis=np.zeros(basis, np.float64),
        born=np.zeros(born, np.int64),
        cost=np.ones(cost, np.int32),
        key=np.zeros(key, np.int32),
        met=np.zeros(met, np.float32),
        last_met=np.zeros(last_met, np.uint32),
        links=records(LINK, links),
        below=np.zeros(below, np.int32),
    )


def needs_of(members: Members) -> Needs:
    """Which columns are arrays by slot."""
    return Needs(*(len(column) > 1 for column in members[2:]))


def grown(members: Members, slots: Any, notes: Any) -> Members:
    """The same members, with room for as many as there are slots."""
    more = empty(slots, notes, needs_of(members))
    for old, new in zip(members[2:], more[2:], strict=True):
        layout.copy(old, new)
    return more


def slot_bytes(members: Members) -> int:
    """Bytes of one more slot, but for its note."""
    return sum(int(column.itemsize) for column in members[2:] if len(column) > 1)


@step
def is_one(members, slot):
    """Is the tuple in this slot a member?"""
    return members.notes[slot].monitor != NOT_CHARGED


@step
def basis_at(members, slot):
    return members.basis[slot if len(members.basis) > 1 else 0]


@step
def born_at(members, slot):
    """When a tuple was born, by the clock of its window."""
    return members.born[slot] if len(members.born) > 1 else members.slots[slot].time


@step
def cost_at(members, slot):
    return members.cost[slot if len(members.cost) > 1 else 0]


@step
def met_at(members, slot):
    return np.float64(members.met[slot if len(members.met) > 1 else 0])


@step
def last_met_at(members, slot):
    return members.last_met[slot if len(members.last_met) > 1 else 0]


@step
def stage_of(members, slot):
    """The stage of age of a tuple that stands by age; 0 where there is one stage."""
    return np.int64(members.below[slot if len(members.below) > 1 else 0])


@step
def set_stage(members, slot, stage):
    members.below[slot if len(members.below) > 1 else 0] = stage


@step
def write(members, slot, priority, basis, born, cost, key, met, now, monitor):
    """The tuple in this slot is a member from now on; it has met so many partners just now."""
    members.notes[slot].monitor = monitor
    if len(members.priority) > 1:
        members.priority[slot] = priority
    members.basis[slot if len(members.basis) > 1 else 0] = basis
    if len(members.born) > 1:
        members.born[slot] = born
    members.cost[slot if len(members.cost) > 1 else 0] = cost
    if len(members.key) > 1:
        members.key[slot] = key
    if len(members.met) > 1:
        members.met[slot] = met
        members.last_met[slot] = np.uint32(now)
