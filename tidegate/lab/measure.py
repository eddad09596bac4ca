"""One configuration becomes one measurement.

Law: only public names of the package are used, so that what the lab shows is what a user gets. The
streams of neighbouring configurations are made once.
"""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import tidegate as tg
from tidegate.lab import paper_streams
from tidegate.lab.configuration import EXACT, OPTIMUM, Configuration
from tidegate.lab.datasets import recorded_streams
from tidegate.spec import TidegateError

RECORDED = "recorded"
SOURCES: Mapping[str, Callable[..., dict[str, pa.Table]]] = {
    "keyed_streams": paper_streams.keyed_streams,
    "age_streams": paper_streams.age_streams,
    "scripted_streams": paper_streams.scripted_streams,
    "wan_trace": paper_streams.wan_trace,
}

Measurement = dict[str, float]

# What a measurement holds, in the order of the stored columns.
MEASURED = (
    "size", "importance", "size_total", "importance_total", "memory_rows", "memory_rows_peak",
    "seconds",
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
    }


def _text(configuration: Configuration) -> str:
    return json.dumps(dict(configuration.arguments), sort_keys=True)


@lru_cache(maxsize=3)
def _streams(source: str, arguments: str, seed: int, folder: str) -> dict[str, pa.Table]:
    chosen = json.loads(arguments)
    if source == RECORDED:
        return recorded_streams(chosen["name"], folder, chosen.get("rows"))
    return SOURCES[source](seed=seed, **chosen)


def _spec(configuration: Configuration, budget: int | None) -> tg.JoinSpec:
    options: dict[str, Any] = dict(configuration.spec)
    options["streams"] = tuple(options["streams"])
    band = options.pop("band", None)
    if band is not None:
        options["on"] = tg.band(*band)
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
    first, second = spec.time_columns
    other = f"{second}_{spec.streams[1]}" if first == second else second
    return table.filter(
        pc.greater_equal(pc.max_element_wise(table[first], table[other]), count_from)
    )


def has_optimum() -> bool:
    """Whether this version can compute the offline optimum."""
    return getattr(tg, "optimum", None) is not None


def _optimum(
    streams: Mapping[str, pa.Table],
    spec: tg.JoinSpec,
    configuration: Configuration,
    budget: int | None,
) -> Measurement:
    """The offline optimum; from `count_from` on where it can count from there, else in total."""
    compute = getattr(tg, "optimum")  # noqa: B009 - not there in every version
    options: dict[str, Any] = {"objective": "importance"}
    counts = "count_from" in inspect.signature(compute).parameters
    began = time.perf_counter()
    total = compute(streams, spec, **options)
    seconds = time.perf_counter() - began
    later = total
    if counts and configuration.count_from is not None:
        later = compute(streams, spec, count_from=configuration.count_from, **options)
    exact = counts or configuration.count_from is None
    return {
        "size": later.size if exact else float("nan"),
        "importance": later.importance if exact else float("nan"),
        "size_total": total.size,
        "importance_total": total.importance,
        "memory_rows": -1.0 if budget is None else budget,
        "memory_rows_peak": -1.0 if budget is None else budget,
        "seconds": seconds,
    }
