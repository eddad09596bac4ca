"""Pushes to disturb: joins of several kinds, each with a push that makes its arrays change."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
from contracts import Push

import tidegate as tg


@cache
def rows(stream: str, begin: int, count: int, keys: int = 400) -> pa.Table:
    """`count` rows, one per unit of time; a few of them are rejected."""
    numbers = np.arange(begin, begin + count)
    weights = 1.0 + numbers * 7 % 11
    weights[numbers % 97 == 5] = -1.0
    columns = {
        f"row_{stream}": numbers,
        "ts": numbers,
        "k": (numbers * numbers + (stream == "right")) % keys,
        "w": weights,
        "tags": pa.array([[int(n) % 5, int(n) % 7, int(n) % 11] for n in numbers]),
    }
    return pa.table(columns)


def both(begin: int, count: int) -> dict[str, pa.Table]:
    return {name: rows(name, begin, count) for name in ("left", "right")}


@dataclass(frozen=True)
class Scenario:
    """The pushes before the one that is interrupted, that one, and those after it."""

    spec: tg.JoinSpec
    before: tuple[Push, ...]
    push: Push
    after: tuple[Push, ...]


# The arrays begin with room for 1,024 tuples: the interrupted push makes them grow.
GROWING = (Push(both(0, 500)),), Push(both(500, 60)), (Push(both(560, 40)),)
WIDE = tg.JoinSpec(on="k", time="ts", within=100_000, importance="w")
SHEDDING = WIDE.replace(memory=1050, policy="value")

SCENARIOS: dict[str, Scenario] = {
    "exact": Scenario(WIDE.replace(within=600), *GROWING),
    "value": Scenario(SHEDDING, *GROWING),
    "bytes": Scenario(SHEDDING.replace(memory="400 kB", policy="random"), *GROWING),
    "instant": Scenario(SHEDDING.replace(ties="instant", policy="dgl"), *GROWING),
    "watermark": Scenario(
        WIDE.replace(within=300),
        (Push(both(0, 500)),),
        Push(both(500, 60), 450),
        (Push(both(560, 40), 500),),
    ),
    "late stream": Scenario(
        WIDE.replace(within=600, lateness=600),
        (Push({"left": rows("left", 0, 500)}),),
        Push({"right": rows("right", 0, 100)}),
        (Push(both(500, 40)),),
    ),
}


def pushed(engine: tg.JoinEngine, push: Push) -> pa.Table:
    return engine.push(push.tables, watermark=push.watermark)


def prepared(scenario: Scenario) -> tg.JoinEngine:
    schemas = {name: t.schema for push in scenario.before for name, t in push.tables.items()}
    engine = tg.JoinEngine(scenario.spec, schemas)
    for push in scenario.before:
        pushed(engine, push)
    return engine


def account(engine: tg.JoinEngine) -> dict[str, float]:
    """The stats that do not depend on when arrays grew."""
    return {name: n for name, n in engine.stats().items() if not name.startswith("memory_bytes")}
