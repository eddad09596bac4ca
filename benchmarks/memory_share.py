"""A tenth of the tuples: which share of the exact join's bytes do they take?

Law: see `growth`. `ours` is under a budget of a tenth of the tuples, `theirs` the exact join of the
same tuples; once in `memory_bytes` of `stats()`, once in growth of the process. To reach: 0.5 with
windows of 10,000 tuples per side, 0.2 above. Then bytes per retained row beyond its payload (24
bytes), `theirs` being what is allowed: 160 for policies that count keys, 96 for others.
"""

from __future__ import annotations

from benchmarks.growth import MEGABYTE, measured
from benchmarks.side_by_side import Row, compared
from tidegate import policies

WINDOWS = {10_000: 0.5, 100_000: 0.2, 1_000_000: 0.2}  # tuples per side -> share to reach
QUICK_WINDOWS = {10_000: 0.5}
QUICK_POLICIES = ("random", "value")
PAYLOAD = 24  # bytes of a narrow row: three columns of 8
WITHOUT_KEYS = ("random", "recent", "until-expiry", "simp", "age")
ALLOWED_WITHOUT_KEYS, ALLOWED_WITH_KEYS = 96, 160  # bytes per row beyond the payload


def run(quick: bool) -> list[Row]:
    # `auto` is another name of one of the others.
    names = QUICK_POLICIES if quick else [name for name in policies() if name != "auto"]
    windows = QUICK_WINDOWS if quick else WINDOWS
    cases = [(policy, list(windows)) for policy in (None, *names)]
    exact, *others = measured("windows", cases)
    result, beyond = [], []
    for policy, answer in zip(names, others, strict=True):
        for window, target in windows.items():
            ours, theirs = answer[str(window)], exact[str(window)]
            for what in ("memory_bytes", "growth"):
                name = f"{policy}, a tenth of 2 x {window:,}: {what} / exact join, <= {target}"
                both = [side[what] / MEGABYTE for side in (ours, theirs)]
                result.append(compared(name, *both, "MB"))
            allowed = ALLOWED_WITHOUT_KEYS if policy in WITHOUT_KEYS else ALLOWED_WITH_KEYS
            name = f"{policy}, a tenth of 2 x {window:,}: beyond the payload / allowed, <= 1"
            per_row = ours["memory_bytes"] / ours["rows"] - PAYLOAD
            beyond.append(compared(name, per_row, allowed, "bytes per row"))
    return result + beyond
