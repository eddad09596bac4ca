"""`tidegate whatif`: how much memory is needed for how much of the result.

Law: the options are those of `tidegate join`, and mean the same; the numbers are those of
`tidegate.whatif`.
"""

from __future__ import annotations

import json as json_text
import time as clock
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate.cli import arguments, chart_file
from tidegate.cli.screen import answer, console, progress_of, say

Memories = Annotated[
    str | None,
    typer.Option("--memory", metavar="N,N,..", help="Budgets in tuples; default: nine shares."),
]
Policies = Annotated[
    str | None,
    typer.Option("--policies", metavar="P,P,..", help="Policies to try; default: all."),
]
Objective = Annotated[
    str, typer.Option("--objective", metavar="WHAT", help="Targets are of importance or of size.")
]
Sample = Annotated[
    float | None,
    typer.Option("--sample", metavar="SHARE", help="Find this share of the results, such as 0.01."),
]
Optimum = Annotated[
    bool, typer.Option("--optimum/--no-optimum", help="Add the best that any policy could do.")
]
ChartFile = Annotated[
    Path | None,
    typer.Option("--chart", metavar="FILE", help="Draw the curves: .svg, .png, .html or .json."),
]

_MEMORY, _NARROWEST, _BETWEEN = 14, 5, 3  # characters of a column


def whatif(
    left: arguments.Left,
    right: arguments.Right,
    on: arguments.On,
    time: arguments.Time,
    within: arguments.Within,
    more: arguments.More = None,
    memory: Memories = None,
    policies: Policies = None,
    split: arguments.Split = "auto",
    importance: arguments.Importance = None,
    output_importance: arguments.OutputImportance = "min",
    index: arguments.Index = "auto",
    lateness: arguments.Lateness = "0",
    ties: arguments.Ties = "arrival",
    bad_rows: arguments.BadRows = "count",
    seed: arguments.Seed = 0,
    objective: Objective = "importance",
    sample: Sample = None,
    optimum: Optimum = True,
    chart: ChartFile = None,
    json: arguments.Json = False,
    quiet: arguments.Quiet = False,
) -> None:
    """Say how much memory is needed for 90, 95 and 99 % of the result, and with which policy.

    Recorded files are replayed under many budgets and policies. Of long ones about 400,000 rows
    stand for all, and the numbers then have intervals.

    \b
    Examples
      tidegate whatif clicks.parquet ads.parquet --on ad_id --time ts \\
          --within 10m
      tidegate whatif a.csv b.csv --on k --time ts --within 600 \\
          --memory 1000,2000,5000 --policies prob,value --chart curves.html
    """
    files_given = (left, right, *(more or ()))
    streams = arguments.streams_of(len(files_given))
    spec = arguments.spec_of(
        on, time, within, None, "auto", split, importance, output_importance, index, lateness,
        ties, bad_rows, seed, streams,
    )  # fmt: skip
    chart_file.check(chart)
    from tidegate.cli import files
    from tidegate.planner.whatif import whatif as ask

    paths = dict(zip(streams, files_given, strict=True))
    tables = files.typed({name: files.read(path) for name, path in paths.items()}, spec)
    began = clock.perf_counter()
    with progress_of("replaying", quiet, "replays") as progress:
        found = ask(
            tables,
            spec,
            None if memory is None else _numbers(memory),
            None if policies is None else [name.strip() for name in policies.split(",")],
            objective=objective,
            sample=sample,
            optimum=optimum,
            progress=progress,
        )
    if json:
        answer(
            {
                "curve": found.curve,
                "needed": found.needed,
                "recommended": found.recommended,
                "exact": found.exact,
                "objective": found.objective,
                "sampled": found.sampled,
                "notes": list(found.notes),
                "seconds": round(clock.perf_counter() - began, 3),
                "spec": json_text.loads(spec.to_json()),
            }
        )
    else:
        show(found, quiet)
    if chart is not None:  # the answer is there, whatever becomes of its picture
        from tidegate.planner import whatif_view

        chart_file.write(whatif_view, found, chart)


def _numbers(text: str) -> list[Any]:
    return [arguments.whole_or_text(part.strip()) for part in text.split(",")]


def show(found: Any, quiet: bool) -> None:
    """The answer as a table, and what follows from it."""
    from rich.table import Table

    from tidegate.planner import whatif_view

    screen = console()
    kept = "importance" if found.is_weighed else "results"
    screen.print(f"% of the {kept} kept, by memory in tuples and policy")
    for names in _that_fit(whatif_view.columns_of(found), screen.width):
        table = Table(show_edge=False, pad_edge=False, title=None)
        table.add_column("memory", justify="right", no_wrap=True)
        for name in names:
            table.add_column(name, justify="right", no_wrap=True)
        for memory, row in whatif_view.table_of(found):
            cells = [f"{100 * row[name]:.1f}" if name in row else "" for name in names]
            table.add_row(f"{memory:,}", *cells)
        screen.print(table)
    screen.print()
    for sentence in whatif_view.sentences(found):
        screen.print(sentence, soft_wrap=True, markup=False)
    if not quiet:
        for note in found.notes:
            say(f"note: {note}")


def _that_fit(names: list[str], width: int) -> list[list[str]]:
    """Policies in as many tables as the screen needs."""
    rows: list[list[str]] = []
    left = 0
    for name in names:
        needed = max(len(name), _NARROWEST) + _BETWEEN
        if left < needed:
            rows.append([])
            left = width - _MEMORY
        rows[-1].append(name)
        left -= needed
    return rows
