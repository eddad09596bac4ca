"""What the figures of kwon2011 share: contenders, grids of runs, and tables read from them.

Law: all contenders see the same streams; a number is the mean over all seeds. EP is the paper's
rule (`fade=None`). RECENT is not in the paper: it stands beside the others because no figure shows
what patterns are good for without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidegate.lab import charts
from tidegate.lab.claims import Claim
from tidegate.lab.comparisons import Table, table_of, value_claim
from tidegate.lab.configuration import EXACT, Configuration
from tidegate.lab.figures import Chart, NumberTable, Record, Run, Scale, pivot
from tidegate.lab.kwon2011_streams import WINDOW, stream_names
from tidegate.lab.measure import TRAVELLING

PAPER = "kwon2011"
EP, OURS, RECENT = "arrival-order", "value", "recent"
OTHERS = ("prob", "output", "random")  # value-based and random, as in the paper
POLICIES: Mapping[str, Mapping[str, Any]] = {
    OURS: {}, EP: {"fade": None}, RECENT: {}, "prob": {}, "output": {}, "random": {}
}  # fmt: skip

# Which orders of streams occur; the paper does not say.
ALL_ORDERS, FEW_ORDERS = "all orders", "20 orders"
GUESSES: Mapping[str, Mapping[str, Any]] = {ALL_ORDERS: {}, FEW_ORDERS: {"distinct": 20}}

SETTINGS = {
    "streams": "5, each 10,000 tuples at 10 per second (2,000 and 3 seeds with --quick)",
    "window": "100 s on each stream",
    "memory": "per window, in tuples; 500 unless it varies",
    "keys": "unique; a key goes from stream to stream after 0 to 200 tuples of a stream",
    "orders": "all 325 orders of some of the streams, or 20 of them; uniform unless skew varies",
    "frequency-based": "prob: the product of the counts on the other streams",
    "EP": "arrival-order with fade=None, the paper's rule",
}


def tuples_of(scale: Scale) -> int:
    return 2_000 if scale.quick else 10_000


def configuration(
    arguments: Mapping[str, Any], memory: int, policy: str, seed: int
) -> Configuration:
    """One run on travelling keys; `memory` is that of each window."""
    streams = int(arguments.get("streams", 5))
    spec = {
        "on": "key", "time": "ts", "within": WINDOW, "streams": list(stream_names(streams)),
        "split": "even",
    }  # fmt: skip
    return Configuration(
        TRAVELLING, arguments, spec, policy, POLICIES.get(policy, {}), streams * memory, seed=seed
    )


def grid(
    places: Mapping[Any, tuple[Mapping[str, Any], int]],
    scale: Scale,
    guesses: Mapping[str, Mapping[str, Any]] = GUESSES,
    policies: Sequence[str] = (EXACT, *POLICIES),
) -> list[Run]:
    """Runs at each x, which is given as (arguments of the streams, memory per window)."""
    return [
        Run(
            configuration({"tuples": tuples_of(scale), **told, **arguments}, memory, policy, seed),
            {"x": x, "orders": guess, "policy": policy, "seed": seed},
        )
        for guess, told in guesses.items()
        for x, (arguments, memory) in places.items()
        for seed in scale.seeds
        for policy in policies
    ]


def tables_by(records: Sequence[Record], label: str, value: str = "size") -> dict[str, Table]:
    """For each value of a label, means by x and policy."""
    found = dict.fromkeys(record[label] for record in records)
    return {
        str(each): table_of([r for r in records if r[label] == each], "x", value) for each in found
    }


def shown(
    tables: Mapping[str, Table],
    label: str,
    x_title: str,
    y_title: str = "results",
    apart: bool = False,
) -> tuple[list[Chart], list[Record], list[NumberTable]]:
    """A chart and tables of numbers; one panel for each value of the label, or with `apart` one
    chart, where their x differ."""
    rows = [
        {label: name, "x": x, "policy": policy, "results": number}
        for name, table in tables.items()
        for x, row in table.items()
        for policy, number in row.items()
    ]
    panels = [[name] for name in tables] if apart else [list(tables)]
    drawn = [
        charts.lines(
            [row for row in rows if row[label] in names], x="x", y="results", x_title=x_title,
            y_title=y_title, facet=label if len(tables) > 1 else None,
        )
        for names in panels
    ]  # fmt: skip
    number = ",.0f" if y_title == "results" else ".2f"
    numbers = [
        pivot(table, x_title, f"{y_title}, {name}", number) for name, table in tables.items()
    ]
    return drawn, rows, numbers


def ahead(row: Mapping[str, float], others: Sequence[str] = OTHERS) -> float:
    """EP / the best of the others."""
    best = max(row[name] for name in others)
    return row[EP] / best if best > 0 else 1.0


_TOO_LITTLE = (
    "with 3 streams all 15 orders occur, and in a tenth of a window hardly a key completes; either "
    "way patterns say little"
)


def ep_claims(tables: Mapping[str, Table], figure: str, where: str, why: str) -> list[Claim]:
    """EP is ahead of value-based and random policies everywhere."""
    claims = []
    for name, table in tables.items():
        claim = Claim(
            PAPER, figure, f"EP / best of prob, output, random, the least over {where}, {name}",
            1.0, "at least",
        )  # fmt: skip
        worst = min(table, key=lambda x: ahead(table[x]))
        reason = f"the least is at {worst}: {_TOO_LITTLE if name == FEW_ORDERS else why}"
        claims.append(claim.with_measured(ahead(table[worst]), reason))
    return claims


def value_claims(
    tables: Mapping[str, Table], figure: str, where: str, why: str = ""
) -> list[Claim]:
    """VALUE is not behind the best named policy, for each table."""
    return [
        value_claim(table, PAPER, figure, f"{where}, {name}", why=why)
        for name, table in tables.items()
    ]


def versus_best(tables: Mapping[str, Table], x_title: str) -> NumberTable:
    """VALUE against the best named policy, setting by setting."""
    rows = []
    for name, table in tables.items():
        for x, row in table.items():
            named = {p: n for p, n in row.items() if p not in (OURS, EXACT)}
            best = max(named, key=lambda policy: named[policy])
            ratio = row[OURS] / named[best] if named[best] else float("nan")
            share = row[OURS] / row[EXACT] if row.get(EXACT) else float("nan")
            rows.append(
                [name, f"{x}", best, f"{named[best]:,.0f}", f"{row[OURS]:,.0f}", f"{ratio:.2f}",
                 f"{share:.1%}"]
            )  # fmt: skip
    columns = ["streams", x_title, "best named", "its results", "value", "ratio", "of exact"]
    return NumberTable("VALUE against the best named policy", columns, rows)


Reader = Callable[[list[Record], Scale], Any]
