"""The offline optimum: our flow on the chain against OR-tools' minimum-cost flow.

Law: both solve the same accounts of the same streams (ojewole2006, table 1: w = 2000, M = 800 split
evenly, domain 2000, Zipf 1.0 and 0.0), and a solver that finds another value is an error. `theirs`
gets two networks: the one with a node for each event and each match, and the smaller one that our
solver works on; its arcs are built before the clock starts. Each solver runs in a process of its
own that reads the accounts from a file, so that the growth of its peak memory is its own. Where
OR-tools would need longer than it is given, the row is left out. To reach: >= 5 x at N = 56,000.

Besides: growth of our time with N, and the gap of the cheap bound. `ours` and `theirs` are seconds,
so here a ratio below 1 is better; the names say "speed" where it is turned round.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from benchmarks.side_by_side import DisagreementError, Row, compared, in_fresh_process
from tidegate.lab.ojewole2006_optimum import spec_of, streams_of
from tidegate.offline import flow
from tidegate.offline.bound import account_bound
from tidegate.offline.instance import Account, instance_of
from tidegate.offline.network import Arcs, arcs_of, network_of

LIFETIME, HALF, DOMAIN = 2000, 400, 2000
QUICK, FULL = (5_600,), (5_600, 56_000, 200_000)
LARGEST = 1_000_000
PATIENCE = 600  # seconds that OR-tools is given at a length
MEGABYTE = 1e6
_WARM = 2_500
_SELF = "benchmarks.optimum"

Solved = dict[str, float]


def accounts_of(length: int) -> tuple[Account, ...]:
    tables = streams_of(length, seed=0, domain=DOMAIN)
    return instance_of(tables, spec_of(LIFETIME, HALF), "importance").accounts


def write(length: int, path: str) -> Solved:
    """Store the accounts, and a small pair of them to warm up on."""
    for name, accounts in (("", accounts_of(length)), ("warm-", accounts_of(_WARM))):
        for number, account in enumerate(accounts):
            np.savez(f"{path}/{name}{number}.npz", **asdict(account))
    return {}


def read(path: str, name: str = "") -> list[Account]:
    accounts = []
    for number in range(2):
        with np.load(f"{path}/{name}{number}.npz") as stored:
            arrays: dict[str, Any] = dict(stored)
        accounts.append(Account(**{**arrays, "capacity": int(arrays["capacity"])}))
    return accounts


def ours(path: str) -> Solved:
    accounts = read(path)
    for account in read(path, "warm-"):
        flow.solve(network_of(account))
    before = peak()
    value = seconds = 0.0
    for account in accounts:
        began = time.perf_counter()
        network = network_of(account)
        placed = flow.solve(network)
        seconds += time.perf_counter() - began
        kept = placed.place[placed.place != flow.NOT_KEPT]
        value += network.value[kept].sum() / network.scale
        if flow.proven_bound(network, placed.price) != int(network.value[kept].sum()):
            raise DisagreementError("the prices do not prove the placement")
    held = peak() - before
    began = time.perf_counter()
    bound = sum(account_bound(account) for account in accounts)
    return {
        "seconds": seconds, "value": value, "bytes": held,
        "bound": bound, "bound_seconds": time.perf_counter() - began,
        "matches": float(sum(len(account.end) for account in accounts)),
    }  # fmt: skip


def theirs(path: str, every_event: bool) -> Solved:
    from ortools.graph.python import min_cost_flow

    networks = [
        (account, arcs_of(network_of(account, every_event=every_event))) for account in read(path)
    ]
    before = peak()
    value = seconds = 0.0
    for account, arcs in networks:
        solver = _loaded(min_cost_flow.SimpleMinCostFlow(), account, arcs)
        began = time.perf_counter()
        if solver.solve() != solver.OPTIMAL:
            raise DisagreementError("OR-tools found no optimum")
        seconds += time.perf_counter() - began
        value -= solver.optimal_cost()
    return {"seconds": seconds, "value": value, "bytes": peak() - before}


def _loaded(solver: Any, account: Account, arcs: Arcs) -> Any:
    solver.add_arcs_with_capacity_and_unit_cost(arcs.tail, arcs.head, arcs.capacity, arcs.cost)
    ends = np.array([0, arcs.chain - 1])
    solver.set_nodes_supplies(ends, np.array([account.capacity, -account.capacity]))
    return solver


def peak() -> float:
    """The most memory that this process has held so far, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def run(quick: bool) -> list[Row]:
    rows: list[Row] = []
    times: dict[int, float] = {}
    for length in QUICK if quick else (*FULL, LARGEST):
        with tempfile.TemporaryDirectory() as path:
            in_fresh_process(_SELF, ["write", path, length])
            mine = in_fresh_process(_SELF, ["ours", path])
            times[length] = mine["seconds"]
            for kind in _networks(length):
                rows += _beside(length, kind, path, mine)
        name = f"N={length:,}: bound / optimum"
        rows.append(compared(name, mine["bound"], mine["value"], "importance"))
    for shorter, longer in itertools.pairwise(sorted(times)):
        name = f"growth from N={shorter:,} to {longer:,} (x {longer / shorter:.1f})"
        rows.append(compared(name, times[longer], times[shorter], "s"))
    return rows


def _networks(length: int) -> Sequence[str]:
    """On long streams OR-tools gets only the network that it is faster on, or none."""
    if length == LARGEST:
        return ()
    return ("same network",) if length > FULL[1] else ("all events", "same network")


def _beside(length: int, kind: str, path: str, mine: Solved) -> list[Row]:
    """Rows for one of OR-tools' networks; none where it is not done in time."""
    arguments = [sys.executable, "-m", _SELF, kind.split()[0], path]
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        print(f"OR-tools, {kind}, N={length:,}: not done in {PATIENCE} s", file=sys.stderr)
        return []
    if done.returncode:
        raise DisagreementError(done.stderr)
    their = json.loads(done.stdout)
    if their["value"] != mine["value"]:
        raise DisagreementError(f"OR-tools found {their['value']}, we {mine['value']}")
    name = f"N={length:,}: flow / OR-tools on {kind}"
    speed = compared(f"{name}, speed", 1 / mine["seconds"], 1 / their["seconds"], "solutions/s")
    memory = compared(f"{name}, memory", mine["bytes"] / MEGABYTE, their["bytes"] / MEGABYTE, "MB")
    return [speed, memory]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("write", "ours", "all", "same"))
    parser.add_argument("path")
    parser.add_argument("length", type=int, nargs="?")
    given = parser.parse_args()
    if given.what == "write":
        answer = write(given.length, given.path)
    elif given.what == "ours":
        answer = ours(given.path)
    else:
        answer = theirs(given.path, given.what == "all")
    print(json.dumps(answer))
