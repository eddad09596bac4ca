"""A budget of CPU time: fuel in comparisons, and how it is spent.

The law: a budget is frozen, equals every other that means the same, and comes back from the dict
that its `to_dict` gives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from tidegate.spec.options import (
    ComparedByMeaning,
    explained,
    field_names,
    fields_to_plain,
    freeze_fields,
    refuse_unknown,
)
from tidegate.spec.plain import FrozenDict, SpecError, from_plain, register
from tidegate.spec.predicates import per_stream
from tidegate.spec.units import Window, parse_window, require_name, require_number

_NAMES = {
    "order": ("learned", "youngest"),
    "direction": ("adaptive", "better-first", "even"),
}
_NOT_BUILT = "this version counts fuel in comparisons_per_second= only"


@explained(keep_up=_NOT_BUILT, share_of_core=_NOT_BUILT)
@dataclass(frozen=True, eq=False)
class Cpu(ComparedByMeaning):
    """A budget of CPU time, counted in comparisons: process less, not fewer (gedik2005).

    Every tuple is retained, and joined with the part of the opposite window that pays. Results are
    a part of those of the exact join; with enough fuel they are all of them.

    comparisons_per_second
        How many comparisons may be made per second of event time (per unit of integer times); 0 or
        more. Up to one adaptation period of it is saved up. None does not count them.
    adapt_every
        Duration or integer between two adaptations; None takes a quarter of the longest window.
    boost
        Factor, 1 or more, by which the share that is processed may grow at an adaptation.
    sample
        Share of the fuel, 0 to 1 inclusive, that goes to tuples that are joined in full, to learn
        where matches lie.
    basic_window
        Duration or integer length of the segments a window is cut into; None takes a twentieth of
        the longest window.
    order
        "learned" looks first where a comparison gives the most results (or importance);
        "youngest" looks at the youngest tuples first, whatever they give.
    direction
        How fuel is split between the two join directions: "adaptive" compares the segments of both
        windows with each other, "better-first" fills the window that yields more before the other,
        "even" processes the same share of both.
    search
        Share, 0 to 1 inclusive, of the arrivals that look for partners, drawn at random; one
        number or a dict by stream. All arrivals are retained, so those that do not look are found
        by others (kang2003, section 5.2.1). None: all look. Without comparisons_per_second it is
        the only limit, and serves any windows and indexes; `Plan.apply` says what to give.
    """

    comparisons_per_second: float | None = None
    adapt_every: Any = None
    boost: float = 1.2
    sample: float = 0.1
    basic_window: Any = None
    direction: Literal["adaptive", "better-first", "even"] = "adaptive"
    order: Literal["learned", "youngest"] = "learned"
    search: Any = None

    def __post_init__(self) -> None:
        freeze_fields(self)
        ranges = {
            "comparisons_per_second": (0.0, math.inf),
            "boost": (1.0, math.inf),
            "sample": (0.0, 1.0),
        }
        if self.comparisons_per_second is None and self.search is None:
            raise SpecError("cpu limits nothing; give comparisons_per_second= or search=")
        for field, (low, high) in ranges.items():
            if getattr(self, field) is None and field == "comparisons_per_second":
                continue
            value = require_number(getattr(self, field), f"cpu: {field}")
            if not low <= value <= high:
                most = f" and at most {high:g}" if high < math.inf else ""
                raise SpecError(
                    f"cpu: {field} {value!r} is out of range; give at least {low:g}{most}"
                )
        for field, known in _NAMES.items():
            require_name(getattr(self, field), known, f"cpu: {field}")
        for field, window in self.windows.items():
            if window is not None and window.size == 0:
                raise SpecError(f"cpu: {field} {getattr(self, field)!r} is 0; give more than 0")

    @property
    def has_fuel(self) -> bool:
        """Whether comparisons are counted."""
        return self.comparisons_per_second is not None

    def search_of(self, streams: Sequence[str]) -> tuple[float, ...] | None:
        """The share of each stream's arrivals that look for partners; None where all do."""
        if self.search is None:
            return None
        shares = per_stream("cpu: search", self.search, tuple(streams))
        for share in shares:
            if not 0.0 <= require_number(share, "cpu: search") <= 1.0:
                raise SpecError(f"cpu: search {share!r} is out of range; give 0 to 1")
        return tuple(float(share) for share in shares)

    @cached_property
    def windows(self) -> Mapping[str, Window | None]:
        """`adapt_every` and `basic_window` in normal form."""
        given = {"adapt_every": self.adapt_every, "basic_window": self.basic_window}
        return FrozenDict(
            (field, None if value is None else parse_window(value, f"cpu: {field}", counts=False))
            for field, value in given.items()
        )

    def _meaning(self) -> tuple[Any, ...]:
        numbers = (self.comparisons_per_second, self.boost, self.sample)
        return (*numbers, self.order, self.direction, self.search, *self.windows.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the budget as a dict that JSON can hold."""
        return fields_to_plain(self)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Cpu:
        """Make a budget from what `to_dict` returned."""
        refuse_unknown(plain, field_names(cls), "cpu")
        return cls(**{key: from_plain(value) for key, value in plain.items()})


register("cpu", Cpu, Cpu.to_dict, Cpu.from_dict)
