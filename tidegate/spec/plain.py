"""Values a spec can hold, made immutable, and as JSON.

The law: `freeze` gives a hashable value that equals what the user wrote, and `from_plain` gives
back exactly what `to_plain` was given: the same types, floats to the last bit. A JSON object with
one key that begins with `$` is a tagged value; every other object is a dict with text keys.
"""

from __future__ import annotations

import datetime
import decimal
import numbers
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn


class TidegateError(ValueError):
    """Something the user gave cannot be used; the message is one sentence that says why."""


class SpecError(TidegateError):
    """A `JoinSpec` or a part of it is wrong; the message names the field and what is right."""


# Known by their public names, also where Python prints them.
TidegateError.__module__ = SpecError.__module__ = "tidegate"


class FrozenDict(dict[Any, Any]):
    """A dict that equals the plain dict it was made from, can be hashed and never changes."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("this dict belongs to a frozen value and cannot be changed; copy it first")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[type[FrozenDict], tuple[dict[Any, Any]]]:
        # Unpickling a dict subclass would otherwise call the refused __setitem__.
        return FrozenDict, (dict(self),)


def freeze(value: Any) -> Any:
    """Copy lists into tuples and dicts into `FrozenDict`, and numpy or pandas values into Python's.

    Values of any other type are returned as they are.
    """
    if isinstance(value, datetime.timedelta):
        return _exact_timedelta(value)
    if type(value).__name__ == "timedelta64":
        return _exact_timedelta64(value)
    if callable(getattr(value, "tolist", None)):  # numpy arrays and scalars, pandas series
        value = value.tolist()
    if isinstance(value, Mapping):
        return FrozenDict({freeze(key): freeze(item) for key, item in value.items()})
    if isinstance(value, (list, tuple)):
        return tuple(freeze(item) for item in value)
    if isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    return value


def _exact_timedelta(value: datetime.timedelta) -> datetime.timedelta:
    # A pandas Timedelta is a timedelta that may carry nanoseconds, which time here does not.
    if getattr(value, "nanoseconds", 0):
        raise SpecError(f"the duration {value} has nanoseconds; give whole microseconds")
    return datetime.timedelta(value.days, value.seconds, value.microseconds)


def _exact_timedelta64(value: Any) -> datetime.timedelta:
    micros = value.astype("timedelta64[us]")
    result = micros.tolist()
    if not isinstance(result, datetime.timedelta) or micros != value:
        raise SpecError(f"the duration {value!r} is not a whole number of microseconds")
    return result


_encoders: dict[type, tuple[str, Callable[[Any], Any]]] = {}
_decoders: dict[str, Callable[[Any], Any]] = {}


def register(
    tag: str, kind: type, encode: Callable[[Any], Any], decode: Callable[[Any], Any]
) -> None:
    """Write values of exactly the type `kind` as `{"$tag": encode(value)}` and read them back."""
    _encoders[kind] = (f"${tag}", encode)
    _decoders[f"${tag}"] = decode


def to_plain(value: Any) -> Any:
    """Turn a frozen value into dicts, lists, texts and numbers that JSON can hold."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        # JSON has no infinity; finite floats are written so that they read back exactly.
        return value if abs(value) < float("inf") else {"$float": repr(value)}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    if isinstance(value, Mapping):
        return _mapping_to_plain(value)
    if type(value) not in _encoders:
        raise SpecError(
            f"a value of type {type(value).__name__} ({value!r}) cannot be written as JSON; "
            "use numbers, texts, durations, dates, or lists and dicts of these"
        )
    tag, encode = _encoders[type(value)]
    return {tag: encode(value)}


def _mapping_to_plain(value: Mapping[Any, Any]) -> dict[str, Any]:
    # Keys that are not texts, or that look like a tag, must not become an ambiguous object.
    if all(isinstance(key, str) and not key.startswith("$") for key in value):
        return {key: to_plain(item) for key, item in value.items()}
    return {"$map": [[to_plain(key), to_plain(item)] for key, item in value.items()]}


def from_plain(value: Any) -> Any:
    """Turn what `to_plain` wrote back into the frozen value; raise `SpecError` if it is not."""
    if isinstance(value, list):
        return tuple(from_plain(item) for item in value)
    if not isinstance(value, dict):
        return value
    tag = next(iter(value)) if len(value) == 1 else ""
    if not tag.startswith("$"):
        return FrozenDict({key: from_plain(item) for key, item in value.items()})
    if tag not in _decoders:
        raise SpecError(f"the JSON tag {tag!r} is not known; known: {', '.join(sorted(_decoders))}")
    try:
        return _decoders[tag](value[tag])
    except SpecError:
        raise
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        raise SpecError(f"the JSON value {value[tag]!r} of {tag!r} cannot be read") from error


def microseconds_of(value: datetime.timedelta) -> int:
    """Count the whole microseconds of a duration, exactly at any size."""
    return (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds


def _read_map(pairs: Iterable[tuple[Any, Any]]) -> FrozenDict:
    return FrozenDict({from_plain(key): from_plain(item) for key, item in pairs})


_decoders["$float"] = float
_decoders["$map"] = _read_map
register(
    "microseconds",
    datetime.timedelta,
    microseconds_of,
    lambda count: datetime.timedelta(microseconds=count),
)
register("datetime", datetime.datetime, lambda v: v.isoformat(), datetime.datetime.fromisoformat)
register("date", datetime.date, lambda v: v.isoformat(), datetime.date.fromisoformat)
register("decimal", decimal.Decimal, str, decimal.Decimal)
register("bytes", bytes, lambda v: v.hex(), bytes.fromhex)
