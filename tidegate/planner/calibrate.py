"""The weight factors of this machine: search-only and update-only workloads through the engine.

Law: as in kang2003, section 4.2, a structure is measured alone, searches and updates apart
(`calibration_runs`). What an arrival costs with two empty windows is taken off, and the rest is
fitted by cost = a + P * accesses. Matches are measured apart, as tuples of one key that all become
results.

In a full join searches and updates compete for the CPU's caches, and cost more than each alone. So
full joins are measured too, and the weights of a structure are scaled to what they took.

CPU time is measured in rounds over all workloads, and of each workload the quickest round counts:
other work on the machine can only add to it, and rarely lasts for all rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tidegate.compiled.processor import cpu_name
from tidegate.costs.cost import pair_cost
from tidegate.costs.engine_accesses import NODE_SIZE, engine_accesses
from tidegate.costs.structures import LETTERS
from tidegate.costs.weights import Weights
from tidegate.costs.workload import Workload
from tidegate.planner import calibration_runs as runs

Progress = Callable[[int, int], None]

_BANDED = 256  # the window that a nested loop scans under both predicates
_FULL = ("HH", "BB", "TT", "BH")
_SCALES = (0.5, 4.0)  # beyond these a measurement has failed


@dataclass(frozen=True)
class Effort:
    """How much is measured: window sizes, operations per run, and rounds."""

    windows: Sequence[int] = (64, 256, 1024, 4096, 16_384, 65_536)
    scanned: Sequence[int] = (64, 256, 1024, 4096)
    operations: int = 50_000
    scans: int = 5_000_000  # tuples that a nested loop looks at in one run
    rounds: int = 7


QUICK = Effort((64, 1024, 8192), (64, 256), 10_000, 500_000, 2)

# What is measured: a workload, the structure, the size of the window.
Case = tuple[str, str, int]
_ARRIVAL: Case = ("arrival", "N", 0)


@dataclass(frozen=True)
class Point:
    """CPU seconds of one operation, and how many accesses it makes."""

    accesses: float
    seconds: float


def calibrate(effort: Effort | None = None, progress: Progress | None = None) -> Weights:
    """Measure this machine and fit its weights; takes some seconds."""
    took = _measure(effort or Effort(), progress)
    arrival = took[_ARRIVAL]
    fitted = {
        (operation, letter): fit(_points(operation, letter, took))
        for operation in ("search", "update")
        for letter in LETTERS
    }
    weights = Weights(
        name="here",
        search={letter: fitted["search", letter][1] for letter in LETTERS},
        update={letter: fitted["update", letter][1] for letter in LETTERS},
        per_search={letter: fitted["search", letter][0] for letter in LETTERS},
        per_update={letter: fitted["update", letter][0] for letter in LETTERS},
        per_match={letter: _match_seconds(letter, took) for letter in LETTERS},
        per_arrival=arrival,
        band_scan=_band_scan(took),
        unit="s",
        shape="engine",
        bucket_size=0.0,
        node_size=NODE_SIZE,
        made={
            "by": "tidegate plan --calibrate",
            "cpu": cpu_name(),
            "workloads": len(took),
            # A tree that costs nothing was not measured: other work was in the way.
            "disturbed": any(sum(fitted[key]) == 0.0 for key in fitted if key[1] in "BT"),
        },
    )
    return _scaled_to_full_joins(weights, took)


def _cases(effort: Effort) -> list[Case]:
    """All that is measured in one round; `arrival`, which is taken off the others, many times."""
    cases: list[Case] = []
    for letter in LETTERS:
        windows = effort.scanned if letter == "N" else effort.windows
        cases += [(what, letter, w) for w in windows for what in ("search", "update")]
        cases += [("matches", letter, runs.HELD), ("no matches", letter, runs.HELD)]
    cases.append(("band search", "N", _BANDED))
    cases += [(pair, "full", window) for pair in _FULL for window in effort.windows[1::2]]
    return [each for case in cases for each in (_ARRIVAL, case)]


def _measure(effort: Effort, progress: Progress | None) -> dict[Case, float]:
    """The quickest round of each workload, in seconds per operation."""
    took: dict[Case, float] = {}
    cases = _cases(effort)
    for turn in range(effort.rounds):
        for number, case in enumerate(cases):
            if progress is not None:
                progress(turn * len(cases) + number, effort.rounds * len(cases))
            seconds = _run(case, effort, turn)
            took[case] = min(seconds, took.get(case, seconds))
    return took


def _run(case: Case, effort: Effort, seed: int) -> float:
    what, letter, window = case
    count = effort.operations
    if what in ("search", "arrival", "band search"):
        scans = letter == "N" and window > 0
        searches = max(200, min(count, effort.scans // window)) if scans else count
        return runs.search(letter, window, searches, seed, what == "band search")
    if what == "update":
        return runs.update(letter, window, count, seed)
    if letter == "full":
        return runs.full_join(what, window, count, seed)
    return runs.match(letter, what == "matches", max(100, count // 16), seed)


def _points(operation: str, letter: str, took: Mapping[Case, float]) -> list[Point]:
    arrival = took[_ARRIVAL]
    points = []
    for (what, structure, window), seconds in took.items():
        if (what, structure) == (operation, letter):
            touched = engine_accesses(letter, window, Workload((window, window), (1, 1)), 0)
            accesses = touched.search if operation == "search" else touched.update
            points.append(Point(accesses, max(0.0, seconds - arrival)))
    return points


def _match_seconds(letter: str, took: Mapping[Case, float]) -> float:
    with_results, without = (took[what, letter, runs.HELD] for what in ("matches", "no matches"))
    return max(0.0, with_results - without) / runs.MATCHES


def _band_scan(took: Mapping[Case, float]) -> float:
    """A nested loop's access in a band join beside one in an equality join; matching is alike."""
    arrival = took[_ARRIVAL]
    equal, banded = (took[what, "N", _BANDED] for what in ("search", "band search"))
    return float(np.clip((banded - arrival) / max(equal - arrival, 1e-12), 0.5, 5.0))


def _excess(pair: str, weights: Weights, took: Mapping[Case, float]) -> list[tuple[float, float]]:
    """What a full join took and what the model has for it, beside the arrivals themselves."""
    return [
        (
            seconds - weights.per_arrival,
            pair_cost(pair, Workload((window, window), (0.5, 0.5)), weights) - weights.per_arrival,
        )
        for (what, kind, window), seconds in took.items()
        if (what, kind) == (pair, "full")
    ]


def _scaled_to_full_joins(weights: Weights, took: Mapping[Case, float]) -> Weights:
    """Weights of each structure, scaled by what full joins take; a nested loop needs no index.

    Two hash indexes run in a loop of their own (`driver/in_order`), so that hash is scaled by joins
    of hash and B+tree, and what the loop saves is kept apart.
    """
    factors = {"N": 1.0}
    for letter in ("B", "T"):
        ratios = [real / max(model, 1e-12) for real, model in _excess(2 * letter, weights, took)]
        factors[letter] = float(np.clip(np.median(ratios), *_SCALES))
    scaled = _times(weights, {**factors, "H": 1.0})
    gaps = [real - model for real, model in _excess("BH", scaled, took)]
    own = [model for _, model in _excess("HH", scaled, took)]
    # Half of all arrivals search the hash index and half update it, in BH as well as per window.
    ratios = [1.0 + gap / max(model / 2.0, 1e-12) for gap, model in zip(gaps, own, strict=True)]
    factors["H"] = float(np.clip(np.median(ratios), *_SCALES))
    scaled = _times(weights, factors)
    savings = [model - real for real, model in _excess("HH", scaled, took)]
    # No more than there is: a join of no cost would win everywhere.
    most = 0.9 * (scaled.per_arrival + scaled.per_search["H"] + scaled.per_update["H"])
    return replace(scaled, saved={"HH": float(np.clip(np.median(savings), 0.0, most))})


def _times(weights: Weights, factors: Mapping[str, float]) -> Weights:
    """The weights of each structure multiplied; matches stay as they are."""

    def each(values: Mapping[str, float]) -> dict[str, float]:
        return {letter: factors[letter] * value for letter, value in values.items()}

    return replace(
        weights,
        search=each(weights.search),
        update=each(weights.update),
        per_search=each(weights.per_search),
        per_update=each(weights.per_update),
    )


# --- the fit ------------------------------------------------------------------------------


def fit(points: Sequence[Point]) -> tuple[float, float]:
    """The a and P, none negative, of seconds = a + P * accesses with the least relative error.

    >>> [round(x, 6) for x in fit([Point(n, 2 + 0.5 * n) for n in (2, 4, 8)])]
    [2.0, 0.5]
    """
    accesses = np.array([point.accesses for point in points])
    seconds = np.array([point.seconds for point in points])
    scale = 1.0 / np.maximum(seconds, 1e-12)
    columns = np.stack([np.ones_like(accesses), accesses], axis=1) * scale[:, None]
    both = np.linalg.lstsq(columns, seconds * scale, rcond=None)[0]
    if (both >= 0.0).all():
        return float(both[0]), float(both[1])
    # One of the two alone, whichever leaves the smaller error.
    alone = []
    for k in (0, 1):
        weight = max(
            0.0, float(columns[:, k] @ (seconds * scale) / (columns[:, k] @ columns[:, k]))
        )
        error = float(np.sum((columns[:, k] * weight - seconds * scale) ** 2))
        alone.append((error, (weight, 0.0) if k == 0 else (0.0, weight)))
    return min(alone)[1]
