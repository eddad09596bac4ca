"""A CPU budget as the user sees it: which joins take one, and what became of its comparisons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tidegate.engine.core_speed import comparisons_per_second
from tidegate.spec import JoinSpec, TidegateError
from tidegate.state.settings import index_of
from tidegate.throttle.throttle_records import Throttle


def check_cpu(spec: JoinSpec) -> None:
    """An error if this version cannot run such a join under its CPU budget."""
    if spec.cpu is None or not spec.cpu.has_fuel:
        return
    if spec.ties != "arrival":
        raise TidegateError(
            f"cpu is given with ties={spec.ties!r}, but CPU budgets need ties='arrival'; leave one "
            "of them out"
        )
    if any(window.kind == "rows" for window in spec.windows):
        raise TidegateError(
            "cpu is given, but a window is a number of rows, which has no basic windows; give "
            "a duration as within="
        )
    for name, kind in zip(spec.streams, spec.index_kinds, strict=True):
        if kind in ("btree", "ttree"):
            raise TidegateError(
                f"cpu is given, but the index of stream {name!r} is a {kind}, which cannot be read "
                "for a part of the window; give index='auto'"
            )


def fuel_of(spec: JoinSpec) -> float | None:
    """Comparisons per second that a share of a core of this machine makes; None without one.

    Where the streams have different indexes the slower counts.
    """
    if spec.cpu is None or spec.cpu.share_of_core is None:
        return None
    kinds = {index_of(spec, stream) for stream in range(len(spec.streams))}
    return spec.cpu.share_of_core * min(map(comparisons_per_second, kinds))


def is_fuel(spec: JoinSpec, fuel: Any) -> bool:
    """Can a push of such a join be granted this?"""
    if spec.cpu is None or not spec.cpu.has_fuel:
        return False
    granted = spec.cpu.comparisons_per_second is None
    return granted and type(fuel) in (int, float) and 0 <= fuel < math.inf


def check_fuel(spec: JoinSpec, fuel: Any) -> None:
    """An error unless the fuel of a push is a number, and one that the push decides."""
    if fuel is None:
        return
    if spec.cpu is None or not spec.cpu.keep_up:
        raise TidegateError(
            "push was given fuel, but the join does not take it from its pushes; give "
            "cpu=tidegate.Cpu(keep_up=True), or leave fuel out"
        )
    if not is_fuel(spec, fuel):
        raise TidegateError(f"fuel {fuel!r} is not a number of comparisons; give 0 or more")


def throttle_stats(throttle: Throttle, names: Sequence[str]) -> dict[str, int | float]:
    """What was not compared, an estimate of the results in it, and the share r at the moment."""
    skipped = [round(float(number)) for number in throttle.sides.skipped]
    stats: dict[str, int | float] = {
        f"skipped_comparisons_{name}": number for name, number in zip(names, skipped, strict=True)
    }
    tank = throttle.tank[0]
    stats |= {"skipped_comparisons": sum(skipped), "cpu_fraction": float(tank.fraction)}
    if tank.sample > 0.0:  # without samples nobody knows what lies in the part that is skipped
        stats["skipped_results_estimate"] = float(tank.denied) + _outside_of_plans(throttle)
    return stats


def _outside_of_plans(throttle: Throttle) -> float:
    """Results that probes would have had beyond the plan, as sampled probes had them."""
    sides = [side for side in throttle.sides if side.stood > 0]
    return sum(float(side.missed / side.stood * side.others) for side in sides)
