"""srivastava2004: examples 3.3 and 3.4, and the recall of AGE on synthetic curves in figure 7.

Law: the examples are played to the letter; the streams of figure 7 are drawn as section 6.2.1 says,
word by word, and where its words and its numbers differ a note says so.
"""

from __future__ import annotations

from typing import Any

from tidegate.lab import charts
from tidegate.lab.age_model import THEORY, AgeModel
from tidegate.lab.claims import Claim
from tidegate.lab.comparisons import Table, table_of
from tidegate.lab.configuration import EXACT, Configuration
from tidegate.lab.contenders import Contender, missing_note
from tidegate.lab.figures import Figure, Findings, NumberTable, Record, Run, Scale, pivot
from tidegate.lab.paper_streams import TICKS, age_curve
from tidegate.lab.srivastava2004_recall import (
    BASELINES,
    OTHERS,
    PAPER,
    age_claims,
    age_takers,
    recall_rows,
    recall_table,
    value_claims,
    waiting_spec,
)

# --- examples 3.3 and 3.4 -----------------------------------------------------------------

_UNITS, _BEFORE = 3_100, 100


def _example(
    name: str, curve: tuple[int, ...], memory: int, expected: float, states: str
) -> Figure:
    def runs(scale: Scale) -> list[Run]:
        takers = age_takers(list(curve), TICKS, BASELINES)
        spec = waiting_spec(len(curve) * TICKS, on="key")
        arguments = {"curve": list(curve), "tuples": _UNITS}
        return [
            Run(
                Configuration(
                    "scripted_streams", arguments, spec, each.policy, each.parameters, memory,
                    _BEFORE * TICKS,
                ),
                {"x": 0, "policy": each.label},
            )
            for each in takers
        ]  # fmt: skip

    def read(records: list[Record], scale: Scale) -> Findings:
        rates = {
            policy: size / (_UNITS - _BEFORE)
            for policy, size in table_of(records, "x", "size")[0].items()
        }
        claim = Claim(PAPER, name, "AGE: results per unit of time", expected, tolerance=0.01)
        done = claim.with_measured(rates.get("age"), "this version has no age yet")
        rows = [{"policy": policy, "rate": round(rate, 3)} for policy, rate in rates.items()]
        chart = charts.bars(rows, x="rate", y="policy", x_title="results per unit of time")
        return Findings([done], [chart] if rows else [], rows, missing_note(("age",)))

    settings = {
        "age curve": ", ".join(f"p({k})={p}" for k, p in enumerate(curve, start=1)),
        "W1": str(len(curve)),
        "M1": f"{memory} tuple" + "s" * (memory > 1),
        "counted": f"{_UNITS - _BEFORE:,} units of time, after {_BEFORE}",
    }
    return Figure(PAPER, name, f"AGE with M1 = {memory}", states, settings, runs, read)


# --- figure 7 -----------------------------------------------------------------------------

_CURVES = ("INC", "DEC", "BELL")
_WINDOW, _BUCKETS = 500, 20
_HELD = 0.8 * _WINDOW  # tuples in the window: the streams come at 0.8 of the rate
_SHARES_7 = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def _curve_model(shape: Any) -> AgeModel:
    return AgeModel(5.0 * age_curve(shape, _BUCKETS), _WINDOW / _BUCKETS, 0.8)


def _runs_7(scale: Scale) -> list[Run]:
    shares = (0.1, 0.3, 0.5, 0.7) if scale.quick else _SHARES_7
    tuples = 4_000 if scale.quick else 20_000
    seeds = scale.seeds[:1] if scale.quick else scale.seeds
    runs = []
    for shape in _CURVES:
        curve = [round(float(p), 6) for p in _curve_model(shape).curve]
        takers = age_takers(curve, _WINDOW * TICKS // _BUCKETS, (*BASELINES, *OTHERS, "prob"))
        for seed in seeds:
            settings: list[tuple[Contender, int | None, float]]
            settings = [(Contender(EXACT, EXACT), None, 1.0)]
            settings += [(each, round(x * _HELD), x) for x in shares for each in takers]
            runs += [_age_run(shape, tuples, seed, *setting) for setting in settings]
    return runs


def _age_run(
    shape: str, tuples: int, seed: int, taker: Contender, memory: int | None, x: float
) -> Run:
    configuration = Configuration(
        "age_streams",
        {"shape": shape, "tuples": tuples},
        waiting_spec(_WINDOW * TICKS, on="key"),
        taker.policy,
        taker.parameters,
        memory,
        count_from=2 * _WINDOW * TICKS,
        seed=seed,
    )
    return Run(configuration, {"x": x, "policy": taker.label, "curve": shape, "seed": seed})


def _read_7(records: list[Record], scale: Scale) -> Findings:
    claims: list[Claim] = []
    rows: list[Record] = []
    tables: list[NumberTable] = []
    combined: Table = {}
    for shape in _CURVES:
        model = _curve_model(shape)
        table = recall_table([row for row in records if row["curve"] == shape])
        combined |= {f"{shape} {x:.0%}": dict(row) for x, row in table.items()}
        for x, row in table.items():
            row[THEORY] = model.recall(x * _HELD)
        claims += age_claims(table, "Fig. 7", model.best_age / _WINDOW, shape)
        claims += _shape_claims(table, shape)
        rows += recall_rows(table, curve=shape)
        tables.append(pivot(table, "memory", f"recall, {shape}", ".3f"))
    claims += value_claims(combined, "Fig. 7", "curves and memory")
    chart = charts.lines(
        rows, x="x", y="recall", x_title="memory, share of the window", y_title="recall",
        percent=True, x_percent=True, facet="curve",
    )  # fmt: skip
    notes = [*missing_note(("age", *OTHERS, "prob")), _RATE_NOTE]
    return Findings(claims, [chart], rows, notes, tables)


_RATE_NOTE = (
    "The paper draws the time between arrivals uniformly from [1/2r, 2/r], whose mean is 1.25/r: "
    "its streams come at 0.8 of the rate that it names. So the window of 500 units holds 400 "
    "tuples on average, which is what 100 % memory means here."
)


def _shape_claims(table: Table, shape: str) -> list[Claim]:
    """What the paper says of one curve: AGE far ahead on INC, the same as RECENT on DEC."""
    middle = table[0.5]
    if "age" not in middle:
        return []
    if shape == "INC":
        claim = Claim(PAPER, "Fig. 7", "INC: AGE / RECENT at 50 % memory", 2.0, "at least")
        return [claim.with_measured(middle["age"] / middle["recent"])]
    if shape == "DEC":
        claim = Claim(PAPER, "Fig. 7", "DEC: AGE / RECENT at 50 % memory", 1.0, tolerance=0.02)
        return [claim.with_measured(middle["age"] / middle["recent"])]
    claim = Claim(PAPER, "Fig. 7", "BELL: AGE - RECENT at 30 % memory", 0.1, "at least")
    return [claim.with_measured(table[0.3]["age"] - table[0.3]["recent"])]


FIGURES = (
    _example(
        "Example 3.3", (1, 1, 2, 1), 1, 4 / 3,
        "k_opt = 3; strategy 1 produces 4 join tuples every 3 time units and is optimal.",
    ),
    _example(
        "Example 3.4", (3, 0, 2), 2, 4.0,
        "A curve with a minimum: the greedy rule reaches the optimum of 4 join tuples per time "
        "unit, where keeping every tuple for 2 units gives 3.",
    ),
    Figure(
        PAPER, "Fig. 7", "Recall on synthetic age curves",
        "INC: AGE significantly outperforms RECENT. DEC: AGE is RECENT. BELL: AGE outperforms "
        "RECENT until M1 reaches r1 k_opt, then both are the same.",
        {
            "streams": "r1 = 1, r2 = 5 as in the paper (0.8 of it in fact); n1 = 5",
            "curves": "INC k^2, DEC (m-k)^2, BELL both halves; m = 20 buckets",
            "windows": "S1: 500; S2: none",
            "length": "20,000 tuples of S1 (4,000 with --quick), counted from t = 1,000 on",
            "seeds": "10 (1 with --quick)",
        },
        _runs_7, _read_7,
    ),
)  # fmt: skip
