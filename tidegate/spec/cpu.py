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
_SOURCES = ("comparisons_per_second", "share_of_core")  # of fuel, besides keep_up
_RANGES = {
    "comparisons_per_second": (0.0, math.inf),
    "boost": (1.0, math.inf),
    "sample": (0.0, 1.0),
    "share_of_core": (1e-6, 1024.0),
}


@explained()
@dataclass(frozen=True, eq=False)
class Cpu(ComparedByMeaning):
    """A budget of CPU time, counted in comparisons: process less, not fewer (gedik2005).

    Every tuple is retained, and joined with the part of the opposite window that pays. Results are
    a part of those of the exact join; with enough fuel they are all of them.

    Give one of `comparisons_per_second`, `keep_up` and `share_of_core`.

    comparisons_per_second
        How many comparisons may be made per second of event time (per unit of integer times); 0 or
        more. Up to one adaptation period of it is saved up. Results are the same on any machine.
    adapt_every
        Duration or integer between two adaptations; None takes a quarter of the longest window.
    boost
        Factor, 1 or more, by which the share that is processed may grow at an adaptation; where the
        fuel of the last period would have allowed much more, the margin that is left at first.
    sample
        Share of the fuel, 0 to 1 inclusive, that goes to tuples that are joined in full, to learn
        where matches lie; less where many tuples come in an adaptation period.
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
        by others (kang2003, section 5.2.1). None: all look. Without fuel it is the only limit, and
        serves any windows and indexes; `Plan.apply` says what to give.
    keep_up
        On Spark: the number of comparisons follows the time that micro-batches take, so that a
        stream that is too fast is joined in part and without delay. What was granted is written
        into the state with the rows, so a restart repeats it. An engine without Spark takes it
        with each push, as `push(..., fuel=)`.
    interval
        With `keep_up`: the duration that a micro-batch may take, as the query's trigger has it.
        None allows each as long as the event time that it brings.
    share_of_core
        How much of one CPU core may be spent comparing, above 0; as comparisons per second of
        event time that a core of this machine makes, measured once and kept. So results depend on
        the machine, and what results cost is not in it.
    """

    comparisons_per_second: float | None = None
    adapt_every: Any = None
    boost: float = 1.2
    sample: float = 0.1
    basic_window: Any = None
    direction: Literal["adaptive", "better-first", "even"] = "adaptive"
    order: Literal["learned", "youngest"] = "learned"
    search: Any = None
    keep_up: bool = False
    interval: Any = None
    share_of_core: float | None = None

    def __post_init__(self) -> None:
        freeze_fields(self)
        self._check_source()
        for field, (low, high) in _RANGES.items():
            if getattr(self, field) is None and field in _SOURCES:
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
        return self.keep_up or any(getattr(self, name) is not None for name in _SOURCES)

    def search_of(self, streams: Sequence[str]) -> tuple[float, ...] | None:
        """The share of each stream's arrivals that look for partners; None where all do."""
        if self.search is None:
            return None
        shares = per_stream("cpu: search", self.search, tuple(streams))
        for share in shares:
            if not 0.0 <= require_number(share, "cpu: search") <= 1.0:
                raise SpecError(f"cpu: search {share!r} is out of range; give 0 to 1")
        return tuple(float(share) for share in shares)

    def _check_source(self) -> None:
        """Fuel comes from one place, or there is none and only some arrivals search."""
        if not isinstance(self.keep_up, bool):
            raise SpecError(f"cpu: keep_up {self.keep_up!r} is not a bool; give True or False")
        given = [name for name in _SOURCES if getattr(self, name) is not None]
        given += ["keep_up"] if self.keep_up else []
        if not given and self.search is None:
            raise SpecError(
                "cpu limits nothing; give comparisons_per_second=, share_of_core=, keep_up=True "
                "or search="
            )
        if len(given) > 1:
            raise SpecError(
                f"cpu has {' and '.join(given)}; give one of comparisons_per_second=, "
                "share_of_core= and keep_up=True"
            )
        if self.interval is not None and not self.keep_up:
            raise SpecError(
                "cpu: interval is given without keep_up; give keep_up=True, or leave it out"
            )
        wait = self.interval_seconds
        if wait is not None and wait <= 0.0:
            raise SpecError(f"cpu: interval {self.interval!r} is 0; give more than 0")

    @cached_property
    def interval_seconds(self) -> float | None:
        """How long a micro-batch may take."""
        if self.interval is None:
            return None
        window = parse_window(self.interval, "cpu: interval", counts=False)
        if window.kind != "duration":
            raise SpecError(
                f"cpu: interval {self.interval!r} is not a duration; write one such as '10 seconds'"
            )
        return window.size / 1e6

    @cached_property
    def windows(self) -> Mapping[str, Window | None]:
        """`adapt_every` and `basic_window` in normal form."""
        given = {"adapt_every": self.adapt_every, "basic_window": self.basic_window}
        return FrozenDict(
            (field, None if value is None else parse_window(value, f"cpu: {field}", counts=False))
            for field, value in given.items()
        )

    def _meaning(self) -> tuple[Any, ...]:
        source = (self.comparisons_per_second, self.share_of_core, self.keep_up, self.search)
        numbers = (self.interval_seconds, self.boost, self.sample)
        return (*source, *numbers, self.order, self.direction, *self.windows.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the budget as a dict that JSON can hold."""
        return fields_to_plain(self)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Cpu:
        """Make a budget from what `to_dict` returned."""
        refuse_unknown(plain, field_names(cls), "cpu")
        return cls(**{key: from_plain(value) for key, value in plain.items()})


register("cpu", Cpu, Cpu.to_dict, Cpu.from_dict)
