"""A spec's options, written into the records that the driver reads."""

from __future__ import annotations

import numpy as np

from tidegate.binding.binding import Binding
from tidegate.binding.spec_records import IMPORTANCE_CODES, INDEX_CODES
from tidegate.compiled.layout import records
from tidegate.spec import Band, Equal, InnerProduct, JoinSpec, Overlap
from tidegate.state import arrays
from tidegate.state.join_state import State
from tidegate.state.throttle_arrays import throttle_of
from tidegate.windows.lifetime import LANE

FIRST_SLOTS_IN_BYTES = 64  # under a budget in bytes


def index_of(spec: JoinSpec, stream: int) -> str:
    """The index of a stream; "auto" takes the cheapest that serves the predicate."""
    kind = spec.index_kinds[stream]
    if kind != "auto":
        return kind
    kinds = {type(predicate) for predicate in spec.predicates}
    if Equal in kinds:
        return "hash"
    sets = [p for p in spec.predicates if isinstance(p, Overlap | InnerProduct)]
    if any(term.at_least > 0 for term in sets):
        return "inverted"
    # A tree cannot be read for one basic window.
    fueled = spec.cpu is not None and spec.cpu.has_fuel
    return "btree" if Band in kinds and not fueled else "nested-loop"


def slot_limit(spec: JoinSpec) -> int | None:
    """The most slots that a join can need; None if that is not known beforehand.

    One more than a budget in tuples lets live: an arrival gets its slot after its victim left.
    """
    if spec.memory_rows is None or spec.ties == "instant":
        return None
    return spec.memory_rows + 1


def first_slots(spec: JoinSpec) -> int:
    """For how many tuples there is room at first."""
    if spec.memory_bytes is not None:
        return FIRST_SLOTS_IN_BYTES
    limit = slot_limit(spec)
    return arrays.FIRST_SLOTS if limit is None else min(arrays.FIRST_SLOTS, limit)


def capacities(spec: JoinSpec, total: int | None) -> list[int]:
    """The share of each account of the memory, in tuples, bytes or slots."""
    streams = len(spec.streams)
    if total is None:
        return [np.iinfo(np.int64).max] * streams
    if spec.split in ("shared", "auto"):
        return [total] + [0] * (streams - 1)
    if spec.split_rows is not None and spec.memory_bytes is None:
        return list(spec.split_rows)
    shares = spec.split_shares or [1 / streams] * streams
    whole = [int(share * total) for share in shares]
    for stream in range(total - sum(whole)):  # what rounding left over, to the earlier streams
        whole[stream % streams] += 1
    return whole


def state_of(spec: JoinSpec, binding: Binding) -> State:
    """An empty join with the options of `spec`."""
    lanes = records(LANE, len(spec.streams))
    for stream, lane in enumerate(lanes):
        window = spec.windows[stream]
        lane.window = binding.in_units(window, "within")
        lane.is_time_window = window.kind != "rows"
        lane.index = INDEX_CODES[index_of(spec, stream)]
        lane.account = 0 if spec.split in ("shared", "auto") else stream
    state = arrays.new_state(
        lanes,
        binding.bands,
        binding.set_terms,
        binding.thetas,
        len(binding.numbers),
        binding.key is not None,
        spec.importance_columns is not None,
        first_slots(spec),
    )
    gate = state.gate[0]
    gate.combine = IMPORTANCE_CODES[spec.output_importance]
    gate.lateness = binding.in_units(spec.lateness_window, "lateness")
    gate.limited = spec.memory is not None
    gate.by_bytes = spec.memory_bytes is not None
    gate.seed = spec.seed
    state.accounts.capacity = capacities(spec, spec.memory_rows)
    counted = any(window.kind == "rows" for window in spec.windows)
    state.pool[0].tracked = gate.limited or counted or gate.lateness > 0 or spec.ties == "instant"
    state = state._replace(throttle=throttle_of(spec, binding, lanes))
    return arrays.with_late(state) if gate.lateness > 0 else state
