"""A spec's policy becomes the arrays that shedding works on, and these grow and are refilled.

Law: growing changes nothing but the room, and refilling makes heaps, groups and stages that name
the same victims as those that were saved.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.binding.binding import Binding
from tidegate.compiled import layout
from tidegate.compiled.kernel import kernel
from tidegate.compiled.layout import records
from tidegate.estimators import (
    age_curve,
    frequency,
    importance,
    key_lines,
    match_rate,
    patterns,
    prospects,
)
from tidegate.sample.waiting import waiting
from tidegate.shed import (
    ages,
    budget,
    members,
    queue,
    recipes,
    sample_records,
    sampling,
    shed_records,
    tiers,
    victims,
)
from tidegate.shed.groups import GROUP
from tidegate.shed.shed_records import BY_AGE, BY_KEY, BY_TUPLE, QUEUE, RULE, Shed
from tidegate.spec import JoinSpec, TidegateError
from tidegate.spec.options import Policy
from tidegate.spec.policy import is_sampling
from tidegate.state import arrays
from tidegate.state.join_state import State
from tidegate.state.learned_arrays import (
    buckets_of,
    by_stream,
    has_shadows,
    monitors_of,
    open_curve,
    open_rates,
    rates_of,
    shadows_of,
)
from tidegate.windows.lifetime import NOT_CHARGED, ORDINARY

FADE_AFTER = 1  # window; so what is remembered is the weight of about five
LARGEST_LOG = 16_384  # tuples of a window that are counted one by one
# With more tuples retained, a window that needs shedding holds more than any log.
MOST_WITH_LOG = 16_384
_BYTES_PER_LINE = 12 * 2 + 8 * 4  # a line in the log of each stream, and four of the table
_SHARE_OF_LOG = 8  # one in so many bytes of a budget goes to the log and its keys


def keys_for(slots: int) -> int:
    """How many keys may have a record: one for each slot, and for a tuple that gets none."""
    return slots + 1


def shed_of(spec: JoinSpec, binding: Binding, state: State, log: int | None = None) -> Shed | None:
    """What shedding starts with; None without a budget. `log` is how many tuples of a full window
    are counted one by one, by default as many as the budget allows."""
    if spec.memory is None:
        return None
    policy = spec.policy_choice
    streams, slots = len(spec.streams), len(state.slots)
    recipe = recipes.recipe_of(policy, streams)
    statistics = recipes.statistics_of(policy)
    chosen = is_sampling(policy) or (streams == 2 and policy.get("statistics") is None)
    if chosen and statistics == frequency.WINDOW and any(w.size == 0 for w in spec.windows):
        statistics = frequency.FADED  # an empty window shows no matches
    lines = (log or log_lines(spec)) if recipe.keyed else 1
    by_pattern = recipe.kind == shed_records.ARRIVAL_ORDER
    known = None
    if by_pattern:
        known = patterns.empty(streams, recipes.fade_of(policy), most_patterns(spec))
    keys = keys_for(slots) if recipe.keyed else 0 if known is None else len(known.place) - 1
    buckets = buckets_of(spec, binding, policy) if recipe.aged else 0
    rising = int(recipe.kind == shed_records.UNTIL_EXPIRY)
    state.notes.monitor = NOT_CHARGED
    columns = _by_key(recipe.kind, recipe.standing, streams, keys)
    foresees = recipe.kind == shed_records.VALUE_OF_KEYS
    by_heap = recipe.standing != BY_AGE
    needs = _needs(spec, recipe, state)
    shed = Shed(
        rule=_rule(spec, policy, recipe, statistics, state),
        queues=records(QUEUE, streams),
        heaps=queue.empty(tiers.length_for(slots, streams) if by_heap else 1, needs.basis),
        members=members.empty(state.slots, state.notes, needs),
        groups=columns["groups"],
        stages=ages.empty(streams, buckets + 1, rising),
        frequency=frequency.empty(
            streams,
            keys if recipe.keyed else 0,
            lines,
            statistics,
            columns,
            most_rare(spec) if recipe.keyed else 1,
        ),
        worths=columns["worth" if foresees else "counts"],
        curve=age_curve.empty(streams, max(1, buckets), monitors_of(spec, recipe)),
        importances=importance.empty(streams, bool(state.gate[0].has_importance)),
        rates=rates_of(spec, recipe, buckets, columns, state),
        shadows=shadows_of(spec, recipe, state),
        patterns=known,
        prospects=_prospects(state, columns) if foresees else None,
        samples=_samples(spec, recipe, policy, slots),
    )
    shed.queues.scale = shed.queues.factor = 1.0
    if by_heap:
        shed = with_even_queues(shed, slots)
    if recipe.aged:
        open_curve(spec, binding, policy, shed, state)
    if recipe.kind == shed_records.VALUE:
        open_rates(shed, state)
    if statistics == frequency.GIVEN:
        shed = _with_shares(spec, binding, policy, shed)
    return shed


def _needs(spec: JoinSpec, recipe: recipes.Recipe, state: State) -> members.Needs:
    """Which columns of members the policy reads."""
    kind, weighed = recipe.kind, bool(state.gate[0].has_importance)
    timed = kind in (shed_records.ADDITIVE, shed_records.MULTIPLICATIVE)
    ranked = (
        shed_records.SIMP,
        shed_records.SIMPPROB,
        shed_records.DIMPPROB,
        shed_records.VALUE,
        shed_records.VALUE_OF_KEYS,
    )
    has_bases = timed or (weighed and kind in ranked) or kind == shed_records.PPS_CLUSTER
    has_bases |= kind == shed_records.VALUE_OF_KEYS and spec.memory_bytes is not None
    knows_met = kind == shed_records.VALUE and not has_shadows(spec)
    by_key, by_age = recipe.standing == BY_KEY, recipe.standing == BY_AGE
    knows_ages = recipe.aged or kind == shed_records.CUMULATIVE
    return members.Needs(
        priority=recipe.standing == BY_TUPLE or kind == shed_records.ARRIVAL_ORDER,
        basis=has_bases,
        born=(recipe.aged and by_age) or (knows_ages and not state.lanes.is_time_window.all()),
        cost=spec.memory_bytes is not None,
        key=recipe.keyed or kind == shed_records.ARRIVAL_ORDER,
        met=knows_met,
        last_met=knows_met,
        links=by_key or by_age,
        below=(by_key and has_bases) or (by_age and recipe.aged),
    )


def _by_key(kind: int, standing: int, streams: int, keys: int) -> dict[str, Any]:
    """All that shedding knows by key, in one block. What a policy has no use for is a dummy of the
    same type, so that one driver serves all policies."""
    others: dict[str, Any] = {"groups": (GROUP, streams), "activity": (match_rate.ACTIVITY, 1)}
    used = {"groups": standing == BY_KEY, "activity": kind == shed_records.VALUE}
    columns = frequency.block(streams, 1, **others)
    needed = {name: column for name, column in others.items() if used[name]}
    columns |= frequency.block(streams, max(1, keys), **needed)
    if kind == shed_records.VALUE_OF_KEYS:
        columns = frequency.block(
            streams, max(1, keys), groups=others["groups"], **prospects.columns(streams)
        ) | {"activity": columns["activity"]}
    columns["groups"].root[:] = -1
    columns["activity"].last = columns["activity"].before = match_rate.NEVER
    return columns


def _rule(
    spec: JoinSpec, policy: Policy, recipe: recipes.Recipe, statistics: int, state: State
) -> Any:
    rule = records(RULE, 1)
    rule.kind, rule.standing = recipe.kind, recipe.standing
    rule.keyed, rule.aged = recipe.keyed, recipe.aged
    rule.statistics = statistics
    rule.watched = recipe.aged and policy.get("curve") is None
    rule.alpha, rule.beta, rule.delta = recipes.weights_of(policy)
    if recipe.kind == shed_records.UNIFORM and policy.get("matches") is not None:
        rule.beta, rule.delta = map(float, by_stream(spec, policy.get("matches"), "matches"))
    timed = state.lanes.window[state.lanes.is_time_window == 1]
    span = int(timed.max()) if len(timed) else int(state.lanes.window.sum())
    rule.fade_after = min(2**62, FADE_AFTER * span)
    rule.refresh = 1
    # A sample has one currency for all streams: what its tuples drew.
    rule.instants = spec.ties == "instant"
    rule.shadowed = recipe.kind == shed_records.VALUE and has_shadows(spec)
    # VALUE says what a tuple earns per arrival: in one pool that must become results per time.
    is_pool = spec.split == "auto" or (spec.split == "shared" and recipe.kind == shed_records.VALUE)
    rule.planned = is_pool and recipe.kind < shed_records.EQ_CLUSTER
    return rule


def _prospects(state: State, columns: dict[str, Any]) -> prospects.Prospects:
    is_timed = state.lanes.is_time_window == 1
    timed, windows = bool(is_timed.all()), state.lanes.window
    span = windows.max() if timed else windows[~is_timed].sum()
    return prospects.empty(len(state.lanes), int(min(span, 2**62)), timed, columns)


def _samples(
    spec: JoinSpec, recipe: recipes.Recipe, policy: Policy, slots: int
) -> sample_records.Samples | None:
    if recipe.kind < shed_records.EQ_CLUSTER:
        return None
    return sample_records.empty(
        waiting(spec),
        slots,
        uniform=recipe.kind == shed_records.UNIFORM,
        fraction=float(policy.get("fraction", 0.0)),
    )


def log_lines(spec: JoinSpec) -> int:
    """How many tuples of a full window are counted exactly; a larger one is sketched."""
    if spec.memory_bytes is not None:
        return max(1, min(LARGEST_LOG, spec.memory_bytes // _SHARE_OF_LOG // _BYTES_PER_LINE))
    assert spec.memory_rows is not None
    return LARGEST_LOG if spec.memory_rows <= MOST_WITH_LOG else 1


def most_rare(spec: JoinSpec) -> int:
    """Lines that rare keys may have: enough for all keys of full logs, or one for
    each retained tuple."""
    rows = spec.memory_rows
    if spec.memory_bytes is not None:
        rows = spec.memory_bytes // _SHARE_OF_LOG // 16
    assert rows is not None
    return max(2 * len(spec.streams) * log_lines(spec), rows, key_lines.FIRST)


# --- frequencies that the user knows -----------------------------------------------------


def _with_shares(spec: JoinSpec, binding: Binding, policy: Policy, shed: Shed) -> Shed:
    shares = policy.get("frequencies")
    for name in shares:
        if name not in spec.streams:
            raise TidegateError(
                f"policy {policy.name!r}: frequencies names stream {name!r}; the streams are "
                f"{', '.join(spec.streams)}"
            )
    if binding.key is None or any(schema is None for schema in binding.schemas):
        return shed
    for stream, name in enumerate(spec.streams):
        codes = _codes(binding, list(shares.get(name, {})))
        for code, share in zip(codes, shares.get(name, {}).values(), strict=True):
            book = shed.frequency
            key = frequency.find_or_add(book, code)
            while key < 0:
                shed = _with_keys(shed, 2 * len(book.keys))
                book = shed.frequency
                key = frequency.find_or_add(book, code)
            book.counts[key, stream] = share
    return shed


def _codes(binding: Binding, keys: list[Any]) -> NDArray[np.int64]:
    assert binding.key is not None
    columns = list(zip(*keys, strict=True)) if len(binding.key.kinds) > 1 else [keys]
    try:
        arrays = [pa.array(c, k) for c, k in zip(columns, binding.key.kinds, strict=True)]
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError) as error:
        raise TidegateError(
            f"frequencies has keys that are not values of the join column ({error}); give keys of "
            "the column's type, for several columns as tuples"
        ) from error
    return binding.key.encode(arrays)[0] if keys else np.zeros(0, np.int64)


# --- room --------------------------------------------------------------------------------


def _with_keys(shed: Shed, keys: int) -> Shed:
    if keys + 1 <= len(shed.frequency.keys):
        return shed
    rule = shed.rule[0]
    columns = _by_key(int(rule.kind), int(rule.standing), len(shed.queues), keys)
    shed = shed._replace(
        frequency=frequency.grown(shed.frequency, columns),
        groups=columns["groups"],
        worths=columns["counts"],
    )
    if shed.prospects is not None:
        by_key = {name: columns[name] for name in prospects.columns(len(shed.queues))}
        shed = shed._replace(prospects=shed.prospects._replace(**by_key), worths=columns["worth"])
    if rule.kind == shed_records.VALUE:
        shed = shed._replace(rates=shed.rates._replace(activity=columns["activity"]))
    return shed


def with_more_slots(shed: Shed, state: State) -> Shed:
    """The same with room for as many tuples as the join has slots, which have grown."""
    notes = state.notes
    slots, before = len(notes), len(shed.members.notes)
    notes.monitor[before:] = NOT_CHARGED
    shed = shed._replace(
        members=members.grown(shed.members, state.slots, notes),
        samples=shed.samples and sample_records.grown(shed.samples, slots),
    )
    if shed.rule[0].kind == shed_records.VALUE:
        if len(shed.shadows.chains) == 1:
            shed = shed._replace(rates=match_rate.with_more_slots(shed.rates, slots))
    if shed.rule[0].standing != BY_AGE:
        shed = with_even_queues(shed, slots)
    if shed.rule[0].keyed and shed.rule[0].statistics != frequency.GIVEN:
        shed = _with_keys(shed, keys_for(slots))
    return shed


def with_even_queues(shed: Shed, slots: int) -> Shed:
    """The same, each queue with room as its stream needs it now."""
    length = tiers.length_for(slots, len(shed.queues))
    starts = np.array(tiers.starts_for(shed.queues.members.tolist(), length), np.int64)
    for stream, room in enumerate(np.diff(starts) - tiers.NEAR):
        if shed.queues[stream].count > room:
            victims.drop_dead(shed, stream)
    heaps = queue.empty(length, len(shed.heaps.bases) > 1)
    tiers.move_all(shed.queues, shed.heaps, starts, heaps)
    return shed._replace(heaps=heaps)


def renumber(shed: Shed | None, state: State) -> None:
    """As `arrays.renumber`; queues and thresholds follow."""
    if shed is not None and shed.samples is not None:
        sampling.fold_all(shed, state.lanes)
    arrays.renumber(state)
    if shed is not None and shed.rule[0].standing != BY_AGE:
        for stream in range(len(shed.queues)):
            victims.drop_dead(shed, stream)


def most_patterns(spec: JoinSpec) -> int | None:
    """How many rows the tables of patterns may have; None: one for each."""
    if spec.memory_bytes is None:
        return None
    row = 2 * patterns.row_bytes(len(spec.streams))
    return max(patterns.FIRST, spec.memory_bytes // _SHARE_OF_LOG // row)


def with_pattern_rows(shed: Shed, rows: int) -> Shed:
    """The same with tables for so many patterns."""
    assert shed.patterns is not None
    rule = shed.rule[0]
    columns = _by_key(int(rule.kind), int(rule.standing), len(shed.queues), rows - 1)
    layout.copy(shed.frequency.keys, columns["keys"])
    return shed._replace(
        patterns=patterns.with_rows(shed.patterns, rows),
        frequency=shed.frequency._replace(keys=columns["keys"], counts=columns["counts"]),
        groups=columns["groups"],
        worths=columns["counts"],
    )


def with_more_rare(shed: Shed) -> Shed:
    """The same with a larger table of keys, or of patterns."""
    if shed.patterns is not None:
        rows = min(2 * len(shed.patterns.place), int(shed.patterns.rows[1]))
        return with_pattern_rows(shed, rows)
    return shed._replace(frequency=key_lines.with_more(shed.frequency))


def slot_bytes(shed: Shed) -> int:
    """At most so many bytes go to one more slot, in all arrays that grow with the slots."""
    rule = shed.rule[0]
    size = members.slot_bytes(shed.members)
    if shed.samples is not None:
        size += sample_records.slot_bytes(shed.samples)
    if rule.kind == shed_records.VALUE and not rule.shadowed:
        studied = match_rate.EXPOSED.itemsize + (8 if len(shed.rates.aged) > 1 else 0)
        size += -(-studied // (1 << int(shed.rates.study[match_rate.EVERY])))
    if rule.standing != BY_AGE:
        size += (queue.ENTRY.itemsize + (8 if len(shed.heaps.bases) > 1 else 0)) * 5 // 4
    if rule.keyed:
        # Its key, and lines of the table.
        size += int(shed.frequency.keys.strides[0])
        size += -(-3 * key_lines.line_bytes(len(shed.queues)) // 2)
    return size


@kernel
def _stand_again(shed, line):
    """Members whose records are written join queues, groups and stages."""
    for k in range(len(line)):
        slot = line[k]
        stream = np.int64(shed.members.notes[slot].stream)
        if shed.members.notes[slot].monitor != ORDINARY:
            continue
        shed.queues[stream].members += 1
        budget.stand(shed, slot)


def stand_again(shed: Shed, line: NDArray[np.int64]) -> Shed:
    """Compute heaps, groups and stages from the members in `line`."""
    key_lines.enter_again(shed.frequency)
    notes = shed.members.notes[line]
    streams = notes.stream[notes.monitor == ORDINARY]
    shed.queues.count = 0
    shed.queues.members = np.bincount(streams, minlength=len(shed.queues))
    if shed.rule[0].standing != BY_AGE:
        shed = with_even_queues(shed, len(shed.members.notes))
    shed.queues.members = 0
    _stand_again(shed, line[np.argsort(notes.order)])  # in order of arrival
    return shed


def nbytes(shed: Shed | None) -> int:
    """Memory of all arrays."""

    # Slots and notes are those of the join, which counts them.
    own = shed and layout.held(shed) - layout.held((shed.members.slots, shed.members.notes))
    return own or 0
