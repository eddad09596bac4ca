"""The policies that take part in an experiment, as far as this version has them.

Law: what `tg.policies()` lists takes part, in every variant that its constructor offers; what it
does not list is named as missing. So a new policy enters the figures without a change here.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tidegate as tg

STATISTICS = ("window", "retained")


@dataclass(frozen=True)
class Contender:
    """A policy with its parameters, under the name that charts show."""

    label: str
    policy: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


def takes(policy: str, parameter: str) -> bool:
    """Whether a policy's public constructor has a parameter."""
    make = getattr(tg, policy.replace("-", "_"), None)
    return callable(make) and parameter in inspect.signature(make).parameters


def contenders(
    names: Iterable[str], constants: Mapping[str, Mapping[str, Any]] | None = None
) -> list[Contender]:
    """Those of the names that this version has, with constants by policy where they are given.

    A policy that counts matches does so over the full windows, by small counters ("window"), or
    over what it retained; the first carries the plain name.
    """
    here = set(tg.policies())
    found = []
    for name in names:
        if name not in here:
            continue
        given = {k: v for k, v in (constants or {}).get(name, {}).items() if takes(name, k)}
        if takes(name, "statistics"):
            window, retained = STATISTICS
            found.append(Contender(name, name, {**given, "statistics": window}))
            found.append(Contender(f"{name} (retained)", name, {**given, "statistics": retained}))
        else:
            found.append(Contender(name, name, given))
    return found


def missing(names: Iterable[str]) -> list[str]:
    """Those of the names that this version lacks."""
    here = set(tg.policies())
    return [name for name in names if name not in here]


def missing_note(names: Sequence[str]) -> list[str]:
    """One sentence about policies that are left out, or nothing."""
    lacking = missing(names)
    if not lacking:
        return []
    return [f"Left out, since this version does not have them yet: {', '.join(lacking)}."]
