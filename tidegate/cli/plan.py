"""`tidegate plan`: which indexes, what a join will cost and hold, and what less would do.

Law: the numbers are those of `tidegate.plan`; here text is taken apart and printed. Options that
contradict each other are refused before anything is read.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli import arguments, chart_file
from tidegate.cli.screen import answer, console, progress_of, say
from tidegate.spec import TidegateError

if TYPE_CHECKING:
    from tidegate.planner.plan import Plan

Two = tuple[float, float]

LeftSample = Annotated[
    Path | None, typer.Argument(metavar="LEFT", help="A sample of the first stream.")
]
RightSample = Annotated[
    Path | None, typer.Argument(metavar="RIGHT", help="A sample of the second stream.")
]
Windows = Annotated[
    Two | None,
    typer.Option("--windows", metavar="A B", help="Tuples that each full window holds."),
]
Rates = Annotated[
    Two | None,
    typer.Option("--rates", metavar="A B", help="Arrivals of each stream per unit of time."),
]
Keys = Annotated[
    Two | None, typer.Option("--keys", metavar="A B", help="Distinct keys in each window.")
]
Selectivity = Annotated[
    float | None,
    typer.Option("--selectivity", metavar="SHARE", help="Share of all pairs that match."),
]
Predicate = Annotated[str, typer.Option("--predicate", metavar="KIND", help="equality or band.")]
WeightsName = Annotated[
    str,
    typer.Option(
        "--weights",
        metavar="NAME",
        help="paper (kang2003), here (after --calibrate), or auto: here if there are any.",
    ),
]
Structures = Annotated[
    str | None,
    typer.Option("--structures", metavar="NHBT", help="Letters of the structures to choose from."),
]
MemoryRows = Annotated[
    float | None, typer.Option("--memory", metavar="TUPLES", help="Scarce memory, both windows.")
]
Service = Annotated[
    float | None,
    typer.Option("--service-rate", metavar="RATE", help="Scarce CPU: searches per unit of time."),
]
Least = Annotated[
    Two,
    typer.Option("--least-rates", metavar="A B", help="Searches that each stream gets anyway."),
]
RowBytes = Annotated[
    float | None, typer.Option("--row-bytes", metavar="BYTES", help="Size of a row as it comes.")
]
OnSample = Annotated[
    list[str] | None,
    typer.Option("--on", metavar="CONDITION", help="With samples: as in tidegate join."),
]
TimeSample = Annotated[
    str | None, typer.Option("--time", metavar="COLUMN", help="With samples: the event time.")
]
WithinSample = Annotated[
    str | None, typer.Option("--within", metavar="WINDOW", help="With samples: the window.")
]
Calibrate = Annotated[
    bool, typer.Option("--calibrate", help="Measure this machine's weights and keep them.")
]
AggregateToSample = Annotated[
    str | None,
    typer.Option(
        "--aggregate",
        metavar="TEXT",
        help="Say which sampling policy estimates it best, such as 'avg(price)'; needs --memory.",
    ),
]
ChartFile = Annotated[
    Path | None,
    typer.Option("--chart", metavar="FILE", help="Draw the plan: .svg, .png, .html or .json."),
]


def plan(
    left: LeftSample = None,
    right: RightSample = None,
    windows: Windows = None,
    rates: Rates = None,
    keys: Keys = None,
    selectivity: Selectivity = None,
    predicate: Predicate = "equality",
    weights: WeightsName = "auto",
    structures: Structures = None,
    memory: MemoryRows = None,
    service_rate: Service = None,
    least_rates: Least = (0.0, 0.0),
    row_bytes: RowBytes = None,
    on: OnSample = None,
    time: TimeSample = None,
    within: WithinSample = None,
    aggregate: AggregateToSample = None,
    calibrate: Calibrate = False,
    chart: ChartFile = None,
    json: arguments.Json = False,
    quiet: arguments.Quiet = False,
) -> None:
    """Say which indexes a join should have and what it will cost, before it runs.

    From rates and windows, or from a sample of each stream. Structures are N nested loop, H hash,
    B B+tree, T T-tree; in a pair the first letter is the structure on the first window.

    \b
    Examples
      tidegate plan --windows 9500 500 --rates 2 998 --weights paper
      tidegate plan --windows 60000 60000 --rates 100 100 --keys 5000 5000 \\
          --memory 40000
      tidegate plan views.parquet clicks.parquet --on ad --time at \\
          --within "10 minutes" --chart plan.svg
      tidegate plan views.parquet clicks.parquet --on ad --time at \\
          --within "10 minutes" --memory 1000 --aggregate "avg(price)"
      tidegate plan --calibrate
    """
    told = {"--windows": windows, "--rates": rates, "--keys": keys, "--selectivity": selectivity}
    files = {"LEFT": left, "RIGHT": right, "--on": on, "--time": time, "--within": within}
    chart_file.check(chart)
    if calibrate:
        _calibrate({**told, **files}, json, quiet)
        return
    options: dict[str, Any] = {
        "weights": weights,
        "structures": structures,
        "memory": memory,
        "service_rate": service_rate,
        "least_rates": least_rates,
        "row_bytes": row_bytes,
        "aggregate": aggregate,
    }
    if any(value is not None for value in files.values()):
        options |= _samples(files, told)
    else:
        names = {"windows": windows, "rates": rates, "keys": keys, "selectivity": selectivity}
        missing = [name for name in ("--windows", "--rates") if told[name] is None]
        if missing:
            raise TidegateError(
                f"{missing[0]} is missing; give --windows A B and --rates A B, or two files with "
                "--on, --time and --within"
            )
        options |= {**names, "predicate": predicate}
    from tidegate.planner.plan import plan as make_plan

    made = make_plan(**options)
    if chart is not None:
        from tidegate.planner import plan_view

        chart_file.write(plan_view, made, chart)
    if json:
        answer(as_json(made))
        return
    show(made, quiet)


def _samples(files: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    """Samples and the join they are of, as options of `tidegate.plan`."""
    both = [name for name, value in told.items() if value is not None]
    if both:
        raise TidegateError(
            f"{both[0]} is measured on the samples; give either files or {both[0]}, not both"
        )
    missing = [name for name, value in files.items() if value is None]
    if missing:
        raise TidegateError(
            f"{missing[0]} is missing; samples need two files, --on, --time and --within"
        )
    from tidegate.cli import files as tables
    from tidegate.spec import JoinSpec

    spec = JoinSpec(
        on=[arguments.condition(text) for text in files["--on"]],
        time=arguments.by_stream("--time", files["--time"]),
        within=arguments.each(arguments.by_stream("--within", files["--within"]), arguments.window),
    )
    paths = dict(zip(arguments.STREAMS, (files["LEFT"], files["RIGHT"]), strict=True))
    read = tables.typed({name: tables.read(path) for name, path in paths.items()}, spec)
    return {"streams": read, "spec": spec}


def _calibrate(others: dict[str, Any], json: bool, quiet: bool) -> None:
    given = [name for name, value in others.items() if value is not None]
    if given:
        raise TidegateError(
            f"--calibrate measures the machine and takes no {given[0]}; plan afterwards with "
            "--weights here"
        )
    from tidegate.costs import machine
    from tidegate.planner import calibrate

    with progress_of("measuring", quiet, "workloads") as progress:
        weights = calibrate.calibrate(progress=progress)
    path = machine.store(weights)
    if weights.made["disturbed"]:
        say("note: other work disturbed the measurement; run it again when the machine is quieter")
    if json:
        answer({"weights": asdict(weights), "file": str(path)})
        return
    from rich.table import Table

    table = Table("structure", show_edge=False)
    columns = ("per_search", "search", "per_match", "per_update", "update")
    for name in ("a search, ns", "+ an access", "+ a match", "an update, ns", "+ an access"):
        table.add_column(name, justify="right")
    for letter in "NHBT":
        table.add_row(letter, *[f"{1e9 * getattr(weights, each)[letter]:.1f}" for each in columns])
    console().print(table)
    arrival = 1e9 * weights.per_arrival
    say(f"an arrival takes {arrival:.0f} ns; kept in {path}, used with --weights here")


def as_json(plan: Plan) -> dict[str, Any]:
    """The plan as scripts read it."""
    return {
        "costs": dict(plan.costs),
        "best": plan.best,
        "cost": plan.cost,
        "considered": plan.considered,
        "indexes": dict(plan.indexes),
        "output_rate": plan.output_rate,
        "state": {
            "rows": plan.state_rows,
            "bytes": plan.state_bytes,
            "bytes_from": plan.bytes_from,
        },
        "cpu_per_second": plan.cpu_per_second,
        "time_unit": plan.time_unit,
        "allocation": asdict(plan.allocation),
        "scarcer": [dict(row) for row in plan.scarcer],
        "winners": [asdict(each) for each in plan.winners],
        "workload": asdict(plan.workload),
        "weights": asdict(plan.weights),
        "sampling": None if plan.sampling is None else asdict(plan.sampling),
        "notes": list(plan.notes),
    }


def show(plan: Plan, quiet: bool) -> None:
    """The plan as tables."""
    from rich.table import Table

    from tidegate.planner.plan_view import facts, listed_costs, number

    screen = console()
    about = Table(show_header=False, show_edge=False, box=None, padding=(0, 2, 0, 0))
    for name, value in facts(plan):
        about.add_row(name, value)
    screen.print(about)
    screen.print()
    costs = Table("pair", show_edge=False)
    costs.add_column("cost", justify="right")
    costs.add_column("beside the best", justify="right")
    for pair, cost in listed_costs(plan):
        mark = "recommended" if pair == plan.best else f"{cost / plan.cost:.2f} x"
        costs.add_row(pair, f"{cost:.4g}", mark)
    screen.print(costs)
    screen.print()
    less = Table("scarce", show_edge=False)
    for column in ("share", "amount", "results, as planned", "divided equally"):
        less.add_column(column, justify="right")
    for row in plan.scarcer:
        if row["share"] < 1.0:
            shares = (f"{row['output_share']:.0%}", f"{row['equal_share']:.0%}")
            less.add_row(row["resource"], f"{row['share']:.0%}", number(row["amount"]), *shares)
    screen.print(less)
    if not quiet:
        for note in plan.notes:
            say(f"note: {note}")
