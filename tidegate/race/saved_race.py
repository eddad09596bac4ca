"""A race in a snapshot: its arrays as Arrow, its numbers as JSON.

Law: options come from the spec; what does not fit the race of this join is refused, and so is a
number that would be used as an address out of its range.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.race.race import Race
from tidegate.race.race_records import NOBODY
from tidegate.spec import TidegateError

_NUMBERS = b"numbers"
_HEAD = ("order", "clock", "watermark", "faded", "until_plan", "instant")
_STREAMS = ("arrived", "precedence", "scale")
_WHOLE = ("counts", "earned", "phases", "trials", "hits", "worths", "buckets")


def _arrays(race: Race) -> dict[str, Any]:
    course = race.course
    parts = {name: getattr(course, name) for name in _WHOLE}
    parts |= {f"head.{name}": course.head[name] for name in _HEAD}
    parts |= {f"streams.{name}": course.streams[name] for name in _STREAMS}
    parts["contenders.found"] = course.contenders["found"]
    return parts | {f"tokens.{name}": course.tokens[name] for name in course.tokens.dtype.names}


def dump(race: Race) -> bytes:
    """The race as an Arrow IPC stream."""
    parts = _arrays(race)
    data = [np.ascontiguousarray(array).tobytes() for array in parts.values()]
    table = pa.table({"name": list(parts), "data": pa.array(data, pa.binary())})
    table = table.replace_schema_metadata({_NUMBERS: json.dumps(race.numbers())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def refill(race: Race, blob: bytes) -> None:
    """Write what was saved into a fresh race."""
    table = pa.ipc.open_stream(pa.BufferReader(blob)).read_all()
    saved = dict(zip(*(table.column(n).to_pylist() for n in ("name", "data")), strict=True))
    numbers = json.loads((table.schema.metadata or {})[_NUMBERS])
    for name, part in _arrays(race).items():
        found = np.frombuffer(saved.get(name, b""), part.dtype)
        _require(found.size == part.size and not _is_bad(found))
        part[...] = found.reshape(part.shape)
    course = race.course
    for links in (course.buckets, course.tokens.next):
        _require(bool(((links >= NOBODY) & (links < len(course.tokens))).all()))
    streams = course.tokens.stream
    _require(bool(((streams >= 0) & (streams < len(course.streams))).all()))
    _require(set(numbers) == set(race.numbers()))
    _require(numbers["policy"] in (*race.names, "value"))
    race.take(numbers)


def _is_bad(found: Any) -> bool:
    return found.dtype.kind == "f" and not np.isfinite(found).all()


def _require(holds: bool) -> None:
    if not holds:
        raise TidegateError("the snapshot is damaged: its race is; restore an older one")
