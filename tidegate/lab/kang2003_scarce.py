"""kang2003, section 5.2: figures 5 to 7, scarce CPU and scarce memory, simulated with the engine.

Law: the engine makes every result that is counted, in one join that obeys the allocation
(`planner.obeying`): a stream's effective rate is a random part of its tuples that search the
opposite window, which is kept up with all tuples (section 5.2.1); a window that is cut is a budget
under which tuples are kept at random. Results count from when both windows are full.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

import tidegate as tg
from tidegate.costs.workload import Workload
from tidegate.lab import charts
from tidegate.lab.claims import Claim
from tidegate.lab.figures import Figure, Findings, NumberTable, Record, Scale
from tidegate.lab.kang2003 import PAPER
from tidegate.planner.obeying import obeying
from tidegate.planner.quadrants import Two, allocate_resources, allocation, splits

_FULL = 1_000  # tuples of a window that is not cut, where the paper does not say
_HASHED = {"a": "hash", "b": "hash"}
_MODEL = "model (eqs. 13 to 19)"


def streams_of(rates: Two, keys: Two, seconds: float, seed: int) -> dict[str, pa.Table]:
    """Tuples at even distances; keys uniform, the smaller domain a part of the larger."""
    generator = np.random.default_rng(seed)
    tables = {}
    for name, rate, domain in zip(("a", "b"), rates, keys, strict=True):
        count = round(rate * seconds)
        times = np.floor((np.arange(count) + generator.random()) / rate * 1e6).astype(np.int64)
        drawn = generator.integers(0, int(domain), count)
        tables[name] = pa.table({"key": drawn, "time": times})
    return tables


def simulated_rate(
    workload: Workload, rates: Two, windows: Two, seconds: float, seed: int
) -> float:
    """Results per second when only `rates` search and only `windows` are kept, at random."""
    assert workload.keys is not None
    filling = max(w / r for w, r in zip(workload.windows, workload.rates, strict=True))
    tables = streams_of(workload.rates, workload.keys, filling + seconds, seed)
    spec = tg.JoinSpec(
        on="key",
        time="time",
        streams=("a", "b"),
        within={n: tg.rows(int(w)) for n, w in zip(("a", "b"), workload.windows, strict=True)},
        seed=seed,
    )
    limits = {"service_rate": sum(rates), "memory": sum(windows)}
    planned = allocation(workload, rates, windows, **limits)
    found = tg.join(tables, obeying(spec, ("a", "b"), _HASHED, planned)).table
    # A result counts from when both windows are full; its time is the later of its tuples'.
    times = np.maximum(found["time"].to_numpy(), found["time_b"].to_numpy())
    return int((times >= filling * 1e6).sum()) / seconds


Strategies = Mapping[str, tuple[Two, Two]]


def _figure(
    name: str,
    title: str,
    states: str,
    workload: Workload,
    strategies: Strategies,
    order: tuple[str, ...],
    settings: Mapping[str, str],
    limits: Mapping[str, float],
    more: Callable[[Mapping[str, float]], list[Claim]] = lambda rates: [],
) -> Figure:
    def read(records: list[Record], scale: Scale) -> Findings:
        seconds = 120.0 if scale.quick else 300.0
        found = {
            strategy: float(np.mean([
                simulated_rate(workload, rates, windows, seconds, seed)
                for seed in scale.seeds
            ]))
            for strategy, (rates, windows) in strategies.items()
        }  # fmt: skip
        expected = {
            strategy: allocation(workload, rates, windows).output_rate or 0.0
            for strategy, (rates, windows) in strategies.items()
        }
        planned = allocate_resources(workload, limits.get("cpu"), limits.get("memory"))
        best = float(np.mean([
            simulated_rate(workload, planned.rates, planned.windows, seconds, seed)
            for seed in scale.seeds
        ]))  # fmt: skip
        claims = [
            Claim(
                PAPER, name, "order of the strategies by results", order, "order", 0.02
            ).with_measured(found),
            Claim(
                PAPER, name, "simulated / model, greatest deviation", 0.0, tolerance=0.1
            ).with_measured(
                max(abs(found[each] / expected[each] - 1.0) for each in found if expected[each])
            ),
            Claim(
                PAPER, name, "the planner's allocation / best strategy", 1.0, "at least", 0.05,
                ours=True,
            ).with_measured(best / _of_the_best(found, expected)),
            *more(found),
        ]  # fmt: skip
        rows = [
            {"policy": each, "rate": rate, "kind": kind}
            for kind, rates in (("simulated", found), (_MODEL, expected))
            for each, rate in sorted(rates.items(), key=lambda item: -found[item[0]])
        ]
        chart = charts.bars(rows, x="rate", y="policy", x_title="results per second", facet="kind")
        table = NumberTable(
            "results per second", ["strategy", "simulated", "model"],
            [[each, f"{found[each]:.1f}", f"{expected[each]:.1f}"] for each in strategies],
        )  # fmt: skip
        return Findings(claims, [chart], rows, [], [table])

    return Figure(PAPER, name, title, states, settings, lambda scale: [], read)


def _of_the_best(found: Mapping[str, float], expected: Mapping[str, float]) -> float:
    """What the best strategy gives; of those that the model takes for equal, the mean.

    Streams that mirror each other have two best strategies. The greater of two measurements is
    greater by chance alone.
    """
    most = max(expected.values())
    tied = [found[each] for each, rate in expected.items() if rate >= 0.999 * most]
    return max(float(np.mean(tied)), *(found[e] for e, r in expected.items() if r < 0.999 * most))


# --- figure 5: scarce CPU -----------------------------------------------------------------

_FIVE = Workload((100, 200), (800, 200), keys=(100, 100))
_MU_5 = 100.0


def _strategies_5() -> Strategies:
    most = (min(_MU_5, _FIVE.rates[0]), min(_MU_5, _FIVE.rates[1]))
    by_window = splits(most, _FIVE.windows, _MU_5)
    by_rate = splits(most, _FIVE.rates, _MU_5)
    rates = {
        "MaxA": by_window["max a"],
        "by rates": by_rate["proportional"],
        "equal": by_window["equal"],
        "by windows": by_window["proportional"],
        "MaxB": by_window["max b"],
    }
    return {name: (each, _FIVE.windows) for name, each in rates.items()}


# --- figure 6: scarce memory --------------------------------------------------------------

_SIX = Workload((_FULL, _FULL), (10, 50), keys=(200, 100))
_M_6 = 1_000.0


def _strategies_6() -> Strategies:
    found = splits(_SIX.windows, _SIX.rates, _M_6)
    windows = {
        "MaxA": found["max a"],
        "inverse to rates": found["inverse"],
        "equal": found["equal"],
        "by rates": found["proportional"],
        "MaxB": found["max b"],
    }
    return {name: (_SIX.rates, each) for name, each in windows.items()}


# --- figure 7: both -----------------------------------------------------------------------

_SEVEN = Workload((_FULL, _FULL), (50, 50), keys=(100, 100))
_MU_7, _M_7 = 10.0, 100.0
_STRATEGIES_7: Strategies = {
    "MaxA, max rate b": ((0.0, _MU_7), (_M_7, 0.0)),
    "MaxB, max rate a": ((_MU_7, 0.0), (0.0, _M_7)),
    "equal": ((_MU_7 / 2, _MU_7 / 2), (_M_7 / 2, _M_7 / 2)),
    "MaxA, max rate a": ((_MU_7, 0.0), (_M_7, 0.0)),
    "MaxB, max rate b": ((0.0, _MU_7), (0.0, _M_7)),
}


def _skewed_claim(rates: Mapping[str, float]) -> list[Claim]:
    claim = Claim(
        PAPER, "Fig. 7", "results of a skewed allocation beyond those of an equal one", 0.9,
        "at least",
    )  # fmt: skip
    best = max(rates.values())
    return [claim.with_measured(best / rates["equal"] - 1.0)]


_SIMULATED = "120 s with 3 seeds (--quick), 300 s with 10 seeds"
FIGURES = (
    _figure(
        "Fig. 5", "Scarce CPU: who searches",
        "MaxA, which searches the larger window, is best, MaxB is worst.",
        _FIVE, _strategies_5(), ("MaxA", "by rates", "equal", "by windows", "MaxB"),
        {"rates": "800 and 200", "windows": "100 and 200 tuples", "selectivity": "0.01",
         "service rate": "100 searches per second", "simulated": _SIMULATED},
        {"cpu": _MU_5},
    ),
    _figure(
        "Fig. 6", "Scarce memory: who is kept",
        "Most results with the memory in the window of the slower stream, A.",
        _SIX, _strategies_6(), ("MaxA", "inverse to rates", "equal", "by rates", "MaxB"),
        {"rates": "10 and 50", "memory": "1,000 tuples", "selectivity": "0.005 (0.005 and 0.01)",
         "full windows": "1,000 tuples each (the paper does not say)", "simulated": _SIMULATED},
        {"memory": _M_6},
    ),
    _figure(
        "Fig. 7", "Scarce CPU and memory",
        "Best is the largest window of one stream with the largest rate of the other; then the "
        "equal division; worst is window and rate of the same stream. Up to 90 % more results than "
        "an equal division (section 6).",
        _SEVEN, _STRATEGIES_7, ("MaxA, max rate b", "equal", "MaxA, max rate a"),
        {"rates": "50 and 50 (the paper does not say)", "memory": "100 tuples",
         "service rate": "10 searches per second", "selectivity": "0.01",
         "full windows": "1,000 tuples each", "simulated": _SIMULATED},
        {"cpu": _MU_7, "memory": _M_7}, _skewed_claim,
    ),
)  # fmt: skip
