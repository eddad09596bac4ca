"""Compile all that this version can need, before anybody waits for it.

Law: after `warm`, no join compiles anything. What is compiled depends on the types that the driver
is called with, and those on a few options only; `join_cases` and `rare_cases` list them. Each case
runs a real, small join through `JoinEngine`, so the lists stay right when the driver changes. As
many processes as there are cores run them; a lock (`compiled.turns`) sees to it that what two cases
share is compiled once.

A file beside the code names the files of all functions that Python called. Where they are still
there, there is nothing to do.
"""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.compiled import cache
from tidegate.compiled.names import environment, own_target, short_name
from tidegate.compiled.places import cache_folder, places
from tidegate.compiled.sources import digest_of
from tidegate.engine.join_engine import JoinEngine
from tidegate.spec import Cpu, JoinSpec, TidegateError, band, inner_product, overlap, theta

ROWS = 3000  # of each stream: more than the first arrays of a join hold, so that they grow
KEYS = 40


@dataclass(frozen=True)
class Case:
    """One join, or whatever else is compiled: a function and its arguments."""

    name: str
    run: Callable[..., None]
    options: dict[str, Any]


@dataclass(frozen=True)
class Warmed:
    """What `warm` did.

    `compiled` functions were compiled now; `functions` is how many Python calls, each with all that
    it calls; `record` is the file in `folder` that lists their files.
    """

    compiled: int
    functions: int
    folder: str
    record: str
    not_kept: int = 0


def join_cases() -> list[Case]:
    """Every common combination of types that the driver is compiled for, the longest first.

    Trees, budget, ties, and whether there are more than two streams choose the types. An exact join
    of two whose tuples leave in order takes a loop of its own; other predicates, most policies
    and all numbers of streams share the types of these. Samples and arrival patterns have types of
    their own, of which the commonest are here: ties="arrival", two streams, and for patterns three.
    A wheel carries the code of these.
    """
    cases = []
    for tree in (True, False):
        for budget in (True, False):
            for ties in ("instant", "arrival"):
                words = ["trees" if tree else "hash", "budget" if budget else "exact", ties]
                options = {"tree": tree, "budget": budget, "ties": ties}
                cases.append(Case(", ".join(words), run_joins, options))
    for budget in (True, False):
        for ties in ("instant", "arrival"):
            words = ["many", "budget" if budget else "exact", ties]
            cases.append(Case(", ".join(words), run_many, {"budget": budget, "ties": ties}))
    for policy in ("uniform", "arrival-order", "value"):
        cases.append(Case(policy, run_policy, {"policy": policy, "budget": True}))
    cases.append(Case("race of policies", run_race, {"budget": True}))
    cases.append(Case("what is lost", run_watched, {"budget": True}))
    cases.sort(key=lambda case: not case.options["budget"])
    return [*cases, Case("exact in order", run_in_order, {}), Case("columns", run_columns, {})]


def rare_cases() -> list[Case]:
    """The other combinations: CPU budgets, samples of more streams, and policies that have types of
    their own, where ties="instant"."""
    cases = []
    for budget in (True, False):
        for many in (True, False):
            words = ["cpu", "budget" if budget else "exact", "many" if many else "two"]
            cases.append(Case(", ".join(words), run_throttled, {"budget": budget, "many": many}))
    for policy, ties, many in (
        ("pps-cluster", "arrival", True),
        ("pps-cluster", "instant", False),
        ("pps-cluster", "instant", True),
        ("arrival-order", "instant", False),
        ("arrival-order", "instant", True),
        ("value", "instant", True),
    ):
        words = [policy, ties, "many" if many else "two"]
        options = {"policy": policy, "ties": ties, "many": many}
        cases.append(Case(", ".join(words), run_rare_policy, options))
    return cases


def _stream(seed: int, rows: int) -> pa.Table:
    """A stream in order of time, with columns for every predicate."""
    random = np.random.default_rng(seed)
    sets = random.integers(0, 9, (rows, 3))
    return pa.table(
        {
            "t": np.sort(random.integers(0, rows, rows)),
            "k": random.integers(0, KEYS, rows),
            "x": random.integers(0, 1000, rows).astype(np.float64),
            "items": pa.array(sets.tolist()),
            "weights": pa.array(
                [[(item, 1.0) for item in set(row)] for row in sets.tolist()], _WEIGHTED
            ),
            "importance": random.uniform(0.5, 2.0, rows),
        }
    )


_WEIGHTED = pa.map_(pa.int64(), pa.float64())


def run_joins(tree: bool, budget: bool, ties: str) -> None:
    """Joins of one combination: in and out of order, snapshots, every kind of predicate."""
    predicates: list[Any] = [band("x", -1.0, 1.0)]
    if not tree:
        predicates = ["k", overlap("items", 2), inner_product("weights", 2.0), theta(_near, ["x"])]
    for on in predicates:
        spec = JoinSpec(
            on=on,
            time="t",
            within=100,
            lateness=0 if ties == "instant" else 5,
            ties=ties,  # type: ignore[arg-type]
            memory=50 if budget else None,
            importance="importance" if budget else None,
        )
        _push_in_pieces(spec)
    if tree:
        _push_in_pieces(spec.replace(index="ttree"))
    if budget:
        _push_in_pieces(spec.replace(memory="2 MB"))


def run_many(budget: bool, ties: str) -> None:
    """Joins of three streams, in and out of order, and snapshots."""
    spec = JoinSpec(
        on="k",
        time="t",
        within=100,
        streams=("left", "right", "third"),
        lateness=0 if ties == "instant" else 5,
        ties=ties,  # type: ignore[arg-type]
        memory=50 if budget else None,
        split="even",
        policy="random",
        importance="importance" if budget else None,
    )
    _push_in_pieces(spec)
    if budget:
        _push_in_pieces(spec.replace(memory="2 MB"))


def run_policy(policy: str, budget: bool) -> None:
    """Joins under a policy with types of its own."""
    spec = JoinSpec(
        on="k", time="t", within=100, lateness=5, memory=50, policy=policy, importance="importance"
    )
    if policy != "value":  # with two streams it has the types of most others
        _push_in_pieces(spec)
        _push_in_pieces(spec.replace(memory="2 MB"))
    if policy != "uniform":
        _push_in_pieces(spec.replace(streams=("left", "right", "third"), split="even"))


def run_throttled(budget: bool, many: bool) -> None:
    """Joins under a CPU budget, with and without an index."""
    spec = JoinSpec(
        on="k",
        time="t",
        within=100,
        lateness=5,
        cpu=Cpu(comparisons_per_second=1000.0),
        streams=_names(many),
        memory=50 if budget else None,
        importance="importance" if budget else None,
    )
    _push_in_pieces(spec)
    if not many:
        _push_in_pieces(spec.replace(on=theta(_near, ["x"])))


def run_rare_policy(policy: str, ties: str, many: bool) -> None:
    """Joins under a policy with types of its own."""
    spec = JoinSpec(
        on="k",
        time="t",
        within=100,
        lateness=0 if ties == "instant" else 5,
        ties=ties,  # type: ignore[arg-type]
        memory=50,
        policy=policy,
        importance="importance",
        streams=_names(many),
        split="even",
    )
    _push_in_pieces(spec)
    _push_in_pieces(spec.replace(memory="2 MB"))


def _names(many: bool) -> tuple[str, ...]:
    return ("left", "right", "third") if many else ("left", "right")


def run_race(budget: bool) -> None:
    """A join whose policy follows from a race."""
    engine = JoinEngine(JoinSpec(on="k", time="t", within=500, memory=900 if budget else None))
    engine.push({name: _stream(seed, ROWS) for seed, name in enumerate(_names(False), start=1)})


def run_watched(budget: bool) -> None:
    """A join that estimates what it loses, and what other memories would keep."""
    spec = JoinSpec(
        on="k", time="t", within=500, memory=4000 if budget else None, importance="importance"
    )
    _push_in_pieces(spec.replace(sentinel=0.05, miniatures=0.5))


def run_in_order() -> None:
    """The loop for exact joins whose tuples leave in the order in which they came."""
    spec = JoinSpec(on="k", time="t", within=100)
    _push_in_pieces(spec)
    _push_in_pieces(spec.replace(streams=("left", "right", "third")))


def _near(a: float, b: float) -> bool:
    return abs(a - b) < 2.0


def _push_in_pieces(spec: JoinSpec) -> None:
    """One stream first, so that the other's types come late; then a snapshot, then a watermark."""
    tables = {name: _stream(seed, ROWS) for seed, name in enumerate(spec.streams, start=1)}
    left, half = tables["left"], ROWS // 2
    engine = JoinEngine(spec)
    for name, table in tables.items():
        engine.push({name: table.slice(0, half)})
    restored = JoinEngine.restore(engine.snapshot(), spec)
    rest = {name: table.slice(half) for name, table in tables.items()}
    if spec.ties == "instant":
        restored.push(rest)
    else:
        restored.push(rest, watermark=int(left["t"][half].as_py()))
        restored.push({}, watermark=2 * ROWS)
    whole = JoinEngine(spec)
    whole.push(tables)
    restored = JoinEngine.restore(whole.snapshot(), spec)
    restored.push({"left": left.slice(0, 1).set_column(0, "t", pa.array([2 * ROWS]))})


def run_columns() -> None:
    """Every way in which columns become codes, and values of every width are gathered."""
    rows = 50
    numbers = np.arange(rows)
    columns: dict[str, pa.Array] = {
        f"w{np.dtype(kind).itemsize}": pa.array(numbers.astype(kind))
        for kind in (np.int8, np.int16, np.int32, np.int64)
    }
    columns["text"] = pa.array([str(number % 7) for number in numbers])
    columns["exact"] = pa.array(map(Decimal, numbers.tolist()), pa.decimal128(20, 2))
    table = pa.table({"t": numbers, "real": numbers.astype(np.float64), **columns})
    for on in (["text"], ["exact"], ["text", "real"], ["w4", "real"], ["w8"]):
        engine = JoinEngine(JoinSpec(on=on, time="t", within=5))
        engine.push({"left": table, "right": table})


def run_case(case: Case) -> tuple[int, list[str], int]:
    """Run a case: how many functions were compiled, what Python asked for, how many not kept."""
    use = cache.use
    compiled, asked, not_kept = len(use.compiled), len(use.asked), use.not_kept
    case.run(**case.options)
    new = len(use.compiled) - compiled
    # A process that runs several cases asks for a function once.
    return new, use.asked[asked:], use.not_kept - not_kept


def warm(
    cases: Sequence[Case],
    processes: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Warmed:
    """Compile what the cases need and is not there yet.

    Parameters
    ----------
    cases
        What to run, such as `join_cases()`.
    processes
        How many processes compile; by default one for each core.
    progress
        Called as `progress(cases done, cases in total)`.
    """
    base = cache_folder()
    if base is None:
        raise TidegateError(
            "no folder for compiled code can be written; set TIDEGATE_CACHE to a writable folder"
        )
    record = base / f"warm-{_version(cases)}.json"
    known = _known(record)
    if known is not None:
        return Warmed(0, len(known), str(base), str(record))
    compiled, not_kept = 0, 0
    for done, (new, _, lost) in enumerate(_outcomes(cases, processes), start=1):
        compiled, not_kept = compiled + new, not_kept + lost
        if progress is not None:
            progress(done, len(cases))
    # Once more, in processes that only load: a function that was compiled as part of another, and
    # then called from Python too, was not asked for by itself.
    used = {file for _, files, _ in _outcomes(cases, processes) for file in files}
    if not not_kept:
        cache.write_whole(record, json.dumps(sorted(used)).encode())
    return Warmed(compiled, len(used), str(base), str(record), not_kept)


def _outcomes(cases: Sequence[Case], processes: int | None) -> Iterator[tuple[int, list[str], int]]:
    count = min(processes or os.cpu_count() or 1, len(cases))
    # Fresh processes: a fork of one that has threads may hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, mp_context=context) as pool:
        for outcome in as_completed([pool.submit(run_case, case) for case in cases]):
            yield outcome.result()


def _version(cases: Sequence[Case]) -> str:
    """A name for the cases, the sources that they run, the compiler and the CPU."""
    modules = sorted({__name__, *(case.run.__module__ for case in cases)})
    listed = [(case.name, sorted(case.options.items())) for case in cases]
    digests = list(map(digest_of, modules))
    return short_name(digests, environment(), own_target(), listed)


def _known(record: Path) -> list[str] | None:
    """The files that an earlier run needed, if all of them are still there."""
    try:
        files: list[str] = json.loads(record.read_bytes())
        whole = all(any(place.joinpath(file).is_file() for place in places()) for file in files)
        return files if whole else None
    except (OSError, ValueError, TypeError):
        return None
