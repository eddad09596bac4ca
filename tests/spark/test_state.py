"""A bucket's state: whatever is lost between micro-batches, the results are those of one engine.

The buckets run here without Spark, over cells that hold state as Spark's do. Tasks fail after they
wrote, workers lose their engines, pushes come from a process that has none: a plain engine that
sees every push once says what must come out.
"""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import types as T  # noqa: N812
from spark.feeds import EPOCH, SECOND, random_batches

from tidegate.engine import JoinEngine
from tidegate.spark import bucket_store, exchange, processor
from tidegate.spark.arrivals import Arrivals
from tidegate.spark.bucket_store import Meta
from tidegate.spark.delivery import Delivery
from tidegate.spark.engines import Residents, curve_of
from tidegate.spark.fingerprint import describe
from tidegate.spark.inputs import arrow_schema
from tidegate.spark.packing import encode
from tidegate.spark.processor import BucketWork, JoinPlan, late_watermark
from tidegate.spark.routing import Routing, bucket_spec
from tidegate.spark.sealing import sealed
from tidegate.spec import Cpu, JoinSpec, TidegateError, rows

EXACT = JoinSpec(on="k", time="ts", within={"left": "25 s", "right": "10 s"})
BUDGET = EXACT.replace(memory=50, policy="random", seed=3)
COUNTS = EXACT.replace(within=rows(40))
CPU = EXACT.replace(cpu=Cpu(12, adapt_every="7 s", basic_window="3 s"), seed=5)
KEEP_UP = CPU.replace(cpu=Cpu(keep_up=True, interval="1 s", basic_window="3 s"))
SHARE = CPU.replace(cpu=Cpu(share_of_core=0.5))
TARGET = BUDGET.replace(
    within="60 s", memory=900, sentinel=0.1, miniatures=0.4, target="recall >= 0.5"
)

EXTREMES: tuple[Any, ...] = (
    -1, 0, 1, 10**6, 2**62, -(2**63), 10**30, 0.5, float("nan"), True, None, "text", [], {}, [{}],
)  # fmt: skip


class Cells:
    """Two state variables of one bucket, with what was written to them."""

    def __init__(self) -> None:
        self.meta: tuple[Any, ...] | None = None
        self.segments: dict[tuple[int], tuple[bytes]] = {}
        self.written = 0

    def get(self) -> tuple[Any, ...] | None:
        return self.meta

    def update(self, value: tuple[Any, ...]) -> None:
        self.meta = value

    def getValue(self, key: Any) -> Any:  # noqa: N802
        return self.segments.get(key)

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802
        self.segments[key] = value
        self.written += len(value[0])

    def removeKey(self, key: Any) -> None:  # noqa: N802
        del self.segments[key]


def plan_of(spec: JoinSpec, table: pa.Table, ledger: str | None = None) -> JoinPlan:
    schemas = dict.fromkeys(spec.streams, table.schema)
    return JoinPlan(
        spec=spec,
        schemas=schemas,
        routing=Routing("single", 2),
        clocked=spec is not COUNTS,
        fuel=15.0 if spec is SHARE else None,
        operator="test",
        origin=describe(spec, list(schemas.values())),
        delivery=Delivery.of(T.StructType()),
        ledger=ledger,
    )


def arrivals_of(spec: JoinSpec, tables: dict[int, pa.Table]) -> Arrivals:
    arrivals = Arrivals()
    for stream, table in tables.items():
        # Two blobs per stream, as from two tasks.
        for part in (table.slice(0, 7), table.slice(7)):
            arrivals.blobs.setdefault(stream, []).append(encode(part).to_pybytes())
            newest = np.asarray(part.column("ts").drop_null().cast(pa.int64())).max()
            arrivals.newest.append((stream, int(newest)))
        arrivals.read[stream] = table.num_rows
    return arrivals


def step(plan: JoinPlan, cells: Cells, tables: dict[int, pa.Table], batch: int) -> BucketWork:
    """Run one micro-batch; Spark's watermark is taken to follow 5 seconds behind."""
    layout = plan.routing.layout(1)
    current = (EPOCH + 20 * batch - 5) * 1000 if plan.clocked else None
    work = BucketWork(plan, layout, layout.labels[0], cells, cells)
    work.results = list(work.join(arrivals_of(plan.spec, tables), batch, current))  # type: ignore[attr-defined]
    work.settle()
    return work


def lines(table: pa.Table) -> list[str]:
    return sorted(map(str, table.to_pylist()))


def batches_of(seed: int, count: int, keys: int = 6) -> list[dict[int, pa.Table]]:
    left, right = (random_batches(seed + at, count, keys=keys) for at in (0, 1))
    return [{0: left[n]} if n % 5 == 3 else {0: left[n], 1: right[n]} for n in range(count)]


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(exchange, "residents", Residents())
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path)[:60])


SPECS = {
    "exact": EXACT, "budget": BUDGET, "counts": COUNTS, "cpu": CPU, "share": SHARE,
    "target": TARGET,
}  # fmt: skip


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@pytest.mark.parametrize("seed", [100, 200])
def test_nothing_is_lost_and_nothing_comes_twice(
    monkeypatch: pytest.MonkeyPatch, spec: JoinSpec, seed: int
) -> None:
    # Small enough that snapshots are written and cut into pieces.
    monkeypatch.setattr(bucket_store, "SMALLEST_LOG_BYTES", 5_000)
    monkeypatch.setattr(bucket_store, "PIECE_BYTES", 2_000)
    monkeypatch.setattr(bucket_store, "EXACT_LOG_BYTES", 1_000 if seed == 200 else 10**9)
    monkeypatch.setattr(bucket_store, "EXACT_LOG_FACTOR", 0)
    chance = np.random.default_rng(seed)
    batches = batches_of(seed, 20, 6 if spec.target is None else 80)
    plan = plan_of(spec, batches[0][0])
    engine = JoinEngine(bucket_spec(spec, 0, 1), plan.schemas)
    cells, watermark, snapshots, memories = Cells(), 0, 0, set()
    for number, tables in enumerate(batches):
        named = {spec.streams[stream]: table for stream, table in tables.items()}
        bound = watermark * 1000 + 1 if plan.clocked else None
        expected = engine.push(named, watermark=bound, fuel=plan.fuel)
        if chance.random() < 0.3:  # The task writes, and dies before Spark commits.
            step(plan, copy.deepcopy(cells), tables, number)
        if chance.random() < 0.3:  # The worker is gone.
            monkeypatch.setattr(exchange, "residents", Residents())
        work = step(plan, cells, tables, number)
        got = work.results  # type: ignore[attr-defined]
        assert lines(pa.concat_tables(got)) == lines(expected) if got else expected.num_rows == 0
        watermark = (EPOCH + 20 * number - 5) * 1000
        record = Meta.from_bytes(cells.meta[0])  # type: ignore[index]
        stats = {k: v for k, v in engine.stats().items() if "bytes" not in k and "peak" not in k}
        assert {name: record.stats[name] for name in stats} == stats
        snapshots = max(snapshots, record.snapshot_end - record.snapshot_begin)
        memories.add(record.stats.get("target_memory"))
        assert json.loads(work.report()).get("curve", []) == curve_of(engine)
    assert (len(memories) > 2) == (spec is TARGET)
    assert record.stats["engine_builds"] > 1
    assert (snapshots > 1) == (spec is not EXACT or seed == 200)
    if spec.cpu is not None:
        assert record.stats["skipped_comparisons"] > 0


@pytest.mark.parametrize("lost", [0.0, 0.4])
def test_what_was_granted_is_repeated(monkeypatch: pytest.MonkeyPatch, lost: float) -> None:
    """A bucket that keeps up grants by the clock; the log says what, and is replayed with it."""
    clock = iter(range(1_000_000, 2_000_000, 3))  # each micro-batch comes after 3 s of 1 s allowed
    monkeypatch.setattr(processor.time, "time", lambda: float(next(clock)))
    monkeypatch.setattr(bucket_store, "SMALLEST_LOG_BYTES", 9_000)
    chance = np.random.default_rng(9)
    batches = batches_of(600, 16)
    plan, cells = plan_of(KEEP_UP, batches[0][0]), Cells()
    engine = JoinEngine(bucket_spec(KEEP_UP, 0, 1), plan.schemas)
    watermark, granted = 0, []
    for number, tables in enumerate(batches):
        if chance.random() < lost:
            monkeypatch.setattr(exchange, "residents", Residents())
        work = step(plan, cells, tables, number)
        granted.append(work.push.fuel)
        named = {KEEP_UP.streams[stream]: table for stream, table in tables.items()}
        expected = engine.push(named, watermark=watermark * 1000 + 1, fuel=granted[-1])
        got = work.results  # type: ignore[attr-defined]
        assert lines(pa.concat_tables(got)) == lines(expected) if got else expected.num_rows == 0
        watermark = (EPOCH + 20 * number - 5) * 1000
    record = Meta.from_bytes(cells.meta[0])  # type: ignore[index]
    stats = engine.stats()
    assert record.stats["skipped_comparisons"] == stats["skipped_comparisons"] > 0
    assert record.stats["comparisons"] == stats["comparisons"]
    assert granted[0] is None
    assert len(set(granted)) > 2
    assert (record.stats["engine_builds"] > 1) == (lost > 0)


def test_exact_log_forgets_what_expired() -> None:
    batches = batches_of(300, 40)
    plan, cells = plan_of(EXACT, batches[0][0]), Cells()
    sizes = []
    for number, tables in enumerate(batches):
        step(plan, cells, tables, number)
        sizes.append(sum(len(body) for (body,) in cells.segments.values()))
    assert max(sizes[20:]) < 2 * max(sizes[:10])


def test_traffic_follows_new_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_store, "SMALLEST_LOG_BYTES", 2_000)
    batches = batches_of(400, 40)
    arrived = sum(
        len(blob)
        for tables in batches
        for blobs in arrivals_of(BUDGET, tables).blobs.values()
        for blob in blobs
    )
    written = {}
    for memory in (20, 1000):
        plan, cells = plan_of(BUDGET.replace(memory=memory), batches[0][0]), Cells()
        monkeypatch.setattr(exchange, "residents", Residents())
        for number, tables in enumerate(batches):
            step(plan, cells, tables, number)
        written[memory] = cells.written
    assert written[1000] < 3 * arrived
    assert written[1000] < 2 * written[20]


def test_another_spec_is_refused_and_named() -> None:
    tables = batches_of(500, 1)[0]
    cells = Cells()
    step(plan_of(EXACT, tables[0]), cells, tables, 0)
    same = EXACT.replace(within={"left": "25000 ms", "right": "10 seconds"})
    step(plan_of(same, tables[0]), cells, tables, 1)
    other = EXACT.replace(within="9 s", seed=4)
    sentence = (
        "another join: seed was 0 and is now 4; within was 25 seconds for 'left', 10 seconds for "
        "'right' and is now 9 seconds; go back"
    )
    with pytest.raises(TidegateError, match=sentence):
        step(plan_of(other, tables[0]), cells, tables, 2)


def test_tuples_are_not_bytes() -> None:
    tables = batches_of(500, 1)[0]
    cells = Cells()
    step(plan_of(EXACT.replace(memory=2000), tables[0]), cells, tables, 0)
    for memory in ("2000 B", "2000 KB", 2001, None):
        with pytest.raises(TidegateError, match="another join: memory was 2000 tuples and is now"):
            step(plan_of(EXACT.replace(memory=memory), tables[0]), cells, tables, 1)
    step(plan_of(EXACT.replace(memory=2000), tables[0]), cells, tables, 1)


def test_state_of_another_format_is_refused() -> None:
    newer = sealed(b"{}", bucket_store.META, 99)
    with pytest.raises(TidegateError, match=r"format 99, but this version reads format 2; use a n"):
        Meta.from_bytes(newer)
    with pytest.raises(TidegateError, match=r"format 1, but this version reads format 2; use an o"):
        Meta.from_bytes(b'{"fingerprint":"x","format":1}')
    with pytest.raises(TidegateError, match=r"written by a newer version of tidegate \(it has odd"):
        Meta.from_bytes(bucket_store.seal(b'{"fingerprint":"x","odd":1}', bucket_store.META))


@pytest.mark.parametrize("spec", [EXACT, BUDGET], ids=["exact", "budget"])
def test_damaged_state_is_refused(monkeypatch: pytest.MonkeyPatch, spec: JoinSpec) -> None:
    """Any byte changed, any part cut off, missing, or swapped with another."""
    monkeypatch.setattr(bucket_store, "SMALLEST_LOG_BYTES", 2_000)
    batches = batches_of(600, 6)
    plan, cells = plan_of(spec, batches[0][0]), Cells()
    for number, tables in enumerate(batches[:5]):
        step(plan, cells, tables, number)
    chance = np.random.default_rng(7)
    numbers = sorted(cells.segments)
    for attempt in range(200):
        broken = copy.deepcopy(cells)
        monkeypatch.setattr(exchange, "residents", Residents())
        number = numbers[1 + attempt % (len(numbers) - 1)]
        body = bytearray(broken.segments[number][0])
        if attempt % 4 == 0:
            body[chance.integers(len(body))] ^= 1 << int(chance.integers(8))
        elif attempt % 4 == 1:
            body = body[: chance.integers(len(body))]
        elif attempt % 4 == 2:
            body = bytearray(cells.segments[numbers[0]][0])
        if attempt % 4 == 3:
            del broken.segments[number]
        else:
            broken.segments[number] = (bytes(body),)
        with pytest.raises(TidegateError, match=r"state of the join is damaged|format") as raised:
            step(plan, broken, batches[5], 5)
        assert "\n" not in str(raised.value)
    text = bytearray(cells.meta[0])  # type: ignore[index]
    for place in range(len(text)):
        broken = copy.deepcopy(cells)
        broken.meta = (bytes([*text[:place], text[place] ^ 4, *text[place + 1 :]]),)
        with pytest.raises(TidegateError, match=r"damaged|format"):
            step(plan, broken, batches[5], 5)


@pytest.mark.parametrize("spec", [EXACT, BUDGET], ids=["exact", "budget"])
def test_crafted_state_is_refused_or_works(monkeypatch: pytest.MonkeyPatch, spec: JoinSpec) -> None:
    """Whatever the record and the segments say behind right checksums, nothing ends raw."""
    monkeypatch.setattr(bucket_store, "SMALLEST_LOG_BYTES", 2_000)
    batches = batches_of(700, 6)
    plan, cells = plan_of(spec, batches[0][0]), Cells()
    for number, tables in enumerate(batches[:5]):
        step(plan, cells, tables, number)
    chance = Random(7)
    refused = 0
    for attempt in range(400):
        broken = copy.deepcopy(cells)
        monkeypatch.setattr(exchange, "residents", Residents())
        if attempt % 2:
            text = json.loads(bucket_store.unseal(cells.meta[0], bucket_store.META))  # type: ignore[index]
            text[chance.choice(sorted(text))] = chance.choice(EXTREMES)
            body = json.dumps(text).encode()
            broken.meta = (bucket_store.seal(body, bucket_store.META),)
        else:
            (number,) = place = chance.choice(sorted(cells.segments))
            bytes_now = bytearray(bucket_store.unseal(cells.segments[place][0], number))
            at = chance.randrange(len(bytes_now))
            bytes_now[at : at + 4] = chance.choice((b"", b"\xff" * 4, chance.randbytes(4)))
            broken.segments[place] = (bucket_store.seal(bytes(bytes_now), number),)
        try:
            step(plan, broken, batches[5], 5)
        except TidegateError as error:
            refused += 1
            assert_one_line(error)
    assert refused > 100


def assert_one_line(error: Exception) -> None:
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("batch", "current", "late"),
    [(8, 70, 50), (9, 70, 70), (7, 70, 50)],
    ids=["next batch", "a batch without data lies between", "the same batch again"],
)
def test_late_is_what_the_previous_watermark_had_passed(
    batch: int, current: int, late: int
) -> None:
    assert late_watermark(Meta("x", batch=7, watermark=50), batch, current) == late
    assert late_watermark(Meta("x"), batch, current) == 0


def test_schemas_have_times_in_utc(spark: Any) -> None:
    schema = spark.sql("select timestamp'2020-01-01' as a, array(current_timestamp()) as b").schema
    assert arrow_schema(schema).field("a").type == pa.timestamp("us", "UTC")
    assert arrow_schema(schema).field("b").type.value_type == pa.timestamp("us", "UTC")
    assert SECOND == 10**6
