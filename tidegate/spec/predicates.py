"""Join predicates: what the user writes in `on`, resolved to one column per stream.

The law: a predicate is symmetric code over stream indexes. A `Term` is what a user wrote, before
the streams are known; `resolve_terms` turns the terms into predicates whose columns stand in
stream order. A list of terms is a conjunction. NULL in any column of a predicate matches nothing.
"""

from __future__ import annotations

import datetime
import importlib
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tidegate.spec.plain import FrozenDict, SpecError, freeze, from_plain, register, to_plain
from tidegate.spec.units import nearest_hint, parse_duration, require_integer, require_number

Bound: TypeAlias = int | float | datetime.timedelta
TermKind = Literal["band", "overlap", "inner_product", "theta"]
IndexKind = Literal["auto", "nested-loop", "hash", "btree", "ttree", "inverted"]
INDEX_KINDS: tuple[IndexKind, ...] = ("auto", "nested-loop", "hash", "btree", "ttree", "inverted")


@dataclass(frozen=True)
class Equal:
    """The columns of all streams are equal; `columns` has one name per stream, in stream order."""

    columns: tuple[str, ...]


@dataclass(frozen=True)
class Band:
    """`low <= second - first <= high`, both ends inclusive, streams taken in stream order.

    A bound is a number or a `datetime.timedelta`; an infinite bound (a float) leaves that side
    open and goes with both.
    """

    columns: tuple[str, ...]
    low: Bound
    high: Bound


@dataclass(frozen=True)
class Overlap:
    """The sets have at least `at_least` items in common (inclusive)."""

    columns: tuple[str, ...]
    at_least: int


@dataclass(frozen=True)
class InnerProduct:
    """The inner product of the weighted sets is at least `at_least` (inclusive)."""

    columns: tuple[str, ...]
    at_least: float


@dataclass(frozen=True)
class Theta:
    """`function` holds for the values of the first stream's columns, then the second's, ..."""

    function: Callable[..., Any]
    columns: tuple[tuple[str, ...], ...]


Predicate: TypeAlias = Equal | Band | Overlap | InnerProduct | Theta


@dataclass(frozen=True)
class Term:
    """One condition as the user wrote it; `band`, `overlap`, `inner_product`, `theta` make it."""

    kind: TermKind
    column: Any
    parameters: tuple[Any, ...] = ()

    def __repr__(self) -> str:
        shown = [self.column, *self.parameters]
        arguments = reversed(shown) if self.kind == "theta" else shown
        return f"{self.kind}({', '.join(map(repr, arguments))})"


def band(column: str | Mapping[str, str], low: Any, high: Any) -> Term:
    """Ask for `low <= right - left <= high`, both ends inclusive.

    Bounds are numbers, or durations (text or timedelta) on timestamp columns; `-math.inf` and
    `math.inf` leave a side open.
    """
    column = _frozen_column(column, "band")
    lower, upper = _bounds(low, high, f"band on {column!r}")
    if _is_empty_range(lower, upper):
        raise SpecError(f"band on {column!r} has low {low!r} above high {high!r}; swap them")
    return Term("band", column, (freeze(low), freeze(high)))


def overlap(column: str | Mapping[str, str], at_least: int) -> Term:
    """Ask for at least `at_least` items in common (inclusive) between two list columns."""
    column = _frozen_column(column, "overlap")
    count = require_integer(freeze(at_least), f"overlap on {column!r}: at_least")
    if count < 1:
        raise SpecError(f"overlap on {column!r}: at_least {count} is below 1; give 1 or more")
    return Term("overlap", column, (count,))


def inner_product(column: str | Mapping[str, str], at_least: float) -> Term:
    """Ask for an inner product of two weighted sets of at least `at_least` (inclusive)."""
    column = _frozen_column(column, "inner_product")
    return Term(
        "inner_product",
        column,
        (require_number(freeze(at_least), f"inner_product on {column!r}: at_least"),),
    )


def theta(function: Callable[..., Any], columns: Any) -> Term:
    """Ask for any numeric condition, given as a function that numba can compile.

    `columns` is a list of names, the same for every stream, or a dict of lists by stream. The
    function gets the first stream's values, then the second's: `fn(left_x, left_y, right_x, ...)`.
    """
    if not callable(function):
        raise SpecError(f"theta {function!r} is not a function; give one that numba can compile")
    return Term("theta", _frozen_column(columns, "theta"), (function,))


def _frozen_column(column: Any, where: str) -> Any:
    frozen = freeze(column)
    for value in frozen.values() if isinstance(frozen, FrozenDict) else (frozen,):
        names = value if isinstance(value, tuple) and value and where == "theta" else (value,)
        for name in names:
            require_column(name, where)
    return frozen


def require_column(name: Any, where: str) -> str:
    """Return a column name; anything but a text with something in it is an error."""
    if isinstance(name, str) and name:
        return name
    raise SpecError(f"{where} has {name!r} where a column name belongs; give a text such as 'id'")


def _bounds(low: Any, high: Any, where: str) -> tuple[Bound, Bound]:
    lower, upper = _bound(low, f"{where}: low"), _bound(high, f"{where}: high")
    if isinstance(lower, datetime.timedelta) == isinstance(upper, datetime.timedelta):
        return lower, upper
    # Zero is the same in every unit and infinity has none: both go with a duration.
    lower, upper = (datetime.timedelta(0) if bound == 0 else bound for bound in (lower, upper))
    if any(not isinstance(b, datetime.timedelta) and math.isfinite(b) for b in (lower, upper)):
        raise SpecError(
            f"{where} mixes a number and a duration in {low!r} and {high!r}; "
            "give two numbers or two durations"
        )
    return lower, upper


def _bound(value: Any, where: str) -> Bound:
    value = freeze(value)
    if isinstance(value, datetime.timedelta):
        return value
    if isinstance(value, str):
        try:
            return datetime.timedelta(microseconds=parse_duration(value, where))
        except OverflowError:
            raise SpecError(f"{where} {value!r} is too long; give a shorter duration") from None
    if isinstance(value, float) and math.isinf(value):
        return value
    return require_number(value, where, "a number or a duration")


def _is_empty_range(low: Any, high: Any) -> bool:
    if low == math.inf or high == -math.inf:
        return True
    if low == -math.inf or high == math.inf:
        return False
    return bool(low > high)


def per_stream(field: str, value: Any, streams: Sequence[str]) -> tuple[Any, ...]:
    """Spread one value over all streams, or put a dict by stream name into stream order."""
    if not isinstance(value, Mapping):
        return (value,) * len(streams)
    for name in value:
        if name not in streams:
            hint = nearest_hint(name, streams, "the streams are")
            raise SpecError(f"{field} names the unknown stream {name!r}; {hint}")
    missing = [name for name in streams if name not in value]
    if missing:
        raise SpecError(
            f"{field} {dict(value)!r} says nothing for stream {', '.join(map(repr, missing))}; "
            "give one value for all streams or one for each"
        )
    return tuple(value[name] for name in streams)


def resolve_terms(on: Any, streams: Sequence[str]) -> tuple[Predicate, ...]:
    """Resolve what the user wrote in `on` to predicates over the given streams."""
    conditions = on if isinstance(on, tuple) else (on,)
    if not conditions:
        raise SpecError("on is empty; give at least one column name or predicate")
    predicates = tuple(p for term in conditions for p in _resolve_condition(term, streams))
    for position, predicate in enumerate(predicates):
        if predicate in predicates[:position]:
            raise SpecError(f"on has the condition on {predicate.columns!r} twice; give it once")
    return predicates


def _resolve_condition(condition: Any, streams: Sequence[str]) -> list[Predicate]:
    if isinstance(condition, Term):
        columns = per_stream(f"on: {condition.kind}", condition.column, streams)
        return [_BUILDERS[condition.kind](columns, condition.parameters)]
    if not isinstance(condition, (str, Mapping)):
        raise SpecError(
            f"on {condition!r} is not a predicate; give a column name, a dict of column names by "
            "stream, band(), overlap(), inner_product(), theta(), or a list of these"
        )
    lists = [v if isinstance(v, tuple) else (v,) for v in per_stream("on", condition, streams)]
    if len({len(names) for names in lists}) > 1 or not lists[0]:
        raise SpecError(
            f"on {condition!r} has lists of different or no length; name as many columns for "
            "each stream"
        )
    return [
        Equal(tuple(require_column(name, "on") for name in pair))
        for pair in zip(*lists, strict=True)
    ]


def _build_band(columns: tuple[Any, ...], parameters: tuple[Any, ...]) -> Band:
    low, high = parameters
    return Band(columns, *_bounds(low, high, "band"))


def _build_theta(columns: tuple[Any, ...], parameters: tuple[Any, ...]) -> Theta:
    names = tuple(value if isinstance(value, tuple) else (value,) for value in columns)
    return Theta(parameters[0], names)


_BUILDERS: dict[TermKind, Callable[[tuple[Any, ...], tuple[Any, ...]], Predicate]] = {
    "band": _build_band,
    "overlap": lambda columns, parameters: Overlap(columns, *parameters),
    "inner_product": lambda columns, parameters: InnerProduct(columns, float(parameters[0])),
    "theta": _build_theta,
}


_SERVES: dict[str, tuple[tuple[type, ...], str]] = {
    "hash": ((Equal,), "equality"),
    "btree": ((Equal, Band), "equality and band"),
    "ttree": ((Equal, Band), "equality and band"),
    "inverted": ((Overlap, InnerProduct), "overlap and inner-product (above 0)"),
}


def index_serves(kind: str, predicate: Predicate) -> bool:
    """Say whether an index of this kind can find the tuples that meet the predicate."""
    if kind not in _SERVES:
        return True
    if isinstance(predicate, InnerProduct) and predicate.at_least <= 0:
        return False  # sets without a common item have the product 0 and would be missed
    return isinstance(predicate, _SERVES[kind][0])


def check_index(kind: str, predicates: Sequence[Predicate], where: str) -> None:
    """Refuse an index that can serve none of the conjunction's terms."""
    if any(index_serves(kind, predicate) for predicate in predicates):
        return
    fitting = [k for k in INDEX_KINDS if any(index_serves(k, p) for p in predicates)]
    raise SpecError(
        f"{where} {kind!r} serves only {_SERVES[kind][1]} terms and on has none; "
        f"give one of {', '.join(map(repr, fitting))}"
    )


def _write_term(term: Term) -> dict[str, Any]:
    parameters = term.parameters
    if term.kind == "theta":
        parameters = (_function_name(parameters[0]),)
    return {
        "kind": term.kind,
        "column": to_plain(term.column),
        "parameters": to_plain(parameters),
    }


def _read_term(plain: Mapping[str, Any]) -> Term:
    kind, column = plain["kind"], from_plain(plain["column"])
    parameters = from_plain(plain["parameters"])
    if kind == "theta":
        return theta(_function_of(parameters[0]), column)
    makers: dict[str, Callable[..., Term]] = {
        "band": band,
        "overlap": overlap,
        "inner_product": inner_product,
    }
    return makers[kind](column, *parameters)


def _function_name(function: Any) -> str:
    name = f"{getattr(function, '__module__', None)}:{getattr(function, '__qualname__', None)}"
    if _lookup(name) is not function:
        raise SpecError(
            f"theta's function {function!r} cannot be written as JSON because it cannot be "
            "imported by name; define it at the top level of a module"
        )
    return name


def _function_of(name: Any) -> Any:
    function = _lookup(str(name))
    if function is None:
        raise SpecError(
            f"theta's function {name!r} cannot be imported; give 'module:name' of a function "
            "that is on Python's path"
        )
    return function


def _lookup(name: str) -> Any:
    module_name, _, path = name.partition(":")
    try:
        found: Any = sys.modules.get(module_name) or importlib.import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError, TypeError):
        return None
    return found


register("term", Term, _write_term, _read_term)
