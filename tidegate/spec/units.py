"""Durations, byte sizes and windows, read from what a user writes.

The law: a quantity is read exactly or refused. Durations become whole microseconds by rational
arithmetic, byte sizes whole bytes; nothing is guessed when a unit is missing or not fixed in
length.
"""

from __future__ import annotations

import datetime
import difflib
import math
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from tidegate.spec.plain import SpecError, freeze, microseconds_of, register

WindowKind = Literal["duration", "integer", "rows"]

# Event times lie within +-LARGEST_TIME, so that differences and bounds fit 64 bits.
LARGEST_TIME = 2**62

_DURATION_EXAMPLE = "such as '10 minutes', '1h 30m', '500 ms', '2 days' or 'PT10M'"
_MICROSECONDS = {
    Fraction(1, 1000): "ns nanosecond nanoseconds",
    Fraction(1): "us µs μs microsecond microseconds",
    Fraction(1_000): "ms milli millis millisecond milliseconds",
    Fraction(1_000_000): "s sec secs second seconds",
    Fraction(60_000_000): "m min mins minute minutes",
    Fraction(3_600_000_000): "h hr hrs hour hours",
    Fraction(86_400_000_000): "d day days",
    Fraction(604_800_000_000): "w week weeks",
}
_DURATION_UNITS = {name: size for size, names in _MICROSECONDS.items() for name in names.split()}
_UNFIXED_UNITS = frozenset(("month", "months", "quarter", "quarters", "y", "yr", "year", "years"))
_BYTE_UNITS: dict[str, int] = {"b": 1, "byte": 1, "bytes": 1} | {
    f"{letter}{infix}b": base**power
    for power, letter in enumerate("kmgt", start=1)
    for infix, base in (("", 1000), ("i", 1024))
}
_NUMBER = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_QUANTITY = re.compile(rf"\s*({_NUMBER})\s*([A-Za-zµμ]*)\s*")
_ISO = re.compile(
    rf"P(?:({_NUMBER})W)?(?:({_NUMBER})D)?"
    rf"(?:T(?=[0-9.])(?:({_NUMBER})H)?(?:({_NUMBER})M)?(?:({_NUMBER})S)?)?"
)
_ISO_UNITS = ("w", "d", "h", "m", "s")


@dataclass(frozen=True)
class Rows:
    """A count window: it holds the last `count` tuples of its stream."""

    count: int

    def __post_init__(self) -> None:
        count = require_integer(freeze(self.count), "rows")
        if count < 0:
            raise SpecError(f"rows({count}) is negative; give a count of 0 or more")
        object.__setattr__(self, "count", count)

    def __repr__(self) -> str:
        return f"rows({self.count})"


register("rows", Rows, lambda value: value.count, Rows)


def rows(count: int) -> Rows:
    """Make a count window: a tuple dies when `count` newer ones of its own stream have come."""
    return Rows(count)


@dataclass(frozen=True)
class Window:
    """How long a tuple waits for partners, both ends inclusive.

    kind
        "duration": `size` is in microseconds and the time columns are timestamps or dates.
        "integer": `size` is in the unit of the integer time columns.
        "rows": `size` is a number of tuples of the same stream.
        A size of 0 of kind "integer" or "duration" fits time columns of either sort.
    """

    kind: WindowKind
    size: int


def parse_duration(text: str, where: str) -> int:
    """Read a duration as whole microseconds; it may begin with a sign.

    >>> parse_duration("1h 30m", "within")
    5400000000
    >>> parse_duration("-500 ms", "band")
    -500000
    """
    body = text.strip()
    sign = -1 if body.startswith("-") else 1
    body = body[1:].lstrip() if body[:1] in ("-", "+") else body
    # A bound on the length keeps absurd digit strings away from the exact arithmetic.
    total = _sum_of_parts(body, text, where) if 0 < len(body) <= 100 else None
    if total is None:
        shown = text if len(text) <= 60 else f"{text[:60]}..."
        raise SpecError(f"{where} {shown!r} is not a duration; write one {_DURATION_EXAMPLE}")
    if total.denominator != 1:
        raise SpecError(f"{where} {text!r} is not a whole number of microseconds; round it")
    return sign * total.numerator


def duration_text(microseconds: int) -> str:
    """Write a duration as people do; equal durations have equal texts, different ones do not.

    >>> duration_text(600_000_000), duration_text(5_400_000_000), duration_text(1_500)
    ('10 minutes', '1 hour 30 minutes', '1 millisecond 500 microseconds')
    """
    if microseconds < 0:
        return f"-{duration_text(-microseconds)}"
    parts = []
    for name in ("day", "hour", "minute", "second", "millisecond", "microsecond"):
        count, microseconds = divmod(microseconds, int(_DURATION_UNITS[name]))
        if count:
            parts.append(f"{count} {name}" + ("s" if count > 1 else ""))
    return " ".join(parts) or "0 seconds"


def bytes_text(size: int) -> str:
    """Write a byte size in the largest unit in which it is a whole number.

    >>> bytes_text(200_000_000), bytes_text(2_000), bytes_text(2_001)
    ('200 MB', '2 kB', '2001 bytes')
    """
    for power, unit in ((4, "TB"), (3, "GB"), (2, "MB"), (1, "kB")):
        if size and size % 1000**power == 0:
            return f"{size // 1000**power} {unit}"
    return f"{size} bytes"


def window_text(window: Window) -> str:
    """Write a window in the user's words.

    >>> window_text(Window("duration", 60_000_000)), window_text(Window("rows", 5))
    ('1 minute', '5 rows')
    """
    if window.kind == "duration":
        return duration_text(window.size)
    return f"{window.size} rows" if window.kind == "rows" else str(window.size)


def _sum_of_parts(body: str, text: str, where: str) -> Fraction | None:
    iso = _ISO.fullmatch(body.upper())
    if iso and any(iso.groups()):
        parts = zip(iso.groups(), _ISO_UNITS, strict=True)
        return sum((Fraction(n) * _DURATION_UNITS[unit] for n, unit in parts if n), Fraction(0))
    total, position = Fraction(0), 0
    while position < len(body):
        match = _QUANTITY.match(body, position)
        if match is None:
            return None
        total += Fraction(match[1]) * _duration_unit(match[2], text, where)
        position = match.end()
    return total


def _duration_unit(unit: str, text: str, where: str) -> Fraction:
    if not unit:
        raise SpecError(
            f"{where} {text!r} has a number without a unit; write a duration {_DURATION_EXAMPLE}, "
            "or an integer (not a text) for integer time columns"
        )
    if unit.lower() in _UNFIXED_UNITS:
        raise SpecError(
            f"{where} {text!r} uses {unit!r}, which has no fixed length; write it in days"
        )
    if unit.lower() not in _DURATION_UNITS:
        raise SpecError(
            f"{where} {text!r} has the unknown unit {unit!r}; write a duration {_DURATION_EXAMPLE}"
        )
    return _DURATION_UNITS[unit.lower()]


def parse_bytes(text: str, where: str) -> int:
    """Read a byte size: kB, MB, GB and TB are powers of 1000, KiB, MiB, GiB and TiB of 1024.

    >>> parse_bytes("200 MB", "memory")
    200000000
    """
    match = _QUANTITY.fullmatch(text) if len(text) <= 100 else None
    if match is not None and not match[2]:
        raise SpecError(
            f"{where} {text!r} has no unit; write a size such as '200 MB', "
            "or a number (not a text) for a count of tuples"
        )
    if match is None or match[2].lower() not in _BYTE_UNITS:
        raise SpecError(
            f"{where} {text!r} is not a size; write one such as '200 MB', '1.5 GiB' or '4096 B', "
            "or give a number of tuples"
        )
    size = Fraction(match[1]) * _BYTE_UNITS[match[2].lower()]
    return size.numerator // size.denominator


def parse_window(value: Any, where: str, *, counts: bool = True) -> Window:
    """Read a window: a duration, an integer or, where `counts` allows it, `rows(n)`."""
    if isinstance(value, Rows):
        if not counts:
            raise SpecError(f"{where} {value!r} is a count; give a duration or an integer")
        return Window("rows", value.count)
    if isinstance(value, (str, datetime.timedelta)):
        kind: WindowKind = "duration"
        size = parse_duration(value, where) if isinstance(value, str) else microseconds_of(value)
    else:
        allowed = "a duration, an integer or rows(n)" if counts else "a duration or an integer"
        kind, size = "integer", require_integer(value, where, allowed)
    if not 0 <= size <= LARGEST_TIME:
        problem = "is negative" if size < 0 else "is longer than 2**62 units of time"
        raise SpecError(f"{where} {value!r} {problem}; give 0 or more, and at most 2**62")
    return Window(kind, size)


def require_integer(value: Any, where: str, allowed: str = "an integer") -> int:
    """Return an integer unchanged; a bool, a float or anything else is an error."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        raise SpecError(f"{where} {value!r} is not finite; give {allowed}")
    raise SpecError(f"{where} {value!r} is {_type_phrase(value)}; give {allowed}")


def require_number(value: Any, where: str, allowed: str = "a finite number") -> int | float:
    """Return a finite number unchanged; a bool, NaN, an infinity or anything else is an error."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise SpecError(f"{where} {value!r} is {_type_phrase(value)}; give {allowed}")
    if not -sys.float_info.max <= value <= sys.float_info.max:  # NaN, infinities, huge integers
        raise SpecError(f"{where} {value!r} is not finite; give {allowed}")
    return value


def _type_phrase(value: Any) -> str:
    if value is None:
        return "not set"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def nearest_hint(value: Any, known: Iterable[str], label: str = "known") -> str:
    """Say the nearest known name, where there is one, and list them all."""
    names = list(known)
    near = difflib.get_close_matches(str(value).lower(), names, n=1, cutoff=0.5)
    start = f"did you mean {near[0]!r}? {label.capitalize()}" if near else label
    return f"{start}: {', '.join(names)}"


def require_name(value: Any, known: Iterable[str], where: str) -> str:
    """Return a name that is one of `known`; any other gives the list and the nearest of them."""
    names = tuple(known)
    if isinstance(value, str) and value in names:
        return value
    raise SpecError(f"{where} {value!r} is not known; {nearest_hint(value, names)}")
