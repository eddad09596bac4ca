"""After a push: which rows stay where they are, and which are copied.

Law: a plan shares no memory with the pushed tables. The dead that it leaves take at most `slack`
of the bytes of the rows alive, plus `SPARE_BYTES`. Rows are copied a bounded number of times:
once when they come; when small segments of like size are merged (once per eightfold growth); and
when the dead have reached `slack`, segments are cleaned, those with most dead first, until a
quarter of it is left.

Where nothing leaves but from the front (the exact join), nobody needs to know which rows are
alive: whole segments are dropped, no address changes, and only a first segment that is much of
the store is copied without its dead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.columns.picking import moved
from tidegate.columns.segments import (
    Addresses,
    Segment,
    Sources,
    are_packed_alike,
    largest_part,
    merged,
)

SPARE_BYTES = 4096  # may be held besides: cleaning for less costs more than it frees
RUN = 8  # so many segments of like size are merged
MANY = 64  # with more segments the smallest are cleaned too
NOBODY = np.zeros(0, np.int64)


class Plan(NamedTuple):
    """The segments of a store, and which of the alive addresses are new."""

    segments: list[Segment]
    moved: NDArray[np.int64]
    addresses: Addresses
    end: int
    known_dead: tuple[int, float]  # rows and bytes among those alive
    in_order: bool  # do addresses grow in the order in which rows came?

    @property
    def held(self) -> int:
        return sum(segment.held for segment in self.segments)


@dataclass(frozen=True)
class Settling:
    """What a plan is made from."""

    segments: Sequence[Segment]
    row_size: float | None  # where all rows take the same
    slack: float
    end: int
    in_order: bool = True
    spare: float = SPARE_BYTES

    def plan(
        self,
        alive_rows: int,
        alive_from: int,
        alive: Callable[[], Addresses],
        known_dead: tuple[int, float],
    ) -> Plan:
        """See `Payload.settle`."""
        if not self.in_order:
            alive_from = 0  # then no address says anything about others
        segments = [segment for segment in self.segments if segment.end > alive_from]
        front = max(0, alive_from - segments[0].base) if segments else 0
        among = sum(segment.rows for segment in segments) - front - alive_rows
        if among <= 0:
            return self._in_line(segments, front, alive_rows, (0, 0.0))
        # Half of what may be dead for those at the front, half for those among the alive.
        halved = replace(self, slack=self.slack / 2, spare=self.spare / 2)
        if halved._too_many(segments, front, among, known_dead):
            return self._looked_at(segments, alive())
        return halved._in_line(segments, front, alive_rows, known_dead)

    def _allowed(self, alive_bytes: float) -> float:
        return self.slack * alive_bytes + self.spare

    def _too_many(
        self, segments: Sequence[Segment], front: int, among: int, known_dead: tuple[int, float]
    ) -> bool:
        """Can the dead among the alive, behind those at the front, take more than they may?"""
        rows, known = known_dead
        largest = self.row_size or max(segment.largest_row for segment in segments)
        dead = known + max(0, among - rows) * largest
        total = sum(segment.nbytes for segment in segments) - segments[0].size_of_first(front)
        return dead > self._allowed(max(0.0, total - dead))

    # --- without knowing who is alive -----------------------------------------------------

    def _in_line(
        self,
        segments: list[Segment],
        front: int,
        alive_rows: int,
        known_dead: tuple[int, float],
    ) -> Plan:
        if front:
            dead = segments[0].size_of_first(front)
            total = sum(segment.nbytes for segment in segments)
            if segments[0].block is None or dead > self._allowed(total - dead):
                segments[0] = segments[0].packed(front, segments[0].rows)
        segments = [part for segment in segments for part in segment.in_parts(alive_rows)]
        in_order = self.in_order or not segments
        return Plan(_merged(segments, alive_rows), NOBODY, NOBODY, self.end, known_dead, in_order)

    # --- with all addresses alive ---------------------------------------------------------

    def _looked_at(self, segments: Sequence[Segment], alive: Addresses) -> Plan:
        sources = Sources(segments)
        homes = sources.homes_of(alive)
        shares = self._shares(segments, alive, homes)
        clean, dead = self._to_clean(segments, shares)
        stay = [at for at in range(len(segments)) if at not in clean and shares[at] > 0]
        kept = [segments[at] for at in stay]
        is_moved = np.zeros(len(segments), np.bool_)
        is_moved[list(clean)] = True
        movers = np.flatnonzero(is_moved[homes])
        base = kept[-1].end if kept else 0  # what was there before is gone
        fresh = _fresh(sources, alive[movers], base, largest_part(len(alive)))
        addresses = np.arange(base, base + len(movers), dtype=np.int64)
        known = (sum(s.rows for s in kept) - (len(alive) - len(movers)), dead)
        merged_all = _merged(kept + fresh, len(alive))
        # In order: if all have moved, or only those that came last.
        in_order = not stay or (self.in_order and stay[-1] < min(clean, default=len(segments)))
        return Plan(merged_all, movers, addresses, base + len(movers), known, in_order)

    def _shares(
        self, segments: Sequence[Segment], alive: Addresses, homes: NDArray[np.int16]
    ) -> list[float]:
        """Which part of each segment's bytes is alive."""
        counts = np.bincount(homes, minlength=len(segments))
        shares = []
        for at, (segment, count) in enumerate(zip(segments, counts, strict=True)):
            share = count / segment.rows
            if 0 < count < segment.rows and self.row_size is None:
                sizes = segment.row_sizes()
                rows = alive[homes == at] - segment.base
                share = sizes[rows].sum() / max(sizes.sum(), 1.0)
            shares.append(float(share))
        return shares

    def _to_clean(
        self, segments: Sequence[Segment], shares: Sequence[float]
    ) -> tuple[set[int], float]:
        """The segments whose rows are moved, and the bytes of the dead that stay."""
        alive_bytes = sum(s.nbytes * share for s, share in zip(segments, shares, strict=True))
        dead = [s.nbytes * (1 - share) for s, share in zip(segments, shares, strict=True)]
        some = {at for at, share in enumerate(shares) if share > 0}
        clean = {at for at in some if segments[at].block is None}
        staying = some - clean
        left = sum(dead[at] for at in staying)
        if left > self._allowed(alive_bytes):
            for at in sorted(staying, key=lambda at: shares[at]):
                if left <= self._allowed(alive_bytes) / 4:
                    break
                clean.add(at)
                left -= dead[at]
        if len(staying - clean) > MANY:
            small = sorted(staying - clean, key=lambda at: segments[at].rows)
            clean |= set(small[: len(small) - MANY // 2])
        return clean, max(left, 0.0)


def _fresh(sources: Sources, addresses: Addresses, base: int, step: int) -> list[Segment]:
    """Copies of the rows at these addresses, which get new ones from `base` on."""
    fresh = []
    for begin in range(0, len(addresses), step):
        part = addresses[begin : begin + step]
        fresh.append(moved(sources, part, base + begin))
    return fresh


def _merged(segments: list[Segment], alive_rows: int) -> list[Segment]:
    """Merge the newest segments where there are many of like size."""
    while True:
        run = _run_of_small(segments, alive_rows)
        if run < 2:
            return segments
        last = segments[-run:]
        if are_packed_alike(last):
            joined = merged(last)
        else:
            joined = moved(Sources(last), np.arange(last[0].base, last[-1].end), last[0].base)
        segments = [*segments[:-run], joined]


def _run_of_small(segments: Sequence[Segment], alive_rows: int) -> int:
    """How many of the newest segments are to be merged; 0 or 1: none."""
    run = rows = 0
    for segment in reversed(segments):
        is_next = run == 0 or segment.end == segments[-run].base
        like = run == 0 or segment.rows < RUN * segments[-1].rows
        if not is_next or not like:
            break
        if rows + segment.rows > largest_part(alive_rows):  # full
            return run if 2 * rows >= largest_part(alive_rows) else 0
        rows += segment.rows
        run += 1
    return run if run >= RUN else 0
