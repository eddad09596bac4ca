"""The versions of numba that the package works with.

Law: `cache` and `frames` use parts of numba that are not public and may change with any release. So
the package runs with the releases that its tests ran with, and says so in one sentence on others;
pyproject.toml asks for the same range.
"""

from __future__ import annotations

import re

OLDEST, TOO_NEW = (0, 68), (0, 69)


class UntestedVersionError(ImportError):
    """The installed numba was not tested with this package."""


def check_numba(version: str) -> None:
    """Refuse releases of numba outside the tested range."""
    found = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if not OLDEST <= found < TOO_NEW:
        raise UntestedVersionError(
            f"tidegate uses internal parts of numba and was not tested with the installed numba "
            f"{version}; install one it was tested with: pip install '{requirement()}'"
        )


def requirement() -> str:
    """The tested range, as pip reads it."""
    return f"numba>={_text(OLDEST)},<{_text(TOO_NEW)}"


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
