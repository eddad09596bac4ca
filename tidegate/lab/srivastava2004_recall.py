"""Recall of policies where only the first stream waits, as in srivastava2004, section 6.

Law: only tuples of the first stream take memory; recall is the share of the exact result's size,
and AGE is always shown beside equation 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidegate.lab.age_model import THEORY
from tidegate.lab.claims import Claim
from tidegate.lab.comparisons import OURS, Table, table_of, value_claim
from tidegate.lab.configuration import EXACT
from tidegate.lab.contenders import Contender, contenders, takes
from tidegate.lab.figures import Record

PAPER = "srivastava2004"
BASELINES = ("until-expiry", "recent")
OTHERS = ("random", "value")
TOLD = "value (told)"


def waiting_spec(within: int, **options: Any) -> dict[str, Any]:
    """Tuples of s1 wait `within`, those of s2 not at all."""
    return {
        "streams": ["s1", "s2"],
        "time": "ts",
        "within": {"s1": within, "s2": 0},
        "split": {"s1": 1.0, "s2": 0.0},
        **options,
    }


_LEARNING = (
    "the age curve is learned from tuples that are kept for their whole life, which costs memory "
    "and time, where a fixed rule is right from the first tuple on"
)
_STALE = (
    "scores are recomputed after half as many arrivals as there are tuples, not at each arrival as "
    "AGE does, so that a change of worth is noticed late"
)


def age_takers(curve: Any, bucket: int, others: Sequence[str]) -> list[Contender]:
    """AGE and VALUE that are told the curve, AGE that learns it, and the others."""
    known = {"curve": curve, "bucket": bucket}
    found = []
    if takes("age", "curve"):
        found.append(Contender("age", "age", known))
        found.append(Contender("age (learned)", "age"))
    if OURS in others and takes(OURS, "curve"):
        found.append(Contender(TOLD, OURS, known))
    return [*found, *contenders(others)]


def value_claims(table: Table, figure: str, where: str) -> list[Claim]:
    """VALUE among those that have to learn, and VALUE that is told the curve among all."""
    online = {at: {k: v for k, v in row.items() if k != THEORY} for at, row in table.items()}
    learned = f"{where}, among those that learn"
    return [
        value_claim(online, PAPER, figure, learned, without=("age",), why=_LEARNING),
        value_claim(online, PAPER, figure, f"{where}, told the curve as AGE is", TOLD, why=_STALE),
    ]


def recall_table(records: Sequence[Record]) -> Table:
    """Each policy's share of the exact size, by x; the mean over seeds."""
    sizes = table_of(records, "x", "size")
    exact = next(row[EXACT] for row in sizes.values() if EXACT in row)
    return {
        x: {name: size / exact for name, size in row.items() if name != EXACT}
        for x, row in sorted(sizes.items())
        if set(row) - {EXACT}
    }


def recall_rows(table: Table, **labels: Any) -> list[Record]:
    """The table as records for a chart."""
    return [
        {"x": x, "policy": name, "recall": value, **labels}
        for x, row in table.items()
        for name, value in row.items()
    ]


def age_claims(table: Table, figure: str, best: float, label: str = "") -> list[Claim]:
    """AGE beside equation 3 and beside the baselines; `best` is k_opt as a share of the window."""
    where = f" ({label})" if label else ""
    theory = Claim(
        PAPER, figure, f"AGE and equation 3: greatest difference of recall{where}", 0.0,
        tolerance=0.05,
    )  # fmt: skip
    better = Claim(
        PAPER, figure, f"AGE - best of RECENT and UNTIL-EXPIRY, least over memory{where}", 0.0,
        "at least", 0.01,
    )  # fmt: skip
    same = Claim(
        PAPER, figure, f"AGE is RECENT once M1 >= r1 k_opt: greatest difference{where}", 0.0,
        tolerance=0.03,
    )  # fmt: skip
    if not any("age" in row for row in table.values()):
        return [
            each.with_measured(None, "this version has no age yet") for each in (theory, better)
        ]
    rows = list(table.values())
    above = [row for x, row in table.items() if x >= best]
    claims = [
        theory.with_measured(max(abs(row["age"] - row[THEORY]) for row in rows)),
        better.with_measured(
            min(row["age"] - max(row["recent"], row["until-expiry"]) for row in rows)
        ),
    ]
    if above:
        claims.append(same.with_measured(max(abs(row["age"] - row["recent"]) for row in above)))
    return claims
