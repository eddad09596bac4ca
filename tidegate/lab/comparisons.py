"""Policies side by side: means over the seeds, and the claims that follow from them.

Law: policies are compared on the same streams, and a number is the mean over all seeds. A policy
counts with the better of its variants only where that is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.lab.claims import Claim
from tidegate.lab.configuration import EXACT, OPTIMUM
from tidegate.lab.figures import Record, mean_by

OURS = "value"
Table = dict[Any, dict[str, float]]


def table_of(records: Sequence[Record], x: str, value: str = "importance") -> Table:
    """The mean of a value by x, then by policy."""
    table: Table = {}
    for (at, policy), mean in mean_by(records, [x, "policy"], value).items():
        table.setdefault(at, {})[policy] = mean
    return table


def chart_rows(table: Table, x: str) -> list[Record]:
    """The table as records of x, policy and the mean."""
    return [
        {x: at, "policy": policy, "importance": value}
        for at, row in table.items()
        for policy, value in row.items()
        if value == value  # the optimum has no number where it cannot count from a time on
    ]


def lead(row: Mapping[str, float], better: str, worse: str) -> float | None:
    """By how much of its own result `better` is ahead: (better - worse) / better."""
    if better not in row or worse not in row or not row[better]:
        return None
    return (row[better] - row[worse]) / row[better]


def online(row: Mapping[str, float]) -> dict[str, float]:
    """The row without the references that no policy can reach."""
    return {name: value for name, value in row.items() if name not in (EXACT, OPTIMUM)}


def value_claim(
    table: Table,
    paper: str,
    figure: str,
    where: str,
    ours: str = OURS,
    without: Sequence[str] = (),
    why: str = "",
) -> Claim:
    """Our own claim: VALUE keeps at least as much as the best other policy, everywhere.

    `without` names what does not compete: those that were told what VALUE had to learn. `why` is
    what is known of the reason where it is behind.
    """
    words = f"{ours.upper().replace('TOLD', 'told')} / best other policy"
    claim = Claim(paper, figure, f"{words}, the least over {where}", 1.0, "at least", ours=True)
    ratios = {}
    for at, row in table.items():
        others = {
            name: kept
            for name, kept in online(row).items()
            if not name.startswith(OURS) and name not in without
        }
        if ours in row and others and max(others.values()) > 0:
            best = max(others, key=lambda name: others[name])
            ratios[at] = (row[ours] / others[best], best)
    if not ratios:
        return claim.with_measured(None, "this version has no policy 'value' yet")
    worst = min(ratios, key=lambda at: ratios[at][0])
    ratio, best = ratios[worst]
    behind = sum(1 for each, _ in ratios.values() if each < 1.0)
    return claim.with_measured(
        ratio,
        f"behind in {behind} of {len(ratios)} settings, most at {worst}, where {best} is best"
        + (f": {why}" if why and behind else ""),
    )


def order_claim(
    row: Mapping[str, float], names: Sequence[str], claim: Claim, reason: str = ""
) -> Claim:
    """Whether policies come in the order that the claim expects."""
    lacking = [name for name in names if name not in row]
    if lacking:
        return claim.with_measured(None, f"this version has no {', '.join(lacking)} yet")
    values = {name: row[name] for name in names}
    found = sorted(values, key=lambda name: -values[name])
    return claim.with_measured(values, reason or f"we found {' > '.join(found)}")


def average_row(table: Table) -> dict[str, float]:
    """Each policy's share of the exact result, averaged over x."""
    shares: dict[str, list[float]] = {}
    for row in table.values():
        for name, value in row.items():
            if row.get(EXACT):
                shares.setdefault(name, []).append(value / row[EXACT])
    return {name: sum(values) / len(values) for name, values in shares.items()}
