"""Snapshots that nobody's snapshot() returned, sealed as if somebody's had.

The law: whatever numbers stand in a snapshot behind a right checksum, restoring it is refused with
one sentence, or the restored engine takes pushes and gives back a snapshot. Nothing crashes, hangs
or ends in another error. `python crafted.py SCENARIO` prints what went wrong as JSON, in a process
of its own.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

import tidegate as tg
from tidegate.engine import snapshot

EXTREMES: tuple[Any, ...] = (
    -1, 0, 1, 7, 10**6, 2**31 - 1, 2**31, -(2**31), 2**62, -(2**62), 2**63 - 1, -(2**63), 10**30,
    0.5, float("nan"), float("inf"), -float("inf"), True, None, "text", [], {},
)  # fmt: skip
INTEGERS = [value for value in EXTREMES if type(value) is int]


def rows(begin: int, seed: int, number: int = 60) -> pa.Table:
    rng = np.random.default_rng([seed, begin])
    times = begin + np.sort(rng.integers(0, number // 2, number))
    times[:: number // 6] -= 3  # late
    return pa.table(
        {
            "t": times,
            "k": rng.integers(0, 9, number),
            "text": [None if n % 7 == 0 else "x" * (n % 5) for n in range(number)],
            "tags": [list(range(n % 4)) for n in range(number)],
            "weight": rng.uniform(0.5, 2.0, number),
        }
    )


def spec(**options: Any) -> tg.JoinSpec:
    return tg.JoinSpec(**{"on": "k", "time": "t", "within": 20, "lateness": 5} | options)


POLICIES: dict[str, Any] = {name: name for name in tg.policies()} | {
    "retained": tg.prob(statistics="retained"),
    "given": tg.prob(frequencies={"left": {1: 0.5}, "right": {2: 0.5}}),
    "curve": tg.age(curve=[1.0, 3.0, 2.0]),
}
SCENARIOS: dict[str, tg.JoinSpec] = {
    "exact": spec(),
    "text": spec(on="text", lateness=0),
    "overlap": spec(on=tg.overlap("tags", 1)),
    "band": spec(on=tg.band("k", -1, 1), within={"left": tg.rows(9), "right": 20}),
    "instant": spec(ties="instant", memory=12, policy="value", importance="weight"),
    "bytes": spec(memory="1 MB", policy="value", importance="weight"),
    "counted": spec(memory=12, policy="value", within=tg.rows(15)),
    "cpu": spec(cpu=tg.Cpu(20, adapt_every=4, basic_window=3), importance="weight"),
    "nulls": spec(on="text", memory=30, policy="value", split="shared"),
    **{
        f"policy {name}": spec(memory=12, policy=policy, importance="weight")
        for name, policy in POLICIES.items()
    },
}


def fed(scenario: str) -> tg.JoinEngine:
    engine = tg.JoinEngine(SCENARIOS[scenario])
    for begin in (0, 25):
        engine.push({"left": rows(begin, 1), "right": rows(begin, 2)})
    return engine


# --- taking a snapshot apart -------------------------------------------------------------


def parts(blob: bytes) -> list[pa.Table]:
    body = snapshot._unsealed(blob)
    source = pa.BufferReader(body)
    tables = []
    while source.tell() < len(body):
        tables.append(pa.ipc.open_stream(source).read_all())
    return tables


def sealed(tables: list[pa.Table]) -> bytes:
    sink = io.BytesIO()
    for table in tables:
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    return snapshot._sealed(sink.getvalue())


def with_head(tables: list[pa.Table], about: Any) -> bytes:
    head = {**tables[0].schema.metadata, b"tidegate": json.dumps(about)}
    return sealed([tables[0].replace_schema_metadata(head), *tables[1:]])


# --- changes -----------------------------------------------------------------------------


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to everything in a JSON text."""
    if path:
        yield path
    if isinstance(tree, dict | list):
        for name, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from places(value, (*path, name))


def changed_heads(blob: bytes, random: Random) -> Iterator[tuple[str, bytes]]:
    tables = parts(blob)
    text = tables[0].schema.metadata[b"tidegate"]
    for path in places(json.loads(text)):
        for value in (*random.sample(EXTREMES, 4), "missing"):
            about = json.loads(text)
            tree = about
            for step in path[:-1]:
                tree = tree[step]
            if value == "missing":
                del tree[path[-1]]
            else:
                tree[path[-1]] = value
            yield f"{path} = {value!r}", with_head(tables, about)


def changed_tables(blob: bytes, random: Random) -> Iterator[tuple[str, bytes]]:
    """Notes beside the rows, one value or all of them."""
    tables = parts(blob)
    for number, table in enumerate(tables):
        for name in [name for name in table.column_names if name.startswith("_tidegate_")]:
            at = table.column_names.index(name)
            column = table[name].to_pylist()
            for value in (None, *random.sample(INTEGERS, 5), 0.5, float("nan")):
                for everywhere in (False, True):
                    values = [value] * len(column) if everywhere else column.copy()
                    if column and not everywhere:
                        values[random.randrange(len(values))] = value
                    try:
                        array = pa.array(values, table[name].type)
                    except (pa.ArrowException, OverflowError, TypeError, ValueError):
                        array = pa.array([min(value, 2**63 - 1)] * len(column))
                    whole = [*tables]
                    whole[number] = table.set_column(at, name, array)
                    yield f"{number} {name} {value!r}", sealed(whole)
            for kind in (pa.uint64(), pa.float64(), pa.string()):
                texts = [str(value) for value in column]
                numbers = [float(value) for value in column]
                other = texts if kind == pa.string() else [abs(n) % 1e9 // 1 for n in numbers]
                whole = [*tables]
                whole[number] = table.set_column(at, name, pa.array(other).cast(kind))
                yield f"{number} {name} as {kind}", sealed(whole)
        cut = [*tables]
        cut[number] = table.slice(1)
        yield f"{number} without a row", sealed(cut)
        yield (
            f"{number} missing",
            sealed([*tables[:number], *tables[number + 1 :]] or [pa.table({})]),
        )
        yield f"{number} twice", sealed([*tables, table])


def changed_unused(blob: bytes, random: Random) -> Iterator[tuple[str, bytes]]:
    tables = parts(blob)
    name = b"tidegate_unused_slots"
    unused = np.frombuffer(tables[0].schema.metadata[name], np.int32)
    for value in (*INTEGERS[:8], int(unused[-1]) if len(unused) else 3):
        value = min(value, 2**31 - 1)
        for chain in (np.append(unused, np.int32(value)), np.full(5, value, np.int32)):
            head = {**tables[0].schema.metadata, name: chain.astype(np.int32).tobytes()}
            whole = [tables[0].replace_schema_metadata(head), *tables[1:]]
            yield f"unused {value}", sealed(whole)
    head = {**tables[0].schema.metadata, name: b"123"}
    yield "unused of 3 bytes", sealed([tables[0].replace_schema_metadata(head), *tables[1:]])


def changed_estimates(blob: bytes, random: Random) -> Iterator[tuple[str, bytes]]:
    """What was learned: one number or all of each array, its type, its length."""
    *others, table = parts(blob)
    if table.column_names != ["name", "kind", "data"]:
        return
    learned = table.to_pylist()
    for number, row in enumerate(learned):
        array = np.frombuffer(row["data"], row["kind"])
        changed: list[dict[str, Any]] = [
            row | {"kind": kind} for kind in ("<i1", "<f8", "|O", "no type") if kind != row["kind"]
        ]
        changed += [row | {"data": row["data"][:-1]}, row | {"data": row["data"] * 2 + b"12345678"}]
        floats = (-1.0, 0.0, 1e308, float("nan"), float("inf"), -float("inf"))
        for value in floats if array.dtype.kind == "f" else random.sample(INTEGERS[:-1], 6):
            for everywhere in (False, True):
                numbers = array.copy()
                if array.dtype.kind != "f":
                    value = max(np.iinfo(array.dtype).min, min(np.iinfo(array.dtype).max, value))
                if everywhere:
                    numbers[:] = value
                elif len(numbers):
                    numbers[random.randrange(len(numbers))] = value
                changed.append(row | {"data": numbers.tobytes(), "of": value})
        for new in changed:
            rows_now = [*learned[:number], new, *learned[number + 1 :]]
            columns = {
                name: pa.array([r[name] for r in rows_now], table.schema.field(name).type)
                for name in table.column_names
            }
            whole = pa.table(columns).replace_schema_metadata(table.schema.metadata)
            name = f"{row['name']} {new.get('of', (new['kind'], len(new['data'])))}"
            yield name, sealed([*others, whole])
        without = table.take([n for n in range(len(learned)) if n != number])
        yield f"{row['name']} missing", sealed([*others, without])


def changed_payload(blob: bytes, random: Random) -> Iterator[tuple[str, bytes]]:
    """Rows whose offsets point elsewhere: bytes of an Arrow stream, changed where values stand."""
    body = snapshot._unsealed(blob)
    for _ in range(60):
        damaged = bytearray(body)
        at = random.randrange(len(body) - 8)
        damaged[at : at + 4] = random.choice([b"\xff" * 4, b"\x00" * 4, random.randbytes(4)])
        yield f"bytes at {at}", snapshot._sealed(bytes(damaged))


CHANGES = (changed_heads, changed_tables, changed_unused, changed_estimates, changed_payload)


# --- the check ---------------------------------------------------------------------------


def goes_on(blob: bytes) -> str:
    """How restoring ends: "refused" or "read"; everything else is an error."""
    try:
        engine = tg.JoinEngine.restore(blob)
        for begin in (50, 75, 400):
            engine.push({"left": rows(begin, 1), "right": rows(begin, 2)})
        tg.JoinEngine.restore(engine.snapshot()).stats()
    except tg.TidegateError as error:
        return "refused in several lines" if "\n" in str(error) else "refused"
    return "read"


def crafted(scenario: str, seed: int = 1, share: float = 1.0) -> Iterator[tuple[str, bytes]]:
    blob = fed(scenario).snapshot()
    random = Random(seed)
    for change in CHANGES:
        for name, changed in change(blob, random):
            if random.random() < share:
                yield f"{change.__name__}: {name}", changed


def what_went_wrong(scenario: str, share: float) -> dict[str, Any]:
    wrong, ends = [], {"refused": 0, "read": 0}
    for name, changed in crafted(scenario, share=share):
        print(name, file=sys.stderr, flush=True)  # the last one, if the process ends here
        try:
            ends[goes_on(changed)] += 1
        except BaseException as error:
            wrong.append(f"{name}: {type(error).__name__}: {error}"[:300])
    assert goes_on(fed(scenario).snapshot()) == "read"
    return {"wrong": wrong, **ends}


if __name__ == "__main__":
    print(json.dumps(what_went_wrong(sys.argv[1], float(sys.argv[2]))))
