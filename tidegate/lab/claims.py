"""What a paper states, as data that a measurement can be held against.

Law: a claim's expected value, its relation and its tolerance are written down before anything is
measured; whether it holds follows from them and from the measurement, and from nothing else. Where
it does not hold there is a reason. Claims that held once are listed in `held.json`: one that stops
to hold is an error, not a footnote.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

Relation = Literal["near", "at least", "at most", "order"]

HELD = Path(__file__).with_name("held.json")
ROUNDING = 1e-9


@dataclass(frozen=True)
class Claim:
    """One statement, and what we measured.

    paper, figure
        Where it stands.
    claim
        The statement in words; with paper and figure it is the claim's identity.
    expected
        A number, or for the relation "order" the names from best to worst.
    relation
        "near": |measured - expected| <= tolerance. "at least", "at most": up to the tolerance.
        "order": names are in the expected order; of any two, the one named first may be behind by
        no more than the tolerance (a share of the other's value).
    tolerance
        In units of the expected number; see `relation`.
    measured
        A number, or for "order" a value by name; None where it could not be measured.
    reason
        Why it does not hold, or why it was not measured; shown only then.
    ours
        Whether the claim is our own, about what no paper has.
    timed
        Whether the measurement depends on the speed of the machine.
    judged
        The verdict of whoever measured, where no relation says it.
    """

    paper: str
    figure: str
    claim: str
    expected: float | tuple[str, ...]
    relation: Relation = "near"
    tolerance: float = 0.0
    measured: Any = None
    reason: str = ""
    ours: bool = False
    timed: bool = False
    judged: bool | None = None

    @property
    def identity(self) -> str:
        """What names the claim in the list of those that hold."""
        return f"{self.paper} | {self.figure} | {self.claim}"

    @property
    def holds(self) -> bool | None:
        """Whether the measurement agrees; None without one."""
        if self.judged is not None:
            return self.judged
        if self.measured is None:
            return None
        if self.relation == "order":
            return self._in_order()
        slack = self.tolerance + ROUNDING
        if not isinstance(self.expected, int | float) or math.isnan(self.measured):
            return False
        difference = self.measured - self.expected
        if self.relation == "near":
            return abs(difference) <= slack
        return difference >= -slack if self.relation == "at least" else difference <= slack

    def _in_order(self) -> bool:
        assert isinstance(self.expected, tuple)
        values = [self.measured[name] for name in self.expected]
        # All pairs, not only neighbours: small slips must not add up to a reversed order.
        pairs = itertools.combinations(values, 2)
        return all(better >= worse * (1 - self.tolerance) - ROUNDING for better, worse in pairs)

    def with_measured(self, measured: Any, reason: str = "") -> Claim:
        """The claim with what was measured."""
        return replace(self, measured=measured, reason=reason or self.reason)

    def row(self) -> dict[str, Any]:
        """The claim as scripts read it."""
        return {
            "paper": self.paper,
            "figure": self.figure,
            "claim": self.claim,
            "expected": list(self.expected) if isinstance(self.expected, tuple) else self.expected,
            "relation": self.relation,
            "tolerance": self.tolerance,
            "measured": self.measured,
            "holds": self.holds,
            "reason": "" if self.holds else self.reason,
            "ours": self.ours,
        }


def held_before(path: Path | None = None) -> set[str]:
    """The claims that held when the list was last written."""
    file = path or HELD
    return set(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else set()


def no_longer_held(
    claims: Iterable[Claim], figures: Iterable[tuple[str, str]], path: Path | None = None
) -> list[str]:
    """Claims of these figures that held once and hold no longer, or are gone."""
    holding = {claim.identity for claim in claims if claim.holds}
    shown = {f"{paper} | {figure} | " for paper, figure in figures}
    return sorted(
        identity
        for identity in held_before(path) - holding
        if any(identity.startswith(prefix) for prefix in shown)
    )


def write_held(
    claims: Sequence[Claim], figures: Iterable[tuple[str, str]], path: Path | None = None
) -> int:
    """Write down which claims of these figures hold now, and return how many the list has.

    Claims about running times stay out: they depend on the machine.
    """
    shown = [f"{paper} | {figure} | " for paper, figure in figures]
    others = {
        identity
        for identity in held_before(path)
        if not any(identity.startswith(prefix) for prefix in shown)
    }
    holding = {claim.identity for claim in claims if claim.holds and not claim.timed}
    identities = sorted(others | holding)
    text = json.dumps(identities, indent=1, ensure_ascii=False)
    (path or HELD).write_text(f"{text}\n", encoding="utf-8")
    return len(identities)
