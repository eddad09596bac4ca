"""The streams as the optimum sees them: who could meet whom, when, and for how much.

Law: whether two tuples match is decided by the exact engine itself, run on their join columns and
row numbers; nothing of predicates or windows is decided here. What is added is the order of
arrival: a result costs memory from the arrival of its first tuple (the *holder*) to that of its
second.

Events are numbered in the order in which the engine takes them. With `ties="arrival"` each tuple
is an event: it probes, then is admitted, so a holder that arrived at event b and meets the tuple of
event e occupies its cell during the events b .. e - 1. With `ties="instant"` each time is an event:
admission comes before the survivors meet, so it needs its cell during b .. e, and pairs inside an
event need none. In both cases `Account.end` is the first event at which the cell is free again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.binding.binding import Binding
from tidegate.binding.result_schema import bind
from tidegate.engine import JoinEngine, to_arrow
from tidegate.engine.replay import replay
from tidegate.spec import JoinSpec, Theta, TidegateError
from tidegate.state.settings import state_of

Integers = NDArray[np.int64]
Progress = Callable[[int, int], None]
Weights = Callable[[pa.Table], Any]

REJECTED = -1  # the event of a row that is never taken


@dataclass(frozen=True)
class Account:
    """One share of the memory, and the tuples that compete for it, in order of arrival.

    The options of tuple x are `first[x]:first[x + 1]` of the arrays over options: kept until the
    k-th of them it occupies a cell during the events begin .. end - 1 and has gained the gains up
    to and including the k-th.
    """

    capacity: int
    tuples: Integers  # their numbers in the instance
    begin: Integers
    first: Integers
    end: Integers
    gain: NDArray[np.float64]  # what an option adds to the objective
    importance: NDArray[np.float64]  # to the importance of the result
    results: Integers  # and to its size: more than 1 only where ties="instant"


@dataclass(frozen=True)
class Totals:
    """A result or a part of one: its size, its importance, what it counts for the objective."""

    size: int
    importance: float
    gain: float


@dataclass(frozen=True)
class Instance:
    """A tuple's number is its row, counted on from stream to stream."""

    spec: JoinSpec
    offsets: Integers  # [stream]: the number of its first row; one more for the end
    event: Integers  # [tuple]
    time: Integers  # [tuple]
    order: Integers  # tuples that are taken, in order of arrival
    death: Integers  # [tuple]: the place in `order` at whose admission its window is over
    accounts: tuple[Account, ...]
    free: Totals  # the pairs inside an instant: they need no memory
    exact: Totals
    time_unit: str  # of `time`: "integer", or a unit of timestamps

    @property
    def shared(self) -> bool:
        """Whether one account serves both streams."""
        return len(self.accounts) == 1

    def members(self, account: int) -> Integers:
        """The tuples that are charged to an account, in order of arrival."""
        if self.shared:
            return self.order
        mine = (self.offsets[account] <= self.order) & (self.order < self.offsets[account + 1])
        return self.order[mine]


@dataclass(frozen=True)
class Matches:
    """The exact result: row numbers of both streams, importance, and what it counts."""

    rows: tuple[Integers, Integers]
    importance: NDArray[np.float64]
    gain: NDArray[np.float64]


def instance_of(
    streams: Mapping[str, Any],
    spec: JoinSpec,
    objective: str,
    weights: Weights | None = None,
    progress: Progress | None = None,
) -> Instance:
    """What the optimum of these streams has to know."""
    tables = {name: to_arrow(streams[name], name) for name in spec.streams if name in streams}
    _check(spec, tables, streams)
    matches = _exact_matches(tables, spec, objective, weights, progress)
    offsets = np.cumsum([0, *(tables[name].num_rows for name in spec.streams)])
    binding = bind(
        spec.replace(memory=None, split="auto", policy="auto"),
        {name: tables[name].schema for name in spec.streams},
    )
    time, taken = _times(tables, spec, binding)
    stream = np.repeat(np.arange(len(spec.streams)), np.diff(offsets))
    order = np.lexsort((stream, time))
    order = order[taken[order]]
    event = np.full(len(time), REJECTED, np.int64)
    if spec.ties == "instant":
        event[order] = np.unique(time[order], return_inverse=True)[1]
    else:
        event[order] = np.arange(len(order))
    numbers = [rows + offsets[s] for s, rows in enumerate(matches.rows)]
    shares = shares_of(spec, binding)
    accounts, free = _accounts(shares, spec.ties == "instant", offsets, event, numbers, matches)
    return Instance(
        spec=spec,
        offsets=offsets,
        event=event,
        time=time,
        order=order,
        death=_deaths(spec, binding, offsets, time, order),
        accounts=accounts,
        free=_totals(matches, free),
        exact=_totals(matches, np.ones(len(free), np.bool_)),
        time_unit=binding.time_unit,
    )


def _totals(matches: Matches, some: NDArray[np.bool_]) -> Totals:
    return Totals(
        int(some.sum()), float(matches.importance[some].sum()), float(matches.gain[some].sum())
    )


def _check(spec: JoinSpec, tables: Mapping[str, pa.Table], streams: Mapping[str, Any]) -> None:
    unknown = [name for name in streams if name not in spec.streams]
    missing = [name for name in spec.streams if name not in tables]
    if unknown or missing:
        raise TidegateError(
            f"the streams given are {', '.join(map(repr, streams))}; this join has "
            f"{', '.join(map(repr, spec.streams))}"
        )
    if len(spec.streams) != 2:
        raise TidegateError(
            f"streams {spec.streams!r} are {len(spec.streams)}; the optimum is known for two, and "
            "for more the exact join (memory=None) is an upper bound"
        )
    if spec.memory_bytes is not None:
        raise TidegateError(
            f"memory {spec.memory!r} is in bytes; the optimum needs a number of tuples"
        )


def _exact_matches(
    tables: Mapping[str, pa.Table],
    spec: JoinSpec,
    objective: str,
    weights: Weights | None,
    progress: Progress | None,
) -> Matches:
    """Run the exact engine on row numbers and join columns (on all columns for `weights`)."""
    exact = spec.replace(memory=None, split="auto", policy="auto", cpu=None)
    # Columns that are missing or do not fit are refused here, with the engine's own words.
    JoinEngine(exact, {name: tables[name].schema for name in spec.streams})
    names = [f"row number of {name}" for name in spec.streams]
    narrow = {}
    for stream, (name, label) in enumerate(zip(spec.streams, names, strict=True)):
        table = tables[name]
        wanted = table.column_names if weights else _join_columns(spec, stream)
        numbers = pa.array(np.arange(table.num_rows, dtype=np.int64))
        narrow[name] = table.select(wanted).append_column(label, numbers)
    engine = JoinEngine(exact, {name: table.schema for name, table in narrow.items()})
    rows: list[list[Integers]] = [[np.zeros(0, np.int64)] for _ in names]
    importances, gains = [np.zeros(0)], [np.zeros(0)]
    for result in replay(engine, narrow, progress):
        for label, part in zip(names, rows, strict=True):
            part.append(result.column(label).to_numpy())
        importances.append(result.column("_importance").to_numpy())
        gains.append(_gain(result, importances[-1], objective, weights))
    left, right = (np.concatenate(part) for part in rows)
    return Matches((left, right), np.concatenate(importances), np.concatenate(gains))


def _join_columns(spec: JoinSpec, stream: int) -> list[str]:
    """The columns of a stream that the join reads."""
    columns = [spec.time_columns[stream]]
    for predicate in spec.predicates:
        if isinstance(predicate, Theta):
            columns += predicate.columns[stream]
        else:
            columns.append(predicate.columns[stream])
    if spec.importance_columns is not None:
        columns.append(spec.importance_columns[stream])
    return list(dict.fromkeys(columns))


def _gain(
    result: pa.Table, importance: NDArray[np.float64], objective: str, weights: Weights | None
) -> NDArray[np.float64]:
    if weights is not None:
        gain = np.asarray(weights(result), np.float64)
        if gain.shape != importance.shape or not np.isfinite(gain).all():
            raise TidegateError(
                f"weights gave an array of shape {gain.shape} for {len(importance)} results; "
                "give one finite number for each result"
            )
        return gain
    return np.ones(len(importance)) if objective == "size" else importance


def _times(
    tables: Mapping[str, pa.Table], spec: JoinSpec, binding: Binding
) -> tuple[Integers, NDArray[np.bool_]]:
    """The time of every row in the engine's unit, and whether the engine takes the row."""
    times, taken = [], []
    for stream, name in enumerate(spec.streams):
        encoded = binding.encode(stream, tables[name])
        bad = np.zeros(tables[name].num_rows, np.bool_)
        for mask in encoded.rejected.values():
            bad |= mask
        times.append(np.asarray(encoded.time, np.int64))
        taken.append(~bad)
    return np.concatenate(times), np.concatenate(taken)


def _deaths(
    spec: JoinSpec, binding: Binding, offsets: Integers, time: Integers, order: Integers
) -> Integers:
    death = np.full(len(time), len(order), np.int64)
    lateness = binding.in_units(spec.lateness_window, "lateness")
    for stream, window in enumerate(spec.windows):
        places = np.flatnonzero((offsets[stream] <= order) & (order < offsets[stream + 1]))
        mine = order[places]
        if window.kind == "rows":
            newer = np.append(places, np.full(window.size, len(order)))[window.size :]
            death[mine] = newer[: len(mine)]
        else:
            last = time[mine] + binding.in_units(window, "within") + lateness
            death[mine] = np.searchsorted(time[order], last, side="right")
    return death


def shares_of(spec: JoinSpec, binding: Binding) -> list[int]:
    """The capacity of each account: one for each stream, or a single one that they share.

    Asked of the engine itself, so that a split means here what it means there.
    """
    state = state_of(spec.replace(policy="random"), binding)
    capacity = [int(account.capacity) for account in state.accounts]
    return capacity[:1] if len(set(state.lanes.account)) == 1 else capacity


def _accounts(
    shares: list[int],
    instant: bool,
    offsets: Integers,
    event: Integers,
    numbers: list[Integers],
    matches: Matches,
) -> tuple[tuple[Account, ...], NDArray[np.bool_]]:
    """The options of each account, and which results need no memory at all."""
    first_is_older = event[numbers[0]] < event[numbers[1]]
    holder = np.where(first_is_older, numbers[0], numbers[1])
    end = event[np.where(first_is_older, numbers[1], numbers[0])] + instant
    free = event[numbers[0]] == event[numbers[1]]
    accounts = []
    for stream, share in enumerate(shares):
        mine = ~free
        if len(shares) > 1:
            mine &= (offsets[stream] <= holder) & (holder < offsets[stream + 1])
        accounts.append(
            _account(
                min(share, len(event)), event, holder[mine], end[mine],
                matches.gain[mine], matches.importance[mine],
            )
        )  # fmt: skip
    return tuple(accounts), free


def _account(
    capacity: int,
    event: Integers,
    holder: Integers,
    end: Integers,
    gain: NDArray[np.float64],
    importance: NDArray[np.float64],
) -> Account:
    order = np.lexsort((end, holder, event[holder]))
    holder, end = holder[order], end[order]
    # Results of one holder at one event are one option: it meets all of them or none.
    new = np.ones(len(holder), np.bool_)
    new[1:] = (holder[1:] != holder[:-1]) | (end[1:] != end[:-1])
    starts = np.flatnonzero(new)
    holder = holder[starts]
    heads = np.flatnonzero(np.diff(holder, prepend=-1))
    return Account(
        capacity=int(capacity),
        tuples=holder[heads],
        begin=event[holder[heads]],
        first=np.append(heads, len(holder)).astype(np.int64),
        end=end[starts],
        gain=_added(gain[order], starts),
        importance=_added(importance[order], starts),
        results=np.diff(np.append(starts, len(order))),
    )


def _added(numbers: NDArray[np.float64], starts: Integers) -> NDArray[np.float64]:
    return np.add.reduceat(numbers, starts) if len(starts) else numbers
