"""What came to one bucket: packed rows, put in order and counted.

Law: every row that was read is counted once, in the bucket that is its home, whatever becomes of it
later. The shuffle delivers packs in any order; they are taken by stream, then by where they began.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa


class PackedRow(NamedTuple):
    """One row as the packer wrote it (`packing.PACKED_FIELDS`)."""

    label: int
    stream: int
    origin: int
    rows: int
    home: bool
    newest: int
    ahead: int
    hot_key: str | None
    hot_rows: int
    micros: int
    blob: Any


@dataclass
class Arrivals:
    """The packs of one bucket, blobs in a fixed order."""

    blobs: dict[int, list[Any]] = field(default_factory=dict)
    read: dict[int, int] = field(default_factory=dict)
    ahead: dict[int, int] = field(default_factory=dict)
    newest: list[tuple[int, int]] = field(default_factory=list)
    hot: list[tuple[str, int]] = field(default_factory=list)
    seconds_pack: float = 0.0

    @classmethod
    def gather(cls, frames: Iterable[Any]) -> Arrivals:
        """Collect the packs that Spark hands over as pandas frames."""
        return cls.of(row for frame in frames for row in frame.itertuples(index=False))

    @classmethod
    def of_table(cls, packed: pa.Table) -> Arrivals:
        """Collect the packs that Spark hands over as an Arrow table; blobs are not copied."""
        plain = packed.drop_columns(["blob"]).select(list(PackedRow._fields[:-1])).to_pylist()
        blobs = [blob.as_buffer() if blob.is_valid else None for blob in packed.column("blob")]
        return cls.of(PackedRow(**row, blob=blob) for row, blob in zip(plain, blobs, strict=True))

    @classmethod
    def of(cls, rows: Iterable[Any]) -> Arrivals:
        """Put packs in order; stream -1 is a heartbeat, which brings nothing."""
        arrivals = cls()
        for row in sorted(rows, key=lambda row: (row.stream, row.origin)):
            if row.stream < 0:
                continue
            stream = int(row.stream)
            arrivals.seconds_pack += row.micros / 1e6
            if row.blob is not None:
                arrivals.blobs.setdefault(stream, []).append(row.blob)
                arrivals.newest.append((stream, int(row.newest)))
            counted = int(row.rows + row.ahead) if row.home else 0
            arrivals.read[stream] = arrivals.read.get(stream, 0) + counted
            arrivals.ahead[stream] = arrivals.ahead.get(stream, 0) + int(row.ahead)
            if row.hot_key is not None:
                arrivals.hot.append((row.hot_key, int(row.hot_rows)))
        return arrivals

    def counts(self, streams: Sequence[str]) -> Iterator[tuple[str, float]]:
        """What the engine does not see: each row once, and rows from too far ahead."""
        for stream, name in enumerate(streams):
            read, ahead = self.read.get(stream, 0), self.ahead.get(stream, 0)
            for base, rows in (
                ("rows_read", read), ("rows_in", ahead), ("rejected", ahead),
                ("rejected_ahead", ahead),
            ):  # fmt: skip
                yield base, rows
                yield f"{base}_{name}", rows
        yield "seconds_pack", self.seconds_pack
