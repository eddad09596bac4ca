"""The exact equi-join against a kernel written by hand for it, and beside two batch engines.

Law: both sides end with the same rows in fresh columns. The engine takes Arrow and gives Arrow, in
pushes and in one piece; the bare kernel joins and gathers every column of both sides; its index
pairs alone show what the gathering costs. To reach: >= 0.7 of the bare kernel with its gathering.
DuckDB and Polars join the same tables as a batch, each on one thread, for orientation only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from benchmarks import batch_peers
from benchmarks.bare_kernel import BareJoin
from benchmarks.side_by_side import (
    DisagreementError,
    Row,
    best_of,
    compared,
    in_fresh_process,
    neighbours,
    take_turns,
)
from benchmarks.workload import Workload, cut
from tidegate import JoinEngine, JoinSpec

FULL = Workload(rows_per_stream=2_000_000, keys=200_000, window=200_000)
QUICK = Workload(rows_per_stream=300_000, keys=30_000, window=30_000)
PUSHES = 10


def engine_over(spec: JoinSpec, pushes: Sequence[dict[str, pa.Table]]) -> Callable[[], int]:
    """A contestant: a new engine takes the pushes; all result tables live until the last one."""

    def contestant() -> int:
        engine = JoinEngine(spec)
        results = [engine.push(push) for push in pushes]
        return sum(table.num_rows for table in results)

    return contestant


def run(quick: bool) -> list[Row]:
    workload = QUICK if quick else FULL
    tables = workload.tables()
    spec = JoinSpec(on="key", time="time", within=workload.window)
    pushes = engine_over(spec, cut(tables, workload.rows_per_stream // PUSHES))
    # The kernel's room for results is known only after a join: the engine's, which warms it up.
    bare = BareJoin.over(workload.columns(), workload.window, room=pushes())
    contestants = {
        "pushes": pushes,
        "gathered": bare.joined,
        "one push": engine_over(spec, [tables]),
        "gathered again": bare.joined,
        "pairs": bare.pairs,
    }
    took = take_turns(contestants, 3 if quick else 7)
    tuples, ours = workload.tuples, took["pushes"]
    rows = []
    for label, theirs in (("pushes", "gathered"), ("one push", "gathered again")):
        name = f"engine in {PUSHES} pushes" if label == "pushes" else "engine in one push"
        name += " / bare kernel with gather"
        rows.append(best_of(f"{name}, best", took[label], took[theirs], tuples))
        rows += neighbours(name, took[label], took[theirs], tuples)
    rows.append(best_of("engine / bare kernel, index pairs alone", ours, took["pairs"], tuples))
    return rows + _beside_peers(workload, ours.best_rate(tuples), ours.results)


def _beside_peers(workload: Workload, our_rate: float, our_results: int) -> list[Row]:
    rows = []
    for peer in batch_peers.PEERS:
        arguments = (peer, workload.rows_per_stream, workload.keys, workload.window)
        answer = in_fresh_process("benchmarks.batch_peers", arguments, {"POLARS_MAX_THREADS": "1"})
        if answer["results"] != our_results:
            raise DisagreementError(
                f"{peer} made {answer['results']} results and the engine {our_results}; "
                "they should be the same"
            )
        their_rate = workload.tuples / answer["seconds"]
        name = f"engine / {peer}, one thread, batch ({answer['formulation']})"
        rows.append(compared(name, our_rate, their_rate, "tuples/s"))
    return rows
