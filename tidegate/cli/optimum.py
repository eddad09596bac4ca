"""`tidegate optimum`: what a policy kept, beside the best that its memory allows.

Law: the options are those of `tidegate join`, and mean the same; so a command line that joins two
files also says, with another first word, how good its policy is.
"""

from __future__ import annotations

import json as json_text
import time as clock
from typing import Annotated

import typer

from tidegate.cli import arguments
from tidegate.cli.screen import answer, console, progress_of, say

Objective = Annotated[
    str,
    typer.Option("--objective", metavar="WHAT", help="What is compared: importance or size."),
]
Method = Annotated[
    str, typer.Option("--method", metavar="HOW", help="auto, flow, dp or esja (see PAPERS.md).")
]
Sample = Annotated[
    float | None,
    typer.Option(
        "--sample", metavar="SHARE", help="Estimate from a share of the keys, such as 0.1."
    ),
]


def optimum(
    left: arguments.Left,
    right: arguments.Right,
    on: arguments.On,
    time: arguments.Time,
    within: arguments.Within,
    more: arguments.More = None,
    memory: arguments.Memory = None,
    policy: arguments.PolicyName = "auto",
    split: arguments.Split = "auto",
    importance: arguments.Importance = None,
    output_importance: arguments.OutputImportance = "min",
    index: arguments.Index = "auto",
    lateness: arguments.Lateness = "0",
    ties: arguments.Ties = "arrival",
    bad_rows: arguments.BadRows = "count",
    seed: arguments.Seed = 0,
    objective: Objective = "importance",
    method: Method = "auto",
    sample: Sample = None,
    json: arguments.Json = False,
    quiet: arguments.Quiet = False,
) -> None:
    """Say how far a policy stays behind the best possible under its budget.

    Options marked (*) take one value, or one for each file: left=..,right=..

    \b
    Examples
      tidegate optimum clicks.parquet ads.parquet --on ad_id --time ts \\
          --within 10m --memory 1000 --policy recent
      tidegate optimum a.csv b.csv --on k --time ts --within 600 \\
          --memory 1000 --policy simp --importance price --json
    """
    files_given = (left, right, *(more or ()))
    streams = arguments.streams_of(len(files_given))
    spec = arguments.spec_of(
        on, time, within, memory, policy, split, importance, output_importance, index, lateness,
        ties, bad_rows, seed, streams,
    )  # fmt: skip
    if memory is None and not quiet:
        say("tidegate: note: without --memory nothing is forgotten: the optimum is the exact join")
    from tidegate.cli import files
    from tidegate.offline.regret import regret

    paths = dict(zip(streams, files_given, strict=True))
    tables = files.typed({name: files.read(path) for name, path in paths.items()}, spec)
    began = clock.perf_counter()
    found = regret(
        tables, spec, objective, method, sample=sample, watch=lambda what: progress_of(what, quiet)
    )
    if not json:
        console().print(found.sentence, soft_wrap=True, markup=False)
        return
    answer(
        {
            "exact": found.exact,
            "optimum": found.optimum,
            "policy": found.policy,
            "kept": found.kept,
            "possible": found.possible,
            "reached": found.reached,
            "interval": found.interval,
            "sampled": found.sampled,
            "sentence": found.sentence,
            "seconds": round(clock.perf_counter() - began, 3),
            "spec": json_text.loads(spec.to_json()),
        }
    )
