"""gedik2005, section 6: figures 3 to 9, joins under a CPU budget, run with the engine.

Law: fuel is counted in comparisons, so nothing here depends on the machine. The paper does not say
how many comparisons its machine makes; here the fuel is what full joins at 150 tuples per second
need, so that 100 can be kept up with, and 300 and 500 cannot. Every figure is printed beside the
best that a plan with the same basic windows could have done, known afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import tidegate as tg
from tidegate.lab import charts
from tidegate.lab.claims import Claim
from tidegate.lab.figures import Figure, Findings, NumberTable, Record, Scale
from tidegate.lab.gedik2005_best import best_afterwards, comparisons_by_window, results_by_window
from tidegate.lab.gedik2005_index import BY_IDENTIFIER, BY_TIME, FINE, NONE, outputs_by_size
from tidegate.lab.gedik2005_streams import SECOND, drifting_sets, randomly_dropped
from tidegate.lab.kang2003_allocations import (
    ALLOCATIONS,
    EQUAL,
    MAX_A,
    MAX_B,
    results_of,
    searching,
)

PAPER = "gedik2005"
DROP, BEST, OURS = "random drop", "best afterwards", "knapsack"
RATE, TIME, DIRECTION = "rate", "rate + time", "rate + time + direction"

# What each adaptation switches on; OURS is the default of `Cpu`.
ADAPTATIONS: Mapping[str, Mapping[str, Any]] = {
    RATE: {"order": "youngest", "direction": "even", "sample": 0.0},
    TIME: {"direction": "even"},
    DIRECTION: {"direction": "better-first"},
    OURS: {},
}
_PERIOD = 5 * SECOND
_AFFORDED = 150.0  # tuples per second
_SHIFT = 5 / 8  # of the cycle


@dataclass(frozen=True)
class Setting:
    """One experiment: streams, windows in seconds, and what is joined."""

    phases: tuple[tuple[float, float], ...]
    windows: tuple[float, float]
    skew: float = 0.6
    shifted: bool = False
    at_least: int = 3
    basic: float = 1.0
    fuel_window: float = 20.0  # of the windows that the fuel is measured by

    def tables(self, scale: float, seed: int) -> dict[str, pa.Table]:
        """The streams, at `scale` times the rates."""
        cycle = 2 * max(self.windows)
        phases = [(seconds, scale * rate) for seconds, rate in self.phases]
        shifts = (0.0, _SHIFT * cycle if self.shifted else 0.0)
        return drifting_sets(phases, self.skew, cycle, shifts, seed)

    def fuel(self, scale: float) -> float:
        """Comparisons per second."""
        sides = sum(window > 0 for window in self.windows)
        return sides * self.fuel_window * (_AFFORDED * scale) ** 2

    @property
    def ticks(self) -> tuple[int, int]:
        """The windows in milliseconds."""
        return int(self.windows[0] * SECOND), int(self.windows[1] * SECOND)

    @property
    def bounds(self) -> list[float]:
        """Where the phases begin, and the end of the last, in milliseconds."""
        return [0.0, *np.cumsum([seconds * SECOND for seconds, _ in self.phases]).tolist()]

    def spec(self) -> tg.JoinSpec:
        """The full join; the index decides its speed, not its results."""
        within = dict(zip(("left", "right"), self.ticks, strict=True))
        return tg.JoinSpec(
            on=tg.overlap("items", self.at_least), time="t", within=within, index="inverted"
        )


def throttled(setting: Setting, name: str, scale: float) -> tg.JoinSpec:
    """The join under a CPU budget, without an index, as in the paper."""
    cpu = tg.Cpu(
        setting.fuel(scale) / SECOND,
        adapt_every=_PERIOD,
        basic_window=int(setting.basic * SECOND),
        **ADAPTATIONS[name],
    )
    return setting.spec().replace(index="nested-loop", cpu=cpu)


def by_phase(found: pa.Table, bounds: Sequence[float]) -> np.ndarray[Any, Any]:
    """Results per phase, by the later of their two times."""
    now = np.maximum(found["t"].to_numpy(), found["t_right"].to_numpy())
    return np.histogram(now, bounds)[0].astype(float)


def outputs(
    setting: Setting, names: Sequence[str], scale: float, seed: int
) -> dict[str, np.ndarray[Any, Any]]:
    """Results of each contender in each phase."""
    tables = setting.tables(scale, seed)
    fuel, bounds = setting.fuel(scale), setting.bounds
    found = {}
    for name in names:
        if name == DROP:
            left = randomly_dropped(tables, setting.ticks, fuel, seed)
            found[name] = by_phase(tg.join(left, setting.spec()).table, bounds)
        elif name == BEST:
            found[name] = _best(setting, tables, fuel)
        elif name in ALLOCATIONS:
            found[name] = _allocated(setting, tables, name, fuel, seed)
        else:
            result = tg.join(tables, throttled(setting, name, scale).replace(seed=seed))
            found[name] = by_phase(result.table, bounds)
    return found


def _best(setting: Setting, tables: Mapping[str, pa.Table], fuel: float) -> np.ndarray[Any, Any]:
    bounds = setting.bounds
    periods = int(bounds[-1]) // _PERIOD + 1
    cut = (setting.ticks, int(setting.basic * SECOND), _PERIOD, periods)
    results = results_by_window(tg.join(tables, setting.spec()).table, *cut)
    comparisons = comparisons_by_window(tables, *cut)
    best = best_afterwards(results, comparisons, fuel * _PERIOD / SECOND)
    return np.histogram(np.arange(periods) * _PERIOD, bounds, weights=best)[0]


def _allocated(
    setting: Setting, tables: Mapping[str, pa.Table], name: str, fuel: float, seed: int
) -> np.ndarray[Any, Any]:
    """Results when whole tuples search or do not, by a rule of kang2003."""
    numbered = {
        stream: table.append_column(f"row_{side}", pa.array(np.arange(table.num_rows)))
        for side, (stream, table) in enumerate(tables.items())
    }
    exact = tg.join(numbered, setting.spec()).table
    masks = searching(tables, setting.ticks, fuel, name, seed)
    first, second = results_of(exact, ("row_0", "row_1"), ("t", "t_right"), masks)
    return by_phase(exact.filter(pa.array(first | second)), setting.bounds)


def _rates(scale: Scale) -> float:
    return 0.2 if scale.quick else 0.5


def _seeds(scale: Scale) -> Sequence[int]:
    return range(2 if scale.quick else 5)


def averaged(
    setting: Setting, names: Sequence[str], scale: Scale
) -> dict[str, np.ndarray[Any, Any]]:
    """Results per second in each phase, a mean over seeds; --quick takes a fifth of the rates."""
    runs = [outputs(setting, names, _rates(scale), seed) for seed in _seeds(scale)]
    seconds = np.array([length for length, _ in setting.phases])
    return {name: np.mean([run[name] for run in runs], axis=0) / seconds for name in names}


# --- figures 3 and 4, 6 and 7: rates that change ------------------------------------------

_PROFILE = ((40.0, 100.0), (15.0, 500.0), (30.0, 300.0), (35.0, 100.0))
_PHASES = ("100/s", "500/s", "300/s", "100/s again")
_ALIGNED = Setting(_PROFILE, (20.0, 0.0))
_LAGGED = Setting(_PROFILE, (20.0, 20.0), shifted=True)


def _fractions(
    setting: Setting, name: str, scale: Scale, seed: int = 0
) -> tuple[list[Record], dict[str, float]]:
    """r at the end of each second; results of the run per phase, as a share of the best."""
    rates = _rates(scale)
    tables = setting.tables(rates, seed)
    engine = tg.JoinEngine(throttled(setting, name, rates))
    records, found = [], []
    for second in range(int(setting.bounds[-1]) // SECOND):
        begin = second * SECOND
        found.append(
            engine.push(
                {
                    key: table.slice(*_between(table, begin, begin + SECOND))
                    for key, table in tables.items()
                }
            )
        )
        fraction = float(engine.stats()["cpu_fraction"])
        records.append({"policy": "r", "second": second, "r": fraction})
    results = by_phase(pa.concat_tables(found), setting.bounds)
    best = _best(setting, tables, setting.fuel(rates))
    shares = results / np.maximum(best, 1.0)
    return records, dict(zip(_PHASES, map(float, shares), strict=True))


def _between(table: pa.Table, begin: int, end: int) -> tuple[int, int]:
    low, high = np.searchsorted(table["t"].to_numpy(), [begin, end])
    return int(low), int(high - low)


def _read_fractions(name: str, setting: Setting, adaptation: str) -> Callable[..., Findings]:
    def read(records: list[Record], scale: Scale) -> Findings:
        rows, shares = _fractions(setting, adaptation, scale)
        ends = [int(bound) // SECOND - 1 for bound in setting.bounds[1:]]
        at = {phase: rows[end]["r"] for phase, end in zip(_PHASES, ends, strict=True)}
        claims = [
            Claim(
                PAPER, name, "r before, after and under load",
                ("100/s", "100/s again", "300/s"), "order",
            ).with_measured(at),
            Claim(PAPER, name, "r before the rates rise", 1.0, "at least").with_measured(
                at["100/s"]
            ),
        ]  # fmt: skip
        chart = charts.lines(
            rows, x="second", y="r", x_title="seconds", y_title="fraction r", points=False
        )
        table = NumberTable(
            "results of this run / best afterwards", list(shares),
            [[f"{share:.2f}" for share in shares.values()]],
        )  # fmt: skip
        note = "Up to one period of fuel is saved up, which the best of a period does not have."
        return Findings(claims, [chart], rows, [note], [table])

    return read


def _ratio(name: str, claim: str, expected: float, tolerance: float, of: float, to: float) -> Claim:
    found = float(of / to)
    reason = ""
    if found > expected + tolerance:
        reason = (
            "The gain is larger than the paper's: here the fraction follows the known need within "
            "two periods, and evidence is kept until it is contradicted."
        )
    return Claim(PAPER, name, claim, expected, tolerance=tolerance, reason=reason).with_measured(
        found
    )


def _read_4(records: list[Record], scale: Scale) -> Findings:
    names = (DROP, RATE, OURS, BEST)
    found = averaged(_ALIGNED, names, scale)
    claims = [
        _ratio("Fig. 4", "rate adaptation / random drop at 500 tuples/s", 2.0, 0.6,
               found[RATE][1], found[DROP][1]),
        _ratio("Fig. 4", "rate adaptation / random drop at 300 tuples/s", 1.5, 0.4,
               found[RATE][2], found[DROP][2]),
        _of_best("Fig. 4", found, (1, 2)),
    ]  # fmt: skip
    return _shown(found, claims)


def _read_7(records: list[Record], scale: Scale) -> Findings:
    found = averaged(_LAGGED, (DROP, MAX_A, MAX_B, EQUAL, RATE, TIME, DIRECTION, OURS, BEST), scale)
    loaded = {name: float(values[1:3].sum()) for name, values in found.items()}
    claims = [
        _ratio("Fig. 7", "time correlation / rate adaptation, 300 and 500 tuples/s", 1.5, 0.4,
               loaded[TIME], loaded[RATE]),
        _ratio("Fig. 7", "and direction / time correlation", 1.4, 0.4,
               loaded[DIRECTION], loaded[TIME]),
        Claim(PAPER, "Fig. 7", "knapsack / the paper's direction rule", 1.0, "at least", 0.05,
              ours=True).with_measured(loaded[OURS] / loaded[DIRECTION]),
        _of_best("Fig. 7", found, (1, 2)),
    ]  # fmt: skip
    return _shown(found, claims)


def _of_best(
    name: str, found: Mapping[str, np.ndarray[Any, Any]], phases: tuple[int, ...]
) -> Claim:
    """Our own claim, written before it was measured."""
    ours, best = (sum(float(found[each][at]) for at in phases) for each in (OURS, BEST))
    claim = Claim(PAPER, name, "knapsack / best afterwards", 0.7, "at least", ours=True)
    return claim.with_measured(ours / best)


def _shown(found: Mapping[str, np.ndarray[Any, Any]], claims: list[Claim]) -> Findings:
    rows = [
        {"policy": name, "phase": phase, "rate": float(value)}
        for name, values in found.items()
        for phase, value in zip(_PHASES, values, strict=True)
    ]
    chart = charts.bars(rows, x="rate", y="policy", x_title="results per second", facet="phase")
    table = NumberTable(
        "results per second", ["contender", *_PHASES],
        [[name, *[f"{value:.1f}" for value in values]] for name, values in found.items()],
    )  # fmt: skip
    return Findings(claims, [chart], rows, [], [table])


# --- figures 5, 8 and 9: averages ----------------------------------------------------------


def _skews(scale: Scale) -> tuple[float, ...]:
    return (0.2, 1.0) if scale.quick else (0.2, 0.4, 0.6, 0.8, 1.0)


def _swept(
    settings: Mapping[Any, Setting], names: Sequence[str], scale: Scale, x: str
) -> tuple[list[Record], dict[Any, dict[str, float]]]:
    """The output of each contender over a whole run, for each x."""
    table: dict[Any, dict[str, float]] = {}
    rows: list[Record] = []
    for at, setting in settings.items():
        seconds = np.array([length for length, _ in setting.phases])
        found = averaged(setting, names, scale)
        table[at] = {n: float((v * seconds).sum() / seconds.sum()) for n, v in found.items()}
        rows += [{"policy": n, x: at, "rate": value} for n, value in table[at].items()]
    return rows, table


def _numbers(table: Mapping[Any, Mapping[str, float]], x: str) -> NumberTable:
    names = list(next(iter(table.values())))
    return NumberTable(
        "results per second", [f"contender / {x}", *map(str, table)],
        [[name, *[f"{row[name]:.1f}" for row in table.values()]] for name in names],
    )  # fmt: skip


def _read_5(records: list[Record], scale: Scale) -> Findings:
    windows = (10.0, 40.0) if scale.quick else (10.0, 20.0, 40.0)
    rows: list[Record] = []
    tables = []
    gain: dict[tuple[float, float], float] = {}
    for window in windows:
        settings = {skew: Setting(_PROFILE, (window, 0.0), skew) for skew in _skews(scale)}
        found, table = _swept(settings, (DROP, RATE, OURS, BEST), scale, "skew")
        gain |= {(window, skew): row[RATE] / row[DROP] for skew, row in table.items()}
        rows += [{**row, "window": f"{window:.0f} s"} for row in found]
        tables.append(_numbers(table, f"skew, windows of {window:.0f} s"))
    claims = [
        Claim(PAPER, "Fig. 5", "gain of rate adaptation at skew 1 / at 0.2, 40 s", 1.0, "at least")
        .with_measured(gain[40.0, 1.0] / gain[40.0, 0.2]),
        Claim(PAPER, "Fig. 5", "gain of rate adaptation at 40 s / at 10 s, skew 1", 1.0, "at least")
        .with_measured(gain[40.0, 1.0] / gain[10.0, 1.0]),
    ]  # fmt: skip
    chart = charts.lines(rows, x="skew", y="rate", x_title="skew", y_title="results per second",
                         facet="window")  # fmt: skip
    return Findings(claims, [chart], rows, [], tables)


def _read_8(records: list[Record], scale: Scale) -> Findings:
    settings = {
        skew: Setting(_PROFILE, (20.0, 20.0), skew, shifted=True, at_least=4)
        for skew in _skews(scale)
    }
    rows, table = _swept(settings, (RATE, TIME, DIRECTION, OURS, BEST), scale, "skew")
    low, high = table[0.2], table[1.0]
    claims = [
        Claim(PAPER, "Fig. 8", f"gain of {name} over rate, skew 1 / 0.2", 1.0, "at least")
        .with_measured((high[name] / high[RATE]) / (low[name] / low[RATE]))
        for name in (TIME, DIRECTION)
    ]  # fmt: skip
    chart = charts.lines(rows, x="skew", y="rate", x_title="skew", y_title="results per second")
    return Findings(claims, [chart], rows, [], [_numbers(table, "skew")])


def _read_9(records: list[Record], scale: Scale) -> Findings:
    steady = ((60.0, 500.0),)
    sizes = (1.0, 10.0) if scale.quick else (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
    settings = {size: Setting(steady, (20.0, 20.0), 0.8, True, basic=size) for size in sizes}
    rows, table = _swept(settings, (RATE, OURS, BEST), scale, "basic window")
    claims = [
        Claim(PAPER, "Fig. 9", "basic windows of 1 s / of 10 s", 1.0, "at least").with_measured(
            table[1.0][OURS] / table[10.0][OURS]
        ),
        Claim(PAPER, "Fig. 9", "basic windows of 1 s / none", 1.0, "at least").with_measured(
            table[1.0][OURS] / table[1.0][RATE]
        ),
    ]
    chart = charts.lines(rows, x="basic window", y="rate", x_title="basic window, seconds",
                         y_title="results per second")  # fmt: skip
    indexed = _indexed(steady, scale)
    claims += _indexed_claims(indexed)
    note = (
        "The right half (with an index) is a model that counts accesses to lists, under plans that "
        "are known afterwards; windows are 20 s where the paper has 200 s."
    )
    numbers = [_numbers(table, "basic window, seconds"), _indexed_numbers(indexed)]
    return Findings(claims, [chart], rows, [note], numbers)


_SIZES = (50, 200, 1_000, 5_000, 10_000)  # milliseconds
_LARGE, _SMALL = 10_000, 50


def _indexed(phases: tuple[tuple[float, float], ...], scale: Scale) -> dict[int, dict[str, float]]:
    """Results per second by size of basic windows, a mean over seeds."""
    setting = Setting(phases, (20.0, 20.0), 0.8, True)
    periods = int(setting.bounds[-1]) // _PERIOD + 1
    runs = []
    for seed in _seeds(scale):
        tables = setting.tables(_rates(scale), seed)
        exact = tg.join(tables, setting.spec()).table
        by_window = {
            size: results_by_window(exact, setting.ticks, size or FINE, _PERIOD, periods)
            for size in (NONE, *_SIZES)
        }
        share = (_AFFORDED / phases[0][1]) ** 2
        runs.append(outputs_by_size(tables, by_window, setting.ticks, _PERIOD, share))
    seconds = setting.bounds[-1] / SECOND
    return {
        size: {kind: float(np.mean([run[size][kind] for run in runs])) / seconds for kind in kinds}
        for size, kinds in runs[0].items()
    }


def _indexed_claims(found: Mapping[int, Mapping[str, float]]) -> list[Claim]:
    best = max(row[BY_TIME] for row in found.values())
    gap = {size: row[BY_IDENTIFIER] / row[BY_TIME] for size, row in found.items()}
    return [
        Claim(PAPER, "Fig. 9", "indexed: smallest basic windows / best size", 0.95, "at most")
        .with_measured(found[_SMALL][BY_TIME] / best),
        Claim(PAPER, "Fig. 9", "indexed: sorted by identifier / by time, 10 s", 0.9, "at most")
        .with_measured(gap[_LARGE]),
        Claim(PAPER, "Fig. 9", "indexed: that ratio at 10 s / at 1 s", 1.0, "at most")
        .with_measured(gap[_LARGE] / gap[1_000]),
    ]  # fmt: skip


def _indexed_numbers(found: Mapping[int, Mapping[str, float]]) -> NumberTable:
    sizes = ["none" if size == NONE else f"{size / SECOND:g}" for size in found]
    return NumberTable(
        "with an inverted index: results per second", ["lists / basic window, seconds", *sizes],
        [[k, *[f"{row[k]:.1f}" for row in found.values()]] for k in (BY_TIME, BY_IDENTIFIER)],
    )  # fmt: skip


_COMMON = {
    "items": "100, Zipf 0.6; sets of 5 (standard deviation 1); overlap of at least 3",
    "rates": "100, 500, 300, 100 tuples/s for 40, 15, 30, 35 s; half of it (a fifth with --quick)",
    "fuel": "comparisons of a full join at 150 tuples/s (at the same half or fifth)",
    "adaptation": "every 5 s; boost 1.2; sample 0.1; basic windows of 1 s",
    "seeds": "5 (2 with --quick)",
}
_LAG = {**_COMMON, "windows": "20 s on both streams; S2 is shifted by 5/8 of the cycle of 40 s"}
_LEVEL = {**_COMMON, "windows": "20 s on one stream; no shift"}


def _no_runs(scale: Scale) -> list[Any]:
    return []


FIGURES = (
    Figure(PAPER, "Fig. 3", "Stream rates and fraction r", "r falls when rates rise, and rises "
           "again after them.", _LEVEL, _no_runs, _read_fractions("Fig. 3", _ALIGNED, RATE)),
    Figure(PAPER, "Fig. 4", "Output with and without rate adaptation", "About 100 % more than "
           "random drop at 500 tuples/s, about 50 % at 300.", _LEVEL, _no_runs, _read_4),
    Figure(PAPER, "Fig. 5", "Rate adaptation by skew and window", "The improvement grows with skew "
           "and with windows.", _LEVEL, _no_runs, _read_5),
    Figure(PAPER, "Fig. 6", "Fraction r with time and direction adaptation", "r falls when rates "
           "rise, and rises again after them.", _LAG, _no_runs,
           _read_fractions("Fig. 6", _LAGGED, OURS)),
    Figure(PAPER, "Fig. 7", "Output with time correlation and join direction", "Time correlation "
           "gives about 50 % more than rate adaptation alone, direction about 40 % more on top.",
           _LAG, _no_runs, _read_7),
    Figure(PAPER, "Fig. 8", "The same by skew, overlap of at least 4", "The improvements grow with "
           "skew.", _LAG, _no_runs, _read_8),
    Figure(PAPER, "Fig. 9", "Size of basic windows", "Small basic windows give more, without an "
           "index.", _LAG, _no_runs, _read_9),
)  # fmt: skip
