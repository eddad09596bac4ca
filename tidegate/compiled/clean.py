"""`python -m tidegate.compiled.clean`: remove the compiled code of this checkout.

Only code that the present sources are made of, of whatever versions of Python and numba; and the
notes of `tidegate warm`. It needs nothing but Python, as `make clean` may run where nothing else is
installed.
"""

from __future__ import annotations

import contextlib

from tidegate.compiled.places import cache_folder, remove
from tidegate.compiled.sources import package_digests


def clean() -> int:
    """Remove the folders of these sources; returns how many."""
    base, removed = cache_folder(), 0
    if base is None:
        return 0
    digests = package_digests()
    for folder in base.iterdir():
        if folder.is_dir() and folder.name.partition("-")[0] in digests:
            with contextlib.suppress(OSError):
                remove(folder)
                removed += 1
    for note in base.glob("warm-*.json"):
        note.unlink(missing_ok=True)
    return removed


if __name__ == "__main__":
    print(f"removed {clean()} folders of compiled code")
