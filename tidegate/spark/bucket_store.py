"""A bucket's state in Spark's state store: a snapshot of the engine and a log of pushes since.

Law: the stored state, read back, gives the engine that was stored, and what is written in a
micro-batch follows the rows that came, not the rows that are kept. The engine is deterministic, so
the log holds the packed rows as they came in; replaying it, with its output thrown away, rebuilds
the engine. In the exact join over time windows a log entry whose rows have all expired is dropped
whole, and no snapshot is needed; else a new snapshot is written when the log has grown as large as
the last one, so each logged byte pays for at most one byte of snapshot.

What is stored under a bucket's label:

    meta       one small JSON text: `Meta`
    segments   number -> bytes: pieces of the snapshot, frames of the log, and at ORIGIN what the
               state was made for (to say what changed when a restart asks for something else)

Each of them is sealed (`sealing`): behind the format's number, a length and a checksum, so that
state that was damaged or swapped is refused and never used.

FORMAT is the number of all this: the seal, `Meta`, the frames of the log, the segments' numbers and
the texts of `fingerprint.describe`. The rule for later versions:

- Whoever changes the meaning of stored bytes raises FORMAT. A new field of `Meta` with a default,
  or a new field of a frame's notes that may be missing, changes no meaning.
- A version reads every format from OLDEST_READ to FORMAT and writes FORMAT. OLDEST_READ may rise
  only with a new major version of the library (before 1.0: a new minor version).
- For each format that can be read, tests/data holds a sample that a test reads and goes on from.
- What cannot be read is refused with one sentence that says which version can.

A snapshot inside a segment has a format of its own, which `tidegate.engine.snapshot` checks.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from tidegate.loss.bucket_files import BucketFiles
from tidegate.spark.engines import Entry, Push, Resident, in_unit
from tidegate.spark.sealing import reading, sealed, unsealed
from tidegate.spec import JoinSpec, TidegateError

# 1 had neither lengths nor checksums, and was never released.
FORMAT = 2
OLDEST_READ = 2
# Numbers of the two that are no pieces or frames: the record, and what the state was made for.
META = -2
ORIGIN = -1
PIECE_BYTES = 1_000_000
# A log below this size is not worth a snapshot.
SMALLEST_LOG_BYTES = 1_000_000
# In the exact join a log is mostly rows that are still needed. This bounds the exceptions, such as
# one row from the far future that keeps a whole entry, and all after it, alive.
EXACT_LOG_BYTES = 8_000_000
EXACT_LOG_FACTOR = 4
# Nothing is compressed further than this.
MOST_PRESSED = 100_000
# Replaying costs about a millisecond per push, however small.
LONGEST_LOG = 512

_FRAME = pa.schema([pa.field("stream", pa.int32()), pa.field("blob", pa.large_binary())])


def seal(body: bytes, number: int) -> bytes:
    """A body as it is stored under a number."""
    return sealed(body, number, FORMAT)


def unseal(stored: bytes, number: int) -> bytes:
    """The body that was stored under a number."""
    return unsealed(stored, number, OLDEST_READ, FORMAT)


class ValueCell(Protocol):
    """The part of Spark's ValueState that is used here."""

    def get(self) -> tuple[Any, ...] | None: ...
    def update(self, newValue: tuple[Any, ...]) -> None: ...  # noqa: N803


class MapCell(Protocol):
    """The part of Spark's MapState that is used here."""

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None: ...  # noqa: N802
    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None: ...  # noqa: N802
    def removeKey(self, key: tuple[Any, ...]) -> None: ...  # noqa: N802


@dataclass
class Meta:
    """The small record that is read and written once per bucket and micro-batch.

    `token` names the version of the engine: chance makes a new one with every push, so a cached
    engine that carries it is the stored one, whatever was tried, failed or run twice in between.
    In a pool `memory` is the budget after the last push, `snapshot_memory` that of the snapshot.
    """

    fingerprint: str
    token: str = ""
    batch: int = -1
    watermark: int = 0
    snapshot_begin: int = 0
    snapshot_end: int = 0
    log_begin: int = 0
    end: int = 0
    snapshot_bytes: int = 0
    log_bytes: int = 0
    log_pushes: int = 0
    logged_bytes: int = 0
    memory: int | None = None
    snapshot_memory: int | None = None
    stats: dict[str, float] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Write the record."""
        text = json.dumps(dataclasses.asdict(self), separators=(",", ":"))
        return seal(text.encode(), META)

    @classmethod
    def from_bytes(cls, stored: bytes) -> Meta:
        """Read the record, refusing what another version of the library wrote."""
        with reading(META):
            plain = dict(json.loads(unseal(stored, META)))
        unknown = set(plain) - {field.name for field in dataclasses.fields(cls)}
        if unknown:
            raise TidegateError(
                f"the checkpoint was written by a newer version of tidegate (it has "
                f"{', '.join(sorted(unknown))}); use that version, or start from a new checkpoint "
                "location"
            )
        with reading(META):
            meta = cls(**plain)
            meta.check()
        return meta

    def check(self) -> None:
        """An error unless the numbers of segments can be what they say."""
        places = (self.snapshot_begin, self.snapshot_end, self.log_begin, self.end)
        sizes = (self.snapshot_bytes, self.log_bytes, self.log_pushes, self.logged_bytes)
        if not all(type(n) is int for n in (*places, *sizes, self.batch, self.watermark)):
            raise TypeError("a number is not one")
        if not (min(places + sizes) >= 0 and list(places) == sorted(places)):
            raise ValueError("its segments are not in order")
        if not all(n is None or (type(n) is int and n >= 0) for n in self._budgets):
            raise ValueError("a budget is none")
        if not all(type(text) is str for text in (self.fingerprint, self.token)):
            raise TypeError("a text is not one")
        if not all(type(n) in (int, float) for n in self.stats.values()):
            raise TypeError("a count is not a number")
        if type(self.notes) is not dict:
            raise TypeError("its notes are missing")

    @property
    def _budgets(self) -> tuple[int | None, int | None]:
        return self.memory, self.snapshot_memory


class BucketStore:
    """The stored state of one bucket, during one micro-batch."""

    def __init__(
        self,
        meta: ValueCell,
        segments: MapCell,
        spec: JoinSpec,
        schemas: Mapping[str, pa.Schema],
        is_profiled: bool = False,
        ledger: BucketFiles | None = None,
    ) -> None:
        self._is_profiled = is_profiled
        self._ledger = ledger
        self._meta = meta
        self._segments = segments
        self._spec = spec
        self._schemas = schemas
        timed = all(window.kind != "rows" for window in spec.windows)
        # Whether a row's time alone decides how long it is needed.
        self.forgets = spec.memory is None and spec.cpu is None and timed

    def load(self) -> Meta | None:
        """Read the record of a bucket; None for a new bucket."""
        value = self._meta.get()
        return None if value is None else Meta.from_bytes(bytes(value[0]))

    def save(self, meta: Meta) -> None:
        """Write the record; until then nothing of this micro-batch counts."""
        self._meta.update((meta.to_bytes(),))

    def describe(self, origin: Mapping[str, str]) -> None:
        """Keep what the state is made for."""
        self._put(ORIGIN, json.dumps(dict(origin)).encode())

    def origin(self) -> dict[str, str]:
        """What the state was made for."""
        with reading(ORIGIN):
            plain: dict[str, str] = dict(json.loads(self._get(ORIGIN)))
            return plain

    def rebuild(self, meta: Meta) -> Resident:
        """Make the stored engine: restore its snapshot and replay the log."""
        from tidegate.engine import JoinEngine  # Only workers that build engines load numba.

        pieces = [self._get(n) for n in range(meta.snapshot_begin, meta.snapshot_end)]
        if pieces:
            with reading(meta.snapshot_begin):
                snapshot = unpressed(b"".join(pieces))
            spec = self._spec_of(meta.snapshot_memory)
            engine = JoinEngine.restore(snapshot, spec, ledger=self._ledger)
        else:
            engine = JoinEngine(self._spec, self._schemas, ledger=self._ledger)
        resident = Resident(
            engine, self._spec.streams, profile=self._profile(), ledger=self._ledger
        )
        for push, entry in read_log(meta, self._get):
            with reading(entry.end - 1):
                tables = push.tables(self._spec.streams)
            push.begin(engine)
            for _ in engine.results(tables, watermark=push.watermark, fuel=push.fuel):
                pass
            resident.entries.append(entry)
        return resident

    def _spec_of(self, memory: int | None) -> JoinSpec:
        return (
            self._spec if memory is None else self._spec.replace(memory=in_unit(self._spec, memory))
        )

    def _profile(self) -> Any:
        """In a pool recall is observed; what was seen is not stored, it comes again with rows."""
        if not self._is_profiled:
            return None
        from tidegate.planner.observed_recall import RecallProfile

        return RecallProfile(self._spec, self._schemas)

    def append(self, meta: Meta, frames: Sequence[bytes]) -> None:
        """Add a push to the log."""
        for frame in frames:
            self._put(meta.end, frame)
            meta.end += 1
            meta.log_bytes += len(frame)
            meta.logged_bytes += len(frame)
        meta.log_pushes += 1

    def drop(self, meta: Meta, expired: Sequence[Entry]) -> None:
        """Remove the oldest entries of the log."""
        for entry in expired:
            self._remove(range(meta.log_begin, entry.end))
            meta.log_begin = entry.end
            meta.log_bytes -= entry.size
            meta.log_pushes -= 1

    def log_is_long(self, meta: Meta) -> bool:
        """Whether a snapshot should take the place of the log."""
        if meta.log_pushes >= LONGEST_LOG:
            return True
        if meta.snapshot_bytes or not self.forgets:
            return meta.log_bytes >= max(SMALLEST_LOG_BYTES, meta.snapshot_bytes)
        alive, ever = meta.stats["alive"], max(1, meta.stats["rows_in"])
        needed = meta.logged_bytes * alive / ever
        return meta.log_bytes > max(EXACT_LOG_BYTES, EXACT_LOG_FACTOR * needed)

    def compact(self, meta: Meta, snapshot: bytes) -> None:
        """Put a snapshot in the place of the last one and the log."""
        snapshot = pressed(snapshot)
        old = (*range(meta.snapshot_begin, meta.snapshot_end), *range(meta.log_begin, meta.end))
        meta.snapshot_begin = meta.end
        for begin in range(0, len(snapshot), PIECE_BYTES):
            self._put(meta.end, snapshot[begin : begin + PIECE_BYTES])
            meta.end += 1
        meta.snapshot_end = meta.log_begin = meta.end
        meta.snapshot_bytes, meta.log_bytes, meta.log_pushes = len(snapshot), 0, 0
        meta.snapshot_memory = meta.memory
        self._remove(old)

    def _put(self, number: int, body: bytes) -> None:
        self._segments.updateValue((number,), (seal(body, number),))

    def _get(self, number: int) -> bytes:
        value = self._segments.getValue((number,))
        return unseal(b"" if value is None else bytes(value[0]), number)

    def _remove(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._segments.removeKey((number,))


def pressed(snapshot: bytes) -> bytes:
    """A snapshot as it is stored: its length, then compressed."""
    body: bytes = pa.Codec("zstd").compress(snapshot, asbytes=True)
    return len(snapshot).to_bytes(8, "big") + body


def unpressed(stored: bytes) -> bytes:
    """A snapshot as the engine wrote it."""
    length = int.from_bytes(stored[:8], "big")
    if length > MOST_PRESSED * len(stored):
        raise ValueError(f"a snapshot of {length} bytes does not fit into {len(stored)}")
    snapshot: bytes = pa.Codec("zstd").decompress(stored[8:], length, asbytes=True)
    return snapshot


def write_frames(push: Push, expires: int | None) -> list[bytes]:
    """Write a push as frames of about PIECE_BYTES: few state calls, none of them huge."""
    groups: list[list[tuple[int, Any]]] = []
    size = PIECE_BYTES
    for stream in sorted(push.blobs):
        for blob in push.blobs[stream]:
            if size + len(blob) > PIECE_BYTES:
                groups.append([])
                size = 0
            groups[-1].append((stream, blob))
            size += len(blob)
    if not groups and (push.memory is not None or push.link is not None):
        # A new budget changes the engine, rows or not; a ledger must not hold a row twice that
        # left when only the clock moved.
        groups = [[]]
    notes: dict[str, Any] = {"frames": len(groups)}
    notes |= {"watermark": push.watermark, "expires": expires}
    if push.memory is not None:
        notes["memory"] = push.memory
    if push.fuel is not None:
        notes["fuel"] = push.fuel
    return [_frame(group, notes) for group in groups]


def _frame(group: Sequence[tuple[int, Any]], notes: Mapping[str, Any]) -> bytes:
    schema = _FRAME.with_metadata({"push": json.dumps(dict(notes))})
    streams, blobs = zip(*group, strict=True) if group else ((), ())
    columns = [pa.array(streams, pa.int32()), pa.array(blobs, pa.large_binary())]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    frame: bytes = sink.getvalue().to_pybytes()
    return frame


def _notes(frame: bytes) -> dict[str, Any]:
    notes: dict[str, Any] = json.loads(pa.ipc.open_stream(frame).schema.metadata[b"push"])
    return notes


def read_log(meta: Meta, segment: Callable[[int], bytes]) -> Iterator[tuple[Push, Entry]]:
    """Read the log, oldest push first."""
    end = meta.log_begin
    while end < meta.end:
        with reading(end):
            frames = [segment(end)]
            notes = _notes(frames[0])
            if not 1 <= notes["frames"] <= meta.end - end:
                raise ValueError(f"a push of {notes['frames']} frames")
            frames += [segment(end + further) for further in range(1, notes["frames"])]
            memory = notes.get("memory")
            if memory is not None and not (type(memory) is int and memory >= 0):
                raise ValueError(f"{memory!r} is no budget")
            clock, fuel = _moment(notes["watermark"]), _fuel(notes.get("fuel"))
            push = Push(_blobs(frames), clock, memory, fuel)
            entry = Entry(end + len(frames), sum(map(len, frames)), _moment(notes["expires"]))
        end = entry.end
        yield push, entry


def _moment(number: Any) -> int | None:
    if number is not None and not (type(number) is int and abs(number) < 2**63):
        raise ValueError(f"{number!r} is no time")
    return number


def _fuel(number: Any) -> float | None:
    if number is not None and not (type(number) in (int, float) and 0 <= number < math.inf):
        raise ValueError(f"{number!r} is no fuel")
    return None if number is None else float(number)


def _blobs(frames: Sequence[bytes]) -> dict[int, list[Any]]:
    blobs: dict[int, list[Any]] = {}
    for frame in frames:
        table = pa.ipc.open_stream(frame).read_all()
        table.validate(full=True)
        for stream, blob in zip(table["stream"], table["blob"], strict=True):
            blobs.setdefault(stream.as_py(), []).append(blob.as_buffer())
    return blobs
