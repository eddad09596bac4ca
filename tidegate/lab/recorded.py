"""Recorded data: how much importance each policy keeps at 5, 10, 20 and 40 % of the memory.

Law: 100 % is the most that the exact join ever retains; every policy gets the same budget and the
same rows. Without the data nothing is measured and nothing is claimed.
"""

from __future__ import annotations

from typing import Any

from tidegate.lab import charts
from tidegate.lab.claims import Claim
from tidegate.lab.comparisons import Table, table_of, value_claim
from tidegate.lab.configuration import EXACT, Configuration
from tidegate.lab.contenders import Contender, contenders, missing_note
from tidegate.lab.datasets import JOINS, VARIABLE, RecordedJoin, file_digest, folder_of
from tidegate.lab.figures import Figure, Findings, NumberTable, Record, Run, Scale, pivot
from tidegate.lab.measure import RECORDED

PAPER = "recorded"
SHARES = (0.05, 0.1, 0.2, 0.4)
POLICIES = (
    "random", "recent", "until-expiry", "simp", "prob", "output", "simpprob", "dimpprob", "dgl",
    "age", "value",
)  # fmt: skip
_QUICK_ROWS = 40_000
# What is known of the reason where VALUE is behind.
_WHY = {
    "bike-reuse": "neither the bike's count nor the age of a trip nor the wait says much about "
    "when a bike is used again (0.04 nats a hit, where bursts of hosts give 1.6)",
}


def _split(join: RecordedJoin) -> Any:
    """All memory to the stream that waits; evenly where both do."""
    if join.waiting is None:
        return "even"
    return {name: float(name == join.waiting) for name in join.spec["streams"]}


def _runs(scale: Scale) -> list[Run]:
    folder = folder_of(scale.data)
    runs: list[Run] = []
    for name, join in JOINS.items():
        if folder is None or not (folder / join.file).is_file():
            continue
        arguments: dict[str, Any] = {"name": name, "digest": file_digest(folder / join.file)}
        if scale.quick:
            arguments["rows"] = _QUICK_ROWS
        spec = {**join.spec, "streams": list(join.spec["streams"]), "split": _split(join)}
        takers: list[tuple[Contender, float | None]] = [(Contender(EXACT, EXACT), None)]
        takers += [(each, share) for share in SHARES for each in contenders(POLICIES)]
        runs += [
            Run(
                Configuration(RECORDED, arguments, spec, each.policy, each.parameters, share),
                {"join": name, "x": share, "policy": each.label},
            )
            for each, share in takers
        ]
    return runs


def _read(records: list[Record], scale: Scale) -> Findings:
    if not records:
        sentence = (
            "The recorded data is not here. Name its folder with --data, or in the variable "
            f"{VARIABLE}, to fill this table."
        )
        return Findings(notes=[sentence])
    claims: list[Claim] = []
    tables: list[NumberTable] = []
    rows: list[Record] = []
    for name in dict.fromkeys(record["join"] for record in records):
        kept = _kept([record for record in records if record["join"] == name])
        why = _WHY.get(name, "")
        claims.append(value_claim(kept, PAPER, "Table", f"memory, {name}", why=why))
        tables.append(pivot(kept, "memory", f"{name}: {JOINS[name].about}", ".1%"))
        rows += [
            {"join": name, "x": x, "policy": policy, "kept": share}
            for x, row in kept.items()
            for policy, share in row.items()
        ]
    chart = charts.lines(
        rows, x="x", y="kept", x_title="memory, share of the exact join's peak",
        y_title="importance kept", percent=True, x_percent=True, facet="join", columns=3,
    )  # fmt: skip
    return Findings(claims, [chart], rows, missing_note(POLICIES), tables)


def _kept(records: list[Record]) -> Table:
    table = table_of(records, "x")
    exact = table.pop(None)[EXACT]
    return {
        share: {policy: importance / exact for policy, importance in row.items()}
        for share, row in sorted(table.items())
    }


FIGURES = (
    Figure(
        PAPER, "Table", "Importance kept on recorded data",
        "No paper: these are joins over data that others recorded, with a match structure of their "
        "own (see the claims for VALUE).",
        {
            "data": "NASA web server, 1 August 1995; Bay Area bike share 2014; Italian traffic "
            "fines",
            "memory": "5, 10, 20, 40 % of the most that the exact join retains",
            "importance": "our choice, named with each join",
            "seeds": "none: the data is what it is, and a seed would change only RANDOM's choices",
            "rows": "all (the first 40,000 of each file with --quick)",
        },
        _runs, _read,
    ),
)  # fmt: skip
