"""ojewole2006, section 5.1: the offline optimum, figures 1 to 7, as the report shows them.

Law: rows and claims come from `ojewole2006_optimum`, which computes and judges; here they only get
charts. They are about running times and a few small optima, so they are computed each time and not
stored. Where that module is missing there are no such figures.
"""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from tidegate.lab import charts
from tidegate.lab.claims import Claim
from tidegate.lab.figures import Figure, Findings, Record, Scale

PAPER = "ojewole2006"
Compute = Callable[[bool], tuple[list[Record], list[dict[str, Any]]]]

# What a figure is about, what the paper says of it, and the title of its axes.
_ABOUT: dict[str, tuple[str, str, str, str]] = {
    "Fig. 1": (
        "The worked example",
        "Exact: 9 results, importance 32. At M = 4: the optimum has 7 and 30, the largest result "
        "8 and 12.",
        "M",
        "value",
    ),
    "Fig. 2": (
        "Importance and memory size, offline",
        "Errors at M/2 = 1: SJA 75.3 %, optimum 29.7 %, RAND 98 %. At M/2 = 5: 28 %, 1 %, 80.4 %.",
        "memory per window, M/2",
        "importance of the result",
    ),
    "Fig. 3": (
        "Running times for M/2 = 1 and growing N",
        "ODJA is 481 % more efficient than ESJA at N = 800 and 700 % at N = 5,600.",
        "length of the streams, N",
        "seconds",
    ),
    "Fig. 4": (
        "Running times for M/2 = 1 and growing w",
        "ODJA's advantage grows from 596 % at w = 100 to 689 % at w = 800.",
        "lifetime, w",
        "seconds",
    ),
    "Fig. 5": (
        "Running times for M/2 = w - 1 and growing N",
        "Almost the same at N = 800; ODJA becomes more efficient as N grows.",
        "length of the streams, N",
        "seconds",
    ),
    "Fig. 6": (
        "Running times for M/2 = w - 1 and shrinking w",
        "ODJA becomes more efficient beside ESJA as w is reduced.",
        "lifetime, w",
        "seconds",
    ),
    "Fig. 7": (
        "Memory of the offline algorithms",
        "ESJA needs 25.3 times the memory of ODJA at N = 800 and 45.3 times at N = 5,600.",
        "length of the streams, N",
        "kilobytes",
    ),
}
_COLOURED = {"EXACT": "exact", "OPT": "optimum", "RAND": "random"}
_ONLY_IN_FULL = (
    "Left out of the quick form: running times and memory of the offline algorithms take minutes "
    "to measure and depend on the machine."
)
# Running times and memory depend on the machine; the others do not.
_MACHINE = ("Fig. 3", "Fig. 4", "Fig. 5", "Fig. 6", "Fig. 7")


def _figure(name: str, compute: Compute) -> Figure:
    title, states, x_title, y_title = _ABOUT.get(name, (name, "", "x", "y"))

    def read(records: list[Record], scale: Scale) -> Findings:
        if scale.quick and name in _MACHINE:
            return Findings(notes=[_ONLY_IN_FULL])
        rows, found = compute(scale.quick)
        claims = [_claim(each, name in _MACHINE) for each in found]
        drawn = _means(rows)
        if name == "Fig. 1":
            chart = charts.bars(drawn, x="y", y="policy", x_title=y_title)
        else:
            chart = charts.lines(drawn, x="x", y="y", x_title=x_title, y_title=y_title)
        return Findings(claims, [chart], rows)

    settings = {
        "streams": "see tidegate/lab/ojewole2006_optimum.py",
        "computed": "with every report",
    }
    return Figure(PAPER, name, title, states, settings, lambda scale: [], read)


def _claim(found: dict[str, Any], timed: bool) -> Claim:
    names = ("paper", "figure", "claim", "expected", "measured", "reason")
    return Claim(**{name: found[name] for name in names}, judged=found["holds"], timed=timed)


def _means(rows: list[Record]) -> list[Record]:
    groups: dict[tuple[str, Any], list[float]] = {}
    for row in rows:
        groups.setdefault((row["series"], row["x"]), []).append(row["y"])
    return [
        {"policy": _COLOURED.get(series, series), "x": x, "y": statistics.fmean(values)}
        for (series, x), values in groups.items()
    ]


def _figures() -> tuple[Figure, ...]:
    source = "tidegate.lab.ojewole2006_optimum"
    if find_spec(source) is None:
        return ()
    data = importlib.import_module(source).figure_data()
    return tuple(_figure(name, compute) for name, compute in data.items())


FIGURES = _figures()
