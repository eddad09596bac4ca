"""A CPU budget as the user sees it: which joins take one, and what became of its comparisons."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.spec import JoinSpec, TidegateError
from tidegate.throttle.throttle_records import Throttle


def check_cpu(spec: JoinSpec) -> None:
    """An error if this version cannot run such a join under its CPU budget."""
    if spec.cpu is None or not spec.cpu.has_fuel:
        return
    if len(spec.streams) != 2:
        raise TidegateError("cpu is given, but CPU budgets join two streams so far; give cpu=None")
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


def throttle_stats(throttle: Throttle, names: Sequence[str]) -> dict[str, int | float]:
    """What was not compared, an estimate of the results in it, and the share r at the moment."""
    skipped = [int(number) for number in throttle.sides.skipped]
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
