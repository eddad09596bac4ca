"""`--chart FILE`: a chart in the form that the ending of the file's name says.

Law: an ending that is not known is refused before any work is done; a file is written whole or not
at all.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tidegate.spec import TidegateError

_ENDINGS = (".svg", ".png", ".html", ".json")


def check(path: Path | None) -> None:
    """An error if the ending says nothing, or there is no such folder."""
    if path is None:
        return
    if path.suffix.lower() not in _ENDINGS:
        raise TidegateError(f"--chart '{path}' has no known ending; use .svg, .png, .html or .json")
    if not path.parent.is_dir():
        raise TidegateError(f"the folder of '{path}' does not exist; make it first")


def write(view: Any, found: Any, path: Path) -> None:
    """Draw what was found with the functions of its view: svg, png, html and chart."""
    check(path)
    makers = {
        ".svg": lambda: view.svg(found).encode(),
        ".png": lambda: view.png(found),
        ".html": lambda: f"<!doctype html><meta charset=utf-8>{view.html(found)}".encode(),
        ".json": lambda: json.dumps(view.chart(found)).encode(),
    }
    drawn = makers[path.suffix.lower()]()
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(drawn)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise TidegateError(f"file '{path}' cannot be written: {error.strerror}") from error
