"""`tidegate warm`: compile everything now, so that nobody waits for it later.

Law: it may be run any number of times; what is there is left alone.
"""

from __future__ import annotations

import time as clock
from dataclasses import asdict
from typing import Annotated

import typer

from tidegate.cli import arguments
from tidegate.cli.screen import answer, progress_of, say

Processes = Annotated[
    int | None,
    typer.Option(
        "--processes",
        "-p",
        min=1,
        metavar="N",
        help="Compile in N processes; by default one per core.",
    ),
]
Common = Annotated[
    bool,
    typer.Option(
        "--common",
        help="Leave out CPU budgets, samples of three streams and more, and arrival-order, samples "
        'and VALUE of more streams under ties="instant".',
    ),
]


def warm(
    processes: Processes = None,
    common: Common = False,
    json: arguments.Json = False,
    quiet: arguments.Quiet = False,
) -> None:
    """Compile all that this version can need, for images of containers and before a demo.

    Code goes to the folder tidegate in TIDEGATE_CACHE, by default in the user's cache folder. That
    folder may be read-only later.

    \b
    Examples
      tidegate warm
      TIDEGATE_CACHE=/opt/compiled tidegate warm --json
    """
    from tidegate.engine.warm import join_cases, rare_cases
    from tidegate.engine.warm import warm as compile_all
    from tidegate.offline.warm import optimum_cases

    began = clock.perf_counter()
    with progress_of("compiling", quiet=quiet, unit="cases") as progress:
        cases = [*join_cases(), *optimum_cases(), *([] if common else rare_cases())]
        done = compile_all(cases, processes, progress)
    seconds = clock.perf_counter() - began
    if done.not_kept:
        say(f"tidegate: {done.not_kept} functions could not be kept in {done.folder}")
    if json:
        answer({**asdict(done), "seconds": round(seconds, 1)})
    elif done.compiled:
        print(f"compiled {done.compiled} functions in {seconds:.0f} s into {done.folder}")
    else:
        print(f"nothing to do: {done.functions} functions are in {done.folder}")
