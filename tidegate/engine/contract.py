"""A target instead of a budget: which memory keeps the recall that was asked for.

Law: what is decided follows from the curve of the miniatures, from what the sentinel saw, and from
the memories that were in force; from nothing else.

The miniatures say how recall depends on memory, from a sample of the keys, which misses popular
keys or has too many of them. The sentinel says without such a bias what is lost, but only under the
memory that is in force. So the loss of the curve is multiplied by what the sentinel saw lost over
what the curve said of the same time; with little evidence that factor stays near 1.

More memory is taken at once, less in steps: what is given up cannot be had back for a window.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tidegate.engine.live_miniatures import Curve
from tidegate.spec.target import Target

PER_WINDOW = 2  # decisions
FADE = 0.8  # of what was seen, per decision
CAUTION = 0.8  # the part of the loss that is allowed that is aimed at
LEAST_CAUTION = 0.5  # the same where the run is behind its target
FEW = 10.0  # results of witnesses: with fewer lost than that the curve is believed
MANY = 50.0  # results of witnesses that count as much as the curve
MOST_FACTOR = 30.0
SHRINK, SHRINK_AT, GROW_AT = 0.6, 0.92, 1.04  # of the memory in force
GROW = 1.15  # where the curve sees no loss and the sentinel does
_EXACT, _LOST, _SAID, _SEEN = range(4)


class Glance(NamedTuple):
    """What a sentinel saw since the last decision."""

    exact: float  # results there were, or their importance
    kept: float  # those that the join gave out
    results: float  # of witnesses, on which this rests


class Contract:
    """Decides, twice in a window, how many tuples the join is to retain."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.seen = np.zeros(4)  # faded
        self.run = np.zeros(2)  # of the whole run: (exact, lost)
        self.memories: list[float] = []  # tuples in force, of the last decisions
        self.rested = 0  # decisions since the memory changed

    def decide(self, curve: Curve | None, glance: Glance, now: float, most: float) -> float | None:
        """How many tuples are to be retained from now on, where so many are now; None for no
        change."""
        self.memories = [*self.memories, now][-PER_WINDOW - 1 :]
        self.rested += 1
        lost = max(0.0, glance.exact - glance.kept)
        self.run += (glance.exact, lost)
        said = lost if curve is None else glance.exact * self._said(curve)
        self.seen = FADE * self.seen + (glance.exact, lost, said, glance.results)
        if curve is None:
            return None
        wanted = min(most, curve.memory_for(1.0 - min(1.0, self.aim / self.factor)))
        if self._is_behind and self.rested > PER_WINDOW:
            wanted = max(wanted, min(most, GROW * now))
        if not (wanted > GROW_AT * now or (wanted < SHRINK_AT * now and self.rested > PER_WINDOW)):
            return None
        self.rested = 0
        return max(wanted, SHRINK * now)

    @property
    def _is_behind(self) -> bool:
        """Does the sentinel say clearly that more is lost of late than the target allows?"""
        allowed = 1.0 - self.target.share
        exact, lost, _, seen = self.seen.tolist()
        return exact > 0.0 and lost / exact > allowed * (1.0 + 2.0 / np.sqrt(1.0 + seen * allowed))

    def _said(self, curve: Curve) -> float:
        """The loss that a curve says of the memories of the last window."""
        return float(np.mean([1.0 - curve.recall_at(memory) for memory in self.memories]))

    @property
    def aim(self) -> float:
        """The loss that is aimed at."""
        allowed = 1.0 - self.target.share
        lost = self.run[1] / self.run[0] if self.run[0] else 0.0
        behind = max(1.0, lost / allowed)
        return allowed * max(LEAST_CAUTION, CAUTION / behind)

    @property
    def factor(self) -> float:
        """By how much the curve's loss is to be multiplied."""
        exact = max(self.seen[_EXACT], 1e-300)
        seen, lost, said = self.seen[_SEEN], self.seen[_LOST] / exact, self.seen[_SAID] / exact
        factor = (seen * lost + FEW) / (seen * said + FEW)
        return float(np.clip(factor, 1 / MOST_FACTOR, MOST_FACTOR))

    def stats(self, curve: Curve | None, now: float, most: float) -> dict[str, int | float]:
        """The target, and how far it is met."""
        known: dict[str, int | float] = {"target": self.target.share}
        if curve is None:
            return known
        loss = self._loss(curve, now)
        least = loss
        if most > now:
            least = min(loss, self.factor * (1.0 - curve.recall_at(most)))
        missing = max(0.0, min(1.0, least) - (1.0 - self.target.share))
        return known | {
            "target_recall": max(0.0, 1.0 - loss),
            "target_met": int(missing == 0.0),
            "target_missing_by": missing,
        }

    def _loss(self, curve: Curve, now: float) -> float:
        """The loss under the memory in force. Where that has been in force for a window, the
        sentinel has seen it, and the curve stands in for what it has not seen."""
        said = self.factor * (1.0 - curve.recall_at(now))
        exact, lost, _, seen = self.seen.tolist()
        if self.rested <= PER_WINDOW or exact <= 0.0:
            return min(1.0, said)
        return min(1.0, (seen * lost / exact + MANY * said) / (seen + MANY))

    # --- keeping --------------------------------------------------------------------------

    def numbers(self) -> dict[str, Any]:
        """All that it remembers."""
        return {
            "seen": self.seen.tolist(),
            "run": self.run.tolist(),
            "memories": self.memories,
            "rested": self.rested,
        }

    def take(self, numbers: dict[str, Any]) -> None:
        """Go on with what a snapshot held."""
        self.seen, self.run = np.array(numbers["seen"]), np.array(numbers["run"])
        self.memories, self.rested = list(numbers["memories"]), int(numbers["rested"])
