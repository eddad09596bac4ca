"""A CPU budget in a snapshot: fuel, fraction, plan and evidence, as numbers by name.

Law: options come from the spec. No number is used before it was checked: a basic window that is
named as the next to be taken is one, and appears once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.engine.snapshot_checks import FAR, require
from tidegate.throttle.throttle_records import CELL, OPTIONS, SIDE, TANK, Throttle

_NOT_SAVED = {
    *OPTIONS,
    "windows",
    "window",
    "period",
    "allowed",
    "weight",
    "linked",
    "next",
    "full",
    "planned",
    "inside",
    "fits",
}  # from the spec, or from other numbers
# Snapshots that were made before these were counted have none of them.
_LATER = {"probed", "probed_before", "old_comparisons", "old_worth"}


def saved(throttle: Throttle) -> dict[str, Any]:
    """What a snapshot holds of it."""
    return {
        what: {name: getattr(throttle, what)[name].tolist() for name in _names(kind)}
        for what, kind in (("tank", TANK), ("sides", SIDE), ("cells", CELL))
    }


def refill(throttle: Throttle, numbers: Any, scale: int) -> None:
    """Write what was saved into a fresh budget; `scale` turns saved times into those of it."""
    require(isinstance(numbers, dict), "its CPU budget is missing")
    begun = numbers["tank"]["begun"]
    require(begun in ([0], [1]), "its CPU budget has neither begun nor not")
    if begun == [0]:
        return  # a fresh one knows the unit of time by now, which the saved one may not have known
    for what, kind in (("tank", TANK), ("sides", SIDE), ("cells", CELL)):
        target = getattr(throttle, what)
        for name in _names(kind):
            if name in numbers[what] or name not in _LATER:
                target[name] = _checked(numbers[what][name], target[name], name)
    tank = throttle.tank[0]
    require(0 < tank.fraction <= 1, "the share of comparisons is out of range")
    require(abs(int(tank.now)) < FAR // scale, "a time is out of range")
    tank.now *= scale
    tank.period = tank.now // tank.every
    tank.fuel = min(tank.fuel, tank.most)
    _check_plan(throttle)


def _names(kind: np.dtype[Any]) -> list[str]:
    return [name for name in kind.names or () if name not in _NOT_SAVED]


def _checked(values: Any, target: NDArray[Any], name: str) -> NDArray[Any]:
    """Numbers of the right kind, as many as there should be."""
    array = np.array(values)
    require(array.shape == target.shape, f"{name} is missing")
    require(
        array.dtype.kind == "i" or array.dtype.kind == target.dtype.kind, f"{name} is no number"
    )
    require((np.abs(array) < FAR).all(), f"{name} is out of range")
    if name not in ("now", "fuel"):
        require((array >= 0).all(), f"{name} is negative")
    return array


def _check_plan(throttle: Throttle) -> None:
    require((throttle.cells.share <= 1).all(), "a share is above 1")
    for side, cells in zip(throttle.sides, throttle.cells, strict=True):
        turns = np.sort(cells.turn[: side.windows])
        require(np.array_equal(turns, np.arange(side.windows)), "its basic windows are not in turn")
