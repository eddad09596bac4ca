"""From names of figures to a report: run what is missing, read it, write it down.

Law: the whole is decided by the figures asked for, the scale, the data and the version of the code;
the results lie in Parquet beside the report.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tidegate.lab import charts
from tidegate.lab.claims import Claim, no_longer_held
from tidegate.lab.configuration import code_version
from tidegate.lab.figures import Scale, Shown, choose, records_of
from tidegate.lab.report import write_report
from tidegate.lab.runner import Progress, Runner, Where
from tidegate.lab.store import Store
from tidegate.spec import TidegateError

RESULTS, REPORT = "results", "report.html"


@dataclass
class Reproduced:
    """What came out: figures with their findings, notes of the run, and where the report is."""

    shown: list[Shown]
    report: Path
    notes: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    @property
    def claims(self) -> list[Claim]:
        """The claims of all figures, in order."""
        return [claim for each in self.shown for claim in each.findings.claims]

    @property
    def measured_figures(self) -> list[tuple[str, str]]:
        """The figures that could be measured at all."""
        return [
            (each.figure.paper, each.figure.name) for each in self.shown if each.findings.claims
        ]


def reproduce(
    names: str | Iterable[str],
    out: Path,
    scale: Scale,
    where: Where = "auto",
    progress: Progress | None = None,
) -> Reproduced:
    """Compute what the figures need, judge the claims and write `report.html`.

    Parameters
    ----------
    names
        Papers or figures, or "all".
    out
        The folder of the results and of the report; made if it is missing.
    scale
        All of it, or what fits into two minutes; and where recorded data lies.
    where
        On Spark, in this process, or whatever is quicker.
    progress
        Called as `progress(runs done, runs in total)`.
    """
    if not charts.can_draw():
        raise TidegateError("the report needs altair and vl-convert; install tidegate[charts]")
    wanted = [names] if isinstance(names, str) else list(names)
    figures = list({each.slug: each for name in wanted for each in choose(name)}.values())
    folder = "" if scale.data is None else str(scale.data)
    runner = Runner(_store(out), where, folder)
    plans = [(figure, figure.runs(scale)) for figure in figures]
    measured = runner.run((run.configuration for _, runs in plans for run in runs), progress)
    shown = []
    for figure, runs in plans:
        records = records_of(runs, measured)
        seconds = sum(record["seconds"] for record in records)
        shown.append(Shown(figure, figure.read(records, scale), len(runs), seconds))
    result = Reproduced(shown, out / REPORT, runner.notes)
    if scale.quick:
        result.lost = no_longer_held(result.claims, result.measured_figures)
    write_report(result.shown, result.report, scale.quick, result.notes)
    return result


def _store(out: Path) -> Store:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise TidegateError(f"the folder '{out}' cannot be made: {reason}") from error
    return Store(out / RESULTS, code_version())
