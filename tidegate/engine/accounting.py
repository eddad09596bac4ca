"""What became of every row, and what it cost: the numbers of `JoinEngine.stats()`.

Law: rows in = alive + expired + evicted + refused + too late + rejected, in total and per stream.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tidegate.engine.throttling import throttle_stats
from tidegate.estimators import frequency
from tidegate.estimators.importance import of_ones
from tidegate.loss.sentinel import Sentinel
from tidegate.shed.shed_records import UNIFORM, Shed
from tidegate.spec import Equal, JoinSpec
from tidegate.state.join_state import State

Stats = dict[str, int | float]
_OF_LANES = (
    "alive", "expired", "evicted", "refused", "too_late", "comparisons", "visits", "updates"
)  # fmt: skip


def stats_of(
    spec: JoinSpec,
    state: State,
    shed: Shed | None,
    sentinel: Sentinel | None,
    steered: Mapping[str, int | float],
    rows_in: Sequence[int],
    rejected: Sequence[Counter[str]],
    rows_peak: int,
    memory_bytes: tuple[int, int],
) -> Stats:
    """Totals, and per stream as `name_stream`; `memory_bytes` is now and at most so far."""
    names, lanes = spec.streams, state.lanes
    stats = _results(state, len(names))
    stats |= {
        "memory_rows": int(state.pool[0].alive),
        "memory_rows_peak": rows_peak,
        "memory_bytes": memory_bytes[0],
        "memory_bytes_peak": max(memory_bytes),
    }
    if shed is not None:
        stats |= _sampled(spec, state, shed)
    per_stream = {
        "rows_in": rows_in,
        "rejected": [counter.total() for counter in rejected],
        "memory_rows": lanes.alive,
        "memory_rows_peak": lanes.peak,
        **{name: lanes[name] for name in _OF_LANES},
    }
    for name, values in per_stream.items():
        stats.setdefault(name, int(sum(values)))
        stats |= {f"{name}_{s}": int(v) for s, v in zip(names, values, strict=True)}
    if state.throttle is not None:
        stats |= throttle_stats(state.throttle, names)
    if sentinel is not None:
        stats |= sentinel.stats(state)
        stats["memory_rows"] += sentinel.held
        stats["memory_rows_peak"] += sentinel.peak
    if steered:
        stats |= steered
        stats["memory_rows"] += steered.get("miniature_rows", 0) + steered.get("race_rows", 0)
        stats["memory_rows_peak"] += steered.get("miniature_rows_peak", 0)
    for reason, count in sum(rejected, Counter[str]()).items():
        stats[f"rejected_{reason}"] = count
    return stats


def _results(state: State, streams: int) -> Stats:
    gate = state.gate[0]
    if gate.has_importance:
        return {"rows_out": int(gate.results), "importance_out": float(gate.importance_out)}
    unit = of_ones(gate.combine, streams)
    return {"rows_out": int(gate.results), "importance_out": float(gate.results * unit)}


def _sampled(spec: JoinSpec, state: State, shed: Shed) -> Stats:
    """How many rows were shed while results could still come to them, how many results the sample
    stands for, and where keys are counted, how many they promise."""
    if shed.samples is None:
        return {}
    lost = (state.lanes.evicted + state.lanes.refused)[shed.samples.waits == 1].sum()
    estimated, expected, _ = shed.samples.sums.tolist()
    stats: Stats = {"rows_lost": int(lost), "rows_estimated": estimated}
    counted = shed.rule[0].keyed and shed.rule[0].statistics == frequency.WINDOW
    if counted and all(isinstance(predicate, Equal) for predicate in spec.predicates):
        stats |= {"rows_expected": expected}
        if shed.rule[0].kind == UNIFORM:  # beside chance, those that it did not expect
            stats |= {"rows_missed": expected - estimated}
    return stats
