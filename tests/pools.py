"""Values that random cases pick from: few, of every type a join column may have, and full of edges.

The law: the pools of one dict are of types that may be joined with each other, and hold values
that are equal, nearly equal, or equal only in bits, across those types.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

Pools = dict[pa.DataType, tuple[Any, ...]]


def pools(types: Sequence[pa.DataType], *values: Any) -> Pools:
    return dict.fromkeys(types, values)


def instants(types: Sequence[pa.DataType]) -> Pools:
    """A few instants as integers of each type's unit, also across the end of summer time."""
    seconds = (0, 1, 3, -1, 1_698_541_199, 1_698_541_201)
    scale = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
    return {kind: tuple(s * scale[kind.unit] for s in seconds) for kind in types}


SIGNED = (pa.int8(), pa.int16(), pa.int32())
UNSIGNED = (pa.uint8(), pa.uint16(), pa.uint32())
TEXTS = (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()))
UNITS = ("s", "ms", "us", "ns")
NAN, INFINITY = float("nan"), float("inf")
CENTS = (Decimal("0"), Decimal("1.50"), Decimal("-1.25"), Decimal("99.9"))

INTEGERS = (
    pools(SIGNED, 0, 1, -1, 3)
    | pools(UNSIGNED, 0, 1, 2, 3)
    | pools([pa.int64()], 0, 1, -1, 2**63 - 1, -(2**63))
    | pools([pa.uint64()], 0, 1, 2**63, 2**64 - 1)
)
# Signed and unsigned apart: a band between them is refused where it needs more than 64 bits.
SIGNED_INTEGERS = {kind: pool for kind, pool in INTEGERS.items() if kind != pa.uint64()}
UNSIGNED_INTEGERS = {
    kind: pool for kind, pool in INTEGERS.items() if pa.types.is_unsigned_integer(kind)
}
FLOATS = pools([pa.float64(), pa.float32()], 0.0, -0.0, 0.1, 0.3, NAN, INFINITY, -INFINITY)
TEMPORAL = [
    instants([pa.timestamp(unit) for unit in UNITS]),
    instants([*[pa.timestamp(unit, "UTC") for unit in UNITS], pa.timestamp("us", "Europe/Berlin")]),
]
EQUALITY = [
    INTEGERS,
    pools(TEXTS, "", "a", "b", "\u00e4", "ab"),
    FLOATS,
    pools([pa.binary(), pa.large_binary()], b"", b"a", b"\x00", b"a\x00"),
    pools([pa.binary(2)], b"ab", b"a\x00"),
    pools([pa.bool_()], True, False),
    pools([pa.date32(), pa.date64()], datetime.date(1970, 1, 1), datetime.date(1969, 12, 31)),
    pools([pa.decimal128(5, 2), pa.decimal128(9, 4), pa.decimal256(40, 3)], *CENTS),
    *TEMPORAL,
    instants([pa.duration(unit) for unit in UNITS]),
]
# Powers of two, so that sums and products are exact in any order; and what must be rejected.
GOOD, BAD = (1.0, 2.0, 0.5, 4.0, 8.0, 0.25, 1.0, 2.0, 1.0, 4.0, 1.0), (NAN, 0.0, -1.0, INFINITY)
WEIGHTS = pools([pa.float64(), pa.float32()], *GOOD, *BAD)
THETA = [
    pools((*SIGNED, *UNSIGNED, pa.int64()), 0, 1, 2, 3),
    pools([pa.float64(), pa.float32()], 0.0, 1.0, -0.5, 2.0, NAN),
]
LISTS: list[Callable[..., pa.DataType]] = [pa.list_, pa.large_list]
SETS: tuple[list[int | None], ...] = ([1], [1, 2], [], [1, 1, 2, 3], [None, 2], [None])
OVERLAP = [
    pools([form(t) for form in LISTS for t in (pa.int64(), pa.int32(), pa.uint8())], *SETS)
    | pools([pa.list_(pa.int64(), 2)], [1, 2], [2, 2], [3, None]),
    pools([form(t) for form in LISTS for t in TEXTS[:2]], ["a"], ["a", "b"], [], ["", "a", None]),
    pools([pa.list_(pa.float64())], [0.0, 1.5], [-0.0], [NAN, 1.5], [NAN]),
]
Weighted = list[tuple[str, float | None]]
PAIRS: tuple[Weighted, ...] = (
    [("a", 1.0)],
    [("a", 0.5), ("b", 2.0)],
    [],
    [("b", -0.5), ("b", 1.5)],
    [("a", None)],
)
INNER_PRODUCT = [
    pools([pa.map_(pa.string(), pa.float64()), pa.map_(pa.large_string(), pa.float32())], *PAIRS)
    | pools(
        [pa.list_(pa.struct([("item", pa.string()), ("weight", pa.float64())]))],
        *[[{"item": item, "weight": weight} for item, weight in pairs] for pairs in PAIRS],
    ),
    pools([pa.list_(t) for t in (pa.float64(), pa.float32())], [1.0], [0.5, 2.0], [], [None, 1.5])
    | pools([pa.list_(pa.int32())], [1], [0, 2], [-1, 1, 1]),
]


def column_of(kind: pa.DataType, pool: Sequence[Any], picks: Sequence[int]) -> pa.Array:
    """One value per pick; one pick in sixteen is NULL."""
    values = [None if pick % 16 == 15 else pool[pick % 16 % len(pool)] for pick in picks]
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, kind)
