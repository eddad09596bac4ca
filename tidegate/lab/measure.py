"""One configuration becomes one measurement.

Law: only public names of the package are used, so that what the lab shows is what a user gets; but
results of many streams are counted and not written (`engine.counting`), since nobody could hold
them. The streams of neighbouring configurations are made once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tidegate as tg
from tidegate.engine.counting import count_results
from tidegate.lab import families, kwon2011_streams, paper_streams
from tidegate.lab.configuration import EXACT, OPTIMUM, Configuration
from tidegate.lab.datasets import recorded_streams
from tidegate.lab.sampling_error import aggregation_error, average
from tidegate.spec import TidegateError

RECORDED = "recorded"
RECORDED_MANY = "recorded_many"  # of `kwon2011_streams`
TRAVELLING = "travelling_keys"
VALUED = ("valued_streams", "valued_age_streams")  # those with a column to aggregate
SOURCES: Mapping[str, Callable[..., dict[str, pa.Table]]] = {
    "keyed_streams": paper_streams.keyed_streams,
    "age_streams": paper_streams.age_streams,
    "frequency_streams": paper_streams.frequency_streams,
    "valued_streams": paper_streams.valued_streams,
    "valued_age_streams": paper_streams.valued_age_streams,
    "scripted_streams": paper_streams.scripted_streams,
    "wan_trace": paper_streams.wan_trace,
    TRAVELLING: kwon2011_streams.travelling_keys,
    "family_streams": families.family_streams,
}

Measurement = dict[str, float]

# What a measurement holds, in the order of the stored columns.
MEASURED = (
    "size", "importance", "size_total", "importance_total", "memory_rows", "memory_rows_peak",
    "seconds", "aggregation_error", "average",
)  # fmt: skip


def measure(configuration: Configuration, folder: str = "") -> Measurement:
    """Run one configuration and say what came out.

    `size` and `importance` count the results from `count_from` on, as ojewole2006 does; the totals
    count all. `seconds` is the time of the join alone.
    """
    streams = _streams(configuration.source, _text(configuration), configuration.seed, folder)
    budget = _budget(configuration, folder)
    spec = _spec(configuration, budget)
    if configuration.policy == OPTIMUM:
        return _optimum(streams, spec, configuration, budget)
    _warm_up(streams, spec, configuration)
    if configuration.source in (TRAVELLING, RECORDED_MANY):
        return _count(streams, spec, budget)
    began = time.perf_counter()
    result = tg.join(streams, spec)
    seconds = time.perf_counter() - began
    counted = _counted(result.table, spec, configuration.count_from)
    stats = result.stats
    return {
        "size": counted.num_rows,
        "importance": pc.sum(counted["_importance"], min_count=0).as_py() or 0.0,
        "size_total": stats["rows_out"],
        "importance_total": stats["importance_out"],
        "memory_rows": -1.0 if budget is None else budget,
        "memory_rows_peak": stats["memory_rows_peak"],
        "seconds": seconds,
        "aggregation_error": _error(configuration, result.table, spec, folder),
        "average": average(counted),
    }


def _count(streams: Mapping[str, pa.Table], spec: tg.JoinSpec, budget: int | None) -> Measurement:
    began = time.perf_counter()
    stats = count_results(streams, spec)
    seconds = time.perf_counter() - began
    return {
        "size": stats["rows_out"],
        "importance": stats["importance_out"],
        "size_total": stats["rows_out"],
        "importance_total": stats["importance_out"],
        "memory_rows": -1.0 if budget is None else budget,
        "memory_rows_peak": stats["memory_rows_peak"],
        "seconds": seconds,
        "aggregation_error": -1.0,
        "average": float("nan"),
    }


def _error(configuration: Configuration, found: pa.Table, spec: tg.JoinSpec, folder: str) -> float:
    """Of a windowed average over the results, where the streams have a column for it."""
    if configuration.source not in VALUED:
        return -1.0
    options = {name: value for name, value in configuration.spec.items() if name != "split"}
    text, seed = _text(configuration), configuration.seed
    exact = _exact_results(
        configuration.source, text, seed, folder, json.dumps(options, sort_keys=True)
    )
    return aggregation_error(exact, found, _time_names(spec), configuration.count_from or 0)


@lru_cache(maxsize=2)
def _exact_results(source: str, arguments: str, seed: int, folder: str, spec: str) -> pa.Table:
    """The results of the exact join."""
    exact = Configuration(source, json.loads(arguments), json.loads(spec), seed=seed)
    return tg.join(_streams(source, arguments, seed, folder), _spec(exact, None)).table


_WARM: set[tuple[str, str]] = set()


def _warm_up(
    streams: Mapping[str, pa.Table], spec: tg.JoinSpec, configuration: Configuration
) -> None:
    """Load the compiled code of a join before the clock runs, once for each kind of join."""
    kind = (configuration.policy, json.dumps(dict(configuration.spec), sort_keys=True))
    if kind not in _WARM:
        _WARM.add(kind)
        tg.join({name: table.slice(0, 50) for name, table in streams.items()}, spec)


def _text(configuration: Configuration) -> str:
    return json.dumps(dict(configuration.arguments), sort_keys=True)


@lru_cache(maxsize=3)
def _streams(source: str, arguments: str, seed: int, folder: str) -> dict[str, pa.Table]:
    chosen = json.loads(arguments)
    if source == RECORDED:
        return recorded_streams(chosen["name"], folder, chosen.get("rows"))
    if source == RECORDED_MANY:
        return dict(kwon2011_streams.recorded_streams(chosen["name"], folder))
    return SOURCES[source](seed=seed, **chosen)


def options_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a `JoinSpec` from those of a configuration, which is JSON."""
    options = {**spec, "streams": tuple(spec["streams"])}
    band = options.pop("band", None)
    if band is not None:
        options["on"] = [*([options["on"]] if "on" in options else []), tg.band(*band)]
    return options


def _spec(configuration: Configuration, budget: int | None) -> tg.JoinSpec:
    options = options_of(configuration.spec)
    if budget is None:
        options.pop("split", None)
        return tg.JoinSpec(**options, seed=configuration.seed)
    if configuration.policy != OPTIMUM:
        options["policy"] = _policy(configuration)
    return tg.JoinSpec(**options, memory=budget, seed=configuration.seed)


def _policy(configuration: Configuration) -> Any:
    """The policy by its public constructor where it has one, else by name."""
    make = getattr(tg, configuration.policy.replace("-", "_"), None)
    if callable(make) and configuration.parameters:
        return make(**configuration.parameters)
    if configuration.parameters:
        raise TidegateError(
            f"policy {configuration.policy!r} takes no parameters in this version, but got "
            f"{', '.join(configuration.parameters)}"
        )
    return configuration.policy


def _budget(configuration: Configuration, folder: str) -> int | None:
    memory = configuration.memory
    if configuration.policy == EXACT or memory is None:
        return None
    if memory >= 1:
        return int(memory)
    arguments = (configuration.source, _text(configuration), configuration.seed, folder)
    spec = {name: value for name, value in configuration.spec.items() if name != "split"}
    return max(1, round(memory * _exact_peak(*arguments, json.dumps(spec, sort_keys=True))))


@lru_cache(maxsize=16)
def _exact_peak(source: str, arguments: str, seed: int, folder: str, spec: str) -> int:
    """The most tuples that the exact join ever retains."""
    options = json.loads(spec)
    exact = Configuration(source, json.loads(arguments), options, seed=seed)
    result = tg.join(_streams(source, arguments, seed, folder), _spec(exact, None))
    return int(result.stats["memory_rows_peak"])


def _counted(table: pa.Table, spec: tg.JoinSpec, count_from: int | None) -> pa.Table:
    """The results whose time, the later of their tuples' times, is `count_from` or later."""
    if count_from is None:
        return table
    return table.filter(_is_counted(table, spec, count_from))


def _is_counted(table: pa.Table, spec: tg.JoinSpec, count_from: int) -> Any:
    first, second = (table[name] for name in _time_names(spec))
    return pc.greater_equal(pc.max_element_wise(first, second), count_from)


def _time_names(spec: tg.JoinSpec) -> tuple[str, str]:
    """What the two time columns are called in the output."""
    first, second = spec.time_columns
    return first, f"{second}_{spec.streams[1]}" if first == second else second


def has_optimum() -> bool:
    """Whether this version can compute the offline optimum."""
    return getattr(tg, "optimum", None) is not None


def _optimum(
    streams: Mapping[str, pa.Table], spec: tg.JoinSpec, configuration: Configuration, budget: Any
) -> Measurement:
    """The offline optimum of what is counted: results before `count_from` weigh nothing."""
    compute = getattr(tg, "optimum")  # noqa: B009 - not there in every version
    start = configuration.count_from

    def weights(table: pa.Table) -> Any:
        late = _is_counted(table, spec, start or 0)
        return pc.if_else(late, table["_importance"], 0.0).to_numpy()

    began = time.perf_counter()
    best = compute(streams, spec, **({} if start is None else {"weights": weights}))
    seconds = time.perf_counter() - began
    size, importance = best.size, best.importance
    if start is not None:
        counted = _counted(_gained(streams, spec, best), spec, start)
        size = counted.num_rows
        importance = pc.sum(counted["_importance"], min_count=0).as_py() or 0.0
    return {
        "size": size,
        "importance": importance,
        "size_total": best.size,
        "importance_total": best.importance,
        "memory_rows": budget,
        "memory_rows_peak": budget,
        "seconds": seconds,
        "aggregation_error": -1.0,
        "average": float("nan"),
    }


def _gained(streams: Mapping[str, pa.Table], spec: tg.JoinSpec, best: Any) -> pa.Table:
    """The results of the optimum's schedule: one is had if its earlier tuple is still kept.

    Tuples of one instant always meet, so this holds for ties="instant".
    """
    marked = {
        name: table.append_column(f"until {name}", pc.fill_null(best.kept_until[name], -1))
        for name, table in streams.items()
    }
    table = tg.join(marked, spec.replace(memory=None, split="auto", policy="auto")).table
    times = [table[name].to_numpy() for name in _time_names(spec)]
    until = [table[f"until {name}"].to_numpy() for name in spec.streams]
    together = times[0] == times[1]
    waited = [until[stream] >= times[1 - stream] for stream in (0, 1)]
    earlier = np.where(times[0] < times[1], *waited)
    return table.filter(pa.array(together | earlier))
