"""How many comparisons a core of this machine makes per second: `cpu=Cpu(share_of_core=...)`.

Law: a number is measured once per kind of index and CPU, and kept in the folder of compiled code.
What cannot be read, or is of another CPU, is measured again. A join that was given a share keeps
the number that it began with, in its snapshots too.

Measured is the join under a CPU budget with fuel for everything, on windows of 2,000 tuples that
nearly never match: what results cost is not in it. CPU time counts, and of several rounds the
quickest, since other work on the machine can only add to it.
"""

from __future__ import annotations

import json
import math
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.compiled.places import cache_folder
from tidegate.compiled.processor import cpu_name
from tidegate.spec import Cpu, JoinSpec, band, overlap

FILE = "comparisons.json"
_TUPLES, _PROBES, _ROUNDS = 2_000, 1_000, 5
_ITEMS = 8  # that all sets have

# What is joined: every retained tuple is compared with every arrival, and hardly any matches.
_TERMS: dict[str, Any] = {
    "nested-loop": band("x", 0, 0),
    "hash": ["k", band("x", 0, 0)],
    "inverted": overlap("items", _ITEMS + 1),
}


@cache
def comparisons_per_second(kind: str) -> float:
    """Of one core, with this kind of index."""
    known = _stored()
    if kind not in known:
        known[kind] = measure(kind)
        _store(known)
    return known[kind]


def measure(kind: str) -> float:
    """Measure it now."""
    from tidegate.engine.join_engine import JoinEngine  # which asks for this

    generous = Cpu(comparisons_per_second=1e15)
    spec = JoinSpec(on=_TERMS[kind], time="t", within=10**6, index=kind, cpu=generous)
    JoinEngine(spec).push({"left": _table(0, 4), "right": _table(0, 4)})  # compiles
    quickest = math.inf
    for _ in range(_ROUNDS):
        engine = JoinEngine(spec)
        engine.push({"left": _table(0, _TUPLES)})
        # The last window is searched by tuples that find it full.
        before = engine.stats()["comparisons"]
        arrivals = _table(_TUPLES, _PROBES)
        began = time.thread_time()
        engine.push({"right": arrivals})
        took = time.thread_time() - began
        quickest = min(quickest, took / (engine.stats()["comparisons"] - before))
    return 1.0 / max(quickest, 1e-12)


def _table(begin: int, rows: int) -> pa.Table:
    random = np.random.default_rng(begin)
    items = np.arange(_ITEMS).tolist()
    return pa.table(
        {
            "t": np.arange(begin, begin + rows),
            "k": np.zeros(rows, np.int64),
            "x": random.integers(0, 10**9, rows),
            "items": pa.array([items] * rows, pa.list_(pa.int64())),
        }
    )


def _file() -> Path | None:
    folder = cache_folder()
    return None if folder is None else folder / FILE


def _stored() -> dict[str, float]:
    """What was measured on this CPU."""
    path = _file()
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path is not None else {}
        numbers = {kind: float(found["comparisons"][kind]) for kind in found["comparisons"]}
        named = found["cpu"] == cpu_name()
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return {}
    sound = named and all(0.0 < number < math.inf for number in numbers.values())
    return numbers if sound else {}


def _store(numbers: dict[str, float]) -> None:
    """Keep the numbers; where that is not possible each process measures for itself."""
    path = _file()
    if path is None:
        return
    partial = path.with_suffix(".partial")
    try:
        partial.write_text(json.dumps({"cpu": cpu_name(), "comparisons": numbers}), "utf-8")
        partial.replace(path)
    except OSError:
        return
