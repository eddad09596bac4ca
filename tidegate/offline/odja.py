"""ODJA: the dynamic program of ojewole2006, section 4.2, over the states of the join memory.

Law: a state is the set of tuples that an account holds; of all ways to reach a state only the best
is kept (`worth`, the paper's MI). Only the states of two consecutive admissions exist at a time;
`prev` is written down on the side where the schedule is asked for, and nowhere else.

The paper's rule of shedding is kept: a tuple that finds room is admitted, and only a full memory
forgets, one tuple at a time. So the smallest worth over all paths ("least-importance") is the worst
that a policy can do which never forgets without need. Order, as in the paper's text and example:
with `ties="instant"` tuples are admitted first and the survivors meet the new arrivals then (its
pseudocode joins first; see PAPERS.md).

There are up to C(w, M/2) states, which is why this is for comparison and for small memories.
A state is a set of bits; a tuple has a bit while it lives, which is given to another afterwards.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.compiled.kernel import kernel
from tidegate.offline.instance import Account, Instance, Integers
from tidegate.offline.network import whole_gains
from tidegate.spec import TidegateError

MOST_STATES = 4_000_000
_FULL = -1
_WORD = 64


class States(NamedTuple):
    """The states after one admission, how each was reached, and whom that way forgot."""

    bits: NDArray[np.uint64]  # [state, word]
    worth: NDArray[np.int64]
    prev: NDArray[np.int32]
    forgot: NDArray[np.int64]  # a tuple, or -1


def empty_states(room: int, words: int) -> States:
    return States(
        bits=np.zeros((room, words), np.uint64),
        worth=np.zeros(room, np.int64),
        prev=np.zeros(room, np.int32),
        forgot=np.full(room, -1, np.int64),
    )


class Trail(NamedTuple):
    """What is needed to walk back from the last state: one entry for each admission."""

    place: list[int]
    prev: list[NDArray[np.int32]]
    forgot: list[NDArray[np.int64]]


def solve(
    instance: Instance, number: int, *, least: bool = False, schedule: bool = True
) -> Integers | int:
    """How many options each tuple of an account takes; without `schedule` only the worth."""
    program = _Program(instance, number, least, schedule)
    return program.run()


class _Program:
    """One account's events in order: admissions, and holders that meet somebody."""

    def __init__(self, instance: Instance, number: int, least: bool, schedule: bool) -> None:
        self.instance = instance
        self.account = instance.accounts[number]
        self.members = instance.members(number)
        gains, self.scale = whole_gains(self.account.gain)
        self.gains = -gains if least else gains
        if not least and (gains < 0).any():
            raise TidegateError(
                "some weights are negative, and the dynamic program forgets only when it must; "
                "use method='flow'"
            )
        self.trail = Trail([], [], []) if schedule else None

    def run(self) -> Integers | int:
        bit_of, words = _bits(self.instance, self.members)
        self.owner = np.full(words * _WORD, -1, np.int64)
        self.now, self.next = empty_states(64, words), empty_states(64, words)
        self.table = np.full(256, -1, np.int64)
        self.count = 1
        instance, account = self.instance, self.account
        place_of = np.zeros(len(instance.event), np.int64)
        place_of[instance.order] = np.arange(len(instance.order))
        meetings = np.argsort(account.end, kind="stable")
        ends = account.end[meetings]
        holders = np.repeat(account.tuples, np.diff(account.first))[meetings]
        # In an instant the admissions come first, so its meetings have the next event as their end.
        met = 0
        for x in self.members:
            event = int(instance.event[x])
            upto = int(np.searchsorted(ends, event, side="right"))
            self._meet(bit_of[holders[met:upto]], meetings[met:upto])
            met = upto
            self._admit(int(x), int(bit_of[x]), int(place_of[x]))
        self._meet(bit_of[holders[met:]], meetings[met:])
        best = int(np.argmax(self.now.worth[: self.count]))
        if self.trail is None:
            return int(self.now.worth[best])
        return _walk_back(instance, account, self.trail, best)

    def _meet(self, bits: Integers, options: Integers) -> None:
        if len(bits):
            _earn(self.now, self.count, bits, self.gains[options])

    def _admit(self, x: int, bit: int, place: int) -> None:
        dead = (self.owner >= 0) & (self.instance.death[self.owner] <= place)
        self.owner[dead] = -1
        if self.instance.death[x] <= place:
            bit = -1  # a window of no rows: it takes no room
        else:
            self.owner[bit] = x
        gone, capacity = _mask(dead), self.account.capacity
        while True:
            count = _successors(
                self.now, self.count, gone, bit, capacity, self.owner, self.next, self.table
            )
            if count != _FULL:
                break
            self._make_room(2 * len(self.next.worth))
        self.now, self.next, self.count = self.next, self.now, int(count)
        if self.trail is not None:
            self.trail.place.append(place)
            self.trail.prev.append(self.now.prev[:count].copy())
            self.trail.forgot.append(self.now.forgot[:count].copy())

    def _make_room(self, room: int) -> None:
        if room > MOST_STATES:
            raise TidegateError(
                f"the dynamic program meets more than {MOST_STATES:,} states of the memory at "
                "once; use method='flow'"
            )
        words = self.now.bits.shape[1]
        self.next = empty_states(room, words)
        self.table = np.full(4 * room, -1, np.int64)


def _mask(flags: NDArray[np.bool_]) -> NDArray[np.uint64]:
    packed = np.packbits(flags, bitorder="little")
    return packed.view(np.uint64)


def _bits(instance: Instance, members: Integers) -> tuple[Integers, int]:
    """A bit for each tuple that no other has while it lives, and how many words that takes."""
    bit_of = np.full(len(instance.event), -1, np.int64)
    place = {int(x): k for k, x in enumerate(instance.order)}
    unused: list[int] = []
    alive: list[tuple[int, int]] = []
    used = 0
    for x in members.tolist():
        here = place[x]
        leaving = [pair for pair in alive if pair[0] <= here]
        if leaving:
            alive = [pair for pair in alive if pair[0] > here]
            unused += [bit for _, bit in leaving]
        if unused:
            bit_of[x] = unused.pop()
        else:
            bit_of[x] = used
            used += 1
        alive.append((int(instance.death[x]), int(bit_of[x])))
    return bit_of, max(1, -(-used // _WORD))


@kernel
def _earn(states, count, bits, gains):
    """Every state gains what its holders meet."""
    for state in range(count):
        for k in range(len(bits)):
            bit = bits[k]
            word = states.bits[state, bit >> 6]
            if (word >> np.uint64(bit & 63)) & np.uint64(1):
                states.worth[state] += gains[k]


@kernel
def _enter(states, table, count, worth, prev, forgot):
    """Take the state written at position `count`, or improve the one that equals it."""
    bits = states.bits
    code = np.uint64(1469598103934665603)
    for word in range(bits.shape[1]):
        code = (code ^ bits[count, word]) * np.uint64(0x9E3779B97F4A7C15)
        code ^= code >> np.uint64(29)
    where = np.int64(code % np.uint64(len(table)))
    while True:
        found = table[where]
        if found < 0:
            table[where] = count
            break
        same = True
        for word in range(bits.shape[1]):
            if bits[found, word] != bits[count, word]:
                same = False
        if same:
            break
        where = (where + 1) % len(table)
    target = count if found < 0 else found
    if found < 0 or worth > states.worth[target]:
        states.worth[target] = worth
        states.prev[target] = prev
        states.forgot[target] = forgot
    return count + 1 if found < 0 else count


@kernel
def _lowest(word):
    """The number of the lowest bit that is set; the word with only that bit is a power of two."""
    return np.int64(np.log2(np.float64(word & (~word + np.uint64(1)))))


@kernel
def _write(states, state, dead, new, gone, into, made):
    """Copy a state without the dead, with the new tuple, without the one that is gone."""
    for word in range(states.bits.shape[1]):
        into.bits[made, word] = states.bits[state, word] & ~dead[word]
    if new >= 0:
        into.bits[made, new >> 6] |= np.uint64(1) << np.uint64(new & 63)
    if gone >= 0:
        into.bits[made, gone >> 6] &= ~(np.uint64(1) << np.uint64(gone & 63))


@kernel
def _successors(states, count, dead, new, capacity, owner, into, table):
    """The states after an admission: room for all, or one tuple is forgotten, each in turn.

    Returns how many there are, or _FULL if there is no room for them.
    """
    words = states.bits.shape[1]
    table[:] = -1
    made = np.int64(0)
    for state in range(count):
        held = 0
        for word in range(words):
            rest = states.bits[state, word] & ~dead[word]
            while rest:
                rest &= rest - np.uint64(1)
                held += 1
        if made + held + 2 >= len(into.worth):
            return np.int64(_FULL)
        worth = states.worth[state]
        if new < 0 or held < capacity:
            _write(states, state, dead, new, np.int64(-1), into, made)
            made = _enter(into, table, made, worth, state, np.int64(-1))
            continue
        _write(states, state, dead, new, new, into, made)
        made = _enter(into, table, made, worth, state, owner[new])
        for word in range(words):
            rest = states.bits[state, word] & ~dead[word]
            while rest:
                gone = 64 * word + _lowest(rest)
                rest &= rest - np.uint64(1)
                _write(states, state, dead, new, gone, into, made)
                made = _enter(into, table, made, worth, state, owner[gone])
    return made


def _walk_back(instance: Instance, account: Account, trail: Trail, best: int) -> Integers:
    """From the best last state to the first: when each tuple was forgotten."""
    last = np.full(len(instance.event), np.iinfo(np.int64).max, np.int64)
    state = best
    for place, prev, forgot in zip(*(reversed(part) for part in trail), strict=True):
        if forgot[state] >= 0:
            last[forgot[state]] = instance.event[instance.order[place]]
        state = int(prev[state])
    taken = account.end <= np.repeat(last[account.tuples], np.diff(account.first))
    return np.add.reduceat(taken, account.first[:-1]) if len(taken) else np.zeros(0, np.int64)
