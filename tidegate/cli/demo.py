"""`tidegate demo`: what the join does, seen on made-up auctions that stream through Spark.

Law: it needs no files and no knowledge; every number it shows comes from the runs it just made.
Where Spark is missing it says so, and the engine alone runs the same joins.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli import arguments, demo_pool, demo_spark, local_spark
from tidegate.cli.screen import answer, console, progress_of, say
from tidegate.spec import JoinSpec, TidegateError

if TYPE_CHECKING:
    import pyarrow as pa

FEWEST_ROWS = 1_000
BUDGET_SHARE = 10  # the budget is the most auctions in the exact join's window, divided by this
SENTINEL, FEWEST_FOR_SENTINEL = 0.02, 1_500
WINDOW_MINUTES = 30
PATIENCE_MINUTES = 12.0  # the mean time from an auction to a bid on it
# On Spark, bids too stay until the watermark moves, at the end of their micro-batch; what has to be
# remembered beyond that are the auctions.
PEAK = "memory_rows_peak_auctions"
# Each run: its name, what it forgets when memory is short, and how people would call it.
RUNS = (
    ("exact", None, "everything"),
    ("random", "random", f"1/{BUDGET_SHARE}, by chance"),
    ("tidegate", "auto", f"1/{BUDGET_SHARE}, tidegate"),
)

Rows = Annotated[int, typer.Option("--rows", help="Auctions and bids together.")]
Spark = Annotated[
    bool, typer.Option("--spark/--no-spark", help="Run as a Spark pipeline, or the engine alone.")
]
Pool = Annotated[
    bool, typer.Option("--pool", help="Two Spark queries that share one memory, instead.")
]
Chart = Annotated[
    Path | None,
    typer.Option("--chart", help="With --pool: write a chart (.svg, .png, .html or .json)."),
]


def demo(
    rows: Rows = 500_000,
    seed: arguments.Seed = 0,
    spark: Spark = True,
    pool: Pool = False,
    chart: Chart = None,
    json: arguments.Json = False,
) -> None:
    """Join made-up auctions with their bids: exactly, then with a tenth of the memory.

    \b
    Examples
      tidegate demo
      tidegate demo --rows 100000 --seed 7 --no-spark --json
      tidegate demo --pool --chart pool.svg
    """
    if pool:
        demo_pool.demo_pool(seed, json, chart)
        return
    if chart is not None:
        raise TidegateError("--chart draws what --pool shows; give both, or leave it out")
    if rows < FEWEST_ROWS:
        raise TidegateError(f"--rows {rows} is too few to see anything; give {FEWEST_ROWS} or more")
    if seed < 0:
        raise TidegateError(f"--seed {seed} is negative; give 0 or more")
    from tidegate.lab.generators import auctions_and_bids

    streams = auctions_and_bids(
        rows // 5, rows - rows // 5, seed, patience_minutes=PATIENCE_MINUTES
    )
    _explain(streams)
    _warm_up(streams)
    reason = local_spark.missing() if spark else None
    if reason is not None:
        say(f"Spark cannot be used here: {reason}. What follows is the engine alone.")
    spark = spark and reason is None
    runs = _on_spark(seed, streams, json) if spark else _alone(seed, streams)
    exact = runs[0]["stats"]
    for run in runs:
        run["results_kept"] = run["stats"]["rows_out"] / max(1, exact["rows_out"])
        run["importance_kept"] = run["stats"]["importance_out"] / max(1.0, exact["importance_out"])
    sentence = _conclusion(runs)
    if json:
        budget = runs[-1]["memory"]
        ran = {"rows": rows, "seed": seed, "memory": budget, "spark": spark}
        answer({**ran, "runs": runs, "seen": sentence})
    else:
        _show(runs, sentence)


def _spec(seed: int) -> JoinSpec:
    """A bid meets its auction up to half an hour after it opened; bids wait for nothing."""
    return JoinSpec(
        streams=("auctions", "bids"),
        on="auction_id",
        time={"auctions": "opened", "bids": "made"},
        within={"auctions": f"{WINDOW_MINUTES} minutes", "bids": 0},
        importance="importance",
        split={"auctions": 1.0, "bids": 0.0},
        seed=seed,
    )


def _explain(streams: Mapping[str, pa.Table]) -> None:
    say(
        f"Two streams: {streams['auctions'].num_rows:,} auctions that open one after the other, "
        f"and {streams['bids'].num_rows:,} bids on them.\n"
        f"A bid belongs to a result if it was made within {WINDOW_MINUTES} minutes after its "
        "auction opened. Until then an auction has to be remembered.\n"
        "Importance says what a result is worth: the price class of the bid or of the auction, "
        f"whichever is lower.\nThe same streams are joined {len(RUNS)} times: with room for all "
        f"that has to be remembered, then twice with room for a tenth of it."
    )


def _warm_up(streams: Mapping[str, pa.Table]) -> None:
    """Load the compiled code before the clock runs; the first time on a machine it is compiled."""
    began = time.perf_counter()
    say("Loading the compiled join; the very first time on a machine this takes a minute ...")
    from tidegate.engine import JoinEngine

    few = {name: table.slice(0, 3000) for name, table in streams.items()}  # so that arrays grow
    for _, policy, _ in RUNS:
        spec = _spec(0) if policy is None else _spec(0).replace(memory=10, policy=policy)
        # On Spark the clock comes from outside.
        JoinEngine(spec).push(few)
        JoinEngine(spec).push(few, watermark=0)
    say(f"Loaded in {time.perf_counter() - began:.1f} s.")


def _limited(seed: int, policy: str | None, peak: float) -> tuple[JoinSpec, int | None]:
    """The spec of a run, and its budget, once the peak of the exact run is known."""
    if policy is None:
        return _spec(seed), None
    budget = max(1, int(peak) // BUDGET_SHARE)
    # Of a smaller budget so small a share would say nothing.
    sentinel = SENTINEL if budget >= FEWEST_FOR_SENTINEL else None
    return _spec(seed).replace(memory=budget, policy=policy, sentinel=sentinel), budget


def _on_spark(seed: int, streams: Mapping[str, pa.Table], quiet: bool) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = []
    peak = 0.0
    with demo_spark.pipeline(streams) as pipeline:
        for name, policy, _ in RUNS:
            spec, budget = _limited(seed, policy, peak)
            say(f"Joining on Spark: {name} ...")
            ran = pipeline.run(name, spec, budget, quiet)
            peak = peak or ran.stats[PEAK]
            run = _run(name, spec, ran.stats, ran.rows_per_second)
            runs.append({**run, "downstream": {"begin": ran.window, "categories": ran.windows}})
    return runs


def _alone(seed: int, streams: Mapping[str, pa.Table]) -> list[dict[str, Any]]:
    from tidegate.engine import JoinEngine
    from tidegate.engine.replay import replay

    runs: list[dict[str, Any]] = []
    peak = 0.0
    for name, policy, _ in RUNS:
        spec, _budget = _limited(seed, policy, peak)
        engine = JoinEngine(spec)
        began = time.perf_counter()
        with progress_of(f"{name} join") as progress:
            for _ in replay(engine, streams, progress):
                pass
        seconds = time.perf_counter() - began
        stats = engine.stats()
        peak = peak or stats[PEAK]
        runs.append(_run(name, spec, stats, stats["rows_in"] / seconds))
    return runs


def _run(
    name: str, spec: JoinSpec, stats: Mapping[str, float], rows_per_second: float
) -> dict[str, Any]:
    return {
        "name": name,
        "memory": spec.memory,
        "policy": None if spec.memory is None else spec.policy,
        "memory_rows_peak": stats[PEAK],
        "memory_bytes_peak": stats["memory_bytes_peak"],
        "rows_per_second": round(rows_per_second, 1),
        "stats": dict(stats),
    }


def _conclusion(runs: list[dict[str, Any]]) -> str:
    exact, random, ours = runs
    return (
        f"With room for {ours['memory']:,} auctions instead of {exact['memory_rows_peak']:,.0f}, "
        f"forgetting by chance kept {random['importance_kept']:.0%} of the value, and tidegate "
        f"kept {ours['importance_kept']:.0%}."
    )


def _estimated(stats: Mapping[str, float]) -> str:
    """What the join said of itself while it ran, without knowing the exact result.

    A few large results decide importance here, so a small sample often knows only how many results
    were kept.
    """
    if "sentinel_rows" not in stats:
        return ""
    for name, of_what in (("importance_recall", "importance"), ("recall", "results")):
        if name in stats:
            low, high = stats[f"{name}_low"], stats[f"{name}_high"]
            return f"{of_what} {100 * low:.0f} to {100 * high:.0f}%"
    return "unknown"


def _show(runs: list[dict[str, Any]], sentence: str) -> None:
    from rich.table import Table

    title = "Kept of the results and of their importance; memory at its peak"
    table = Table(show_edge=False, title=title, title_justify="left")
    table.add_column("remembered")
    for title in ("results", "importance", "by the sentinel", "auctions", "MB", "rows/s"):
        table.add_column(title, justify="right")
    for run, (_, _, title) in zip(runs, RUNS, strict=True):
        table.add_row(
            title,
            f"{run['results_kept']:.1%}",
            f"{run['importance_kept']:.1%}",
            _estimated(run["stats"]),
            f"{run['memory_rows_peak']:,.0f}",
            f"{run['memory_bytes_peak'] / 1e6:,.1f}",
            f"{run['rows_per_second']:,.0f}",
        )
    screen = console()
    if "downstream" in runs[0]:
        _show_downstream(runs)
    screen.print(table)
    screen.print(f"\n{sentence}", soft_wrap=True)


def _show_downstream(runs: list[dict[str, Any]]) -> None:
    """What the next operator of the pipeline made of the results."""
    from rich.table import Table

    begin = runs[0]["downstream"]["begin"]
    title = f"Downstream: value of the results, {demo_spark.AGGREGATE_WINDOW} from {begin}"
    table = Table(show_edge=False, title=title, title_justify="left")
    table.add_column("category")
    for run in runs:
        table.add_column(run["name"], justify="right")
    for category in sorted(runs[0]["downstream"]["categories"]):
        found = [run["downstream"]["categories"].get(category, {}) for run in runs]
        table.add_row(category, *[f"{each.get('importance', 0):,.0f}" for each in found])
    console().print(table)
    console().print()
