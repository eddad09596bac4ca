"""Sampled averages beyond figures 8 and 9: the age model, ALLOC by error, and shed joins.

Law: what the paper names and omits ("results for the age-based model are similar"; a metric of
error for ALLOC), with streams and errors as in `srivastava2004_sampling`; and what an average over
a shed join is off by, on generated and on recorded streams. There an average is that of all results
of a run, and its error the difference to the exact join's, as a share of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tidegate.lab import charts
from tidegate.lab.claims import Claim
from tidegate.lab.comparisons import Table, table_of
from tidegate.lab.configuration import EXACT, Configuration
from tidegate.lab.contenders import Contender
from tidegate.lab.datasets import JOINS, VARIABLE, file_digest, folder_of
from tidegate.lab.figures import Figure, Findings, Record, Run, Scale, pivot
from tidegate.lab.measure import RECORDED
from tidegate.lab.paper_streams import TICKS
from tidegate.lab.srivastava2004_recall import PAPER, waiting_spec
from tidegate.lab.srivastava2004_sampling import (
    EQ,
    PPS,
    UNIFORM,
    chart_of,
    error_lines,
    valued_run,
)
from tidegate.planner.allocate import allocate
from tidegate.planner.error_models import SampledAverage, Sampling

_WINDOW, _HELD, _MATCHES = 500, 400.0, 5.0  # the stream of S1 comes at 0.8 of its rate
_TOLD = Contender(UNIFORM, UNIFORM, {"margin": 0, "matches": {"s1": _MATCHES, "s2": 0.0}})
_BY_AGE = (Contender(EQ, EQ), Contender(PPS, PPS), _TOLD)


# --- the age model -----------------------------------------------------------------------


def _age_run(scale: Scale, seed: int, taker: Contender, share: float, **values: Any) -> Run:
    memory = share * _HELD * (32 / 34 if taker.policy == UNIFORM else 1.0)
    tuples = 4_000 if scale.quick else 20_000
    configuration = Configuration(
        "valued_age_streams", {"shape": "INC", "tuples": tuples, **values},
        waiting_spec(_WINDOW * TICKS, on="key"), taker.policy, taker.parameters,
        max(1, round(memory)), 3 * _WINDOW * TICKS, seed,
    )  # fmt: skip
    return Run(configuration, {"policy": taker.label, "seed": seed})


def _labelled(run: Run, **labels: Any) -> Run:
    return Run(run.configuration, {**run.labels, **labels})


def _runs_age(scale: Scale) -> list[Run]:
    shares = (0.1, 0.5, 1.0) if scale.quick else (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9, 1.0)
    return [
        _labelled(_age_run(scale, seed, taker, share, valued=on, spread=100.0), x=share, on=on)
        for on in ("s1", "s2")
        for seed in scale.seeds
        for taker in _BY_AGE
        for share in shares
    ]


def _read_age(records: list[Record], scale: Scale) -> Findings:
    first, chart = chart_of([r for r in records if r["on"] == "s1"], "memory, share", True)
    second, other = chart_of([r for r in records if r["on"] == "s2"], "memory, share", True)
    names = ("UNIFORM / EQ at 10 % memory, x on S1", "UNIFORM / EQ at 50 % memory, x on S1")
    claims = [
        Claim(PAPER, "Age 8", names[0], 1.0, "at most").with_measured(
            first[0.1][UNIFORM] / first[0.1][EQ], _AGE_TEN
        ),
        Claim(PAPER, "Age 8", names[1], 1.0, "at least").with_measured(
            first[0.5][UNIFORM] / first[0.5][EQ], _AGE_HALF
        ),
        Claim(PAPER, "Age 8", "error of UNIFORM at 100 %", 0.001, "at least").with_measured(
            first[1.0][UNIFORM]
        ),
        Claim(PAPER, "Age 8", "x on S2: EQ / UNIFORM at 10 %", 0.7, "at most").with_measured(
            second[0.1][EQ] / second[0.1][UNIFORM]
        ),
    ]
    tables = [
        pivot(first, "memory", "error of the average, x on S1", ".4f"),
        pivot(second, "memory", "error of the average, x on S2", ".4f"),
    ]
    return Findings(claims, [chart, other], [], [_NO_SIZES], tables)


_NO_SIZES = (
    "Every key of S1 is new, so that PPS has nothing to tell sizes by and is EQ with other numbers."
)
_AGE_TEN = (
    "matches come late on this curve, so a tuple of UNIFORM waits nearly its whole life for any"
)
_AGE_HALF = "a tuple has five results on average but not exactly; UNIFORM misses the sixth"


def _runs_age_9(scale: Scale) -> list[Run]:
    spreads = (0.25, 1.0) if scale.quick else (0.1, 0.25, 0.5, 0.75, 1.0)
    return [
        _labelled(_age_run(scale, seed, taker, 0.1, valued="s1", spread=100.0 * spread), x=spread)
        for seed in scale.seeds
        for taker in _BY_AGE
        for spread in spreads
    ]


def _read_age_9(records: list[Record], scale: Scale) -> Findings:
    table, chart = chart_of(records, "standard deviation / mean of x", False)
    low, high = table[min(table)], table[max(table)]
    claims = [
        Claim(PAPER, "Age 9", f"{name}: error grows with the variance", 2.0, "at least")
        .with_measured(high[name] / low[name])
        for name in (EQ, PPS)
    ]  # fmt: skip
    tables = [pivot(table, "sigma / mu", "error of the average", ".4f")]
    return Findings(claims, [chart], [], [], tables)


# --- ALLOC by error ----------------------------------------------------------------------

_KINDS = ("s1", "s2")  # the stream with the averaged column, of each join
_TOTAL = 0.2  # of what both joins need
_SAMPLED: Sampling = "pps-cluster"


def _shares(skew: float) -> Any:
    shares = 1.0 / np.arange(1, 51) ** skew
    return shares / shares.sum()


def _models(skew: float) -> dict[str, SampledAverage]:
    own = _shares(skew)
    return {
        kind: SampledAverage(_HELD * own, 4.0 * _WINDOW * own, 1.0, _SAMPLED, shared=kind == "s1")
        for kind in _KINDS
    }


def _divisions(skew: float) -> dict[str, dict[str, int]]:
    """Memory by join, as ALLOC and as PROP divide it."""
    memory = _TOTAL * 2 * _HELD
    grid = np.linspace(2, _HELD, 100)
    curves = {kind: model.points(grid.tolist()) for kind, model in _models(skew).items()}
    found = allocate(curves, memory, metric="error")
    return {"alloc": dict(found.memory), "prop": {kind: round(memory / 2) for kind in _KINDS}}


def _runs_alloc(scale: Scale) -> list[Run]:
    runs = []
    for skew in (1.0, 2.0) if scale.quick else (0.5, 1.0, 1.5, 2.0):
        for way, memories in _divisions(skew).items():
            for kind in _KINDS:
                for seed in scale.seeds:
                    run = valued_run(
                        scale, seed, Contender(way, PPS), memories[kind] / _HELD, {},
                        correlation="direct", spread=100.0, valued=kind, skew=skew,
                    )  # fmt: skip
                    runs.append(_labelled(run, x=skew, kind=kind, held=memories[kind]))
    return runs


def _read_alloc(records: list[Record], scale: Scale) -> Findings:
    by_kind = {
        kind: table_of([r for r in records if r["kind"] == kind], "x", "aggregation_error")
        for kind in _KINDS
    }
    worst: Table = {
        skew: {way: max(by_kind[kind][skew][way] for kind in _KINDS) for way in ("alloc", "prop")}
        for skew in sorted(by_kind[_KINDS[0]])
    }
    rows = [
        {"x": skew, "policy": way, "error": value}
        for skew, row in worst.items()
        for way, value in row.items()
    ]
    chart = charts.lines(
        rows, x="x", y="error", x_title="Zipf parameter", y_title="greatest error of both joins",
        percent=True,
    )  # fmt: skip
    claims = [
        Claim(
            PAPER, "Alloc error", f"ALLOC / PROP, greatest error, Z = {skew:g}", 0.9, "at most",
        ).with_measured(row["alloc"] / row["prop"])
        for skew, row in worst.items()
    ]  # fmt: skip
    tables = [pivot(worst, "Z", "greatest error of both joins", ".4f")]
    for kind in _KINDS:
        tables.append(pivot(by_kind[kind], "Z", f"error of the join with x on {kind}", ".4f"))
    return Findings(claims, [chart], [], [], tables)


# --- averages over shed joins ------------------------------------------------------------

_CONTENDERS = (
    Contender(EQ, EQ), Contender(PPS, PPS), Contender(UNIFORM, UNIFORM),
    Contender("random", "random"), Contender("prob", "prob"), Contender("value", "value"),
)  # fmt: skip
_BY_CHANCE = (EQ, PPS, UNIFORM, "random")
_SHARES_OF_MEMORY = (0.1, 0.2, 0.4)
_AVERAGED = ("nasa-url", "nasa-host", "fines-sent")
_QUICK_ROWS = 40_000


def _generated(scale: Scale) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """The mean of x doubles from the most frequent key of S1 to the rarest."""
    for kind in ("inverse", "direct"):
        for seed in scale.seeds:
            yield kind, seed, {"correlation": kind, "spread": 20.0, "valued": "s1", "rise": 1.0}


def _runs_shed(scale: Scale) -> list[Run]:
    runs = []
    exact = (Contender(EXACT, EXACT), None)
    for kind, seed, values in _generated(scale):
        for taker, share in [exact, *[(t, s) for s in _SHARES_OF_MEMORY for t in _CONTENDERS]]:
            run = valued_run(scale, seed, taker, share, {}, **values)
            runs.append(_labelled(run, join=f"generated, {kind}", x=share))
    folder = folder_of(scale.data)
    for name in _AVERAGED:
        join = JOINS[name]
        if folder is None or not (folder / join.file).is_file():
            continue
        arguments: dict[str, Any] = {"name": name, "digest": file_digest(folder / join.file)}
        if scale.quick:
            arguments["rows"] = _QUICK_ROWS
        split: Any = "even"
        if join.waiting is not None:
            split = {each: float(each == join.waiting) for each in join.spec["streams"]}
        spec = {**join.spec, "streams": list(join.spec["streams"]), "split": split}
        for taker, share in [exact, *[(t, s) for s in _SHARES_OF_MEMORY for t in _CONTENDERS]]:
            runs += [
                Run(
                    Configuration(
                        RECORDED, arguments, spec, taker.policy, taker.parameters, share, seed=seed
                    ),
                    {"join": name, "x": share, "policy": taker.label, "seed": seed},
                )
                for seed in (scale.seeds if taker.policy in _BY_CHANCE else (0,))
            ]
    return runs


def _read_shed(records: list[Record], scale: Scale) -> Findings:
    claims, tables, drawn = [], [], []
    for name in dict.fromkeys(record["join"] for record in records):
        errors = _errors([record for record in records if record["join"] == name])
        table = _mean_absolute(errors)
        least = table[min(table)]
        best = min(least[each] for each in (EQ, PPS))
        worst = max(least[each] for each in ("prob", "value"))
        claims.append(
            Claim(
                PAPER, "Shed", f"{name}: best sample / worst of PROB and VALUE, error at 10 %", 1.0,
                "at most",
            ).with_measured(best / worst if worst else 1.0, _WHY_SHED)
        )  # fmt: skip
        drawn.append(error_lines(table, f"memory, share of the window ({name})", True))
        tables.append(pivot(table, "memory", f"{name}: error of the average", ".1%"))
        tables.append(
            pivot(_mean(errors), "memory", f"{name}: its mean over seeds, signed", "+.1%")
        )
    notes = [] if folder_of(scale.data) else [_NO_DATA]
    return Findings(claims, drawn, [], notes, tables)


_WHY_SHED = "here the policy keeps tuples by something that has little to do with the averaged x"
_NO_DATA = (
    f"The recorded data is not here. Name its folder with --data, or in the variable {VARIABLE}."
)


def _errors(records: Sequence[Record]) -> dict[tuple[float, str], list[float]]:
    """Signed relative errors by memory and policy."""
    truths = {r["seed"]: r["average"] for r in records if r["policy"] == EXACT}
    found: dict[tuple[float, str], list[float]] = {}
    for record in records:
        if record["policy"] != EXACT:
            truth = truths.get(record["seed"], next(iter(truths.values())))
            error = record["average"] / truth - 1.0
            found.setdefault((record["x"], record["policy"]), []).append(error)
    return found


def _mean_absolute(errors: dict[tuple[float, str], list[float]]) -> Table:
    return _table({at: [abs(error) for error in each] for at, each in errors.items()})


def _mean(errors: dict[tuple[float, str], list[float]]) -> Table:
    return _table(errors)


def _table(errors: dict[tuple[float, str], list[float]]) -> Table:
    table: Table = {}
    for (share, policy), each in sorted(errors.items()):
        table.setdefault(share, {})[policy] = float(np.mean(each))
    return table


_SETTINGS = {
    "streams": "as in figures 7 to 9: r1 = 1, r2 = 5 (0.8 of it in fact), window of S1 500",
    "x": "normal, mean 100, standard deviation 100 but in Age 9",
    "UNIFORM": "32/34 of the tuples, margin 0, told that a tuple has 5 results",
    "length": "20,000 tuples of S1 (4,000 with --quick)",
    "seeds": "10 (3 with --quick)",
}

FIGURES = (
    Figure(
        PAPER, "Age 8", "Error of a sampled average and memory, age model",
        "Results for the age-based model are similar and are omitted.",
        _SETTINGS | {"curve": "increasing, p(k) ~ k^2"}, _runs_age, _read_age,
    ),
    Figure(
        PAPER, "Age 9", "Error and the variance of the column, age model",
        "The same.", _SETTINGS | {"curve": "increasing", "memory": "10 %"}, _runs_age_9,
        _read_age_9,
    ),
    Figure(
        PAPER, "Alloc error", "Memory across joins by error",
        "ALLOC minimises the greatest error of all joins, whatever the metric; only recall is "
        "shown.",
        _SETTINGS | {
            "joins": "two of direct correlation, x on S1 and S2; PPS-CLUSTER; memory 20 % of both",
            "curves": "errors of `planner.error_models`, from rates and frequencies",
        },
        _runs_alloc, _read_alloc,
    ),
    Figure(
        PAPER, "Shed", "An average over a shed join",
        "A random sample may be preferable to a larger but arbitrary subset (section 1).",
        _SETTINGS | {
            "x": "normal, standard deviation 20, mean from 100 (the most frequent key) to 200",
            "average": "over all results from t = 1,500 on; on recorded data over all, of the "
            "importance of the first stream's tuples",
            "recorded": "nasa-url, nasa-host, fines-sent: all rows (the first 40,000 with --quick)",
        },
        _runs_shed, _read_shed,
    ),
)  # fmt: skip
