"""What a policy learns from: age curves, shadows and rates of matches, and what it is told of them.

Law: before a life is over every age is worth as much as every other, unless the user gave a curve.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.binding.binding import Binding
from tidegate.estimators import age_curve, frequency, match_rate
from tidegate.shed import recipes, shadows, shed_records
from tidegate.shed.shed_records import Shed
from tidegate.spec import JoinSpec, TidegateError
from tidegate.spec.options import Policy
from tidegate.spec.predicates import Equal
from tidegate.spec.units import parse_window
from tidegate.state.join_state import State
from tidegate.state.settings import capacities

BUCKETS = 20  # of an age curve, where the user does not say
MOST_BUCKETS = 1000
# One in so many of the retained tuples is kept to learn an age curve; VALUE learns from all.
MONITOR_SHARE = 16
MONITOR_SHARE_OF_VALUE = 48
_BYTES_GUESSED = 1024  # of a tuple, where the budget is in bytes
_BYTES_OF_SMALL = 256  # of a small one


def by_stream(spec: JoinSpec, given: Any, what: str) -> list[Any]:
    if not isinstance(given, Mapping):
        return [given] * len(spec.streams)
    missing = [name for name in spec.streams if name not in given]
    if missing:
        raise TidegateError(
            f"policy {spec.policy_choice.name!r}: {what} has no entry for stream {missing[0]!r}; "
            f"give one for each of {', '.join(spec.streams)}"
        )
    return [given[name] for name in spec.streams]


def _widths(spec: JoinSpec, binding: Binding, policy: Policy, windows: Any) -> list[int]:
    widths = []
    for given, window in zip(by_stream(spec, policy.get("bucket"), "bucket"), windows, strict=True):
        if given is None:
            widths.append(max(1, -(-int(window) // BUCKETS)))
        else:
            widths.append(binding.in_units(parse_window(given, "bucket", counts=False), "bucket"))
    return widths


def _windows(spec: JoinSpec, binding: Binding) -> list[int]:
    return [binding.in_units(window, "within") for window in spec.windows]


def buckets_of(spec: JoinSpec, binding: Binding, policy: Policy) -> int:
    """As many as the longest curve has; where none is given, as many whatever the units of time."""
    curves = by_stream(spec, policy.get("curve"), "curve")
    if policy.get("bucket") is None:
        return max(BUCKETS, *(len(curve) for curve in curves if curve is not None), 1)
    windows = _windows(spec, binding)
    widths = _widths(spec, binding, policy, windows)
    needed = [
        max(1, -(-window // width)) if curve is None else len(curve)
        for curve, window, width in zip(curves, windows, widths, strict=True)
    ]
    if max(needed) > MOST_BUCKETS:
        raise TidegateError(
            f"policy {policy.name!r}: a bucket of {min(widths)} cuts the window into "
            f"{max(needed)} ages; give a bucket that makes at most {MOST_BUCKETS}"
        )
    return max(needed)


def open_curve(spec: JoinSpec, binding: Binding, policy: Policy, shed: Shed, state: State) -> None:
    windows = _windows(spec, binding)
    shed.stages.width[:] = _widths(spec, binding, policy, windows)
    shed.curve.watch.buckets = np.maximum(1, -(-np.array(windows) // shed.stages.width))
    curves = by_stream(spec, policy.get("curve"), "curve")
    total = spec.memory_rows
    if spec.memory_bytes is not None:
        total = spec.memory_bytes // _BYTES_GUESSED
    shares = capacities(spec, total)
    for stream, curve in enumerate(curves):
        if curve is not None:
            p = np.array(curve, np.float64)
            if shed.rule[0].kind == shed_records.VALUE:
                _tell_ages(shed, stream, p)
            if spec.split == "auto":  # results per unit of age, to compare streams by
                p /= shed.stages.width[stream]
            stages = shed.stages
            age_curve.rate_ahead(
                p, stages.worth[stream], stages.rising[stream], stages.ending[stream]
            )
        else:
            # As flat as can be, until a life is over.
            shed.stages.worth[stream] = shed.stages.ending[stream] = 1.0
            share = shares[state.lanes[stream].account]
            if spec.split in ("shared", "auto"):
                share //= len(spec.streams)
            one_in = (
                MONITOR_SHARE_OF_VALUE if shed.rule[0].kind == shed_records.VALUE else MONITOR_SHARE
            )
            limit = min(age_curve.MOST_MONITORS, share / one_in)
            is_needed = share >= 4 and len(shed.shadows.chains) == 1
            shed.curve.watch[stream].limit = limit if is_needed else 0.0


def _tuples(spec: JoinSpec) -> int:
    """How many tuples a budget may hold."""
    if spec.memory_bytes is not None:
        return spec.memory_bytes // _BYTES_OF_SMALL
    assert spec.memory_rows is not None
    return spec.memory_rows


def has_shadows(spec: JoinSpec) -> bool:
    """Do two tuples meet iff their keys are equal? Then VALUE learns from shadows."""
    return len(spec.streams) == 2 and all(isinstance(each, Equal) for each in spec.predicates)


def is_keyless(spec: JoinSpec) -> bool:
    """Is nothing compared by keys?"""
    return not any(isinstance(each, Equal) for each in spec.predicates)


def monitors_of(spec: JoinSpec, recipe: recipes.Recipe) -> int:
    """How many monitors there is room for; VALUE needs none where it has shadows."""
    learns = recipe.aged and not (recipe.kind == shed_records.VALUE and has_shadows(spec))
    return age_curve.MOST_MONITORS if learns else 1


def shadows_of(spec: JoinSpec, recipe: recipes.Recipe, state: State) -> shadows.Shadows:
    if recipe.kind != shed_records.VALUE or not has_shadows(spec):
        return shadows.empty(len(spec.streams), 0)
    kept = shadows.empty(2, shadows.room_for(_tuples(spec)), spec.ties == "instant")
    kept.ring.life = state.lanes.window - (1 - state.lanes.is_time_window)
    return kept


def rates_of(
    spec: JoinSpec, recipe: recipes.Recipe, buckets: int, columns: dict[str, Any], state: State
) -> match_rate.MatchRate:
    streams = len(spec.streams)
    if recipe.kind == shed_records.VALUE:
        ages, is_counted = min(match_rate.MOST_AGES, buckets), not state.lanes.is_time_window.all()
        if has_shadows(spec):
            rates = match_rate.empty(streams, ages)
        else:
            study = match_rate.study_of(_tuples(spec), streams * age_curve.MOST_MONITORS)
            slots = max(2, len(state.slots))
            rates = match_rate.empty(
                streams, ages, slots=slots, is_counted=is_counted, study=study,
                knows_met=True, keyed=not is_keyless(spec),
            )  # fmt: skip
    else:
        rates = match_rate.empty(streams)
    return rates._replace(activity=columns["activity"])


def open_rates(shed: Shed, state: State) -> None:
    """What VALUE's rates are told, and the clock by which waits are measured."""
    rates, rule = shed.rates, shed.rule[0]
    timed = np.flatnonzero(state.lanes.is_time_window == 1)
    span = max(1, int(rule.fade_after))
    shift = match_rate.shift_for(span)
    rates.span[:] = span, timed[0] if len(timed) else -1, shift, span >> shift
    rates.told[:2] = rule.statistics == frequency.GIVEN, not rule.watched
    rates.life[:] = shed.stages.width * shed.curve.watch.buckets
    rates.share[:] = np.clip(rates.life / span, 1 / match_rate.SHORTEST_WAIT, 1.0)
    if rates.told[:2].any():
        rates.ahead[:] = 1.0
    if rates.told[0]:
        levels = np.array([match_rate.typical(level) for level in range(match_rate.LEVELS)])
        rates.level[:] = levels / match_rate.GIVEN_SCALE


def _tell_ages(shed: Shed, stream: int, curve: NDArray[np.float64]) -> None:
    """Of a given curve, what it means over the ages for which VALUE would learn a factor."""
    places, buckets = shed.rates.age.shape[1], int(shed.curve.watch[stream].buckets)
    p = np.zeros(buckets)
    p[: len(curve)] = curve[:buckets]
    place = np.arange(buckets) * places // buckets
    numbers = np.maximum(1, np.bincount(place, minlength=places))
    mean = float(p.mean()) or 1.0
    shed.rates.age[stream] = np.bincount(place, p, places) / numbers / mean
