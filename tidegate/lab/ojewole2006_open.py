"""What ojewole2006 leaves open: the importances of its tuples, and DGL's two constants.

Law: the values that the other figures use are found by these searches and by nothing else; the
charts show how much another choice would change.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tidegate.lab import charts
from tidegate.lab.comparisons import lead, table_of
from tidegate.lab.contenders import Contender, contenders, missing_note, takes
from tidegate.lab.figures import Figure, Findings, NumberTable, Record, Run, Scale
from tidegate.lab.ojewole2006_join import CONSTANTS, IMPORTANCE, LEADS, PAPER, join_run

SHARES = (0.01, 0.02, 0.05, 0.1, 0.2)
HIGHS = (10.0, 30.0, 100.0, 300.0, 1_000.0)
DECAYS = (0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
GAINS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
_COMPARED = ("random", "simp", "prob", "simpprob", "dimpprob", "dgl")
_SETTING = {"w": 400, "memory": 100, "domain": 100, "count_from": 800}


# --- importances --------------------------------------------------------------------------


def _importance_runs(scale: Scale) -> list[Run]:
    shares, highs = (SHARES[1:4], HIGHS[1:4]) if scale.quick else (SHARES, HIGHS)
    seeds = scale.seeds[:1] if scale.quick else scale.seeds[:5]
    return [
        join_run(each, _SETTING, seed, {"share": share, "high": high, "x": (share, high)}, chosen)
        for share in shares
        for high in highs
        for chosen in [{**IMPORTANCE, "share": share, "high": high}]
        for seed in seeds
        for each in contenders(_COMPARED, CONSTANTS)
    ]


def distance(row: Mapping[str, float], variant: str = "") -> float | None:
    """How far the leads of DGL at M = 100 are from the paper's: root of the mean square."""
    suffix = f" ({variant})" if variant else ""
    found = []
    for name, expected in LEADS.items():
        other = f"{name}{suffix}" if f"{name}{suffix}" in row else name
        measured = lead(row, f"dgl{suffix}", other)
        if measured is None:
            return None
        found.append((measured - expected) ** 2)
    return math.sqrt(sum(found) / len(found))


def _read_importances(records: list[Record], scale: Scale) -> Findings:
    table = table_of(records, "x")
    drawn, tables = [], []
    for variant, words in (("", "counts over full windows"), ("retained", "over retained tuples")):
        rows = [
            {
                "share": f"{share:.0%}",
                "high": high,
                "distance": far,
                "chosen": (share, high) == (IMPORTANCE["share"], IMPORTANCE["high"]),
            }
            for (share, high), row in table.items()
            if (far := distance(row, variant)) is not None
        ]
        if not rows:
            continue
        drawn.append(
            charts.heat(
                rows, x="share", y="high", value="distance", x_title="share of important tuples",
                y_title="their importance (others: 1)", value_title=["distance to the paper's",
                "leads,", words], low_is_good=True,
            )
        )  # fmt: skip
        cells = [[row["share"], f"{row['high']:g}", f"{row['distance']:.3f}"] for row in rows]
        tables.append(NumberTable(words, ["share", "importance", "distance"], cells))
    return Findings((), drawn, (), missing_note(_COMPARED), tables)


# --- DGL's constants ----------------------------------------------------------------------


def _constant_takers(scale: Scale) -> list[Contender]:
    if not (takes("dgl", "decay") and takes("dgl", "gain")):
        return []
    decays, gains = ((0.95, 0.99, 0.999), (0.1, 1.0, 3.0)) if scale.quick else (DECAYS, GAINS)
    extra: dict[str, Any] = {"statistics": "window"} if takes("dgl", "statistics") else {}
    return [
        Contender(f"{decay}, {gain}", "dgl", {"decay": decay, "gain": gain, **extra})
        for decay in decays
        for gain in gains
    ]


def _constant_runs(scale: Scale) -> list[Run]:
    seeds = scale.seeds[:1] if scale.quick else scale.seeds[:5]
    takers = [*_constant_takers(scale), *contenders(("dimpprob",))]
    return [join_run(each, _SETTING, seed, {"x": 0}) for seed in seeds for each in takers]


def _read_constants(records: list[Record], scale: Scale) -> Findings:
    row = table_of(records, "x").get(0, {})
    rows = []
    for taker in _constant_takers(scale):
        ahead = lead(row, taker.label, "dimpprob")
        if ahead is not None:
            constants = {name: taker.parameters[name] for name in ("decay", "gain")}
            rows.append({**constants, "lead": ahead, "chosen": constants == CONSTANTS["dgl"]})
    if not rows:
        return Findings(notes=missing_note(("dgl", "dimpprob")))
    best = max(rows, key=lambda each: each["lead"])
    chart = charts.heat(
        rows, x="decay", y="gain", value="lead", x_title="decay per instant without a result",
        y_title="gain per result", value_title=["lead of DGL", "over DIMPPROB"], number="+.3f",
    )  # fmt: skip
    sentence = (
        f"The best of these are decay {best['decay']:g} and gain {best['gain']:g}, "
        f"{best['lead']:+.1%} beside DIMPPROB; the paper has +3.2 %."
    )
    return Findings((), [chart], rows, [sentence])


_OPEN = {
    "streams": "N = 5,600, Zipf 1.0 and 0.0, domain 100",
    "w": "400",
    "M": "100, split evenly",
    "counted": "from t = 800 on",
    "seeds": "5 (1 with --quick)",
}

FIGURES = (
    Figure(
        PAPER, "Importances", "Which importances give the paper's leads",
        "Normal importance tuples dominate the input streams, while tuples with high importance "
        "occur infrequently. No numbers are given; we look for those that come nearest to the "
        "leads of figure 9.",
        _OPEN, _importance_runs, _read_importances,
    ),
    Figure(
        PAPER, "Constants", "DGL's gain and decay",
        "If a tuple produces an output, its priority is increased by an amount proportional to its "
        "importance, its expected matches and its remaining lifetime; otherwise it is decreased by "
        "a constant factor. Neither constant is given.",
        _OPEN, _constant_runs, _read_constants,
    ),
)  # fmt: skip
