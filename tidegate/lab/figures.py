"""A figure of a paper: the runs it needs, and how their results become a chart and claims.

Law: a figure only asks and reads. It lists configurations, and from their measurements makes
records, a chart and claims; it neither runs joins nor draws. What this version cannot do yet (a
policy, the optimum) is left out with a note and appears by itself once it is there.
"""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tidegate.lab.claims import Claim
from tidegate.lab.configuration import Configuration
from tidegate.lab.measure import Measurement
from tidegate.spec import TidegateError
from tidegate.spec.units import nearest_hint

Record = dict[str, Any]
Chart = dict[str, Any]

APART = "value"  # not one of `all`
# A module that this version lacks has no figures.
_MODULES = (
    "kang2003",
    "kang2003_engine",
    "kang2003_scarce",
    "gedik2005",
    "gedik2005_recorded",
    "kwon2011",
    "kwon2011_example",
    "kwon2011_recorded",
    "kwon2011_space",
    "ojewole2006_offline",
    "ojewole2006",
    "ojewole2006_large",
    "ojewole2006_open",
    "srivastava2004",
    "srivastava2004_wan",
    "srivastava2004_alloc",
    "srivastava2004_sampling",
    "srivastava2004_soft",
    "srivastava2004_averages",
    "recorded",
    "value_table",
)


@dataclass(frozen=True)
class Scale:
    """How much is computed: all of it, or what fits into two minutes."""

    quick: bool = False
    data: Path | None = None

    @property
    def seeds(self) -> range:
        """The seeds that a number is averaged over."""
        return range(3 if self.quick else 10)


@dataclass(frozen=True)
class Run:
    """A configuration and the labels by which its result is found again."""

    configuration: Configuration
    labels: Mapping[str, Any]


@dataclass(frozen=True)
class NumberTable:
    """Numbers for people: rows of cells that are text already."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Findings:
    """What a figure shows: records for its charts, claims, and what has to be said beside them."""

    claims: Sequence[Claim] = ()
    charts: Sequence[Chart] = ()
    records: Sequence[Record] = ()
    notes: Sequence[str] = ()
    tables: Sequence[NumberTable] = ()


@dataclass(frozen=True)
class Figure:
    """One figure, table or example.

    paper, name
        Where it stands: "ojewole2006", "Fig. 9".
    title
        What it is about, in a few words.
    states
        What the paper says, in our words or its own.
    settings
        The configuration, for people: shown beside the chart.
    runs
        The runs that it needs at a scale.
    read
        Turns records (labels and measurements of each run) into findings.
    """

    paper: str
    name: str
    title: str
    states: str
    settings: Mapping[str, str]
    runs: Callable[[Scale], list[Run]]
    read: Callable[[list[Record], Scale], Findings]

    @property
    def slug(self) -> str:
        """How the command line calls it: `ojewole2006-fig9`."""
        return f"{self.paper}-{self.name.lower().replace('. ', '').replace(' ', '')}"


@dataclass
class Shown:
    """A figure with its findings, ready for the report."""

    figure: Figure
    findings: Findings
    runs: int = 0
    seconds: float = field(default=0.0)


def all_figures() -> list[Figure]:
    """Every figure that this version has, in the order of the report."""
    figures: list[Figure] = []
    for name in _MODULES:
        if find_spec(f"tidegate.lab.{name}") is not None:
            figures += getattr(importlib.import_module(f"tidegate.lab.{name}"), "FIGURES", ())
    papers = list(dict.fromkeys(each.paper for each in figures))
    return sorted(figures, key=lambda each: (papers.index(each.paper), *_place(each.name)))


def _place(name: str) -> tuple[int, float]:
    """Examples, figures and tables in the order of their numbers; then what has no number."""
    kind, _, number = name.rpartition(" ")
    kinds = ("Example", "Fig.", "Table")
    return (kinds.index(kind), float(number)) if kind in kinds else (len(kinds), 0.0)


def choose(name: str) -> list[Figure]:
    """The figures of a paper, one figure, or those of all papers; an unknown name gets the nearest.

    The table of `value` belongs to no paper and takes longer than any: it is asked for by name.
    """
    figures = all_figures()
    if name == "all":
        return [each for each in figures if each.paper != APART]
    wanted = name.strip().lower()
    chosen = [each for each in figures if wanted in (each.paper, each.slug)]
    if not chosen:
        known = ["all", *dict.fromkeys(each.paper for each in figures)]
        known += [each.slug for each in figures]
        raise TidegateError(f"{name!r} is no paper or figure; {nearest_hint(wanted, known)}")
    return chosen


def records_of(runs: Sequence[Run], measured: Mapping[Configuration, Measurement]) -> list[Record]:
    """Labels and measurements of each run side by side."""
    return [{**run.labels, **measured[run.configuration]} for run in runs]


def mean_by(
    records: Iterable[Record], keys: Sequence[str], value: str
) -> dict[tuple[Any, ...], float]:
    """The mean of a value over all records that agree on the keys.

    >>> mean_by([{"m": 1, "v": 2.0}, {"m": 1, "v": 4.0}, {"m": 2, "v": 5.0}], ["m"], "v")
    {(1,): 3.0, (2,): 5.0}
    """
    groups: dict[tuple[Any, ...], list[float]] = {}
    for record in records:
        groups.setdefault(tuple(record[key] for key in keys), []).append(record[value])
    return {key: statistics.fmean(values) for key, values in groups.items()}


def pivot(
    table: Mapping[Any, Mapping[str, float]], x: str, title: str, number: str = ",.0f"
) -> NumberTable:
    """Policies down, x across; shares of x below 1 are shown as percentages.

    >>> pivot({0.5: {"simp": 0.25}}, "memory", "recall", ".1%").rows
    [['simp', '25.0%']]
    """
    names = list(dict.fromkeys(name for row in table.values() for name in row))
    columns = [f"{at:.0%}" if isinstance(at, float) and at <= 1 else f"{at}" for at in table]
    rows = [
        [name, *[format(row[name], number) if name in row else "" for row in table.values()]]
        for name in names
    ]
    return NumberTable(title, [f"policy / {x}", *columns], rows)
