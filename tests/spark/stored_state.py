"""Stored states of two small joins in a file, as a version of the library wrote them.

Run as a script to write the file for the format that the library writes now, once, when that number
is new: `python -m spark.stored_state` in the folder `tests`.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

from spark.feeds import random_batches
from spark.test_state import BUDGET, EXACT, Cells, plan_of, step

from tidegate.spark.bucket_store import FORMAT

SPECS = {"exact": EXACT, "budget": BUDGET}
STORED_BATCHES = 3


def path_of(version: int) -> Path:
    """The file with the states of a format."""
    return Path(__file__).parents[1] / "data" / f"spark_state_{version}.json"


def batches(count: int) -> list[dict[int, object]]:
    """What each micro-batch brings, by stream."""
    left, right = (random_batches(900 + seed, count, rows=25) for seed in (0, 1))
    return [{0: left[n], 1: right[n]} for n in range(count)]


def read(version: int) -> dict[str, Cells]:
    """The states of a format, by the name of their spec."""
    plain = json.loads(path_of(version).read_text())
    found = {}
    for name, stored in plain.items():
        cells = found[name] = Cells()
        cells.meta = (base64.b64decode(stored["meta"]),)
        cells.segments = {
            (int(number),): (base64.b64decode(body),) for number, body in stored["segments"].items()
        }
    return found


def write() -> None:
    plain = {}
    for name, spec in SPECS.items():
        cells = Cells()
        for number, tables in enumerate(batches(STORED_BATCHES)):
            step(plan_of(spec, tables[0]), cells, tables, number)  # type: ignore[arg-type]
        assert cells.meta is not None
        plain[name] = {
            "meta": base64.b64encode(cells.meta[0]).decode(),
            "segments": {
                str(number): base64.b64encode(body).decode()
                for (number,), (body,) in sorted(cells.segments.items())
            },
        }
    path_of(FORMAT).parent.mkdir(exist_ok=True)
    path_of(FORMAT).write_text(json.dumps(plain, indent=1) + "\n")


if __name__ == "__main__":
    write()
