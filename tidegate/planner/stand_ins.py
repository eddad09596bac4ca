"""A part of the tuples of long streams, in which a join behaves as in all of them.

Law: each result of the whole join is in the sampled one with the same probability, the `rate`. A
result belongs to its first tuple, which must be retained to give it; so a tuple of a key with the
inclusion p stays with the probability rate / p, and else only passes (`engine.miniature`). Rare
keys are included with p = rate, and then stay; the more frequent a key is, the larger is p. So keys
with many results cannot be missed, all keys keep their true frequencies, and retained tuples are
the same share of every key: the memory of the whole, times that share, holds the same keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.binding.binding import Encoded
from tidegate.binding.result_schema import bind
from tidegate.columns.storage import some_rows
from tidegate.offline.key_sample import mixed
from tidegate.spec import JoinSpec

# Tuples that pass cost time and make estimates better: so many times those that stay.
ROWS_PER_STAY = 4
_BINS = 22  # bits: keys are counted by hash, and few share a count
_HALVINGS = 40

Floats = NDArray[np.float64]
Codes = NDArray[np.uint64]
Mask = NDArray[np.bool_]


class StandIns(NamedTuple):
    """The tuples that are replayed; by stream, for each of its rows."""

    tables: dict[str, pa.Table]
    code: dict[str, Codes]  # of its key
    inclusion: dict[str, Floats]  # of its key
    stays: dict[str, Mask]
    rate: float
    total: int  # rows of the whole streams

    @property
    def rows(self) -> int:
        """How many are replayed."""
        return sum(table.num_rows for table in self.tables.values())

    @property
    def portion(self) -> float:
        """The share of all rows that stays."""
        staying = sum(int(stays.sum()) for stays in self.stays.values())
        return staying / max(1, self.total) or self.rate


def can_pass(spec: JoinSpec) -> bool:
    """Whether tuples may pass: a result of more than two has more than one that must be retained,
    and tuples of an instant meet without being retained."""
    return len(spec.streams) == 2 and spec.ties == "arrival"


def chosen(tables: Mapping[str, pa.Table], spec: JoinSpec, rate: float) -> StandIns:
    """The tuples that stand for all, of streams in memory."""
    total = sum(table.num_rows for table in tables.values())
    wanted = rate * total * (ROWS_PER_STAY if can_pass(spec) else 1)
    code = {name: each.code.view(np.uint64) for name, each in encoded(tables, spec).items()}
    bits = min(_BINS, int(total).bit_length() + 1)
    bins = {name: mixed(codes, 1) >> np.uint64(64 - bits) for name, codes in code.items()}
    counts = np.zeros(1 << bits)
    for found in bins.values():
        counts += np.bincount(found.astype(np.int64), minlength=1 << bits)
    by_bin = inclusions(counts, rate, wanted)
    inclusion = {name: by_bin[found] for name, found in bins.items()}
    taken = {name: uniform(code[name], spec.seed) < inclusion[name] for name in spec.streams}
    some = {name: some_rows(tables[name], pa.array(taken[name])) for name in spec.streams}
    return drawn(some, {name: inclusion[name][taken[name]] for name in some}, spec, rate, total)


def drawn(
    tables: Mapping[str, pa.Table],
    inclusion: Mapping[str, Floats],
    spec: JoinSpec,
    rate: float,
    total: int,
) -> StandIns:
    """Of tuples whose keys were included: who of them stays."""
    random = np.random.default_rng(spec.seed)
    found = StandIns({}, {}, {}, {}, rate, total)
    for name, each in encoded(tables, spec).items():
        stays = random.random(len(each.code)) * inclusion[name] < rate
        kept = stays | (each.matchable != 0)  # what meets nobody need not pass
        found.tables[name] = some_rows(tables[name], pa.array(kept))
        found.code[name] = each.code[kept].view(np.uint64)
        found.inclusion[name] = inclusion[name][kept]
        found.stays[name] = stays[kept]
    return found


def encoded(tables: Mapping[str, pa.Table], spec: JoinSpec) -> dict[str, Encoded]:
    """The rows of each stream as numbers."""
    schemas = {name: tables[name].schema for name in spec.streams}
    binding = bind(spec.replace(memory=None, split="auto", policy="auto"), schemas)
    return {name: binding.encode(at, tables[name]) for at, name in enumerate(spec.streams)}


def inclusions(counts: Floats, rate: float, wanted: float) -> Floats:
    """The inclusion of keys with so many tuples: min(1, max(rate, c counts)), with the c that
    makes so many rows.

    >>> inclusions(np.array([1.0, 9.0, 90.0]), 0.1, 60.0).round(3).tolist()
    [0.1, 0.1, 0.656]
    """
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        rows = float(np.minimum(1.0, np.maximum(rate, middle * counts)) @ counts)
        low, high = (middle, high) if rows < wanted else (low, middle)
    return np.minimum(1.0, np.maximum(rate, low * counts))


def uniform(code: Codes, seed: int) -> Floats:
    """A number in [0, 1) for each key."""
    return (mixed(code, seed + 2) >> np.uint64(11)).astype(np.float64) / 2.0**53
