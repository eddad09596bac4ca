"""What VALUE's trials were counted for, in a snapshot: shadows, or the members that are studied.

Law: rings are written from the oldest shadow on, and chains are made again. Moments are kept in 31
bits in units that follow from the longest window (`match_rate.shift_for`); where a stream shows
that times are finer than was known, they are written again in the new units. Before shadows,
VALUE learned from members alone: such a snapshot is read, and shadows begin with the next tuples.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.engine.snapshot_checks import FAR, require
from tidegate.estimators import frequency, match_rate
from tidegate.shed import exposure, shadows
from tidegate.shed.shed_records import Shed
from tidegate.windows.lifetime import NOT_CHARGED

_OLD_NEVER = -(2**62)
_MOMENTS = 0x7FFFFFFF
_FIELDS = tuple(name for name in shadows.SHADOW.names or () if name != "next")


def has_shadows(shed: Shed) -> bool:
    """Does VALUE learn from shadows here?"""
    return len(shed.shadows.chains) > 1


def dump(shed: Shed) -> dict[str, Any]:
    """Shadows by stream, or up to where the trials of studied members are counted."""
    if has_shadows(shed):
        parts: dict[str, Any] = {"shadows.every": shed.shadows.ring.every}
        for stream in range(len(shed.queues)):
            ring = _ring_of(shed, stream)
            parts |= {f"shadows.{stream}.{name}": ring[name] for name in _FIELDS}
        return parts
    every_slot = np.flatnonzero(shed.members.notes.monitor != NOT_CHARGED)
    slots, places = exposure.studied(shed, every_slot)
    parts = {"exposed.slot": slots}
    parts |= {f"exposed.{name}": shed.rates.exposed[name][places] for name in ("moment", "seen")}
    if len(shed.rates.aged) > 1:
        parts["exposed.aged"] = shed.rates.aged[places]
    if len(shed.members.met) > 1:
        parts["met"] = shed.members.met[every_slot]
        parts["last_met"] = shed.members.last_met[every_slot]
    return parts


def _ring_of(shed: Shed, stream: int) -> Any:
    """The shadows of a stream from the oldest on; where the ring begins means nothing."""
    ring = shed.shadows.ring[stream]
    places = (ring.begin + np.arange(ring.length)) % shed.shadows.shadow.shape[1]
    return shed.shadows.shadow[stream, places]


def refill(shed: Shed, saved: dict[str, Any], line: Any, scale: int) -> None:
    """Put back what `dump` wrote; moments are still in the units of before."""
    if has_shadows(shed):
        _refill_shadows(shed, saved)
    else:
        _expose(shed, saved, line, scale)


def _refill_shadows(shed: Shed, saved: dict[str, Any]) -> None:
    kept = shed.shadows
    for stream, ring in enumerate(kept.ring):
        if "shadows.every" not in saved:
            continue
        length = len(saved[f"shadows.{stream}.mark"])
        require(length <= kept.shadow.shape[1], "it has too many shadows")
        every = int(saved["shadows.every"][stream])
        require(0 < every <= 2**31 and every & (every - 1) == 0, "a share is wrong")
        ring.begin, ring.length, ring.every = 0, length, every
        for name in _FIELDS:
            column = saved[f"shadows.{stream}.{name}"]
            require(
                len(column) == length and column.dtype == shadows.SHADOW[name],
                "its shadows do not add up",
            )
            kept.shadow[name][stream, :length] = column
    shadows.link_all(kept)


def _expose(shed: Shed, saved: dict[str, Any], line: Any, scale: int) -> None:
    """Up to where the trials of members are counted; until version 3 as one array, and of all."""
    rates, all_slots = shed.rates, np.sort(line)
    slots, places = exposure.studied(shed, all_slots)
    is_old = np.array_equal(saved["exposed.slot"], all_slots)
    require(is_old or np.array_equal(saved["exposed.slot"], slots), "slots are missing")
    if "exposed" in saved:
        seen, moment, aged = saved["exposed"].reshape(-1, 3).T
    else:
        seen, moment = saved["exposed.seen"], saved["exposed.moment"]
        aged = saved.get("exposed.aged", moment)
    its = np.isin(all_slots, slots) if is_old else np.ones(len(slots), np.bool_)
    rates.exposed["moment"][places] = in_short(shed, moment[its], scale)
    rates.exposed["seen"][places] = seen[its].astype(np.int64) & 0xFFFFFFFF
    if len(rates.aged) > 1:
        rates.aged[places] = aged[its]
    if len(shed.members.met) > 1 and "met" in saved:
        met = saved["met"]
        is_right = met.dtype == np.float32 and len(met) == len(all_slots)
        require(is_right and bool((met >= 0).all() and np.isfinite(met).all()), "a count is wrong")
        shed.members.met[all_slots] = met
    if len(shed.members.met) > 1 and "last_met" in saved:
        last = saved["last_met"]
        is_right = last.dtype == np.uint32 and len(last) == len(all_slots)
        require(is_right and bool((last < match_rate.NEVER).all()), "a time is out of range")
        shed.members.last_met[all_slots] = last


def in_short(shed: Shed, moments: Any, scale: int) -> Any:
    """Moments as they are kept; in version 4 they had 64 bits at first."""
    if moments.dtype != np.int64:
        return moments
    shift = match_rate.shift_for(int(shed.rates.span[match_rate.SPAN]) // scale)
    return np.where(moments == _OLD_NEVER, match_rate.NEVER, (moments >> shift) & _MOMENTS)


def rescale_ages(shed: Shed, stream: int, scale: int) -> None:
    """Turn the clock of ages of a time window into finer units."""
    shadow = shed.shadows.shadow
    for name in ("born", "aged"):
        shadow[name][stream] *= scale
    span = shed.rates.span
    shift = match_rate.shift_for(int(span[match_rate.SPAN]) // scale)
    lived = int(shed.rates.lived[stream, match_rate.TIME]) << shift
    shed.rates.lived[stream, match_rate.TIME] = lived * scale >> int(span[match_rate.SHIFT])
    if len(shed.rates.aged) > 1:
        notes = shed.members.notes
        its = (notes.monitor != NOT_CHARGED) & (notes.stream == stream)
        _, places = exposure.studied(shed, np.flatnonzero(its))
        shed.rates.aged[places] *= scale


def rescale_moments(shed: Shed, scale: int) -> None:
    """Moments that are kept in short: how long ago they were, in the units of before."""
    rates = shed.rates
    now = int(rates.clock[match_rate.NOW])
    shift = match_rate.shift_for(int(rates.span[match_rate.SPAN]) // scale)
    finer = int(rates.span[match_rate.SHIFT])
    activity, shadow = rates.activity, shed.shadows.shadow
    last_met = shed.members.last_met
    for moments in (
        activity["last"], rates.exposed["moment"], shadow["last"], shadow["since"], last_met
    ):  # fmt: skip
        ago = ((now >> shift) - moments.astype(np.int64)) & _MOMENTS
        then = ((now - (ago << shift)) * scale >> finer) & _MOMENTS
        moments[...] = np.where(moments == match_rate.NEVER, moments, then)
    rates.clock[[match_rate.NOW, match_rate.REFRESHED]] *= scale
    rates.lump[[match_rate.INSTANT, match_rate.NEAREST, match_rate.GAP]] *= scale


def check(shed: Shed, line: NDArray[np.int64]) -> None:
    """Numbers that were read are such as the engine writes."""
    for name in ("last", "before"):
        require((shed.rates.activity[name] <= match_rate.NEVER).all(), "a time is out of range")
    _check_lump(shed.rates.lump)
    if has_shadows(shed):
        for stream in range(len(shed.queues)):
            _check_ring(_ring_of(shed, stream), int(shed.queues[stream].now))
    else:
        _check_members(shed, line)


def _check_lump(lump: NDArray[np.int64]) -> None:
    require(abs(int(lump[match_rate.INSTANT])) < FAR, "a time is out of range")
    is_right = bool((lump[match_rate.SO_FAR :] >= 0).all() and (lump < FAR).all())
    is_right &= bool(lump[match_rate.GAP] == 0 or lump[match_rate.SIZE] > 0)
    require(is_right, "its instants do not add up")


def _check_ring(ring: Any, now: int) -> None:
    require((ring.mark > 0).all(), "a key is out of range")
    require(np.isfinite(ring.count).all() and (ring.count >= 0).all(), "a count is negative")
    require((ring.side < 2).all(), "a side is wrong")
    for moments in (ring.last, ring.since):
        require((moments < match_rate.NEVER).all(), "a time is out of range")
    in_order = (ring.born <= ring.aged) & (ring.aged <= now) & (ring.born > now - FAR)
    require(in_order.all() and (np.abs(ring.time) < FAR).all(), "a time is out of range")


def _check_members(shed: Shed, line: NDArray[np.int64]) -> None:
    rates = shed.rates
    require((rates.exposed["moment"] < match_rate.NEVER).all(), "a time is out of range")
    # What matches nothing is exposed to nothing; its slot has the numbers of an earlier tuple.
    line, places = exposure.studied(shed, line[shed.members.key[line] != frequency.NO_KEY])
    newest = shed.queues.now[shed.members.notes.stream[line]]
    if len(rates.aged) > 1:
        ages = rates.aged[places]
        young = (ages >= shed.members.born[line]) & (ages <= newest)
    else:
        now, shift = int(rates.clock[match_rate.NOW]), int(rates.span[match_rate.SHIFT])
        ago = ((now >> shift) - rates.exposed["moment"][places].astype(np.int64)) & _MOMENTS
        # Inside an instant the clock of waits is ahead of that of the windows.
        ahead = max(0, now - int(shed.queues.now[rates.span[match_rate.CLOCK_OF]]))
        young = ago <= (newest - shed.members.slots.time[line] + ahead >> shift) + 1
    require(young.all(), "a time is out of range")
