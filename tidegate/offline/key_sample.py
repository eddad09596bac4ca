"""All tuples of some keys: a smaller join of the same kind.

Law: a key belongs to one of GROUPS groups by its hash and the seed of the spec; a sample is some of
the groups, whole. The results of the sampled tuples are those results of the full join that have a
sampled key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.binding.binding import Binding
from tidegate.binding.result_schema import bind
from tidegate.columns.storage import some_rows
from tidegate.spec import Equal, JoinSpec, TidegateError

GROUPS = 200
TWO_SIDED_95 = 1.96
_MIX_1, _MIX_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_SPREAD = 0xBF58476D1CE4E5B9


class KeySample(NamedTuple):
    """The tuples of some groups of keys."""

    tables: dict[str, pa.Table]
    group: dict[str, NDArray[np.int64]]  # by stream, for each row of its table
    chosen: int  # groups
    binding: Binding

    @property
    def share(self) -> float:
        return self.chosen / GROUPS


def why_not(spec: JoinSpec) -> str | None:
    """Why keys of this join cannot be sampled, or None if they can."""
    if not any(isinstance(predicate, Equal) for predicate in spec.predicates):
        return "sample needs an equality among the predicates, to take keys from"
    if any(window.kind == "rows" for window in spec.windows):
        return "sample needs time windows: a count window counts all keys"
    return None


def check_share(share: float) -> None:
    if not 0 < share <= 1:
        raise TidegateError(f"sample {share!r} is not a share; give more than 0 and at most 1")


def sampled(tables: Mapping[str, pa.Table], spec: JoinSpec, share: float) -> KeySample:
    """The rows of about a `share` of the keys, at least two groups."""
    chosen = max(2, round(share * GROUPS))
    schemas = {name: tables[name].schema for name in spec.streams}
    binding = bind(spec.replace(memory=None, split="auto", policy="auto"), schemas)
    some, group = {}, {}
    for stream, name in enumerate(spec.streams):
        groups = _groups(tables[name], stream, spec.seed, binding)
        some[name] = some_rows(tables[name], pa.array(groups < chosen))
        group[name] = groups[groups < chosen]
    return KeySample(some, group, chosen, binding)


def _groups(table: pa.Table, stream: int, seed: int, binding: Binding) -> NDArray[np.int64]:
    """For each row the group of its key, from 0 to GROUPS - 1."""
    code = np.asarray(binding.encode(stream, table).code).view(np.uint64)
    return ((mixed(code, seed) >> np.uint64(33)) % np.uint64(GROUPS)).astype(np.int64)


def mixed(code: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Codes of keys as evenly spread numbers, which say nothing about those of another seed."""
    # A small seed alone would only exchange the numbers of neighbouring keys.
    found = (code ^ np.uint64(seed * _SPREAD % 2**64)) * _MIX_1
    found = (found ^ (found >> np.uint64(31))) * _MIX_2
    return found ^ (found >> np.uint64(29))


def half_width(parts: NDArray[np.float64], wholes: NDArray[np.float64], share: float) -> float:
    """Half of the 95 % interval of sum(parts) / sum(wholes), by the spread between groups."""
    total = float(wholes.sum())
    if total <= 0.0 or len(wholes) < 2:
        return 0.0
    # Of a ratio of sums: the spread of what each group has above its part of the ratio.
    above = parts - float(parts.sum()) / total * wholes
    spread = float(np.std(above, ddof=1)) * np.sqrt(len(wholes) * (1.0 - share))
    return TWO_SIDED_95 * float(spread) / total
