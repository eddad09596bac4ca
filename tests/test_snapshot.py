"""Snapshots are whole or refused.

Law: bytes that snapshot() did not write, in whatever way they differ, are refused with one
sentence; a snapshot of each version since the third can be read.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tidegate as tg

DATA = Path(__file__).parent / "data"
SPEC = tg.JoinSpec(on="k", time="t", within=50, memory=8, policy="prob", lateness=2)


def rows(begin: int) -> pa.Table:
    t = np.arange(begin, begin + 40)
    return pa.table({"t": t, "k": t * t % 7, "p": [f"row {n}" for n in t]})


def engine() -> tg.JoinEngine:
    engine = tg.JoinEngine(SPEC)
    engine.push({"left": rows(0), "right": rows(3)})
    return engine


def test_every_changed_byte_is_noticed() -> None:
    blob = engine().snapshot()
    rng = np.random.default_rng(1)
    for at in rng.integers(0, len(blob), 2_000):
        changed = bytearray(blob)
        changed[at] ^= 1 << int(rng.integers(0, 8))
        with pytest.raises(tg.TidegateError, match="snapshot") as refusal:
            tg.JoinEngine.restore(bytes(changed))
        assert "\n" not in str(refusal.value)


def test_every_cut_is_noticed() -> None:
    blob = engine().snapshot()
    lengths = {*range(0, len(blob), 97), *range(len(blob) - 100, len(blob))}
    for length in sorted(lengths):
        with pytest.raises(tg.TidegateError, match="snapshot"):
            tg.JoinEngine.restore(blob[:length])
    for foreign in (b"", b"nothing", b"tidegate", blob + b"x", blob + blob):
        with pytest.raises(tg.TidegateError, match="snapshot"):
            tg.JoinEngine.restore(foreign)


@pytest.mark.parametrize("path", sorted(DATA.glob("snapshot-*.bin")), ids=lambda path: path.stem)
def test_snapshots_of_all_versions_are_read(path: Path) -> None:
    """Written by `tests/test_snapshot.py`'s `engine` under that version."""
    stored, fresh = tg.JoinEngine.restore(path.read_bytes()), engine()
    pushed = {"left": rows(40), "right": rows(43)}
    assert stored.push(pushed).to_pylist() == fresh.push(pushed).to_pylist()
    counts = {name: n for name, n in fresh.stats().items() if not name.startswith("memory_bytes")}
    assert {name: stored.stats()[name] for name in counts} == counts


def test_there_is_a_snapshot_of_this_version() -> None:
    from tidegate.engine import snapshot

    assert (DATA / f"snapshot-{snapshot.VERSION}.bin").exists()


def test_a_snapshot_is_arrow() -> None:
    table = pa.ipc.open_stream(engine().snapshot()).read_all()
    assert {"t", "k", "p"} <= set(table.column_names)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"memory": 5}, "memory was 8 and is now 5"),
        ({"memory": "5 MB"}, "memory was 8 and is now '5 MB'"),
        ({"policy": "random"}, "policy was 'prob' and is now 'random'"),
        ({"within": 60}, "within was 50 and is now 60"),
    ],
)
def test_another_spec_is_refused(change: dict[str, object], sentence: str) -> None:
    blob = engine().snapshot()
    with pytest.raises(tg.TidegateError, match=sentence):
        tg.JoinEngine.restore(blob, SPEC.replace(**change))
    tg.JoinEngine.restore(blob, SPEC.replace(within={"left": 50, "right": 50}))


def test_times_that_become_finer_are_no_damage() -> None:
    """What came in one instant counts as spread up to the next, which then comes sooner."""
    times = np.concatenate([np.repeat(np.arange(0, 4000, 100), 50), 3901 + np.arange(80) // 2])
    tables = {}
    for seed, name in enumerate(("left", "right"), start=1):
        random = np.random.default_rng(seed)
        columns = {
            "k": random.integers(0, 5, len(times)),
            "x": random.integers(0, 10**6, len(times)),
        }
        tables[name] = pa.table({"t": times, **columns})
    spec = tg.JoinSpec(
        on=["k", tg.band("x", -2, 2)], time="t", within=1000, memory=900, policy="value"
    )
    join, begin = tg.JoinEngine(spec), 0
    for end in range(1900, len(times) + 1, 4):
        join.push({name: table.slice(begin, end - begin) for name, table in tables.items()})
        begin = end
        restored = tg.JoinEngine.restore(join.snapshot(), spec)
        assert restored.stats()["rows_out"] == join.stats()["rows_out"]
