"""`tidegate repair`: the results that a join lost, from its ledger.

Law: nothing is read but the ledger; with the join's output the repaired results are the exact join.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli import arguments
from tidegate.cli.screen import answer, console, progress_of

Folder = Annotated[
    str,
    typer.Argument(
        metavar="LEDGER", help="The folder of tidegate join --ledger or window_join(ledger=)."
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Where to write: .parquet, .csv or .arrow."
    ),
]


Checkpoint = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="FOLDER",
        help="Of a query on Spark: its checkpoint, which says what was committed.",
    ),
]


def repair(
    ledger: Folder,
    output: Output = None,
    checkpoint: Checkpoint = None,
    json: arguments.Json = False,
    quiet: arguments.Quiet = False,
) -> None:
    """Compute exactly the results that a join under a budget lost.

    \b
    Examples
      tidegate join a.parquet b.parquet --on k --time ts --within 600 \\
          --memory 1000 -o kept.parquet --ledger shed
      tidegate repair shed -o lost.parquet
      tidegate repair shed --checkpoint checkpoint -o lost.parquet
    """
    from tidegate.cli import files
    from tidegate.offline.repair import repair as read_ledger

    if output is not None:
        files.format_of(output)
    found = read_ledger(ledger, checkpoint)
    with progress_of("repairing", quiet) as progress:
        results = found.results(progress)
        if output is not None:
            files.write(results, output)
        else:
            for _ in results:
                pass
    if json:
        answer(
            {
                "results": found.size,
                "importance": found.importance,
                "rows": dict(found.rows),
                "output": None if output is None else str(output),
            }
        )
        return
    screen = console()
    counts = ", ".join(f"{reason} {count:,}" for reason, count in sorted(found.rows.items()))
    lines = [
        f"rows in the ledger: {counts}",
        f"lost results: {found.size:,} (importance {found.importance:,.6g})",
    ]
    if found.batch >= 0 and checkpoint is None:
        lines.append(
            f"the last micro-batch is {found.batch}; if the query may have died in it, give "
            "--checkpoint"
        )
    lines.append("write them with -o FILE" if output is None else f"written to {output}")
    for line in lines:
        screen.print(line, soft_wrap=True, markup=False)
