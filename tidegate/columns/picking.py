"""Rows are gathered by their addresses, for output or to be moved.

Columns of fixed width without NULLs are copied by a compiled loop (`moving`), from many segments
about as fast as from one; all others are taken by Arrow.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tidegate.columns.segments import Addresses, Homes, Segment, Sources, in_one_block


def moved(sources: Sources, addresses: Addresses, base: int) -> Segment:
    """A segment of its own of the rows at these addresses, in this order."""
    homes = sources.homes_of(addresses)
    slow = [at for at, is_plain in enumerate(sources.plain) if not is_plain]
    others = iter(_taken(sources, addresses, slow, homes))
    arrays = [None if is_plain else next(others) for is_plain in sources.plain]
    block = sources.rows_at(addresses, homes)
    return Segment(base, len(addresses), sources.kinds, in_one_block(arrays, True), block)


def picked(sources: Sources, addresses: Addresses, columns: Sequence[int]) -> list[pa.Array]:
    """The rows at these addresses, in this order: some columns of them, for output."""
    homes = sources.homes_of(addresses)
    quick = [at for at in columns if sources.plain[at]]
    slow = [at for at in columns if not sources.plain[at]]
    filled = iter(sources.columns_at(quick, addresses, homes, pa.default_memory_pool()))
    others = iter(_taken(sources, addresses, slow, homes))
    return [next(filled) if sources.plain[at] else next(others) for at in columns]


def _taken(
    sources: Sources, addresses: Addresses, columns: Sequence[int], homes: Homes
) -> list[pa.Array]:
    segments = sources.segments
    if not columns:
        return []
    if len(segments) == 1:
        indices = pa.array(addresses - segments[0].base)
        return [segments[0].column(at).take(indices) for at in columns]
    order = np.argsort(homes, kind="stable")  # numbers of 16 bits are sorted by radix
    bounds = np.searchsorted(homes[order], np.arange(len(segments) + 1))
    groups = [
        (segment, pa.array(addresses[order[begin:end]] - segment.base))
        for segment, begin, end in zip(segments, bounds, bounds[1:], strict=False)
        if end > begin
    ]
    back = np.empty(len(addresses), np.int64)
    back[order] = np.arange(len(addresses))
    return [
        pa.concat_arrays([segment.column(at).take(rows) for segment, rows in groups]).take(
            pa.array(back)
        )
        for at in columns
    ]
