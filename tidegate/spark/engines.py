"""Engines that stay in memory between micro-batches, and the pushes they take.

Law: a kept engine takes a push only for the token under which it was kept, and leaves with a new
one. So an engine that took part in a failed or repeated task is never used again, and the state
store alone decides what is true. Of each bucket a machine keeps one engine, not one per process.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from tidegate.loss.bucket_files import BucketFiles, Link
from tidegate.spark.delivery import pieces
from tidegate.spark.packing import decode
from tidegate.spark.routing import steers

if TYPE_CHECKING:
    from tidegate.engine import JoinEngine
    from tidegate.planner.observed_recall import RecallProfile
    from tidegate.spec import JoinSpec

# An engine that nobody asked for this long belongs to a query that stopped or moved away.
IDLE_SECONDS = 120.0


class EngineKey(NamedTuple):
    """Which bucket of which join of which running query."""

    operator: str
    label: int


class Entry(NamedTuple):
    """One push in the log: the segment after its last, its bytes, and when its rows expire.

    Times after `expires` find none of its rows alive; None means that they may live on.
    """

    end: int
    size: int
    expires: int | None


@dataclass(frozen=True)
class Push:
    """What a micro-batch brings to a bucket: the blobs of each stream, in order, and the clock.

    `watermark` is in microseconds, None where the engine keeps its own clock; `memory` is the
    budget from this push on, in tuples or bytes, None where it stays what it was; `fuel` is what
    the engine may compare from here on, per second of event time, None where that stays too;
    `link` names the push in the ledger, None where there is none or the push is repeated.
    """

    blobs: Mapping[int, Sequence[Any]]
    watermark: int | None
    memory: int | None = None
    fuel: float | None = None
    link: Link | None = None

    def tables(self, streams: Sequence[str]) -> dict[str, pa.Table]:
        """Read the rows, by stream name, as the engine takes them."""
        if not all(0 <= stream < len(streams) for stream in self.blobs):
            raise ValueError(f"streams {sorted(self.blobs)} of {len(streams)}")
        return {streams[stream]: self.table(stream) for stream in self.blobs}

    def table(self, stream: int) -> pa.Table:
        """Read the rows of one stream."""
        return decode(self.blobs[stream])

    def begin(self, engine: JoinEngine) -> None:
        """Let the engine have the budget of this push."""
        if self.memory is not None:
            engine.resize(in_unit(engine.spec, self.memory))


def in_unit(spec: JoinSpec, memory: int) -> int | str:
    """A budget as the spec of its join has it."""
    return memory if spec.memory_bytes is None else f"{memory} bytes"


def curve_of(engine: JoinEngine) -> list[dict[str, float]]:
    """The retention curve of an engine that has miniatures, else none."""
    return engine.retention_curve() if steers(engine.spec) else []


@dataclass
class Outcome:
    """What a push gave besides its results: the engine's numbers around it, dead entries, in a pool
    how recall would grow with memory, and of a join with miniatures its retention curve."""

    before: dict[str, float]
    after: dict[str, float]
    seconds: dict[str, float]
    examples: list[str]
    expired: list[Entry] = field(default_factory=list)
    recall: dict[str, Any] | None = None
    curve: list[dict[str, float]] = field(default_factory=list)


# Results in pieces, each made when it is asked for, and in the end what the push gave besides.
Taking = Generator[pa.Table, None, Outcome]


@dataclass
class Resident:
    """An engine in this process, with the token of the stored version it equals."""

    engine: JoinEngine
    streams: tuple[str, ...]
    token: str = ""
    entries: deque[Entry] = field(default_factory=deque)
    used: float = field(default_factory=time.monotonic)
    profile: RecallProfile | None = None
    ledger: BucketFiles | None = None

    def take(self, push: Push, entry: Entry | None, forget_before: int | None) -> Taking:
        """Push into the engine; log the push as `entry`, and drop entries that have expired."""
        began = time.perf_counter()
        tables = push.tables(self.streams)
        seconds = {"seconds_decode": time.perf_counter() - began, "seconds_engine": 0.0}
        before = self.engine.stats()
        push.begin(self.engine)
        if self.ledger is not None:
            self.ledger.begin_push(push.link)
        results = self.engine.results(tables, watermark=push.watermark, fuel=push.fuel)
        piece: pa.Table | None = None
        while True:
            began = time.perf_counter()
            piece = next(results, None)
            seconds["seconds_engine"] += time.perf_counter() - began
            if piece is None:
                break
            yield from pieces(piece)
        if self.ledger is not None:
            self.ledger.end_push()
        after = self.engine.stats()
        if entry is not None:
            self.entries.append(entry)
        examples = [str(row) for row in self.engine.rejected_examples()][:5]
        recall = self._observed(tables, push.watermark, seconds)
        expired, curve = self._forget(forget_before), curve_of(self.engine)
        return Outcome(before, after, seconds, examples, expired, recall, curve)

    def _observed(
        self, tables: Mapping[str, pa.Table], watermark: int | None, seconds: dict[str, float]
    ) -> dict[str, Any] | None:
        """Let the profile see the rows; its curve in the unit of the budget."""
        if self.profile is None:
            return None
        began = time.perf_counter()
        self.profile.see(tables, watermark)
        stats = self.engine.stats()
        each = 1.0
        if self.engine.spec.memory_bytes is not None:
            each = stats["memory_bytes"] / max(1, stats["memory_rows"])
        points = [(each * memory, recall) for memory, recall in self.profile.points()]
        seconds["seconds_profile"] = time.perf_counter() - began
        return {"points": points, "results": self.profile.results}

    def snapshot(self) -> bytes:
        """Write the engine as one blob, which takes the place of the log."""
        self.entries.clear()
        return self.engine.snapshot()

    def _forget(self, watermark: int | None) -> list[Entry]:
        """Drop the oldest entries for as long as nothing in them can match again."""
        expired: list[Entry] = []
        while watermark is not None and self.entries:
            expires = self.entries[0].expires
            if expires is None or expires >= watermark:
                break
            expired.append(self.entries.popleft())
        return expired


class Residents:
    """The engines of this process; the threads of several tasks may ask for them."""

    def __init__(self) -> None:
        self._kept: dict[EngineKey, Resident] = {}
        self._lock = threading.Lock()

    def claim(self, key: EngineKey, token: str) -> Resident | None:
        """Take an engine out; whoever has it must keep it again. Another version is forgotten."""
        with self._lock:
            resident = self._kept.pop(key, None)
        return resident if resident is not None and resident.token == token != "" else None

    def keep(self, key: EngineKey, resident: Resident) -> None:
        """Put an engine where the next micro-batch finds it."""
        self.forget_idle()
        resident.used = time.monotonic()
        with self._lock:
            self._kept[key] = resident

    def forget_idle(self) -> None:
        """Drop engines that nobody came for."""
        limit = time.monotonic() - IDLE_SECONDS
        with self._lock:
            self._kept = {key: kept for key, kept in self._kept.items() if kept.used >= limit}
