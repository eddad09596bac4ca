"""The join of n streams against the ways to do without it.

Law: same tuples, same windows, same results. Three contestants: one engine that looks first whether
every stream has the key (BiHT of kwon2011), the same engine that goes from stream to stream
(MJoin, the most selective first), and a chain of two-way engines, whose intermediate results are
streams themselves. Keys are uniform; their number is chosen so that a given share of the arrivals
completes no result. To reach: 2 x the chain where 99 % of joins fail.

In a chain, too, every tuple is stored once; what it makes besides are intermediate results. With
three streams and 99 % failures these are one in fourteen tuples, so there is little to save.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.side_by_side import Row, neighbours, take_turns
from benchmarks.workload import cut
from tidegate import JoinEngine, JoinSpec

FAILURES = (0.5, 0.9, 0.99)
STREAMS = range(3, 8)
QUICK_STREAMS = (3, 5)
ROWS, QUICK_ROWS = 200_000, 20_000  # of each stream
MOST_RESULTS = 3_000_000
PUSHES = 10


@dataclass(frozen=True)
class Streams:
    """n streams with one tuple per unit of time each, and a window of a tenth of that."""

    number: int
    failure: float
    most_rows: int

    @property
    def partners(self) -> float:
        """Tuples with a given key in a window: all others have one with probability 1 - failure."""
        present = (1 - self.failure) ** (1 / (self.number - 1))
        return -math.log(1 - present)

    @property
    def rows(self) -> int:
        results = self.number * self.partners ** (self.number - 1)
        return min(self.most_rows, int(MOST_RESULTS / results)) // PUSHES * PUSHES

    @property
    def window(self) -> int:
        return self.rows // 10

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"s{number}" for number in range(1, self.number + 1))

    def tables(self) -> dict[str, pa.Table]:
        generator = np.random.default_rng(self.number)
        keys = max(1, round(self.window / self.partners))
        return {
            name: pa.table(
                {
                    "time": np.arange(self.rows),
                    "key": generator.integers(0, keys, self.rows),
                    "id": np.arange(self.rows),
                }
            )
            for name in self.names
        }


def engine_of(
    streams: Streams, pushes: Sequence[dict[str, pa.Table]], probe: str
) -> Callable[[], int]:
    """A contestant: one engine for all streams."""
    spec = JoinSpec(on="key", time="time", within=streams.window, streams=streams.names)

    def contestant() -> int:
        engine = JoinEngine(spec, probe=probe)
        return sum(engine.push(push).num_rows for push in pushes)

    return contestant


def chain_of(streams: Streams, pushes: Sequence[dict[str, pa.Table]]) -> Callable[[], int]:
    """A contestant: the first two streams, their results with the third, and so on.

    A result of the chain has the time of its latest tuple, and carries that of its first: what the
    windows do not let meet is dropped at once. It carries the columns of all its tuples but their
    keys, which are the same, so that both sides give out the same.
    """
    spec = JoinSpec(on="key", time="time", within=streams.window)

    def contestant() -> int:
        engines = [JoinEngine(spec) for _ in streams.names[1:]]
        total = 0
        for push in pushes:
            joined = push[streams.names[0]]
            for engine, name in zip(engines, streams.names[1:], strict=True):
                joined = merged(engine.push({"left": joined, "right": push[name]}), streams.window)
            total += joined.num_rows
        return total

    return contestant


def merged(results: pa.Table, window: int) -> pa.Table:
    """Results of two as tuples of a stream, with times and ids of all that they are made of."""
    is_base = "first" not in results.column_names
    since = results["time" if is_base else "first"]
    first = pc.min_element_wise(since, results["time_right"])
    last = pc.max_element_wise(results["time"], results["time_right"])
    carried = {
        name: results[name] for name in results.column_names if name.startswith(("id ", "time "))
    }
    if is_base:
        carried = {"time 0": results["time"], "id 0": results["id"]}
    number = len(carried) // 2
    carried |= {f"time {number}": results["time_right"], f"id {number}": results["id_right"]}
    table = pa.table({"time": last, "key": results["key"], "first": first, **carried})
    return table.filter(pc.less_equal(pc.subtract(last, first), window))


def run(quick: bool) -> list[Row]:
    rows: list[Row] = []
    for number in QUICK_STREAMS if quick else STREAMS:
        for failure in FAILURES:
            streams = Streams(number, failure, QUICK_ROWS if quick else ROWS)
            pushes = cut(streams.tables(), streams.rows // PUSHES)
            contestants = {
                "bits": engine_of(streams, pushes, "auto"),
                "plain": engine_of(streams, pushes, "selectivity"),
                "chain": chain_of(streams, pushes),
            }
            took = take_turns(contestants, 1 if quick else 3)
            tuples = number * streams.rows
            what = f"{number} streams, {failure:.0%} of joins fail"
            for other in ("plain", "chain"):
                rows += neighbours(f"{what}: BiHT / {other}", took["bits"], took[other], tuples)
    return rows
