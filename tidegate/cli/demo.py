"""`tidegate demo`: what the join does, seen on made-up auctions.

Law: it needs no files and no knowledge; every number it shows comes from the runs it just made.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli import arguments
from tidegate.cli.screen import answer, console, progress_of, say
from tidegate.spec import JoinSpec, TidegateError

if TYPE_CHECKING:
    import pyarrow as pa

FEWEST_ROWS = 1_000
BUDGET_SHARE = 10  # the budget is the exact join's peak, divided by this

Rows = Annotated[int, typer.Option("--rows", help="Auctions and bids together.")]


def demo(rows: Rows = 1_000_000, seed: arguments.Seed = 0, json: arguments.Json = False) -> None:
    """Join made-up auctions with their bids: exactly, then with a tenth of the memory.

    \b
    Examples
      tidegate demo
      tidegate demo --rows 100000 --seed 7 --json
    """
    if rows < FEWEST_ROWS:
        raise TidegateError(f"--rows {rows} is too few to see anything; give {FEWEST_ROWS} or more")
    if seed < 0:
        raise TidegateError(f"--seed {seed} is negative; give 0 or more")
    from tidegate.lab.generators import auctions_and_bids

    streams = auctions_and_bids(rows // 5, rows - rows // 5, seed)
    _explain(rows, streams)
    _warm_up(streams)
    exact = _measured("exact", _spec(seed), streams)
    budget = max(1, exact["memory_rows_peak"] // BUDGET_SHARE)
    runs = [exact]
    for policy in ("random", "simp"):
        limited = _spec(seed).replace(memory=budget, policy=policy)
        runs.append(_measured(policy, limited, streams))
    for run in runs:
        run["results_kept"] = run["stats"]["rows_out"] / max(1, exact["stats"]["rows_out"])
        run["importance_kept"] = run["stats"]["importance_out"] / max(
            1.0, exact["stats"]["importance_out"]
        )
    sentence = _conclusion(runs, budget)
    if json:
        answer({"rows": rows, "seed": seed, "memory": budget, "runs": runs, "seen": sentence})
    else:
        _show(runs, sentence)


def _spec(seed: int) -> JoinSpec:
    """A bid meets its auction up to ten minutes after it opened; bids wait for nothing."""
    return JoinSpec(
        streams=("auctions", "bids"),
        on="auction_id",
        time={"auctions": "opened", "bids": "made"},
        within={"auctions": "10 minutes", "bids": 0},
        importance="importance",
        split={"auctions": 1.0, "bids": 0.0},
        seed=seed,
    )


def _explain(rows: int, streams: Mapping[str, pa.Table]) -> None:
    say(
        f"Two streams: {streams['auctions'].num_rows:,} auctions that open one after the other, "
        f"and {streams['bids'].num_rows:,} bids on them.\n"
        "A bid belongs to a result if it was made within 10 minutes after its auction opened. "
        "Until then an auction has to be remembered.\n"
        "Importance says what a result is worth: the price class of the bid or of the auction, "
        "whichever is lower."
    )


def _warm_up(streams: Mapping[str, pa.Table]) -> None:
    """Load the compiled code before the clock runs; the first time on a machine it is compiled."""
    began = time.perf_counter()
    with progress_of("loading the compiled join (the very first time takes a minute)"):
        from tidegate.engine import JoinEngine

        few = {name: table.slice(0, 100) for name, table in streams.items()}
        for memory in (None, 10):
            JoinEngine(_spec(0).replace(memory=memory, policy="random")).push(few)
    seconds = time.perf_counter() - began
    say(f"Loaded in {seconds:.1f} s.\n")


def _measured(name: str, spec: JoinSpec, streams: Mapping[str, pa.Table]) -> dict[str, Any]:
    from tidegate.engine import JoinEngine
    from tidegate.replay import replay

    engine = JoinEngine(spec)
    began = time.perf_counter()
    with progress_of(f"{name} join") as progress:
        for _ in replay(engine, streams, progress):
            pass
    seconds = time.perf_counter() - began
    stats = engine.stats()
    return {
        "name": name,
        "memory": spec.memory,
        "policy": None if spec.memory is None else spec.policy,
        "memory_rows_peak": stats["memory_rows_peak"],
        "rows_per_second": round(stats["rows_in"] / seconds, 1),
        "stats": stats,
    }


def _conclusion(runs: list[dict[str, Any]], budget: int) -> str:
    random, simp = runs[1:]
    return (
        f"With room for {budget:,} rows instead of {runs[0]['memory_rows_peak']:,}, forgetting "
        f"at random kept {random['importance_kept']:.0%} of the value, and forgetting the least "
        f"important first (simp) kept {simp['importance_kept']:.0%}."
    )


def _show(runs: list[dict[str, Any]], sentence: str) -> None:
    from rich.table import Table

    titles = {
        "exact": "everything",
        "random": "1/10, random",
        "simp": "1/10, simp",
    }
    table = Table(show_edge=False)
    table.add_column("remembered")
    for title in ("results kept", "importance kept", "rows at peak", "rows/s"):
        table.add_column(title, justify="right")
    for run in runs:
        table.add_row(
            titles[run["name"]],
            f"{run['results_kept']:.1%}",
            f"{run['importance_kept']:.1%}",
            f"{run['memory_rows_peak']:,}",
            f"{run['rows_per_second']:,.0f}",
        )
    screen = console()
    screen.print(table)
    screen.print(f"\n{sentence}", soft_wrap=True)
