"""`python -m benchmarks [NAME] [--quick] [--json]`: run one benchmark or all, and print ratios.

Law: standard output holds the results and nothing else; with --json it is one JSON object with the
key `results`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from importlib import import_module
from inspect import signature

from rich.console import Console

from benchmarks.side_by_side import Row, show
from tidegate.spec import TidegateError

NAMES = (
    "equi_join", "band_join", "auto_index", "many", "plan", "policies", "without_cpu", "against",
    "features", "first_use",
    "auto", "sampling", "memory_flat", "memory_bytes", "memory_share", "optimum", "sentinel",
    "target", "whatif",
    "spark_join", "spark_many",
    "spark_budget", "spark_long", "spark_keep_up",
)  # fmt: skip


def results_of(names: Sequence[str], quick: bool, seed: int | None = None) -> list[Row]:
    """The rows of the named benchmarks, each name led by its benchmark's."""
    rows: list[Row] = []
    for name in names:
        print(f"running {name} ...", file=sys.stderr, flush=True)
        try:
            run = import_module(f"benchmarks.{name}").run
            chosen = (
                {"seed": seed} if seed is not None and "seed" in signature(run).parameters else {}
            )
            found: list[Row] = run(quick, **chosen)
        except TidegateError as error:
            # What one benchmark lacks need not stop the others.
            if len(names) == 1:
                raise
            print(error, file=sys.stderr, flush=True)
            continue
        for row in found:
            labelled: Row = {**row, "name": f"{name}: {row['name']}"}
            rows.append(labelled)
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Print ratios.")
    parser.add_argument("name", nargs="?", choices=NAMES, help="one benchmark; all without it")
    parser.add_argument("--quick", action="store_true", help="smaller inputs, fewer repetitions")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--seed", type=int, help="streams nobody has seen: sentinel, whatif")
    given = parser.parse_args(arguments)
    try:
        rows = results_of([given.name] if given.name else NAMES, given.quick, given.seed)
    except TidegateError as error:
        sys.exit(str(error))
    if given.json:
        print(json.dumps({"results": rows}))
    else:
        show(rows, Console())


if __name__ == "__main__":
    main()
