"""`tidegate bench`: the benchmarks of the repository, side by side with peers.

Law: a benchmark is a module of `benchmarks/` with `run(quick) -> rows of name, ours, theirs, ratio,
unit`; nothing is known about it here, so a new one needs no change.
"""

from __future__ import annotations

import importlib
import re
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

import tidegate
from tidegate.cli import arguments
from tidegate.cli.screen import answer, console, say
from tidegate.spec import TidegateError
from tidegate.spec.units import nearest_hint

COLUMNS = ("name", "ours", "theirs", "ratio", "unit")

Name = Annotated[
    str | None, typer.Argument(metavar="NAME", help="One benchmark; all of them if left out.")
]
Quick = Annotated[bool, typer.Option("--quick", help="Less data: shows that it works.")]


def bench(name: Name = None, quick: Quick = False, json: arguments.Json = False) -> None:
    """Measure tidegate against bare kernels and peers, and print the ratios.

    \b
    Examples
      tidegate bench
      tidegate bench equi_join --quick --json
    """
    folder = Path(tidegate.__file__).resolve().parent.parent / "benchmarks"
    names = _benchmarks(folder)
    if name is not None and name not in names:
        raise TidegateError(f"benchmark {name!r} is not known; {nearest_hint(name, names)}")
    results: list[dict[str, Any]] = []
    chosen = names if name is None else [name]
    for number, each in enumerate(chosen, start=1):
        say(f"{each} ({number} of {len(chosen)}) ...")
        try:
            results += _run(folder, each, quick)
        except TidegateError as error:
            # What one benchmark lacks need not stop the others.
            if name is not None:
                raise
            say(str(error))
    if json:
        answer({"results": results})
    else:
        _show(results)


def _benchmarks(folder: Path) -> list[str]:
    """The modules that can be run; others beside them are their parts."""
    found = [
        path.stem
        for path in sorted(folder.glob("*.py"))
        if re.search(r"^def run\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    if not found:
        raise TidegateError(
            "the benchmarks are not installed with the package; run this in a checkout of the "
            "repository, where the folder 'benchmarks' is"
        )
    return found


def _run(folder: Path, name: str, quick: bool) -> list[dict[str, Any]]:
    if str(folder.parent) not in sys.path:
        sys.path.insert(0, str(folder.parent))
    # What a benchmark prints is not the answer.
    with redirect_stdout(sys.stderr):
        try:
            module = importlib.import_module(f"benchmarks.{name}")
            rows = module.run(quick)
        except ModuleNotFoundError as error:
            raise TidegateError(
                f"benchmark {name!r} needs the package {error.name!r}; install tidegate[dev]"
            ) from error
    return [{column: row[column] for column in COLUMNS} for row in rows]


def _show(results: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table(show_edge=False)
    for column in COLUMNS:
        numeric = column in ("ours", "theirs", "ratio")
        table.add_column(column, justify="right" if numeric else "left")
    for row in results:
        cells = [row["name"], _number(row["ours"]), _number(row["theirs"])]
        table.add_row(*cells, f"{row['ratio']:.2f}", row["unit"])
    console().print(table)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3g}"
