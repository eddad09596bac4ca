"""Budgets in bytes: what an engine adds to its process, against its budget.

Law: see `growth`. `ours` is the growth less 3 MB, `theirs` the budget. To reach: at most 1.1, for
all policies, and rows that are narrow (24 bytes), wide (160), of strings and of lists;
`ROWS=lists python -m benchmarks memory_bytes` measures one kind of rows.
"""

from __future__ import annotations

import os
import sys

from benchmarks.growth import MEGABYTE, ROWS, measured
from benchmarks.side_by_side import Row, compared
from tidegate import policies

BUDGETS = {1: 3, 10: 3, 50: 3, 500: 1}  # MB -> engines that are measured
QUICK_BUDGETS = {1: 5, 10: 3}
QUICK_POLICIES = ("random", "value")
CONSTANT = 3 * MEGABYTE  # what an engine may add whatever its budget,
MOST = 1.1  # and the share of its budget that it may add besides


def run(quick: bool) -> list[Row]:
    # `auto` is another name of one of the others.
    names = QUICK_POLICIES if quick else [name for name in policies() if name != "auto"]
    budgets = QUICK_BUDGETS if quick else BUDGETS
    kinds = [rows for rows in ROWS if rows.startswith(os.environ.get("ROWS", ""))]
    cases = [(policy, rows, budgets) for rows in kinds for policy in names]
    result = []
    for (policy, rows, _), answer in zip(cases, measured("budgets", cases), strict=True):
        for megabytes in budgets:
            found = answer[str(megabytes)]
            name = f"{policy}, {rows}, memory {megabytes} MB"
            if "refused" in found:
                print(f"{name}: {found['refused']}", file=sys.stderr, flush=True)
                continue
            held, growth = found["memory_bytes"] / MEGABYTE, found["growth"] / MEGABYTE
            name += f" (memory_bytes {held:.2f}, growth {growth:.2f}): beyond 3 MB, <= {MOST}"
            result.append(compared(name, growth - CONSTANT / MEGABYTE, megabytes, "MB"))
    return result
