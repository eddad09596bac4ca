"""What a user waits for while nothing is compiled: CPU seconds of the first join and of the next.

Law: every case runs in a process of its own with an empty folder for compiled code. Measured are
the CPU seconds of that process from its start to the end of a small join. A second process,
with the folder that the first has filled, takes what every later one takes.

`ours` is what was measured, `theirs` what is allowed: 6 CPU seconds for an exact join, 35 for one
under a budget (aim 20). On standard error stand the functions that took most of it: each with its
own typing and lowering, a kernel also with the machine code of all that it calls.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from typing import Any

from benchmarks.side_by_side import Row, compared, in_fresh_process

EXACT, BUDGET = 6.0, 35.0
AGAIN = 2.0  # with compiled code at hand, imports included
CASES: dict[str, tuple[dict[str, Any], float]] = {
    "exact": ({}, EXACT),
    "exact, with lateness": ({"lateness": 5}, EXACT),
    "value": ({"memory": 40}, BUDGET),
    "random": ({"memory": 40, "policy": "random"}, BUDGET),
}
QUICK_CASES = ("exact", "value")
ROWS = 500
MOST = 12  # functions that are named


class Stopwatch:
    """CPU seconds that numba spends on each function, without those on functions that it calls."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._open: list[str] = []
        self._since = 0.0

    def begin(self, function: Any) -> None:
        self._lap()
        self._open.append(f"{function.__module__.removeprefix('tidegate.')}.{function.__name__}")

    def end(self) -> None:
        self._lap()
        self._open.pop()

    def _lap(self) -> None:
        now = time.process_time()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._since = now


def measure(options: dict[str, Any]) -> dict[str, Any]:
    """A small join in this process, whose first import it is."""
    import pyarrow as pa
    from numba.core import event

    import tidegate as tg

    watch = Stopwatch()

    class Listening(event.Listener):  # type: ignore[misc]
        def on_start(self, told: Any) -> None:
            watch.begin(told.data["dispatcher"].py_func)

        def on_end(self, told: Any) -> None:
            watch.end()

    event.register("numba:compile", Listening())
    table = pa.table({"t": range(ROWS), "k": [number * 7 % 31 for number in range(ROWS)]})
    spec = tg.JoinSpec(on="k", time="t", within=100, **options)
    tg.join({"left": table, "right": table}, spec)
    from tidegate.compiled.cache import use

    return {
        "seconds": time.process_time(),
        "functions": len(use.compiled),
        "spent": watch.seconds.most_common(MOST),
    }


def run(quick: bool) -> list[Row]:
    found = []
    for name in QUICK_CASES if quick else CASES:
        options, allowed = CASES[name]
        with tempfile.TemporaryDirectory(prefix="tidegate-first-use-") as folder:
            first, again = (
                in_fresh_process(
                    "benchmarks.first_use", [json.dumps(options)], {"TIDEGATE_CACHE": folder}
                )
                for _ in range(2)
            )
        for function, seconds in first["spent"]:
            print(f"  {name}: {seconds:5.2f} CPU s {function}", file=sys.stderr)
        title = f"{name}, the first join ({first['functions']:.0f} functions compiled)"
        found.append(compared(title, first["seconds"], allowed, "CPU s"))
        found.append(compared(f"{name}, in the next process", again["seconds"], AGAIN, "CPU s"))
    return found


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
