"""CPU budgets on recorded data: what 25, 50 and 75 % of the needed comparisons keep.

Law: 100 % are the comparisons of the full join without an index. Random drop gets the same fuel,
buffer by buffer; a buffer is a basic window long. Without the data nothing is measured and nothing
is claimed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

import tidegate as tg
from tidegate.lab import charts
from tidegate.lab.claims import Claim
from tidegate.lab.datasets import JOINS, VARIABLE, folder_of, recorded_streams
from tidegate.lab.figures import Figure, Findings, NumberTable, Record, Scale
from tidegate.lab.gedik2005 import ADAPTATIONS, BEST, DROP, OURS, PAPER, RATE
from tidegate.lab.gedik2005_best import best_afterwards, comparisons_by_window, results_by_window
from tidegate.lab.gedik2005_streams import randomly_dropped
from tidegate.lab.kang2003_allocations import ALLOCATIONS, results_of, searching

SHARES = (0.25, 0.5, 0.75)
NAMES = ("nasa-host", "bike-trips", "fines-sent")
LOANS = "loan-work"
_LOAN_FILES = {"scheduled": "loan_work_scheduled.parquet", "started": "loan_work_started.parquet"}
_MONTH = 30 * 24 * 3600 * 10**6
_PARTS = 20  # basic windows of the longest window
_ROWS, _QUICK_ROWS = 60_000, 20_000
_CONTENDERS = (DROP, *ALLOCATIONS, RATE, OURS, BEST)

Tables = dict[str, pa.Table]


def _plain(streams: Mapping[str, pa.Table]) -> Tables:
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


def _loans(folder: Path, rows: int) -> tuple[Tables, tg.JoinSpec]:
    """Work that is started up to 30 days after it was scheduled; `rows` of the later file."""
    tables = {s: parquet.read_table(folder / file) for s, file in _LOAN_FILES.items()}
    started = tables["started"].slice(0, rows)
    last = pc.max(started["t"])
    scheduled = tables["scheduled"]
    tables = {
        "scheduled": scheduled.filter(pc.less_equal(scheduled["t"], last)),
        "started": started,
    }
    spec = tg.JoinSpec(
        on="key", time="t", within={"scheduled": _MONTH, "started": 0},
        streams=tuple(tables), index="nested-loop",
    )  # fmt: skip
    return {s: pa.table({"t": t["t"], "key": t["k"]}) for s, t in tables.items()}, spec


def loaded(name: str, folder: Path, rows: int) -> tuple[Tables, tg.JoinSpec]:
    """The streams of a recorded join, with times `t` from 0 on, and the join."""
    if name == LOANS:
        tables, spec = _loans(folder, rows)
    else:
        tables, spec = _plain(recorded_streams(name, str(folder), rows)), _spec(name)
    first = min(pc.min(table["t"]).as_py() for table in tables.values())
    return {
        stream: table.set_column(0, "t", pc.subtract(table["t"], first)).append_column(
            f"row_{side}", pa.array(np.arange(table.num_rows))
        )
        for side, (stream, table) in enumerate(tables.items())
    }, spec


def is_here(name: str, folder: Path) -> bool:
    """Are the files of a join in the folder?"""
    files = _LOAN_FILES.values() if name == LOANS else (JOINS[name].file,)
    return all((folder / file).is_file() for file in files)


def kept(name: str, folder: Path, rows: int) -> dict[float, dict[str, float]]:
    """The share of the results that each contender keeps, by share of the needed fuel."""
    tables, spec = loaded(name, folder, rows)
    exact = tg.join(tables, spec)
    windows = (spec.windows[0].size, spec.windows[1].size)
    basic = -(-max(windows) // _PARTS)
    span = max(pc.max(table["t"]).as_py() for table in tables.values())
    cut = (windows, basic, 5 * basic, span // (5 * basic) + 1)
    times = ("t", f"t_{spec.streams[1]}")
    by_window = (
        results_by_window(exact.table.rename_columns({times[1]: "t_right"}), *cut),
        comparisons_by_window(tables, *cut),
    )
    found: dict[float, dict[str, float]] = {}
    for share in SHARES:
        rate = share * exact.stats["comparisons"] / span  # per microsecond
        left = randomly_dropped(tables, windows, rate * basic, 0, basic)
        results = {DROP: float(tg.join(left, spec).stats["rows_out"])}
        for each in ALLOCATIONS:
            masks = searching(tables, windows, rate * basic, each, buffer=basic)
            pairs = results_of(exact.table, ("row_0", "row_1"), times, masks)
            results[each] = float(sum(int(mask.sum()) for mask in pairs))
        for each in (RATE, OURS):
            cpu = tg.Cpu(rate, adapt_every=5 * basic, basic_window=basic, **ADAPTATIONS[each])
            results[each] = float(tg.join(tables, spec.replace(cpu=cpu)).stats["rows_out"])
        results[BEST] = float(best_afterwards(*by_window, rate * 5 * basic).sum())
        found[share] = {each: n / exact.stats["rows_out"] for each, n in results.items()}
    return found


def _read(records: list[Record], scale: Scale) -> Findings:
    folder = folder_of(scale.data)
    names = [n for n in (*NAMES, LOANS) if folder is not None and is_here(n, folder)]
    if folder is None or not names:
        sentence = (
            "The recorded data is not here. Name its folder with --data, or in the variable "
            f"{VARIABLE}, to fill this table."
        )
        return Findings(notes=[sentence])
    claims, tables, rows = [], [], []
    for name in names:
        found = kept(name, folder, _QUICK_ROWS if scale.quick else _ROWS)
        gains = [row[OURS] / row[DROP] for row in found.values()]
        claims.append(
            Claim(
                PAPER, "Table", f"knapsack / random drop, least of 25, 50, 75 % fuel, {name}", 1.0,
                "at least", ours=True,
            ).with_measured(float(np.min(gains)))
        )  # fmt: skip
        numbers = [[each, *[f"{row[each]:.1%}" for row in found.values()]] for each in _CONTENDERS]
        about = "work starts up to 30 days after it was scheduled"
        about = about if name == LOANS else JOINS[name].about
        title = f"{name}: results kept; {about}"
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
            "data": "NASA web server, August 1995; Bay Area bike share 2014; Italian traffic fines"
            "; work on loans of a Dutch bank, 2012",
            "contenders": "random drop; the allocations of kang2003, section 5.2.1 (A is the first "
            "stream); ours; the best plan with the same basic windows, known afterwards",
            "fuel": "25, 50, 75 % of the comparisons of the full join, evenly over time",
            "basic windows": "20 in the longest window; adaptation every 5",
            "rows": f"the first {_ROWS:,} of each file ({_QUICK_ROWS:,} with --quick)",
        },
        lambda scale: [], _read,
    ),
)  # fmt: skip
