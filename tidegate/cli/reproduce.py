"""`tidegate reproduce`: the figures of the papers, run again and held against what they state.

Law: whatever is asked for, one report comes out, and every claim in it is either measured or says
why not. A claim that used to hold and no longer does ends the command with status 1.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli import arguments
from tidegate.cli.screen import answer, console, progress_of, say

if TYPE_CHECKING:
    from tidegate.lab.claims import Claim
    from tidegate.lab.figures import Shown
    from tidegate.lab.reproduce import Reproduced

CLAIM_LOST = 1

What = Annotated[
    str,
    typer.Argument(
        metavar="[PAPER|FIGURE|all]",
        help="A paper (ojewole2006), a figure (ojewole2006-fig9), or all; 'list' names them.",
    ),
]
Quick = Annotated[bool, typer.Option("--quick", help="Fewer seeds and points: under two minutes.")]
Out = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="Folder of the results and of report.html.")
]
Data = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Folder of recorded data (or TIDEGATE_DATA)."),
]
On = Annotated[str, typer.Option("--run-on", metavar="WHERE", help="auto, spark or process.")]
Accept = Annotated[
    bool,
    typer.Option("--accept", help="With --quick: write down which claims hold from now on."),
]


def reproduce(
    what: What = "all",
    quick: Quick = False,
    out: Out = Path("reports"),
    data: Data = None,
    run_on: On = "auto",
    accept: Accept = False,
    json: arguments.Json = False,
    quiet: arguments.Quiet = False,
) -> None:
    """Run the experiments of the papers again and hold the results against their claims.

    Results are kept in DIR/results; what is there already is not computed again.

    \b
    Examples
      tidegate reproduce --quick
      tidegate reproduce ojewole2006 --out reports
      tidegate reproduce srivastava2004-fig7 --json
      tidegate reproduce gedik2005-table --data DIR --quick
      tidegate reproduce value --data DIR --quick
      tidegate reproduce list
    """
    from tidegate.lab.datasets import folder_of
    from tidegate.lab.figures import Scale, all_figures, choose
    from tidegate.lab.reproduce import reproduce as run_figures
    from tidegate.spec import TidegateError
    from tidegate.spec.units import require_name

    if what == "list":
        _list(all_figures(), json)
        return
    if accept and not quick:
        raise TidegateError("--accept writes the list of what holds under --quick; add --quick")
    where: Any = require_name(run_on, ("auto", "spark", "process"), "--run-on")
    figures = choose(what)
    scale = Scale(quick, folder_of(data))
    began = time.perf_counter()
    said = f"reproducing {what} ({len(figures)} figures)"
    with progress_of(said, quiet, unit="joins") as progress:
        done = run_figures(what, out, scale, where, progress)
    if not quiet:
        for note in done.notes:
            say(f"{note}.")
        say(f"Done in {time.perf_counter() - began:.1f} s.")
    if accept:
        _accept(done)
    _tell(done, json)
    if done.lost and not accept:
        for lost in done.lost:
            say(f"tidegate: held before and does not hold now: {lost}")
        raise typer.Exit(CLAIM_LOST)


def _accept(done: Reproduced) -> None:
    from tidegate.lab.claims import write_held

    count = write_held(done.claims, done.measured_figures)
    say(f"{count} claims are to hold from now on.")


def _list(figures: list[Any], json: bool) -> None:
    rows = [{"name": each.slug, "paper": each.paper, "title": each.title} for each in figures]
    if json:
        answer({"figures": rows})
        return
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        print(f"{row['name']:<{width}}  {row['title']}")


def _tell(done: Reproduced, json: bool) -> None:
    if json:
        claims = [claim.row() for claim in done.claims]
        said: dict[str, Any] = {"claims": claims, "report": str(done.report), "lost": done.lost}
        if settings := [record for each in _apart(done) for record in each.findings.records]:
            said["settings"] = settings
        answer(said)
        return
    from rich.table import Table

    screen = console()
    for each in done.shown if len(done.shown) == 1 else _apart(done):
        for numbers in each.findings.tables:
            table = Table(*numbers.columns, show_edge=False, pad_edge=False, title_justify="left")
            table.title = f"{each.figure.title}: {numbers.title}"
            for row in numbers.rows:
                table.add_row(*row)
            screen.print(table)
            screen.print()
    for each in done.shown:
        if not each.findings.claims:
            continue
        table = Table(show_edge=False, pad_edge=False, title_justify="left")
        table.title = f"{each.figure.paper}, {each.figure.name}: {each.figure.title}"
        table.add_column("claim", ratio=1)
        for title in ("expected", "measured"):
            table.add_column(title, justify="right", max_width=24)
        table.add_column("holds", no_wrap=True)
        for claim in each.findings.claims:
            table.add_row(claim.claim, *_cells(claim))
        screen.print(table)
        screen.print()
    holding = sum(claim.holds is True for claim in done.claims)
    sentence = f"{holding} of {len(done.claims)} claims hold. Report: {done.report}"
    screen.print(sentence, soft_wrap=True, markup=False)


def _apart(done: Reproduced) -> list[Shown]:
    """What is shown setting by setting, whatever else is asked for: the table of VALUE."""
    from tidegate.lab.figures import APART

    return [each for each in done.shown if each.figure.paper == APART]


def _cells(claim: Claim) -> tuple[str, str, str]:
    mark = {True: "yes", False: "no", None: "?"}[claim.holds]
    if isinstance(claim.expected, tuple):
        found = "" if claim.measured is None else "in order" if claim.holds else "another order"
        return " > ".join(claim.expected), found, mark
    measured = "" if claim.measured is None else f"{claim.measured:.4g}"
    return f"{claim.expected:.4g}", measured, mark
