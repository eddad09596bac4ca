"""What `policy="auto"` keeps beside every fixed policy, and what its race costs.

Law: nothing of a run is known to the engine but its rows. Of a workload, `ours` is the recall (by
rows or by importance) of `auto`, `theirs` that of the best fixed policy, chosen afterwards; the aim
is a ratio of 0.98 everywhere, and above 1 on streams that change. The name says which policy is
best, what VALUE keeps of it, and which policies were in force. Of the cost, `ours` and `theirs` are
tuples per CPU second of `auto` and of `value`; the aim is 0.87.

Workloads are those of `tidegate reproduce value` (with a race where they have the memory for one),
the generated families with windows ten times as long, and streams that change from family to
family. Recorded ones are there where TIDEGATE_DATA names their folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.equi_join import engine_over
from benchmarks.policies import Measured
from benchmarks.side_by_side import Row, compared
from benchmarks.target import COST, REPETITIONS
from benchmarks.workload import cut
from tidegate import JoinEngine, JoinSpec
from tidegate.lab.datasets import folder_of
from tidegate.lab.families import WINDOW, family_streams
from tidegate.lab.measure import SOURCES, options_of, recorded_streams
from tidegate.lab.value_settings import JoinToValue, joins

FIXED = (
    "value", "random", "recent", "until-expiry", "prob", "output", "simp", "simpprob", "dimpprob",
    "dgl", "age", "arrival-order",
)  # fmt: skip
BUDGETS = (0.05, 0.25)
STRETCHES = 24  # in which a stream is pushed
# Streams that change: families, one after the other, and for how many windows each.
CHANGING = {
    "skew, one-to-one": (("skew", "one-to-one"), 30),
    "abrupt, age, skew": (("abrupt", "age", "skew"), 30),
    "bursts, drift, skew, age": (("bursts", "drift", "skew", "age"), 20),
}
LONG = 10  # times the window of the families
Tables = dict[str, pa.Table]


@dataclass(frozen=True)
class Workload:
    """Streams, and the join of them."""

    name: str
    tables: Tables
    spec: JoinSpec


def longer(families: tuple[str, ...], windows: int, seed: int = 0) -> Tables:
    """Streams of families one after the other, with windows that are LONG times as long."""
    parts: dict[str, list[pa.Table]] = {"left": [], "right": []}
    begin = 0
    for number, family in enumerate(families):
        tables = _interleaved(family, windows, seed + 1000 * number)
        for name, table in tables.items():
            key = table["key"].to_numpy() * len(families) + number
            time = begin + table["ts"].to_numpy()
            part = table.set_column(1, "key", pa.array(key)).set_column(0, "ts", pa.array(time))
            parts[name].append(part)
        begin += (windows + 1) * WINDOW
    return {name: pa.concat_tables(tables) for name, tables in parts.items()}


def _interleaved(family: str, windows: int, seed: int) -> Tables:
    """LONG copies of a family with other keys side by side: as many times the tuples per window."""
    copies = [family_streams(family, windows, seed + copy) for copy in range(LONG)]
    found = {}
    for name in copies[0]:
        keyed = [
            table.set_column(1, "key", pa.array(table["key"].to_numpy() * LONG + copy))
            for copy, table in enumerate(each[name] for each in copies)
        ]
        whole = pa.concat_tables(keyed)
        order = np.argsort(whole["ts"].to_numpy(), kind="stable")
        found[name] = whole.take(pa.array(order))
    return found


def _spec(**options: Any) -> JoinSpec:
    usual: dict[str, Any] = {"on": "key", "time": "ts", "within": WINDOW}
    return JoinSpec(**{**usual, **options})


def changing(quick: bool) -> Iterator[Workload]:
    """Streams that change their character."""
    for name, (families, windows) in CHANGING.items():
        tables = longer(families, windows // 2 if quick else windows)
        for by in ("rows", "importance"):
            spec = _spec(importance=None if by == "rows" else "importance")
            yield Workload(f"changing: {name}, by {by}", tables, spec)


def steady(quick: bool) -> Iterator[Workload]:
    """The families by themselves."""
    for family in ("skew", "age", "bursts", "one-to-one", "drift", "abrupt", "mixed"):
        tables = longer((family,), 12 if quick else 40)
        for by in ("rows", "importance"):
            spec = _spec(importance=None if by == "rows" else "importance")
            yield Workload(f"long: {family}, by {by}", tables, spec)


def of_the_lab(quick: bool) -> Iterator[Workload]:
    """The workloads of `tidegate reproduce value`."""
    folder = folder_of()
    for join in joins(folder, quick):
        tables = _tables(join, str(folder))
        for by in ("rows", "importance") if join.weighed else ("rows",):
            spec = JoinSpec(**options_of(join.spec_for(by, "auto")))
            yield Workload(f"{join.group}: {join.name}, by {by}", tables, spec)


def _tables(join: JoinToValue, folder: str) -> Tables:
    arguments = json.loads(json.dumps(dict(join.arguments)))
    if join.source == "recorded":
        return recorded_streams(arguments["name"], folder, arguments.get("rows"))
    return SOURCES[join.source](seed=0, **arguments)


def pushes_of(work: Workload) -> list[Tables]:
    """The streams in stretches of time."""
    times = {
        name: work.tables[name][column].cast(pa.int64()).to_numpy()
        for name, column in zip(work.spec.streams, work.spec.time_columns, strict=True)
    }
    everyone = np.sort(np.concatenate(list(times.values())))
    edges = np.unique(everyone[np.linspace(0, len(everyone) - 1, STRETCHES + 1).astype(int)][1:-1])
    place = {name: np.searchsorted(edges, time, side="right") for name, time in times.items()}
    return [
        {name: work.tables[name].filter(pa.array(place[name] == at)) for name in times}
        for at in range(len(edges) + 1)
    ]


def _kept(spec: JoinSpec, pushes: list[Tables]) -> tuple[float, dict[str, Any], list[str]]:
    """Results or importance, stats, and the policies in force."""
    engine = JoinEngine(spec, {name: table.schema for name, table in pushes[0].items()})
    engine.count_only()
    policies = []
    for push in pushes:
        engine.push(push)
        policies.append(engine.policy)
    stats = engine.stats()
    measure = "rows_out" if spec.importance_columns is None else "importance_out"
    return float(stats[measure]), stats, policies


def beside_fixed(work: Workload) -> Iterator[Row]:
    """`auto` and all fixed policies, under two budgets."""
    pushes = pushes_of(work)
    exact, stats, _ = _kept(work.spec, pushes)
    for budget in BUDGETS:
        memory = max(1, round(budget * stats["memory_rows_peak"]))
        spec = work.spec.replace(memory=memory)
        known = [p for p in FIXED if spec.importance_columns is not None or "imp" not in p]
        fixed = {p: _kept(spec.replace(policy=p), pushes)[0] / exact for p in known}
        auto, _, policies = _kept(spec, pushes)
        best = max(fixed, key=lambda policy: fixed[policy])
        forces = ", ".join(dict.fromkeys(policies))
        name = f"{work.name}, {memory:,} tuples: best is {best}, value keeps "
        name += f"{fixed['value'] / fixed[best]:.3f} of it; in force {forces}"
        yield compared(name, auto / exact, fixed[best], "recall")


def cost() -> list[Row]:
    """`auto` beside `value`, in turn, where nothing is switched."""
    pushes = cut(COST.tables(), COST.rows_per_stream // 10)
    plain = JoinSpec(on="key", time="time", within=COST.window, memory=20_000)
    ours, theirs = (
        Measured(engine_over(plain.replace(policy=name), pushes)) for name in ("auto", "value")
    )
    for _ in range(REPETITIONS):
        for each in (ours, theirs):
            each.again()
    speeds = [COST.tuples / each.seconds for each in (ours, theirs)]
    return [compared("cost: auto / value", *speeds, "tuples/CPU s")]


def run(quick: bool) -> list[Row]:
    rows = cost()
    for works in (changing(quick), steady(quick), of_the_lab(quick)):
        for work in works:
            rows += beside_fixed(work)
    return rows
