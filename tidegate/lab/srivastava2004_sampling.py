"""srivastava2004: the error of sampled averages, figures 8 and 9, and x on the other stream.

Law: streams and averages are those of sections 6.2.3 and 6.2.4. UNIFORM guesses the number of
results by its mean, as the paper does (margin=0), and has 32/34 of the tuples, because the paper
charges it two bytes more for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidegate.lab import charts
from tidegate.lab.claims import Claim
from tidegate.lab.comparisons import Table, table_of
from tidegate.lab.configuration import Configuration
from tidegate.lab.contenders import Contender
from tidegate.lab.figures import Figure, Findings, Record, Run, Scale, pivot
from tidegate.lab.paper_streams import TICKS
from tidegate.lab.srivastava2004_recall import PAPER, waiting_spec

_WINDOW = 500
_HELD = 0.8 * _WINDOW  # tuples in the window: see figure 7
EQ, PPS, UNIFORM = "eq-cluster", "pps-cluster", "uniform"
_SAMPLERS = (
    Contender(EQ, EQ),
    Contender(PPS, PPS),
    Contender(UNIFORM, UNIFORM, {"margin": 0}),
)
_SHEDDERS = (Contender("prob", "prob"), Contender("value", "value"))
_SHARES_8 = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_SPREADS_9 = (0.1, 0.25, 0.5, 0.75, 1.0)


def valued_run(
    scale: Scale,
    seed: int,
    taker: Contender,
    share: float | None,
    labels: dict[str, Any],
    **streams: Any,
) -> Run:
    """A run with a share of the window as memory; None for the exact join."""
    held = _HELD * (32 / 34 if taker.policy == UNIFORM else 1.0)
    memory = None if share is None else max(1, round(share * held))
    arguments = {"skew": 2.0, "tuples": 4_000 if scale.quick else 20_000, **streams}
    configuration = Configuration(
        "valued_streams", arguments, waiting_spec(_WINDOW * TICKS, on="key"), taker.policy,
        taker.parameters, memory, 3 * _WINDOW * TICKS, seed,
    )  # fmt: skip
    return Run(configuration, {"policy": taker.label, "seed": seed, **labels})


# --- figure 8, and the aggregated column on the other stream ---------------------------------


def _runs_by_memory(on: str, takers: Sequence[Contender]) -> Any:
    def runs(scale: Scale) -> list[Run]:
        shares = (0.1, 0.5, 1.0) if scale.quick else _SHARES_8
        return [
            valued_run(
                scale, seed, taker, share, {"x": share},
                correlation="inverse", spread=100.0, valued=on,
            )
            for seed in scale.seeds
            for taker in takers
            for share in shares
        ]  # fmt: skip

    return runs


def chart_of(records: list[Record], x_title: str, percent: bool) -> tuple[Table, Any]:
    """Errors by x and policy, as a table and as lines."""
    table = table_of(records, "x", "aggregation_error")
    return table, error_lines(table, x_title, percent)


def error_lines(table: Table, x_title: str, percent: bool) -> Any:
    """A line for each policy."""
    rows = [
        {"x": x, "policy": name, "error": value}
        for x, row in sorted(table.items())
        for name, value in row.items()
    ]
    return charts.lines(
        rows, x="x", y="error", x_title=x_title, y_title="relative error of the average",
        percent=True, x_percent=percent,
    )  # fmt: skip


def _read_8(records: list[Record], scale: Scale) -> Findings:
    table, chart = chart_of(records, "memory, share of the window", True)
    least, most, all_of_it = table[0.1], table[0.5], table[1.0]
    claims = [
        Claim(PAPER, "Fig. 8", "PPS / EQ, mean over memory", 1.0, "at most").with_measured(
            _mean_ratio(table, PPS, EQ)
        ),
        Claim(PAPER, "Fig. 8", "UNIFORM / PPS at 10 % memory", 1.0, "at most").with_measured(
            least[UNIFORM] / least[PPS], _AHEAD
        ),
        Claim(PAPER, "Fig. 8", "UNIFORM / PPS at 50 % memory", 1.0, "at least").with_measured(
            most[UNIFORM] / most[PPS]
        ),
        Claim(PAPER, "Fig. 8", "error of UNIFORM at 100 %", 0.001, "at least").with_measured(
            all_of_it[UNIFORM]
        ),
    ]
    tables = [pivot(table, "memory", "error of the average, x on S1", ".4f")]
    return Findings(claims, [chart], [], [], tables)


def _mean_ratio(table: Table, one: str, other: str) -> float:
    ratios = [row[one] / row[other] for row in table.values() if row[other] > 0]
    return sum(ratios) / len(ratios)


_AHEAD = (
    "a tie in theory: theorem 4.2 and the probabilities of PPS give errors of 0.135 and 0.134 if "
    "every tuple has exactly the results that the model says; here 18 % of the results are beyond "
    "the guess. A fraction that is given instead of a hard budget changes little: see Fig. 8 soft"
)
_NEAR_ZERO = (
    "A relative error means little where the true average comes near 0, and a few moments of that "
    "kind decide the mean. The paper does not say how far it varies sigma / mu; here it ends at 1, "
    "because at 2 the errors of all three are above 100 %."
)


def _read_s2(records: list[Record], scale: Scale) -> Findings:
    table, chart = chart_of(records, "memory, share of the window", True)
    claim = Claim(PAPER, "S2", "x on S2: PPS / UNIFORM at 10 % memory", 0.7, "at most")
    tables = [pivot(table, "memory", "error of the average, x on S2", ".4f")]
    done = claim.with_measured(table[0.1][PPS] / table[0.1][UNIFORM], _FEW_MOMENTS)
    return Findings([done], [chart], [], [_NEAR_ZERO], tables)


_FEW_MOMENTS = (
    "in one of the streams the true average comes near 0, and there both have large relative errors"
)


# --- figure 9 ----------------------------------------------------------------------------


def _runs_9(scale: Scale) -> list[Run]:
    spreads = (0.25, 1.0) if scale.quick else _SPREADS_9
    return [
        valued_run(
            scale, seed, taker, 0.1, {"x": spread},
            correlation="none", spread=100.0 * spread, valued="s1",
        )
        for seed in scale.seeds
        for taker in _SAMPLERS
        for spread in spreads
    ]  # fmt: skip


def _read_9(records: list[Record], scale: Scale) -> Findings:
    table, chart = chart_of(records, "standard deviation / mean of x", False)
    low, high = table[min(table)], table[max(table)]
    claims = []
    for name in (EQ, PPS):
        claim = Claim(PAPER, "Fig. 9", f"{name}: error grows with the variance", 2.0, "at least")
        claims.append(claim.with_measured(high[name] / low[name]))
    tables = [pivot(table, "sigma / mu", "error of the average", ".4f")]
    return Findings(claims, [chart], [], [_NEAR_ZERO], tables)


SETTINGS = {
    "streams": "r1 = 1, r2 = 5 (0.8 of it in fact); 50 keys, Zipf 2",
    "windows": "S1: 500; S2: none",
    "average": "over the results of the last 500 units, each unit of time, from t = 1,500 on",
    "x": "normal, mean 100; standard deviation 100 but in figure 9",
    "UNIFORM": "32/34 of the tuples, margin 0: as in the paper",
    "length": "20,000 tuples of S1 (4,000 with --quick)",
    "seeds": "10 (3 with --quick)",
}

FIGURES = (
    Figure(
        PAPER, "Fig. 8", "Error of a sampled average and memory",
        "Inverse correlation: PPS outperforms EQ. UNIFORM is better than PPS at 10 % memory and "
        "worse above; its error is not 0 even at 100 %.",
        SETTINGS, _runs_by_memory("s1", (*_SAMPLERS, *_SHEDDERS)), _read_8,
    ),
    Figure(
        PAPER, "Fig. 9", "Error of a sampled average and the variance of the column",
        "Uncorrelated keys, 10 % memory: cluster samples degrade as the variance grows.",
        SETTINGS, _runs_9, _read_9,
    ),
    Figure(
        PAPER, "S2", "The aggregated column on the other stream",
        "If the aggregated attribute is part of S2, cluster sampling is much better than UNIFORM.",
        SETTINGS, _runs_by_memory("s2", _SAMPLERS), _read_s2,
    ),
)  # fmt: skip
