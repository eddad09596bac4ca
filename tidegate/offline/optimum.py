"""`tidegate.optimum`: the best result under a budget, and the schedule that gives it.

Law: what is returned can be had. The schedule says for every tuple until when it is kept; a join
that keeps to it stays inside the memory after every tuple and gets exactly this result. No policy
gets more (`method="flow"` and `"dp"` are proven optimal; so is "esja", the paper's larger network).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.engine import to_arrow
from tidegate.offline import esja, flow, odja
from tidegate.offline.instance import Account, Instance, Integers, Progress, Weights, instance_of
from tidegate.offline.network import network_of
from tidegate.spec import JoinSpec
from tidegate.spec.given import by_name, check_spec
from tidegate.spec.units import require_name

Objective = Literal["importance", "size", "least-importance"]
Method = Literal["auto", "flow", "dp", "esja"]

OBJECTIVES = ("importance", "size", "least-importance")
METHODS = ("auto", "flow", "dp", "esja")


@dataclass(frozen=True)
class Optimum:
    """The best result under a budget.

    `kept_until` has for each row of a stream the time of the last tuple it is kept for, NULL where
    it need not be kept at all; `kept_through` says the same as a number of arrival (of the tuple,
    or of the instant where ties="instant"), which tells tuples of equal time apart; -1 for none.
    """

    importance: float
    size: int
    exact_importance: float
    exact_size: int
    objective: str
    method: str
    kept_until: dict[str, pa.Array]
    kept_through: dict[str, Integers]


def optimum(
    streams: Mapping[str, Any],
    spec: JoinSpec,
    objective: Objective = "importance",
    method: Method = "auto",
    *,
    weights: Weights | None = None,
    progress: Progress | None = None,
) -> Optimum:
    """The best result that any policy could have had under the memory of `spec`.

    Parameters
    ----------
    streams
        The whole of both streams, by name; pyarrow, pandas or polars.
    spec
        What to join. Its memory is a number of tuples; its policy plays no role.
    objective
        "importance": the largest importance of the result. "size": its largest size, whatever its
        importance. "least-importance": the worst that a policy can do which forgets only when it
        must; needs method "dp" unless at most one window ends between two arrivals.
    method
        "flow": minimum-cost flow, for long streams. "dp": the dynamic program of ojewole2006, for
        small memories. "esja": that paper's flow network, with an arc for each tuple and moment.
    weights
        Instead of the importance: a function from a table of results to one number for each,
        negative for results that are not wanted. Only with objective "importance" and by flow.
    progress
        Called as `progress(done, total)` from time to time.

    Example
    -------
    >>> import pyarrow as pa, tidegate as tg
    >>> left = pa.table({"t": [1, 2], "k": ["a", "b"], "worth": [1.0, 9.0]})
    >>> right = pa.table({"t": [3, 4], "k": ["a", "b"], "worth": [5.0, 5.0]})
    >>> spec = tg.JoinSpec(on="k", time="t", within=10, memory=2, split="even", importance="worth")
    >>> best = tg.optimum({"left": left, "right": right}, spec)
    >>> best.importance, best.size, best.kept_until["left"].to_pylist()
    (5.0, 1, [None, 4])
    """
    check_spec(spec)
    by_name(streams, "optimum")
    spec = spec.unwatched()
    require_name(objective, OBJECTIVES, "objective")
    require_name(method, METHODS, "method")
    instance = instance_of(streams, spec, objective, weights, progress)
    chosen = solved(instance, objective, method, progress)
    return _described(instance, chosen, streams, objective, method)


def solved(
    instance: Instance, objective: str, method: str, progress: Progress | None = None
) -> list[Integers]:
    """For each account, how many options each of its tuples takes."""
    least = objective == "least-importance"
    chosen = []
    for number, account in enumerate(instance.accounts):
        if method == "dp" or (least and method == "auto" and not _flows(instance, number)):
            taken = odja.solve(instance, number, least=least)
        elif least:
            taken = esja.solve_least(instance, number)
        elif method == "esja":
            taken = esja.solve(instance, number)
        else:
            taken = by_flow(account, progress)
        chosen.append(np.asarray(taken, np.int64))
    return chosen


def _flows(instance: Instance, number: int) -> bool:
    whole = instance.accounts[number].gain
    return esja.always_full(instance, number) and bool((whole == np.floor(whole)).all())


def by_flow(account: Account, progress: Progress | None = None) -> Integers:
    """How many options each tuple of an account takes, by minimum-cost flow."""
    place = flow.solve(network_of(account), progress).place
    return np.where(place == flow.NOT_KEPT, 0, place - account.first[:-1] + 1)


def taken_options(account: Account, taken: Integers) -> NDArray[np.bool_]:
    """Which options are gained when each tuple takes so many of its own."""
    lengths = np.diff(account.first)
    rank = np.arange(len(account.end)) - np.repeat(account.first[:-1], lengths)
    return rank < np.repeat(taken, lengths)


def _described(
    instance: Instance,
    chosen: list[Integers],
    streams: Mapping[str, Any],
    objective: str,
    method: str,
) -> Optimum:
    importance, size = instance.free.importance, instance.free.size
    instant = instance.spec.ties == "instant"
    through = np.full(len(instance.event), -1, np.int64)
    for account, taken in zip(instance.accounts, chosen, strict=True):
        gained = taken_options(account, taken)
        importance += float(account.importance[gained].sum())
        size += int(account.results[gained].sum())
        kept = taken > 0
        last = account.end[account.first[:-1][kept] + taken[kept] - 1]
        through[account.tuples[kept]] = last - instant
    moments = np.zeros(int(instance.event.max(initial=-1)) + 1, np.int64)
    moments[instance.event[instance.order]] = instance.time[instance.order]
    kept_until, kept_through = {}, {}
    for stream, name in enumerate(instance.spec.streams):
        mine = through[instance.offsets[stream] : instance.offsets[stream + 1]]
        kept_through[name] = mine
        column = to_arrow(streams[name], name).column(instance.spec.time_columns[stream])
        kept_until[name] = _as_times(moments, mine, column.type, instance.time_unit)
    return Optimum(
        importance=importance,
        size=size,
        exact_importance=instance.exact.importance,
        exact_size=instance.exact.size,
        objective=objective,
        method=method,
        kept_until=kept_until,
        kept_through=kept_through,
    )


def _as_times(moments: Integers, through: Integers, kind: pa.DataType, unit: Any) -> pa.Array:
    """The moments as values of a time column; in the finest unit, so that none is rounded."""
    times = pa.array(moments[through] if len(moments) else through, mask=through < 0)
    if pa.types.is_integer(kind):
        return times
    return times.cast(pa.timestamp(unit, getattr(kind, "tz", None)))
