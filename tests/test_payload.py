"""The payload store: rows come back as they were, and the bytes held are those of the rows alive.

What is held is measured by Arrow's own count of allocated bytes, and (in processes of their own)
by the growth of the process.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.columns import segments
from tidegate.columns.pages import OWN_POOL
from tidegate.columns.payload import Payload
from tidegate.columns.storage import declared

PER_COLUMN = 4096  # bytes that may be held for each column besides


def _words(rng: np.random.Generator, count: int, longest: int = 40) -> list[str | None]:
    lengths = rng.integers(0, longest, count)
    return [None if n % 7 == 6 else "é" * (n // 2) + "x" * (n % 2) for n in map(int, lengths)]


def _column(kind: str, rng: np.random.Generator, count: int) -> pa.Array:
    words = _words(rng, count)
    lists = [None if n == 3 else words[:n] for n in map(int, rng.integers(0, 6, count))]
    if kind == "integers":
        return pa.array(rng.integers(0, 9, count))
    if kind == "bytes and NULLs":
        return pa.array([int(n) if n else None for n in rng.integers(0, 9, count)], pa.int8())
    if kind == "booleans":
        return pa.array(rng.integers(0, 2, count).astype(bool))
    if kind == "strings":
        return pa.array(words, pa.string())
    if kind == "string views":
        return pa.array(words, pa.string_view())
    if kind == "lists":
        return pa.array(lists, pa.list_(pa.string()))
    if kind == "list views":
        return pa.array(lists, pa.list_view(pa.string_view()))
    if kind == "structs":
        rows = [None if n == 0 else {"a": n, "b": w} for n, w in enumerate(words)]
        return pa.array(rows, pa.struct([("a", pa.int16()), ("b", pa.string())]))
    if kind == "maps":
        rows = [None if not w else [(w, len(w))] * (len(w) % 3) for w in words]
        return pa.array(rows, pa.map_(pa.string(), pa.int32()))
    if kind == "categories":
        return pa.array(words, pa.string()).dictionary_encode()
    if kind == "lists of categories":
        flat = pa.array([w for row in lists for w in row or []], pa.string()).dictionary_encode()
        lengths = [len(row or ()) for row in lists]
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        return pa.ListArray.from_arrays(offsets, flat)
    if kind == "fixed lists":
        return pa.array([[w, w] for w in words], pa.list_(pa.string(), 2))
    if kind == "decimals":
        return pa.array(rng.integers(0, 99, count)).cast(pa.decimal256(40, 2))
    raise AssertionError(kind)


KINDS = [
    "integers", "bytes and NULLs", "booleans", "strings", "string views", "lists", "list views",
    "structs", "maps", "categories", "lists of categories", "fixed lists", "decimals",
]  # fmt: skip


def _table(kinds: list[str], rng: np.random.Generator, count: int) -> pa.Table:
    columns = {"t": pa.array(np.arange(count))}
    columns |= {f"{at} {kind}": _column(kind, rng, count) for at, kind in enumerate(kinds)}
    return pa.table(columns)


class Model:
    """A store, and the rows that it should hold."""

    def __init__(self, schema: pa.Schema) -> None:
        self.payload = Payload(declared(schema, "s"))
        self.addresses = np.zeros(0, np.int64)
        self.rows: list[dict[str, Any]] = []

    def push(self, table: pa.Table, kept: np.ndarray | None = None) -> None:
        base = self.payload.append(table, kept)
        rows = [row for at, row in enumerate(table.to_pylist()) if kept is None or kept[at]]
        self.rows += rows
        self.addresses = np.concatenate([self.addresses, np.arange(base, base + len(rows))])

    def settle(self, alive: np.ndarray) -> None:
        """Keep the rows at these positions."""
        self.rows = [self.rows[at] for at in alive]
        self.addresses = self.addresses[alive]
        first = int(self.addresses[0]) if len(alive) else self.payload.end
        settlement = self.payload.settle(len(alive), first, lambda: self.addresses)
        self.payload.accept(settlement)
        self.addresses[settlement.moved] = settlement.addresses

    def check(self) -> None:
        assert self.payload.gather(self.addresses).to_pylist() == self.rows

    def least_bytes(self) -> int:
        """What the rows alive take in a store of their own."""
        alone = Payload(self.payload.schema)
        alone.store(self.payload.gather(self.addresses))
        return alone.nbytes


@settings(max_examples=60, deadline=None)
@given(
    kinds=st.lists(st.sampled_from(KINDS), max_size=4),
    seed=st.integers(0, 2**32),
    pushes=st.lists(st.tuples(st.integers(0, 300), st.floats(0, 1), st.floats(0, 1)), max_size=12),
)
def test_rows_come_back_and_the_dead_take_an_eighth(
    kinds: list[str], seed: int, pushes: list[tuple[int, float, float]]
) -> None:
    rng = np.random.default_rng(seed)
    model = Model(_table(kinds, rng, 0).schema)
    for count, live, expire in pushes:
        whole = _table(kinds, rng, count + 5)
        kept = rng.random(count) < 0.9 if seed % 2 else None
        model.push(whole.slice(3, count), kept)
        model.check()
        alive = np.flatnonzero(rng.random(len(model.rows)) < live)
        alive = alive[int(len(alive) * expire / 2) :]
        model.settle(alive)
        model.check()
        spare = PER_COLUMN * (len(kinds) + 1)
        assert model.payload.nbytes <= 9 / 8 * model.least_bytes() + spare


@settings(max_examples=60, deadline=None)
@given(kinds=st.lists(st.sampled_from(KINDS), max_size=4), seed=st.integers(0, 2**32))
def test_row_sizes_add_up_to_what_storing_takes(kinds: list[str], seed: int) -> None:
    rng = np.random.default_rng(seed)
    payload = Payload(declared(_table(kinds, rng, 0).schema, "s"))
    payload.append(_table(kinds, rng, 1000))
    sizes = payload.pushed_sizes()
    payload.accept(payload.settle(1000, 0, lambda: np.arange(1000)))
    categories = sum("categories" in kind for kind in kinds) * 200 * 40
    assert abs(int(sizes.sum()) - payload.nbytes) <= payload.nbytes / 8 + 1024 + categories


@pytest.mark.parametrize("kind", KINDS)
def test_nbytes_is_what_arrow_has_allocated(kind: str) -> None:
    rng = np.random.default_rng(7)
    pools = (pa.default_memory_pool(), OWN_POOL)
    model = Model(_table([kind], rng, 0).schema)
    gc.collect()
    before = sum(pool.bytes_allocated() for pool in pools)
    for _ in range(6):
        table = _table([kind], rng, 3000)
        base = model.payload.append(table)
        model.addresses = np.concatenate([model.addresses, np.arange(base, base + 3000)])
        model.rows = [{}] * len(model.addresses)
        del table
        model.settle(np.flatnonzero(rng.random(len(model.rows)) < 0.6))
        allocated = sum(pool.bytes_allocated() for pool in pools) - before
        assert abs(allocated - model.payload.nbytes) <= 0.01 * allocated + 4096


def test_large_results_hold_what_small_ones_do() -> None:
    """What is written past the CPU's caches, for values of every width, from several segments."""
    rng = np.random.default_rng(4)
    rows, count = 30_000, 1 + segments.LARGE // 15
    columns = {f"x{width}": rng.integers(0, 99, rows).astype(f"i{width}") for width in (1, 2, 4, 8)}
    table = pa.table(columns)
    payload = Payload(table.schema)
    bases = [payload.store(table.slice(begin, 10_000)) for begin in range(0, rows, 10_000)]
    wanted = rng.integers(0, rows, count)
    found = payload.gather(np.array(bases)[wanted // 10_000] + wanted % 10_000)
    assert found.nbytes > segments.LARGE
    assert found.equals(table.take(wanted))


def test_nothing_of_a_larger_table_is_kept_alive() -> None:
    whole = pa.table({"t": np.arange(1_000_000), "s": ["word"] * 1_000_000})
    written = pa.BufferOutputStream()
    with pa.ipc.new_stream(written, whole.schema) as writer:
        writer.write_table(whole)
    read = pa.ipc.open_stream(written.getvalue()).read_all()
    for table in (whole, read, read.select(["t", "s"])):
        payload = Payload(table.schema)
        payload.store(table.slice(1000, 10))
        assert payload.nbytes < 2048


def test_memory_of_the_giver_may_change_after_the_push() -> None:
    numbers = np.arange(10)
    payload = Payload(pa.schema({"x": pa.int64()}))
    payload.store(pa.table({"x": pa.array(numbers)}))
    numbers[:] = -1
    assert payload.gather(np.arange(10)).column("x").to_pylist() == list(range(10))


def test_rows_that_leave_from_the_front_never_move() -> None:
    model = Model(pa.schema({"t": pa.int64()}))
    for step in range(100):
        model.push(pa.table({"t": np.arange(step * 100, step * 100 + 100)}))
        before = model.addresses
        alive = np.arange(max(0, len(model.rows) - 1000), len(model.rows))
        model.settle(alive)
        assert (model.addresses == before[alive]).all()
        model.check()


def test_dead_rows_at_the_front_excuse_no_others() -> None:
    """In one push of long rows most have left when it ends, and half of the last ones."""
    model = Model(pa.schema({"b": pa.binary()}))
    model.push(pa.table({"b": [bytes(100 * (row % 40)) for row in range(400)]}))
    model.settle(np.arange(380, 400, 2))
    model.check()
    assert model.payload.nbytes <= 9 / 8 * model.least_bytes() + PER_COLUMN


def test_a_forgotten_push_leaves_nothing_behind() -> None:
    schema = pa.schema({"c": pa.dictionary(pa.int8(), pa.string())})
    model = Model(schema)
    model.push(pa.table({"c": pa.array(["a", "b"]).dictionary_encode()}).cast(schema))
    model.settle(np.arange(2))
    held, end = model.payload.nbytes, model.payload.end
    model.payload.append(pa.table({"c": pa.array(["z", "y"]).dictionary_encode()}))
    model.payload.forget_push()
    assert (model.payload.nbytes, model.payload.end) == (held, end)
    model.check()


def test_categories_that_nobody_has_are_let_go() -> None:
    model = Model(pa.schema({"c": pa.dictionary(pa.int32(), pa.string())}))
    for step in range(50):
        words = [f"{step} {'x' * 100} {at}" for at in range(200)]
        model.push(pa.table({"c": pa.array(words).dictionary_encode()}))
        model.settle(np.arange(max(0, len(model.rows) - 300), len(model.rows)))
        model.check()
    assert model.payload.nbytes < 3 * 300 * 120


def test_rows_are_copied_a_bounded_number_of_times() -> None:
    """Counted in bytes that Arrow allocates: random victims, the hardest for a log of segments."""
    rng = np.random.default_rng(3)
    for rows_per_push in (50, 1000, 20_000):
        payload = Payload(pa.schema({"t": pa.int64(), "x": pa.int64()}))
        addresses = np.zeros(0, np.int64)
        copied = total = 0
        while total < 200_000:
            base = payload.append(
                pa.table({"t": np.arange(rows_per_push), "x": np.arange(rows_per_push)})
            )
            addresses = np.concatenate([addresses, np.arange(base, base + rows_per_push)])
            kept = np.sort(rng.permutation(len(addresses))[:10_000])
            addresses = addresses[kept]
            before = set(map(id, payload._segments))
            settlement = payload.settle(len(addresses), 0, lambda: addresses)  # noqa: B023
            payload.accept(settlement)
            addresses[settlement.moved] = settlement.addresses
            copied += sum(s.rows for s in payload._segments if id(s) not in before)
            total += rows_per_push
            assert payload.rows <= 9 / 8 * len(addresses) + 256
        assert copied <= 14 * total


PROCESS = """
import gc, json, sys
import numpy as np, psutil, pyarrow as pa
from tidegate.columns.payload import Payload
kind, share = sys.argv[1], float(sys.argv[2])
rng = np.random.default_rng(1)
def table(count):
    columns = {"t": np.arange(count), "k": rng.integers(0, 9, count)}
    if kind == "wide":
        columns |= {f"x{at}": rng.random(count) for at in range(30)}
    if kind == "strings":
        columns["s"] = pa.array(["word" * int(n) for n in rng.integers(0, 20, count)], pa.string())
    if kind == "lists":
        lists = [[1.5] * int(n) for n in rng.integers(0, 20, count)]
        columns["l"] = pa.array(lists, pa.list_(pa.float64()))
    return pa.table(columns)
def push(payload, addresses, count, rows):
    base = payload.append(table(count))
    addresses = np.concatenate([addresses, np.arange(base, base + count)])
    addresses = addresses[np.sort(rng.permutation(len(addresses))[:rows])]
    settlement = payload.settle(len(addresses), 0, lambda: addresses)
    payload.accept(settlement)
    addresses[settlement.moved] = settlement.addresses
    return addresses
def fill(rows, pushes):
    payload = Payload(table(0).schema, is_tight=True)
    addresses = np.zeros(0, np.int64)
    for _ in range(pushes):
        addresses = push(payload, addresses, rows // 5, int(rows * share))
    return payload
warm = fill(2000, 8)
del warm
table(30000)
gc.collect()
pa.default_memory_pool().release_unused()
before = psutil.Process().memory_info().rss
payloads = [fill(100_000, 12) for _ in range(3)]
gc.collect()
after = psutil.Process().memory_info().rss
print(json.dumps([after - before, sum(p.nbytes for p in payloads)]))
"""


@pytest.mark.parametrize("kind", ["narrow", "wide", "strings", "lists"])
def test_the_process_grows_by_nbytes(kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROCESS, kind, "0.5"], capture_output=True, text=True, check=True
    )
    grown, held = json.loads(done.stdout)
    assert held > 2_000_000
    assert grown <= 1.1 * held + 3 * (1 << 20)
