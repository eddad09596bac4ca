"""CPU budgets on recorded data: what 25, 50 and 75 % of the needed comparisons keep.

Law: 100 % are the comparisons of the full join without an index. Random drop gets the same fuel,
buffer by buffer; a buffer is a basic window long. Without the data nothing is measured and nothing
is claimed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tidegate as tg
from tidegate.lab import charts
from tidegate.lab.claims import Claim
from tidegate.lab.datasets import JOINS, VARIABLE, folder_of, recorded_streams
from tidegate.lab.figures import Figure, Findings, NumberTable, Record, Scale
from tidegate.lab.gedik2005 import ADAPTATIONS, DROP, OURS, PAPER, RATE
from tidegate.lab.gedik2005_streams import randomly_dropped

SHARES = (0.25, 0.5, 0.75)
NAMES = ("nasa-host", "bike-trips", "fines-sent")
_PARTS = 20  # basic windows of the longest window
_ROWS, _QUICK_ROWS = 60_000, 20_000
_CONTENDERS = (DROP, RATE, OURS)


def _plain(streams: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The same streams with times as integers, in microseconds, in a column `t`."""
    return {
        name: pa.table(
            {"t": table["ts"].cast(pa.timestamp("us")).cast(pa.int64()), "key": table["key"]}
        )
        for name, table in streams.items()
    }


def _spec(name: str) -> tg.JoinSpec:
    """The recorded join over these, without an index and without importance."""
    options: dict[str, Any] = dict(JOINS[name].spec)
    timed = tg.JoinSpec(**{k: options[k] for k in ("on", "time", "within", "streams")})
    within = {s: w.size for s, w in zip(timed.streams, timed.windows, strict=True)}
    return tg.JoinSpec(
        on="key", time="t", within=within, streams=timed.streams, index="nested-loop"
    )


def kept(name: str, folder: str, rows: int) -> dict[float, dict[str, float]]:
    """The share of the results that each contender keeps, by share of the needed fuel."""
    tables, spec = _plain(recorded_streams(name, folder, rows)), _spec(name)
    exact = tg.join(tables, spec).stats
    windows = tuple(window.size for window in spec.windows)
    basic = -(-max(windows) // _PARTS)
    times = [pc.min_max(table["t"]).as_py() for table in tables.values()]
    span = max(t["max"] for t in times) - min(t["min"] for t in times)
    found: dict[float, dict[str, float]] = {}
    for share in SHARES:
        rate = share * exact["comparisons"] / span  # per microsecond
        left = randomly_dropped(tables, (windows[0], windows[1]), rate * basic, 0, basic)
        found[share] = {DROP: tg.join(left, spec).stats["rows_out"] / exact["rows_out"]}
        for each in (RATE, OURS):
            cpu = tg.Cpu(rate, adapt_every=5 * basic, basic_window=basic, **ADAPTATIONS[each])
            stats = tg.join(tables, spec.replace(cpu=cpu)).stats
            found[share][each] = stats["rows_out"] / exact["rows_out"]
    return found


def _read(records: list[Record], scale: Scale) -> Findings:
    folder = folder_of(scale.data)
    names = [n for n in NAMES if folder is not None and (folder / JOINS[n].file).is_file()]
    if not names:
        sentence = (
            "The recorded data is not here. Name its folder with --data, or in the variable "
            f"{VARIABLE}, to fill this table."
        )
        return Findings(notes=[sentence])
    claims, tables, rows = [], [], []
    for name in names:
        found = kept(name, str(folder), _QUICK_ROWS if scale.quick else _ROWS)
        gains = [row[OURS] / row[DROP] for row in found.values()]
        claims.append(
            Claim(
                PAPER, "Table", f"knapsack / random drop, least of 25, 50, 75 % fuel, {name}", 1.0,
                "at least", ours=True,
            ).with_measured(float(np.min(gains)))
        )  # fmt: skip
        numbers = [[each, *[f"{row[each]:.1%}" for row in found.values()]] for each in _CONTENDERS]
        title = f"{name}: results kept; {JOINS[name].about}"
        columns = ["contender / fuel", *[f"{share:.0%}" for share in SHARES]]
        tables.append(NumberTable(title, columns, numbers))
        rows += [
            {"join": name, "x": share, "policy": each, "kept": value}
            for share, row in found.items()
            for each, value in row.items()
        ]
    chart = charts.lines(
        rows, x="x", y="kept", x_title="fuel, share of the full join's comparisons",
        y_title="results kept", percent=True, x_percent=True, facet="join",
    )  # fmt: skip
    return Findings(claims, [chart], rows, [], tables)


FIGURES = (
    Figure(
        PAPER, "Table", "CPU budgets on recorded data",
        "No paper: joins over data that others recorded, against dropping tuples at random.",
        {
            "data": "NASA web server, August 1995; Bay Area bike share 2014; Italian traffic fines",
            "fuel": "25, 50, 75 % of the comparisons of the full join, evenly over time",
            "basic windows": "20 in the longest window; adaptation every 5",
            "rows": f"the first {_ROWS:,} of each file ({_QUICK_ROWS:,} with --quick)",
        },
        lambda scale: [], _read,
    ),
)  # fmt: skip
