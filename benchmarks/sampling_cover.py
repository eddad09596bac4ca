"""How often the intervals of samples hold: rows of `benchmarks.sampling`.

Law: an interval that is unknown does not count; how many samples know it stands in the row's name.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from benchmarks.sampling_runs import AGGREGATES, Asked, Case, Measured
from benchmarks.side_by_side import Row, compared


class Covered(NamedTuple):
    """What came of the intervals of a question."""

    case: Case
    asked: Asked
    samples: int
    known: int
    covered: int

    @property
    def often(self) -> bool:
        """Is it known in nine of ten samples or more?"""
        return 10 * self.known >= 9 * self.samples

    @property
    def share(self) -> float:
        return self.covered / self.known

    @property
    def fits(self) -> bool:
        """Is it from 93 to 97 %, as far as so many samples can tell (two standard errors)?"""
        low, high = (
            bound + side * 2.0 * math.sqrt(bound * (1.0 - bound) / self.known)
            for bound, side in ((0.93, -1.0), (0.97, 1.0))
        )
        return low <= self.share <= high

    @property
    def row(self) -> Row:
        known = f"{self.known / self.samples:.0%} known"
        name = f"cover: {self.case.label}, {self.asked.label} ({known})"
        return compared(name, self.share, 0.95, "share")


def every_cover(found: list[Measured]) -> list[Covered]:
    return [
        Covered(each.case, asked, each.seeds, answers.known, answers.covered)
        for each in found
        for asked, answers in each.answers.items()
        if answers.known
    ]


def default_rows(found: list[Measured]) -> list[Row]:
    """Intervals where the default margin misses results; unknown where that shows."""
    every = every_cover(found)
    title = f"cover: all of {len(every)} of the default margin"
    return [*(each.row for each in every), compared(title, _pooled(every), 0.95, "share")]


def cover_rows(found: list[Measured]) -> list[Row]:
    every = every_cover(found)
    rows = [each.row for each in every if each.asked.by != "k"]
    for name in dict.fromkeys(each.case.name for each in found):
        for aggregate in AGGREGATES:
            of_keys = [
                each
                for each in every
                if (each.case.name, each.asked.by, each.asked.aggregate) == (name, "k", aggregate)
            ]
            for often, where in ((True, "nine of ten samples"), (False, "fewer")):
                chosen = [each for each in of_keys if each.often == often]
                title = f"cover: {name}, {aggregate}, {len(chosen)} keys known in {where}"
                if chosen:
                    rows.append(compared(title, _pooled(chosen), 0.95, "share"))
    often = [each for each in every if each.often]
    shares = [each.share for each in often]
    inside = float(np.mean([0.93 <= share <= 0.97 for share in shares]))
    fits = float(np.mean([each.fits for each in often]))
    wrong = max((each.known - each.covered) / each.samples for each in every)
    where = f"of {len(often)} that nine of ten samples know"
    return [
        *rows,
        compared(f"cover: least {where}", min(shares), 0.93, "share"),
        compared(f"cover: greatest {where}", max(shares), 0.97, "share"),
        compared(f"cover: from 93 to 97 %, {where}", inside, 1.0, "share"),
        compared(f"cover: the same within two standard errors, {where}", fits, 1.0, "share"),
        compared(f"cover: all {where}", _pooled(often), 0.95, "share"),
        compared(
            f"cover: all of {len(every) - len(often)} that fewer know",
            _pooled([each for each in every if not each.often]),
            0.95,
            "share",
        ),
        compared("cover: samples with a wrong interval, at most", wrong, 0.05, "share"),
    ]


def _pooled(chosen: list[Covered]) -> float:
    """The share of all their known intervals that hold the truth."""
    return sum(each.covered for each in chosen) / max(1, sum(each.known for each in chosen))
