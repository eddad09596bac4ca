"""Steering in a snapshot: a snapshot of each miniature, and the numbers of the reviews so far.

Law: options come from the spec, as everywhere in snapshots; a miniature that is not one of this
join is refused.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.engine.snapshot_checks import require
from tidegate.engine.steering import Steering
from tidegate.race import saved_race

if TYPE_CHECKING:
    from tidegate.engine.join_engine import JoinEngine

_NUMBERS, _RACE = b"numbers", b"race"


def dump(steering: Steering) -> bytes:
    """The steering as an Arrow IPC stream."""
    engines = []
    if steering.miniatures is not None:
        steering.miniatures.join()  # what waits; when it is joined changes nothing
        engines = [engine.snapshot() for engine in steering.miniatures.engines]
    metadata: dict[bytes, bytes] = {}
    if steering.race is not None:
        metadata[_RACE] = saved_race.dump(steering.race)
    metadata[_NUMBERS] = json.dumps(steering.numbers()).encode()
    table = pa.table({"miniature": pa.array(engines, pa.large_binary())})
    table = table.replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def refill(steering: Steering, blob: bytes | None, kind: type[JoinEngine]) -> None:
    """Write what was saved into a fresh steering; without it, reviews begin now."""
    if blob is None:
        return
    table = pa.ipc.open_stream(pa.BufferReader(blob)).read_all()
    numbers = json.loads((table.schema.metadata or {})[_NUMBERS])
    engines = [kind.restore(each) for each in table.column("miniature").to_pylist()]
    known = set(numbers) | {"interval", "arrived"}  # which were not there at first
    require(known == set(steering.numbers()), "numbers of its miniatures are missing")
    race = (table.schema.metadata or {}).get(_RACE)
    if steering.race is not None and race is not None:
        saved_race.refill(steering.race, race)
    held = steering.miniatures
    if held is None:
        require(not engines, "it has miniatures that its join cannot have")
    else:
        own = [engine.spec for engine in held.engines]
        require(len(engines) == len(own), "miniatures are missing")
        for engine, spec in zip(engines, own, strict=True):
            same = engine.spec.replace(memory=spec.memory) == spec
            require(same, "a miniature is of another join")
    steering.take(numbers, engines)
