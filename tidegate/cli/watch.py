"""`tidegate watch`: the log of a join as a page in the browser."""

from __future__ import annotations

import json as json_text
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate.cli import arguments
from tidegate.cli.screen import answer, say
from tidegate.spec import TidegateError

LogFile = Annotated[
    Path, typer.Argument(metavar="LOG", help="The log of tidegate join --log; it may still grow.")
]
Port = Annotated[int, typer.Option("--port", metavar="N", help="Where to serve; 0 takes any.")]
Curve = Annotated[
    Path | None,
    typer.Option(
        "--curve", metavar="FILE", help="What tidegate whatif --json said: memory -> recall."
    ),
]
Seconds = Annotated[
    float | None,
    typer.Option("--seconds", metavar="N", help="Stop after so many seconds.", min=0),
]


def watch(
    log: LogFile,
    port: Port = 0,
    curve: Curve = None,
    seconds: Seconds = None,
    json: arguments.Json = False,
) -> None:
    """Serve a page about a running join on this machine, until it is stopped with Ctrl-C.

    The page updates itself: rows per second, memory against the budget, recall with its interval
    (of a join with --sentinel), what was shed and why. /metrics has the numbers for Prometheus.

    \b
    Examples
      tidegate join a.parquet b.parquet --on k --time ts --within 600 \\
          --memory 1000 --sentinel 0.02 --log run.jsonl &
      tidegate watch run.jsonl --port 8765
    """
    from tidegate.watch.log import LogReader
    from tidegate.watch.numbers import History
    from tidegate.watch.server import Page

    reader = LogReader(log)
    history = History(reader.next, [] if curve is None else _curve(curve))
    history.update()
    while reader.behind:
        history.update()
    page = Page(history, port)
    try:
        if json:
            answer({"url": page.url})
        else:
            say(f"tidegate: the page is at {page.url} (stop with Ctrl-C)")
        ends = float("inf") if seconds is None else time.monotonic() + seconds
        while time.monotonic() < ends:
            time.sleep(0.1)
    except KeyboardInterrupt:
        pass
    finally:
        page.close()


def _curve(path: Path) -> list[dict[str, Any]]:
    """The curve of the recommended policy."""
    try:
        found = json_text.loads(path.read_text(encoding="utf-8"))
        name = "recall" if found["objective"] == "size" else "importance_recall"
        return [
            {"memory": row["memory"], "recall": row[name], "low": row["low"], "high": row["high"]}
            for row in found["curve"]
            if row["policy"] == found["recommended"]
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TidegateError(
            f"'{path}' is not what tidegate whatif --json prints ({error}); give that"
        ) from error
