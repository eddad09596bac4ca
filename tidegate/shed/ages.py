"""Tuples in stages of age: the victim is the oldest or the youngest of a stage.

Law: the members of a stream stand in one list by arrival; a stage is a stretch of it, all tuples of
one bucket of ages. A tuple's worth is that of its stage. Inside a stage where worth rises with age
the youngest goes first, elsewhere the oldest:

    list      oldest  a b c | d e | f g h i  newest        stages 2, 1, 0
                              ^ candidate of stage 1 where worth falls, e where it rises

(srivastava2004, section 3.2.1: with a curve that rises to k_opt a tuple must be let grow old, so
the newcomer is refused; on a curve that falls the oldest makes room.) RECENT and UNTIL-EXPIRY are
the two ways to have a single stage.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.compiled.frames import frame
from tidegate.compiled.kernel import part
from tidegate.shed.members import set_stage
from tidegate.shed.members import stage_of as member_stage

NOBODY = -1


@frame
class Stages(NamedTuple):
    """[stream, stage]; the last stage holds what has nothing ahead of it."""

    oldest: NDArray[np.int32]
    youngest: NDArray[np.int32]
    worth: NDArray[np.float64]
    rising: NDArray[np.int32]
    ending: NDArray[np.float64]  # worth at the end of the stage
    width: NDArray[np.int64]  # [stream]: moments per stage


def empty(streams: int, stages: int, rising: int = 0) -> Stages:
    return Stages(
        oldest=np.full((streams, stages), NOBODY, np.int32),
        youngest=np.full((streams, stages), NOBODY, np.int32),
        worth=np.zeros((streams, stages), np.float64),
        rising=np.full((streams, stages), rising, np.int32),
        ending=np.zeros((streams, stages), np.float64),
        width=np.full(streams, 2**62, np.int64),
    )


@part
def stage_of(stages, stream, born, now):
    """The stage of a tuple that was born at one moment and is looked at in another."""
    last = stages.worth.shape[1] - 1
    return min(np.int64(last), (now - born) // stages.width[stream])


@part
def worth_at(stages, stream, born, now):
    """The worth of a tuple at its very age: inside a stage it goes from `worth` to `ending`."""
    stage = stage_of(stages, stream, born, now)
    worth = stages.worth[stream, stage]
    inside = np.float64(now - born - stage * stages.width[stream]) / stages.width[stream]
    return worth + min(1.0, inside) * (stages.ending[stream, stage] - worth)


@part
def append(stages, members, stream, slot):
    """A new tuple, the youngest of all."""
    newest = np.int64(NOBODY)
    for stage in range(stages.worth.shape[1]):
        newest = np.int64(stages.youngest[stream, stage])
        if newest >= 0:
            break
    members.links[slot].prev = newest
    members.links[slot].next = NOBODY
    set_stage(members, slot, 0)
    if newest >= 0:
        members.links[newest].next = slot
    if stages.oldest[stream, 0] < 0:
        stages.oldest[stream, 0] = slot
    stages.youngest[stream, 0] = slot


@part
def remove(stages, members, stream, slot):
    """Take a tuple out of the list and of its stage."""
    older, newer = members.links[slot].prev, members.links[slot].next
    stage = member_stage(members, slot)
    if older >= 0:
        members.links[older].next = newer
    if newer >= 0:
        members.links[newer].prev = older
    if stages.oldest[stream, stage] == slot:
        same = newer >= 0 and member_stage(members, newer) == stage
        stages.oldest[stream, stage] = newer if same else NOBODY
    if stages.youngest[stream, stage] == slot:
        same = older >= 0 and member_stage(members, older) == stage
        stages.youngest[stream, stage] = older if same else NOBODY


@part
def grow_older(stages, members, stream, now):
    """Move what has become too old for its stage on to the stage of its age."""
    width = stages.width[stream]
    last = stages.worth.shape[1] - 1
    for stage in range(last - 1, -1, -1):
        slot = np.int64(stages.oldest[stream, stage])
        while slot >= 0 and now - members.born[slot] >= (stage + 1) * width:
            newer = np.int64(members.links[slot].next)
            same = newer >= 0 and member_stage(members, newer) == stage
            stages.oldest[stream, stage] = newer if same else NOBODY
            if not same:
                stages.youngest[stream, stage] = NOBODY
            target = stage_of(stages, stream, members.born[slot], now)
            set_stage(members, slot, target)
            stages.youngest[stream, target] = slot
            if stages.oldest[stream, target] < 0:
                stages.oldest[stream, target] = slot
            slot = newer if same else np.int64(NOBODY)


@part
def candidate(stages, members, stream):
    """The slot that goes first, or NOBODY: the smallest (worth, basis, order), see `rank`."""
    best = np.int64(NOBODY)
    for stage in range(stages.worth.shape[1]):
        if stages.rising[stream, stage]:
            slot = np.int64(stages.youngest[stream, stage])
        else:
            slot = np.int64(stages.oldest[stream, stage])
        if slot < 0:
            continue
        if best < 0:
            best = slot
            continue
        order, its_order = np.int64(members.notes[slot].order), np.int64(members.notes[best].order)
        worth, basis = rank(stages, stream, np.int64(stage), order)
        least, lowest = rank(stages, stream, member_stage(members, best), its_order)
        if worth < least or (
            worth == least and (basis < lowest or (basis == lowest and order < its_order))
        ):
            best = slot
    return best


@part
def rank(stages, stream, stage, order):
    """Worth, and what breaks ties: where worth rises with age, the younger goes first."""
    basis = -np.float64(order) if stages.rising[stream, stage] else 0.0
    return stages.worth[stream, stage], basis
