"""ojewole2006, figures 3 to 7: what ODJA, ESJA and our flow cost, in time and in memory.

Law: all solve the same instance. Times are those of solving, without finding who matches whom.

The paper's ESJA was solved by Goldberg's cost scaling in C. "ESJA" here is the same network solved
by our own flow; "ESJA, cost scaling" is OR-tools' descendant of Goldberg's program, where it is
installed and the network is not too large for it. So ratios of running times compare other programs
than the paper's. Figure 5 does not say its lifetime; 400 is taken, as in figure 3.
"""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec

import numpy as np

from tidegate.lab.ojewole2006_optimum import LENGTH, Found, Row, claim, spec_of, streams_of
from tidegate.offline import esja, odja
from tidegate.offline.instance import Instance, instance_of
from tidegate.offline.network import arcs_of, network_of
from tidegate.offline.optimum import by_flow
from tidegate.spec import TidegateError

LIFETIME = 400
KILOBYTE = 1000.0

Solver = Callable[[Instance], object]

SOLVERS: dict[str, Solver] = {
    "ODJA": lambda instance: [
        odja.solve(instance, number, schedule=False) for number in range(len(instance.accounts))
    ],
    "ESJA": lambda instance: [
        esja.solve(instance, number) for number in range(len(instance.accounts))
    ],
    "flow": lambda instance: [by_flow(account) for account in instance.accounts],
}


_COST_SCALING = "ESJA, cost scaling"
_LARGEST_FOR_COST_SCALING = 800 * 400  # tuples x lifetime


def _by_cost_scaling(instance: Instance) -> list[int]:
    """The paper's network through OR-tools; raises ImportError where that is not installed."""
    from ortools.graph.python import min_cost_flow

    values = []
    for number, account in enumerate(instance.accounts):
        large = esja.account_of_every_event(instance, number)
        arcs = arcs_of(network_of(large, every_event=True))
        solver = min_cost_flow.SimpleMinCostFlow()
        solver.add_arcs_with_capacity_and_unit_cost(arcs.tail, arcs.head, arcs.capacity, arcs.cost)
        ends = np.array([0, arcs.chain - 1])
        solver.set_nodes_supplies(ends, np.array([account.capacity, -account.capacity]))
        if solver.solve() != solver.OPTIMAL:
            raise TidegateError("OR-tools found no optimum of the paper's network")
        values.append(-solver.optimal_cost())
    return values


def _solvers(length: int, lifetime: int, trials: int) -> dict[str, Solver]:
    too_large = length * lifetime > _LARGEST_FOR_COST_SCALING
    if trials == 1 or too_large or find_spec("ortools") is None:
        return SOLVERS
    return {**SOLVERS, _COST_SCALING: _by_cost_scaling}


def seconds_of(solver: Solver, instance: Instance, trials: int) -> float:
    """The mean of some trials (the paper: three)."""
    taken = []
    for _ in range(trials):
        began = time.perf_counter()
        solver(instance)
        taken.append(time.perf_counter() - began)
    return statistics.fmean(taken)


def running_times(
    figure: str, settings: Iterable[tuple[int, int, int, int]], trials: int
) -> list[Row]:
    """Rows of seconds for settings (x, N, w, M/2); a single trial leaves cost scaling out."""
    warm = instance_of(streams_of(50, 0), spec_of(5, 2), "importance")
    for solver in SOLVERS.values():
        solver(warm)
    rows = []
    for x, length, lifetime, half in settings:
        instance = instance_of(streams_of(length, 0), spec_of(lifetime, half), "importance")
        for name, solver in _solvers(length, lifetime, trials).items():
            y = seconds_of(solver, instance, trials)
            rows.append(
                {"figure": figure, "series": name, "x": x, "y": y, "unit": "s", "N": length,
                 "w": lifetime, "half": half, "seed": 0, "domain": 100}
            )  # fmt: skip
    return rows


def _ratio(rows: Sequence[Row], x: int, over: str, under: str) -> float:
    by_name = {row["series"]: row["y"] for row in rows if row["x"] == x}
    return float(by_name[over] / by_name[under])


_OTHER_PROGRAMS = "the paper timed other programs: cost scaling in C, and its own ODJA"


def _timed(figure: str, rows: list[Row], expected: dict[int, float], grows: bool) -> Found:
    """ODJA's lead over ESJA at both ends, that it grows, and where the flow stands."""
    xs = sorted({row["x"] for row in rows})
    claims = []
    for x, number in expected.items():
        for series in (row["series"] for row in rows if row["x"] == x):
            if series.startswith("ESJA"):
                lead = _ratio(rows, x, series, "ODJA")
                text = f"time of {series} / time of ODJA at {x}"
                close = number / 2 <= lead <= 2 * number
                claims.append(claim(figure, text, number, lead, close, _OTHER_PROGRAMS))
    first, last = (_ratio(rows, x, "ESJA", "ODJA") for x in (xs[0], xs[-1]))
    if grows:
        text = f"ODJA's lead over ESJA grows from {xs[0]} to {xs[-1]}: ratio of the leads"
        claims.append(claim(figure, text, 1.0, last / first, last > first, _OTHER_PROGRAMS))
    fastest = min(_ratio(rows, x, other, "flow") for x in xs for other in ("ODJA", "ESJA"))
    text = "ours: the flow is faster than both at every point; smallest ratio"
    claims.append(claim(figure, text, 1.0, fastest, fastest > 1.0))
    return rows, claims


def _lengths(quick: bool) -> Sequence[int]:
    return (800, 1600) if quick else range(800, LENGTH + 1, 800)


def figure_3(quick: bool = False) -> Found:
    """Running times for M/2 = 1 and w = 400, N from 800 to 5600 (481 % and 700 %)."""
    settings = [(n, n, LIFETIME, 1) for n in _lengths(quick)]
    rows = running_times("Fig. 3", settings, 1 if quick else 3)
    return _timed("Fig. 3", rows, {800: 4.81, 5600: 7.0}, True)


def figure_4(quick: bool = False) -> Found:
    """Running times for M/2 = 1 and N = 5600, w from 100 to 800 (596 % and 689 %)."""
    length = 1600 if quick else LENGTH
    settings = [(w, length, w, 1) for w in ((100, 200) if quick else range(100, 801, 100))]
    rows = running_times("Fig. 4", settings, 1 if quick else 3)
    return _timed("Fig. 4", rows, {} if quick else {100: 5.96, 800: 6.89}, True)


def figure_5(quick: bool = False) -> Found:
    """Running times for M/2 = w - 1, N from 800 to 5600 (about equal at 800)."""
    lifetime = 100 if quick else LIFETIME
    settings = [(n, n, lifetime, lifetime - 1) for n in _lengths(quick)]
    rows = running_times("Fig. 5", settings, 1 if quick else 3)
    return _timed("Fig. 5", rows, {800: 1.0}, True)


def figure_6(quick: bool = False) -> Found:
    """Running times for M/2 = w - 1 and N = 5600, w falling."""
    length = 1600 if quick else LENGTH
    lifetimes = (50, 100) if quick else range(100, 801, 100)
    rows = running_times("Fig. 6", [(w, length, w, w - 1) for w in lifetimes], 1 if quick else 3)
    return _timed("Fig. 6", rows, {}, False)


# --- figure 7: memory ---------------------------------------------------------------------


def peak_bytes(solver: Solver, instance: Instance) -> int:
    """The most that was allocated at a time while solving, beyond the instance itself."""
    tracemalloc.start()
    try:
        solver(instance)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def figure_7(quick: bool = False) -> Found:
    """Memory for w = 400 and M/2 = 1: ESJA takes 25.3 to 45.3 times that of ODJA.

    The paper's numbers are of whole processes, input tuples included; so are these: what was
    allocated while solving, and 24 bytes for each input tuple. Compiled code allocates nothing.
    """
    lengths = _lengths(quick)
    rows = []
    for length in lengths:
        instance = instance_of(streams_of(length, 0), spec_of(LIFETIME, 1), "importance")
        for name, solver in SOLVERS.items():
            solver(instance)  # compiled, and all caches filled
            y = (peak_bytes(solver, instance) + 24 * 2 * length) / KILOBYTE
            rows.append(
                {"figure": "Fig. 7", "series": name, "x": length, "y": y, "unit": "kB",
                 "N": length, "w": LIFETIME, "half": 1, "seed": 0, "domain": 100}
            )  # fmt: skip
    claims = []
    for length, expected in ((800, 25.3), (5600, 45.3)):
        if length in lengths:
            ratio = _ratio(rows, length, "ESJA", "ODJA")
            text = f"memory of ESJA / memory of ODJA at N = {length} is at least"
            claims.append(claim("Fig. 7", text, expected, ratio, ratio >= expected))
    first, last = (_ratio(rows, n, "ESJA", "ODJA") for n in (lengths[0], lengths[-1]))
    text = f"the ratio grows from N = {lengths[0]} to {lengths[-1]}: ratio of the ratios"
    claims.append(claim("Fig. 7", text, 45.3 / 25.3, last / first, last > first))
    return rows, claims


FIGURE_DATA: dict[str, Callable[[bool], Found]] = {
    "Fig. 3": figure_3, "Fig. 4": figure_4,
    "Fig. 5": figure_5, "Fig. 6": figure_6, "Fig. 7": figure_7,
}  # fmt: skip
