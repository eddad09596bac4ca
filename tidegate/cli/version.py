"""`tidegate version`: what is installed.

Law: it tells the versions without importing what they belong to.
"""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Annotated

import typer

import tidegate
from tidegate.cli.screen import answer

_PACKAGES = ("numba", "numpy", "pyarrow", "pyspark")


def version(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the versions of tidegate and of what it stands on.

    Example: tidegate version --json
    """
    versions = {"version": tidegate.__version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    if json:
        answer(versions)
        return
    print(f"tidegate {versions.pop('version')}")
    print(", ".join(f"{name} {number}" for name, number in versions.items()))
