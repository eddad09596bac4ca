"""One run of an experiment, as data: which streams, which join, which policy, which seed.

Law: a configuration says all that decides its result and nothing else, as plain JSON; equal text
means equal result under the same version of the code. The version is a digest of the sources that
decide results, so that a change of a chart's colour recomputes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import tidegate

EXACT, OPTIMUM = "exact", "optimum"

# What shows results and what only asks for them; the rest of the package decides them.
_WITHOUT_INFLUENCE = ("cli", "spark", "lab", "__main__.py")
_BUT_IN_THE_LAB = (
    "configuration.py",
    "datasets.py",
    "families.py",
    "kwon2011_streams.py",
    "measure.py",
    "paper_streams.py",
    "sampling_error.py",
)


@dataclass(frozen=True)
class Configuration:
    """What one run needs to know.

    source
        A function of `paper_streams`, or `recorded` for a join of `datasets`.
    arguments
        Its arguments, without the seed.
    spec
        Options of `JoinSpec`, without policy, memory and seed.
    policy, parameters
        A policy and its parameters; `exact` and `optimum` are told apart from the names of
        policies by being none.
    memory
        The budget in tuples, or a share of the exact join's peak if below 1; None with `exact`.
    count_from
        Results before this time are not counted.
    seed
        Of the streams and of the policy.
    """

    source: str
    arguments: Mapping[str, Any]
    spec: Mapping[str, Any]
    policy: str = EXACT
    parameters: Mapping[str, Any] = field(default_factory=dict)
    memory: float | None = None
    count_from: int | None = None
    seed: int = 0

    @cached_property
    def text(self) -> str:
        """The configuration as JSON with sorted keys: what is stored beside its result."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return json.dumps(plain, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Configuration:
        """The configuration that `text` was made of."""
        return cls(**json.loads(text))

    @property
    def streams_text(self) -> str:
        """What decides the streams: runs that share it are best made one after the other."""
        return json.dumps([self.source, self.arguments, self.seed], sort_keys=True)

    def key(self, version: str) -> str:
        """Under what a result is stored."""
        return hashlib.sha256(f"{version}\n{self.text}".encode()).hexdigest()[:32]

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self.text == other.text


@lru_cache(maxsize=1)
def code_version() -> str:
    """A digest of the sources that decide results."""
    root = Path(tidegate.__file__).resolve().parent
    deciding = [
        path
        for path in sorted(root.rglob("*.py"))
        if path.relative_to(root).parts[0] not in _WITHOUT_INFLUENCE
    ]
    deciding += [root / "lab" / name for name in _BUT_IN_THE_LAB]
    digest = hashlib.sha256()
    for path in deciding:
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
