"""gedik2005, right half of Fig. 9: basic windows with inverted indexes, as a model that counts.

Law: what a probe costs is counted, not timed: one access for each list that is looked up and one
for each entry of a list that is read. The streams, the entries and the results are those of the
exact join; the plan of each period is the best one that the index allows, known afterwards.

| index | what a probe can read of it |
|---|---|
| sorted by time | of each basic window a part; without basic windows, the youngest part of a list |
| sorted by identifier | whole basic windows only; without them, a list or nothing |

The engine has the first of them, without a list per basic window. It does not have the second,
which is the paper's counterexample.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.lab.gedik2005_best import Counts, comparisons_by_window
from tidegate.lab.gedik2005_streams import ITEMS

BY_TIME, BY_IDENTIFIER = "sorted by time", "sorted by identifier"
NONE = 0  # the size that stands for no basic windows
FINE = 200  # milliseconds: without basic windows the youngest part is cut this finely


def entries_by_window(
    tables: Mapping[str, pa.Table], windows: tuple[int, int], basic: int, every: int, periods: int
) -> tuple[Counts, NDArray[np.float64]]:
    """Entries that full probes read, by period, side and basic window; lists looked up, by side."""
    times = {name: table["t"].to_numpy() for name, table in tables.items()}
    owners, items = {}, {}
    for name, table in tables.items():
        lists = table["items"].combine_chunks()
        lengths = np.diff(lists.offsets.to_numpy())
        owners[name] = np.repeat(np.arange(len(lengths)), lengths)
        items[name] = lists.values.to_numpy()
    entries: Counts | None = None
    for item in range(ITEMS):
        having = {
            name: pa.table({"t": times[name][owners[name][items[name] == item]]}) for name in tables
        }
        found = comparisons_by_window(having, windows, basic, every, periods)
        entries = found if entries is None else entries + found
    assert entries is not None
    lookups = np.zeros((periods, 2))
    for side, probing in enumerate(reversed(list(tables))):
        np.add.at(lookups[:, side], times[probing][owners[probing]] // every, 1.0)
    return entries, lookups


def output(
    results: Counts, entries: Counts, lookups: NDArray[np.float64], fuel: float, kind: str
) -> float:
    """Results of all periods under `fuel` accesses in each."""
    total = 0.0
    for gain, cost, looked_up in zip(results, entries, lookups, strict=True):
        fixed = np.repeat(looked_up[:, None], gain.shape[1], axis=1)
        worth = gain / np.maximum(cost + fixed, 1.0)
        left = fuel
        for at in np.argsort(-worth.ravel(), kind="stable"):
            reads, lookup = cost.ravel()[at], fixed.ravel()[at]
            if reads == 0.0 or lookup >= left:
                continue
            share = min(1.0, (left - lookup) / reads)
            if kind == BY_IDENTIFIER and share < 1.0:
                continue
            total += share * gain.ravel()[at]
            left -= lookup + share * reads
    return total


def output_without(
    results: Counts, entries: Counts, lookups: NDArray[np.float64], fuel: float, kind: str
) -> float:
    """The same without basic windows: the youngest part of all lists, or some tuples in full."""
    total = 0.0
    for gain, cost, looked_up in zip(results, entries, lookups, strict=True):
        if kind == BY_IDENTIFIER:
            total += min(1.0, fuel / max(1.0, cost.sum() + looked_up.sum())) * gain.sum()
            continue
        left = max(0.0, fuel - looked_up.sum())
        # Basic windows of `FINE` stand for places in a list; both sides alike, the youngest first.
        for reads, found in zip(cost.sum(axis=0), gain.sum(axis=0), strict=True):
            share = 1.0 if reads <= left else left / reads
            total += share * found
            left -= share * reads
    return total


def outputs_by_size(
    tables: Mapping[str, pa.Table],
    by_window: Mapping[int, Counts],
    windows: tuple[int, int],
    every: int,
    share: float,
) -> dict[int, dict[str, float]]:
    """Results of both indexes for each size of basic windows, in milliseconds, NONE among them.

    `by_window` are the results of the exact join, by size; fuel is a share of what reading all
    entries costs.
    """
    found: dict[int, dict[str, float]] = {}
    for size, results in by_window.items():
        basic = size or FINE
        entries, lookups = entries_by_window(tables, windows, basic, every, len(results))
        fuel = share * float(entries.sum()) / len(results)
        how = output if size else output_without
        found[size] = {k: how(results, entries, lookups, fuel, k) for k in (BY_TIME, BY_IDENTIFIER)}
    return found
