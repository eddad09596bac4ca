"""What the stateful processor does: one bucket, one micro-batch, one push of its engine.

Law: in exact mode the buckets together give the rows of Spark's own stream-stream inner join. Spark
drops a row as late when its time is not after the watermark of the *previous* micro-batch, and the
engine is told the same. A cached engine is used only if it carries the token that the state store
has just given; any other is rebuilt from the state store.
"""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from tidegate.loss.bucket_files import QUERY, BucketFiles, Link
from tidegate.spark.arrivals import Arrivals
from tidegate.spark.bucket_store import META, BucketStore, Meta, write_frames
from tidegate.spark.code import receive_code
from tidegate.spark.delivery import Delivery
from tidegate.spark.engines import EngineKey, Entry, Outcome, Push, Taking
from tidegate.spark.exchange import Here, Home, LostEngineError, find
from tidegate.spark.fingerprint import explain_change, fingerprint
from tidegate.spark.pacing import Pace
from tidegate.spark.packing import NEVER, partitions_of_task
from tidegate.spark.pool_book import PoolShare
from tidegate.spark.reports import advance, count_hot_key, report_text
from tidegate.spark.routing import Layout, Routing, bucket_spec
from tidegate.spark.sealing import reading
from tidegate.spark.sentences import sentence_first
from tidegate.spec import JoinSpec

LOG = logging.getLogger("tidegate")


@dataclass(frozen=True)
class JoinPlan:
    """All that a worker needs to know of a join; it travels with the query to the workers.

    `clocked` says that Spark's watermark is the clock; `operator` tells the joins of a query
    apart; `origin` is what the state is made for, by field; `delivery` takes results to Spark;
    `code` is the file with machine code that came with the query; `share` its part in a pool;
    `fuel` is what the driver's machine may compare per second of event time, where the spec asks
    for a share of a core; `ledger` is the folder of the ledger, where it has one.
    """

    spec: JoinSpec
    schemas: dict[str, pa.Schema]
    routing: Routing
    clocked: bool
    operator: str
    origin: dict[str, str]
    delivery: Delivery
    code: str | None = None
    share: PoolShare | None = None
    fuel: float | None = None
    ledger: str | None = None


def run_bucket(
    plan: JoinPlan, label: int, rows: Iterable[Any], timers: Any, meta: Any, segments: Any
) -> Iterator[Any]:
    """Join what a micro-batch brought to one bucket; gives pandas frames, as Spark wants them."""
    with sentence_first():
        yield from _frames(plan, label, rows, timers, meta, segments)


def _frames(
    plan: JoinPlan, label: int, rows: Iterable[Any], timers: Any, meta: Any, segments: Any
) -> Iterator[Any]:
    receive_code(plan.code)
    layout = plan.routing.layout(partitions_of_task())
    work = BucketWork(plan, layout, label, meta, segments)
    current = timers.getCurrentWatermarkInMs() if plan.clocked else None
    batch = int(_property("streaming.sql.batchId") or 0)
    seconds = 0.0
    # Spark goes on with the results while more are made and the state is being written.
    for piece in work.join(Arrivals.gather(rows), batch, current):
        began = time.perf_counter()
        yield plan.delivery.results(piece)
        seconds += time.perf_counter() - began
    work.settle(seconds_deliver=seconds)
    yield plan.delivery.report(work.report())


class BucketWork:
    """One bucket during one micro-batch."""

    def __init__(
        self, plan: JoinPlan, layout: Layout, label: int, meta: Any, segments: Any
    ) -> None:
        self._plan = plan
        self._bucket = layout.bucket_of(label)
        query = _property("sql.streaming.queryId")
        self._key = EngineKey(f"{plan.operator}-{query}", label)
        spec = bucket_spec(plan.spec, self._bucket, layout.buckets)
        ledger = None
        if plan.ledger is not None:
            ledger = BucketFiles(plan.ledger, f"{QUERY}{query}", self._bucket, plan.spec)
        self._store = BucketStore(
            meta, segments, spec, plan.schemas, plan.share is not None, ledger
        )
        self._layout = layout
        self._record = Meta("")
        self._home: Home | None = None
        self._outcome: Outcome | None = None
        self._frames: list[bytes] = []
        self.push = Push({}, None)
        self._token = uuid.uuid4().hex  # of the state that this micro-batch makes
        self._pace: Pace | None = None
        self._started = 0.0
        self._built = False

    def join(self, arrivals: Arrivals, batch: int, current: int | None) -> Iterator[pa.Table]:
        """Take the arrivals into the engine: the results in pieces, each when it is asked for."""
        started = self._started = time.perf_counter()
        meta = self._record = self._open()
        late = None if current is None else late_watermark(meta, batch, current)
        self._count(arrivals)
        # Late is what lies at or before Spark's watermark, and what lies before the engine's.
        bound = None if late is None else late * 1000 + 1
        self._home = find(self._key, meta.token)
        fuel = self._fuel(arrivals) if arrivals.blobs else None
        link = None if self._plan.ledger is None else Link(batch, meta.token, self._token)
        push = self.push = Push(arrivals.blobs, bound, self._new_budget(), fuel, link)
        if self._home is None and (push.blobs or (push.memory is not None and meta.token)):
            self._home = self._rebuilt()
        self._add("seconds_state", time.perf_counter() - started)
        if self._home is not None:
            self._outcome = yield from self._take(push, self._expiry(arrivals))
            if push.memory is not None:
                meta.memory = push.memory
        self._give_back()
        meta.batch, meta.watermark = batch, current or 0

    def _new_budget(self) -> int | None:
        """In a pool: the budget from now on, if it is another one."""
        if self._plan.share is None:
            return None
        budget = self._plan.share.claim(self._bucket, self._layout.buckets)
        return budget if budget != self._record.memory else None

    def _give_back(self) -> None:
        """The engine holds what its budget says, and the pool may give the rest to others."""
        if self._plan.share is not None and self._record.memory is not None:
            self._plan.share.settle(self._bucket, self._record.memory)
            self._record.stats["memory_budget"] = self._record.memory

    def settle(self, seconds_deliver: float = 0.0) -> None:
        """Take the change of the engine into the state; the next micro-batch may then find it."""
        self._add("seconds_deliver", seconds_deliver)
        started = time.perf_counter()
        meta = self._record
        if self._home is not None and self._outcome is not None:
            self._write(self._home, self._outcome)
        self._add("seconds_state", time.perf_counter() - started)
        self._keep_pace()
        self._store.save(meta)
        if self._home is not None:
            self._home.release(meta.token)

    def report(self) -> str:
        """All numbers of the bucket, as text."""
        notes, layout, spec = self._record.notes, self._layout, self._plan.spec
        return report_text(
            self._bucket,
            spec.streams,
            self._record.stats,
            hot=notes.get("hot", {}),
            examples=notes.get("examples", []),
            warnings=layout.warnings(spec),
            recall=None if self._outcome is None else self._outcome.recall,
            curve=() if self._outcome is None else self._outcome.curve,
        )

    def _open(self) -> Meta:
        """Read the record, or begin one; refuse state that was made for something else."""
        origin = {**self._plan.origin, "buckets": str(self._layout.buckets)}
        meta = self._store.load()
        if meta is None:
            self._store.describe(origin)
            return Meta(fingerprint(origin))
        if meta.fingerprint != fingerprint(origin):
            raise explain_change(self._store.origin(), origin)
        return meta

    def _fuel(self, arrivals: Arrivals) -> float | None:
        """What the engine may compare, per second of event time; None: as before."""
        cpu, plan = self._plan.spec.cpu, self._plan
        if plan.fuel is not None:
            return plan.fuel / self._layout.buckets
        if cpu is None or not cpu.keep_up:
            return None
        now = time.time()
        with reading(META):
            pace = Pace.read(self._record.notes.get("pace"))
        if self._home is not None:  # else the query has just started, or an engine was lost
            pace = pace.reviewed(cpu, now)
        newest = [time for _, time in arrivals.newest if time != NEVER]
        self._pace, fuel = pace.next(cpu, now, max(newest, default=None))
        return fuel

    def _keep_pace(self) -> None:
        """Remember what this micro-batch took, for the next."""
        if self._pace is None or self._outcome is None:
            return
        before, after = self._outcome.before, self._outcome.after
        made, skipped = (after[n] - before[n] for n in ("comparisons", "skipped_comparisons"))
        busy = time.perf_counter() - self._started
        # A micro-batch in which an engine was built says nothing about the next.
        pace = self._pace if self._built else self._pace.ended(busy, made, skipped)
        self._record.notes["pace"] = asdict(pace)

    def _rebuilt(self) -> Home:
        self._built = True
        self._add("engine_builds", 1)
        stored = self._record.stats.get("state_bytes", 0)
        LOG.info("bucket %d: building its engine from %d stored bytes", self._bucket, stored)
        return Here(self._key, self._store.rebuild(self._record))

    def _take(self, push: Push, expires: int | None) -> Taking:
        """Push into the engine; if it is lost before it gave anything, into a rebuilt one."""
        assert self._home is not None
        meta = self._record
        frames = self._frames = write_frames(push, expires)
        size = sum(map(len, frames))
        entry = Entry(meta.end + len(frames), size, expires) if frames else None
        forget_before = push.watermark if self._store.forgets else None
        taking = self._home.take(push, entry, forget_before)
        given = False
        while True:
            try:
                piece = next(taking)
            except StopIteration as end:
                outcome: Outcome = end.value
                return outcome
            except LostEngineError:
                if given:
                    raise  # Spark has some of the results: it must run the task again
                self._home = self._rebuilt()
                taking = self._home.take(push, entry, forget_before)
                continue
            given = True
            yield piece

    def _write(self, home: Home, outcome: Outcome) -> None:
        """Write the push into the log, and remove what is no longer needed."""
        meta = self._record
        advance(meta.stats, outcome.before, outcome.after)
        for step, seconds in outcome.seconds.items():
            self._add(step, seconds)
        if self._frames:
            self._store.append(meta, self._frames)
            meta.token = self._token
        self._store.drop(meta, outcome.expired)
        if self._store.log_is_long(meta):
            # If the engine has just gone, the log is long but right, and the next push rebuilds it.
            with contextlib.suppress(LostEngineError):
                self._store.compact(meta, home.snapshot())
                LOG.debug("bucket %d: a snapshot replaced the log", self._bucket)
        if outcome.examples:
            meta.notes["examples"] = outcome.examples
        meta.stats["state_bytes"] = meta.snapshot_bytes + meta.log_bytes
        meta.stats["state_pushes"] = meta.log_pushes

    def _expiry(self, arrivals: Arrivals) -> int | None:
        """The last time at which any of these rows can match; None where that is not known."""
        latest = 0
        for stream, newest in arrivals.newest:
            if newest == NEVER:
                return None
            latest = max(latest, newest + self._plan.spec.windows[stream].size)
        return latest

    def _count(self, arrivals: Arrivals) -> None:
        """Count what the engine does not see: each row once, and rows from too far ahead."""
        for name, amount in arrivals.counts(self._plan.spec.streams):
            self._add(name, amount)
        hot = self._record.notes.setdefault("hot", {})
        for key, rows in arrivals.hot:
            count_hot_key(hot, key, rows)

    def _add(self, name: str, amount: float) -> None:
        self._record.stats[name] = self._record.stats.get(name, 0) + amount


def late_watermark(meta: Meta, batch: int, current: int) -> int:
    """Spark's watermark, in milliseconds, of the micro-batch before this one.

    Every bucket hears of every micro-batch that has data. One without data runs only because the
    watermark has moved, and cannot move it further: after it, previous and current are the same.
    """
    return meta.watermark if batch <= meta.batch + 1 or meta.batch < 0 else current


def _property(name: str) -> str | None:
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)
