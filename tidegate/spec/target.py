"""A target instead of a budget: how much of the results a join is to keep.

The law: a target is a share between 0 and 1 of the results or of their importance.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tidegate.spec.plain import SpecError

_FORM = re.compile(r"(importance[ _]recall|importance|recall)\s*(?:>=|≥)\s*([0-9.]+)\s*(%?)")
_SAID = "give 'recall >= 0.95', or 'importance >= 0.95' for the importance of the results"


@dataclass(frozen=True)
class Target:
    """A share of the results that is to be kept, or of their importance."""

    share: float
    of_importance: bool

    @property
    def name(self) -> str:
        """What `stats()` calls the share that a sentinel measures."""
        return "importance_recall" if self.of_importance else "recall"


def read_target(text: Any) -> Target:
    """Read what a user wrote.

    >>> read_target("recall >= 0.95"), read_target("importance >= 90 %").of_importance
    (Target(share=0.95, of_importance=False), True)
    """
    found = _FORM.fullmatch(text.strip().lower()) if isinstance(text, str) else None
    if found is None:
        raise SpecError(f"target {text!r} is not a target; {_SAID}")
    what, number, percent = found.groups()
    try:
        share = float(number) / (100.0 if percent else 1.0)
    except ValueError:
        raise SpecError(f"target {text!r} has no number; {_SAID}") from None
    if not 0.0 < share < 1.0:
        raise SpecError(
            f"target {text!r} is not a share between 0 and 1; {_SAID} (all results: memory=None)"
        )
    return Target(share, what != "recall")
