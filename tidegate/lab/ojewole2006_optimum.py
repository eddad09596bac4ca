"""ojewole2006, section 5.1: the worked example, and the data of figures 2 to 7.

Law: a figure is rows (figure, series, x, y, and the configuration that made them) and claims
(paper, figure, claim, expected, measured, holds); nothing is drawn or judged beyond that. Numbers
of the paper are written here; ours are computed each time.

What the paper leaves open, and what is taken here: for figures 3 to 7 Zipf 1.0 and 0.0 with a
domain of 100, as in its section 5.2, importance 10 for most tuples and 1000 for one in twenty, each
spread by half (whole numbers, since cost scaling takes no others), and a lifetime of 400 in figure 5. For figure 2, of sixty combinations of domain,
skew and importances, the one nearest to the six errors of section 5.1.1: uniform keys, domain 10,
one tuple in ten important; no combination came near all six.

Its ESJA was solved by Goldberg's cost scaling in C. "ESJA" here is the same network solved by our
own flow; "ESJA, cost scaling" is OR-tools' descendant of Goldberg's program, where it is installed
and the network is not too large for it. Ratios of running times compare other programs than the
paper's. Times are those of solving, without finding who matches whom. Outputs are counted from the start, not from t = 2w: of
5,600 instants that is below one in seventy.
"""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.engine import join
from tidegate.offline import esja, odja
from tidegate.offline.instance import Instance, instance_of
from tidegate.offline.network import arcs_of, network_of
from tidegate.offline.optimum import by_flow, optimum
from tidegate.spec import JoinSpec, TidegateError

PAPER = "ojewole2006"
NORMAL, HIGH, SPREAD = 10.0, 1000.0, 0.5
LENGTH, LIFETIME = 5_600, 400
SEEDS = (0, 1, 2)
KILOBYTE = 1000.0

Row = dict[str, Any]
Claim = dict[str, Any]
Found = tuple[list[Row], list[Claim]]

EXAMPLE = {
    "r": [(0, 1, 1), (1, 9, 20), (2, 1, 1), (3, 3, 5), (4, 4, 5), (5, 2, 1)],
    "s": [(0, 3, 5), (1, 1, 1), (2, 1, 1), (3, 1, 1), (4, 9, 20), (5, 1, 1)],
}  # fmt: skip


def streams_of(
    length: int,
    seed: int,
    domain: int = 100,
    skews: tuple[float, float] = (1.0, 0.0),
    rare: float = 0.05,
) -> dict[str, pa.Table]:
    """Two synchronous streams `r` and `s`: one tuple of each at every instant."""
    generator = np.random.default_rng(seed)
    tables = {}
    for name, skew in zip("rs", skews, strict=True):
        share = np.arange(1, domain + 1) ** -skew
        level = np.where(generator.random(length) < rare, HIGH, NORMAL)
        tables[name] = pa.table(
            {
                "ts": np.arange(length),
                "key": generator.choice(domain, length, p=share / share.sum()),
                "importance": np.rint(level * generator.uniform(1 - SPREAD, 1 + SPREAD, length)),
            }
        )
    return tables


def spec_of(lifetime: int, half: int | None, **options: Any) -> JoinSpec:
    """The paper's join: a lifetime of w instants is a window of w - 1; M/2 tuples per window."""
    memory = None if half is None else 2 * half
    return JoinSpec(
        on="key", time="ts", within=lifetime - 1, streams=("r", "s"), importance="importance",
        ties="instant", memory=memory, split="even", **options,
    )  # fmt: skip


def claim(
    figure: str, text: str, expected: float, measured: float, holds: bool, reason: str = ""
) -> Claim:
    """One row of the report; `reason` says why it does not hold, and only then."""
    return {
        "paper": PAPER, "figure": figure, "claim": text, "expected": expected,
        "measured": measured, "holds": bool(holds), "reason": "" if holds else reason,
    }  # fmt: skip


def near(
    figure: str, text: str, expected: float, measured: float, tolerance: float, reason: str = ""
) -> Claim:
    """A claim that holds if the measurement is within `tolerance` of what is expected."""
    return claim(figure, text, expected, measured, abs(measured - expected) <= tolerance, reason)


# --- the worked example, and figure 2 -----------------------------------------------------


def worked_example(quick: bool = False) -> Found:
    """Section 4.1: 32 exact, 30 optimal with 7 tuples, 12 for the largest result of 8."""
    tables = {
        name: pa.table(dict(zip(("ts", "key", "importance"), zip(*rows, strict=True), strict=True)))
        for name, rows in EXAMPLE.items()
    }
    spec = spec_of(4, 2)
    best, largest = optimum(tables, spec), optimum(tables, spec, objective="size")
    numbers = {
        "importance of the exact result": (32, best.exact_importance),
        "size of the exact result": (9, best.exact_size),
        "importance of the optimum at M = 4": (30, best.importance),
        "size of the optimum at M = 4": (7, best.size),
        "size of the largest result at M = 4": (8, largest.size),
        "importance of the largest result at M = 4": (12, largest.importance),
    }
    rows = [
        {"figure": "Fig. 1", "series": text, "x": 4, "y": float(found), "w": 4, "N": 6}
        for text, (_, found) in numbers.items()
    ]
    claims = [near("Fig. 1", text, e, float(m), 0.0) for text, (e, m) in numbers.items()]
    return rows, claims


# Section 5.1.1: errors relative to the exact result.
_ERRORS = {
    ("SJA", 1): 0.753, ("OPT", 1): 0.297, ("SJA", 5): 0.28, ("OPT", 5): 0.01,
    ("RAND", 1): 0.98, ("RAND", 5): 0.804,
}  # fmt: skip


_STREAMS_OF_FIGURE_2: dict[str, Any] = {"domain": 10, "skews": (0.0, 0.0), "rare": 0.1}

# In this model pairs inside an instant need no memory. They are one in 2w - 1 = 19 of the exact
# results where keys are independent, so no error can exceed 95 %: the paper's 98 % for RAND must
# have left them out, or counted otherwise.
_REASONS = {
    "RAND": "pairs inside an instant are always produced; the paper's number cannot include them",
    "SJA": "the streams of this figure are not given; no combination tried came near all errors",
    "OPT": "the streams of this figure are not given; no combination tried came near all errors",
}


def figure_2(quick: bool = False) -> Found:
    """Importance against memory: exact, optimum, largest result, chance; w = 10, N = 5600."""
    length = 1400 if quick else LENGTH
    rows: list[Row] = []
    more: dict[int, list[int]] = {}
    for half in range(1, 10):
        for seed in SEEDS[: 1 if quick else None]:
            tables = streams_of(length, seed, **_STREAMS_OF_FIGURE_2)
            spec = spec_of(10, half, seed=seed)
            best, largest = optimum(tables, spec), optimum(tables, spec, objective="size")
            chance = join(tables, spec.replace(policy="random")).stats["importance_out"]
            more.setdefault(half, []).append(largest.size - best.size)
            series = {
                "EXACT": best.exact_importance, "OPT": best.importance,
                "SJA": largest.importance, "RAND": float(chance),
            }  # fmt: skip
            rows += [
                {"figure": "Fig. 2", "series": name, "x": half, "y": y, "seed": seed, "w": 10,
                 "N": length, **_STREAMS_OF_FIGURE_2}
                for name, y in series.items()
            ]  # fmt: skip
    return rows, _claims_of_figure_2(rows, more)


def _claims_of_figure_2(rows: Sequence[Row], more: dict[int, list[int]]) -> list[Claim]:
    def mean(series: str, half: int) -> float:
        return statistics.fmean(r["y"] for r in rows if (r["series"], r["x"]) == (series, half))

    claims = []
    for (series, half), expected in _ERRORS.items():
        error = 1 - mean(series, half) / mean("EXACT", half)
        text = f"error of {series} at M/2 = {half}"
        claims.append(near("Fig. 2", text, expected, error, 0.1, _REASONS[series]))
    for half, expected in ((1, 164), (2, 97)):
        text = f"results that SJA has more than the optimum at M/2 = {half}"
        measured = statistics.fmean(more[half])
        claims.append(claim("Fig. 2", text, expected, measured, measured > 0))
    ordered = all(
        mean("RAND", half) <= mean("SJA", half) <= mean("OPT", half) <= mean("EXACT", half)
        for half in more
    )
    text = "RAND <= SJA <= optimum <= exact at every memory"
    claims.append(claim("Fig. 2", text, 1.0, float(ordered), ordered))
    return claims


# --- figures 3 to 6: running times --------------------------------------------------------

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


def _solvers(length: int, lifetime: int) -> dict[str, Solver]:
    if length * lifetime > _LARGEST_FOR_COST_SCALING or find_spec("ortools") is None:
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
    """Rows of seconds for settings (x, N, w, M/2)."""
    warm = instance_of(streams_of(50, 0), spec_of(5, 2), "importance")
    for solver in SOLVERS.values():
        solver(warm)
    rows = []
    for x, length, lifetime, half in settings:
        instance = instance_of(streams_of(length, 0), spec_of(lifetime, half), "importance")
        for name, solver in _solvers(length, lifetime).items():
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
    "Fig. 1": worked_example, "Fig. 2": figure_2, "Fig. 3": figure_3, "Fig. 4": figure_4,
    "Fig. 5": figure_5, "Fig. 6": figure_6, "Fig. 7": figure_7,
}  # fmt: skip


def measure(quick: bool = False) -> Found:
    """The rows and claims of all figures."""
    rows: list[Row] = []
    claims: list[Claim] = []
    for compute in FIGURE_DATA.values():
        some_rows, some_claims = compute(quick)
        rows += some_rows
        claims += some_claims
    return rows, claims
