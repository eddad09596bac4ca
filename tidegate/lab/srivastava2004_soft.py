"""srivastava2004, figure 8, as the paper has it: UNIFORM with a given fraction, and no hard budget.

Law: the fraction follows from the frequencies of the generator and the memory by theorem 4.2, so
the memory is only the expected one; PPS-CLUSTER has the same number of tuples. The streams are
those of figure 8, and streams that adhere to the model: each key of S2 comes at equal distances.
"""

from __future__ import annotations

from typing import Any

from tidegate.lab.claims import Claim
from tidegate.lab.contenders import Contender
from tidegate.lab.figures import Figure, Findings, Record, Run, Scale, pivot
from tidegate.lab.paper_streams import zipf_shares
from tidegate.lab.srivastava2004_recall import PAPER
from tidegate.lab.srivastava2004_sampling import PPS, SETTINGS, UNIFORM, chart_of, valued_run
from tidegate.sample.fraction import FrequencyModel, largest_fraction

_HELD, _MATCHES, _DOMAIN, _SKEW = 400.0, 2_000.0, 50, 2.0
_SOFT, _HARD = "uniform, fraction given", "uniform, hard budget"
_SHARES = (0.1, 0.2, 0.3, 0.5, 0.7)
_ROOM = 100.0  # windows: a memory that is never full


def _fraction(share: float) -> float:
    """Theorem 4.2, with the two bytes more that the paper charges UNIFORM for a tuple."""
    own = zipf_shares(_DOMAIN, _SKEW)
    model = FrequencyModel(_HELD * own, _MATCHES * own[::-1])
    return largest_fraction(share * _HELD * 32 / 34, [model])


def _runs(scale: Scale) -> list[Run]:
    runs = []
    for even in (False, True):
        for share in (0.1, 0.5) if scale.quick else _SHARES:
            told: dict[str, Any] = {"margin": 0, "fraction": round(_fraction(share), 6)}
            takers = (
                (Contender(PPS, PPS), share),
                (Contender(_HARD, UNIFORM, {"margin": 0}), share),
                (Contender(_SOFT, UNIFORM, told), _ROOM),
            )
            runs += [
                valued_run(
                    scale, seed, taker, memory, {"x": share, "even": even},
                    correlation="inverse", spread=100.0, valued="s1", even=even,
                )
                for taker, memory in takers
                for seed in scale.seeds
            ]  # fmt: skip
    return runs


def _read(records: list[Record], scale: Scale) -> Findings:
    claims, tables, drawn = [], [], []
    for even, streams in ((True, "streams of the model"), (False, "streams at random")):
        found = [record for record in records if record["even"] == even]
        table, chart = chart_of(found, f"memory, share of the window ({streams})", True)
        drawn.append(chart)
        tables.append(pivot(table, "memory", f"error of the average, {streams}", ".4f"))
        for share, relation in ((0.1, "at most"), (0.5, "at least")):
            name = f"{streams}: UNIFORM (fraction given) / PPS at {share:.0%} memory"
            claim = Claim(PAPER, "Fig. 8 soft", name, 1.0, relation)  # type: ignore[arg-type]
            claims.append(claim.with_measured(table[share][_SOFT] / table[share][PPS], _TIE))
    return Findings(claims, drawn, [], [_WHY], tables)


_TIE = "in theory the two errors are equal at 10 % memory (0.135 and 0.134): see figure 8"
_WHY = (
    "At 10 % memory theory has a tie, and a few moments at which the true average comes near 0 "
    "decide who is ahead: seeds differ. On average over ten seeds UNIFORM is behind in all three "
    "ways, so a hard budget alone is not the reason. A likely one, not tested here: it does not "
    "know how many results each single tuple will have, and misses those beyond the mean."
)

FIGURES = (
    Figure(
        PAPER, "Fig. 8 soft", "The same with a fraction that is given",
        "UNIFORM is better than PPS at 10 % memory and worse above.",
        SETTINGS | {
            "fraction": "theorem 4.2 with the true frequencies; the budget is never reached",
            "streams of the model": "each key of S2 comes at equal distances",
        },
        _runs, _read,
    ),
)  # fmt: skip
