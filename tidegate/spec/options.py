"""Options of a spec that are objects or groups of numbers: a shedding policy, a split.

The law: an option is frozen, equals every other that means the same, and comes back from the dict
that its `to_dict` gives.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from tidegate.spec.plain import SpecError, freeze, from_plain, register, to_plain
from tidegate.spec.predicates import per_stream
from tidegate.spec.units import nearest_hint, require_name, require_number

Made = TypeVar("Made", bound=Callable[..., Any])

_SPLITS = ("even", "auto", "shared")


def field_names(dataclass_or_value: Any) -> tuple[str, ...]:
    """Return the names of a dataclass's fields, in order."""
    return tuple(field.name for field in dataclasses.fields(dataclass_or_value))


def freeze_fields(value: Any) -> None:
    """Replace each field of a frozen dataclass by an immutable copy, once, at construction."""
    for name in field_names(value):
        try:
            object.__setattr__(value, name, freeze(getattr(value, name)))
        except SpecError as error:
            raise SpecError(f"{name}: {error}") from None


def fields_to_plain(value: Any, **instead: Any) -> dict[str, Any]:
    """Return the fields as JSON can hold them, some of them by another value."""
    return {name: to_plain(instead.get(name, getattr(value, name))) for name in field_names(value)}


def refuse_unknown(given: Any, known: Sequence[str], where: str) -> None:
    """Refuse anything but a dict whose keys are all known."""
    if not isinstance(given, Mapping):
        raise SpecError(f"{where} {given!r} is not an object; give the fields {', '.join(known)}")
    for name in given:
        if name not in known:
            raise SpecError(f"{where} has no field {name!r}; {nearest_hint(name, known)}")


def explained(**hints: str) -> Callable[[Made], Made]:
    """Decorate a function or a class so that wrong arguments get a sentence, not a TypeError.

    `hints` are names that people try, and what is to be said to them.
    """

    def decorate(made: Made) -> Made:
        if not isinstance(made, type):
            checked = _explaining(made, f"tidegate.{made.__name__}", hints)
            return cast(Made, functools.wraps(made)(checked))
        init = getattr(made, "__init__")  # noqa: B009
        checked = _explaining(init, made.__name__, hints)
        setattr(made, "__init__", functools.wraps(init)(checked))  # noqa: B010
        return made

    return decorate


def option_hint(name: str, known: Sequence[str], hints: Mapping[str, str]) -> str:
    """What to say to an unknown option: the nearest, or a hint for one that people try."""
    near = difflib.get_close_matches(name.lower(), [*known, *hints], n=1)
    if near and near[0] in hints:
        return hints[near[0]]
    return nearest_hint(name, known) if known else "it takes none"


def _explaining(call: Callable[..., Any], where: str, hints: Mapping[str, str]) -> Any:
    signature = inspect.signature(call)
    known = [name for name in signature.parameters if name != "self"]
    needed = [n for n in known if signature.parameters[n].default is inspect.Parameter.empty]

    def checked(*given: Any, **named: Any) -> Any:
        for name in named:
            if name not in known:
                raise SpecError(
                    f"{where} has no option {name!r}; {option_hint(name, known, hints)}"
                )
        try:
            signature.bind(*given, **named)
        except TypeError as error:
            wanted = ", ".join(f"{name}=" for name in needed or known)
            raise SpecError(
                f"{where} cannot be made of these arguments ({error}); give {wanted or 'none'}"
            ) from None
        return call(*given, **named)

    return checked


class ComparedByMeaning:
    """Equality and hash by normal form, so that "1 min" and "60 s" are the same wish."""

    def _meaning(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self._meaning() == other._meaning()

    def __hash__(self) -> int:
        return hash(self._meaning())


@dataclass(frozen=True)
class Policy:
    """A shedding policy by name, with its parameters sorted by name.

    >>> Policy.of("dgl", decay=0.99) == Policy.from_dict(Policy.of("dgl", decay=0.99).to_dict())
    True
    """

    name: str
    parameters: tuple[tuple[str, object], ...] = ()

    def __post_init__(self) -> None:
        name: Any = self.name
        if not isinstance(name, str) or not name:
            raise SpecError(f"policy name {self.name!r} is not a name; give a text such as 'value'")
        pairs = tuple(sorted(freeze(self.parameters), key=lambda pair: str(pair[0])))
        names = [pair[0] for pair in pairs]
        if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise SpecError(
                f"policy {self.name!r} has parameters {names!r}; each must have a name of its own"
            )
        try:
            hash(pairs)
        except TypeError as error:
            raise SpecError(
                f"policy {self.name!r} has a parameter that can change ({error}); "
                "give numbers, texts, or lists and dicts of these"
            ) from None
        object.__setattr__(self, "parameters", pairs)

    @classmethod
    def of(cls, name: str, **parameters: object) -> Policy:
        """Make a policy from keyword parameters."""
        return cls(name, tuple(parameters.items()))

    def get(self, parameter: str, default: Any = None) -> Any:
        """Return a parameter's value, or the default where it is not set."""
        return dict(self.parameters).get(parameter, default)

    def to_dict(self) -> dict[str, Any]:
        """Return the policy as a dict that JSON can hold."""
        return {"name": self.name, "parameters": {k: to_plain(v) for k, v in self.parameters}}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Policy:
        """Make a policy from what `to_dict` returned."""
        refuse_unknown(plain, ("name", "parameters"), "policy")
        if "name" not in plain:
            raise SpecError(f"policy {dict(plain)!r} has no name; give 'name' and 'parameters'")
        parameters = plain.get("parameters", {})
        return cls(plain["name"], tuple((k, from_plain(v)) for k, v in parameters.items()))


register("policy", Policy, Policy.to_dict, Policy.from_dict)


def read_split(
    split: Any, streams: Sequence[str], memory: Any, memory_rows: int | None
) -> tuple[tuple[int, ...] | None, tuple[float, ...] | None]:
    """Return explicit tuples or shares by stream; a named split has neither.

    Integers are tuples, also where they sum to 1; one float among the numbers makes them shares.
    """
    if isinstance(split, str):
        require_name(split, _SPLITS, "split")
        return None, None
    values = split if isinstance(split, tuple) else per_stream("split", split, streams)
    if len(values) != len(streams):
        raise SpecError(
            f"split {values!r} has {len(values)} numbers for {len(streams)} streams; "
            "give one for each"
        )
    for value in values:
        allowed = f"one of {', '.join(_SPLITS)}, or one number for each stream"
        if require_number(value, "split", allowed) < 0:
            raise SpecError(f"split {values!r} has the negative number {value!r}; give 0 or more")
    if any(isinstance(value, float) for value in values):
        return None, _checked_shares(values)
    return _checked_rows(values, memory, memory_rows), None


def _checked_shares(values: tuple[float, ...]) -> tuple[float, ...]:
    total = math.fsum(values)
    # Shares such as 0.1 + 0.2 + 0.7 miss 1 by rounding only.
    if abs(total - 1.0) > 1e-9:
        raise SpecError(
            f"split {values!r} are shares that sum to {total:g}; give floats that sum to 1, "
            "or integers for numbers of tuples"
        )
    return tuple(float(value) for value in values)


def _checked_rows(values: tuple[int, ...], memory: Any, memory_rows: int | None) -> tuple[int, ...]:
    if memory_rows is None:
        raise SpecError(
            f"split {values!r} gives numbers of tuples but memory is {memory!r}; "
            "give memory as a number of tuples, or shares that sum to 1.0"
        )
    if sum(values) > memory_rows:
        raise SpecError(
            f"split {values!r} sums to {sum(values)}, above memory {memory_rows}; "
            "give numbers that sum to at most memory"
        )
    return values
