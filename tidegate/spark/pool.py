"""`tidegate.Pool`: one memory for several streaming joins, divided again as they run.

Law: the joins never hold more than the pool, at no time (`pool_book`). Every bucket shows with each
micro-batch how its recall would grow with memory (`planner.observed_recall`); the driver hears of
it through Spark's progress events and divides the memory so that the least recall of all joins is
as great as it can be (`planner.division`). A bucket hears of its new share in its next micro-batch.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import weakref
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from tidegate.planner.division import Seen, divide, recalls
from tidegate.planner.observed_recall import check_profiled
from tidegate.spark.pool_book import FLOOR_BYTES, PoolBook, PoolShare
from tidegate.spark.reports import PREFIX, reports_in
from tidegate.spark.routing import steers
from tidegate.spec import JoinSpec, TidegateError
from tidegate.spec.units import parse_bytes, require_integer

# A new division must promise so much more recall than the one in force.
LEAST_GAIN = 0.01
# Results on which a curve must rest before it counts.
ENOUGH_RESULTS = 100.0
# The least that a bucket keeps of a pool in tuples, as a part of an equal share.
FLOOR_PART = 16


class Pool:
    """A memory that several streaming joins share: `window_join(..., memory=pool, name="clicks")`.

    Parameters
    ----------
    memory
        For all joins together: a number of tuples, or a size such as "2 GB".
    folder
        Where the pool keeps its book; the driver and all workers must see it. With a folder of
        your own the joins have their shares again after a restart of the driver; without one the
        pool uses a folder of this process, and a restart begins with equal shares.
    weights
        By the names of joins: one of weight 2 is to have twice the recall of one of weight 1.

    A join in a pool needs a name, an equality in `on`, and windows of time. Each of its buckets
    also holds up to 2,048 sampled tuples, without payload, from which recall is observed; of a
    pool in bytes they are a part, of one in tuples not.
    """

    def __init__(
        self,
        memory: int | str,
        *,
        folder: str | None = None,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        in_bytes = isinstance(memory, str)
        self.memory = memory
        self._size = (
            parse_bytes(memory, "memory")
            if isinstance(memory, str)
            else require_integer(memory, "memory", "a number of tuples or a size such as '2 GB'")
        )
        if self._size < 1:
            raise TidegateError(f"memory {memory!r} of the pool is below 1; give 1 or more")
        self._unit = "bytes" if in_bytes else "tuples"
        self._weights = dict(weights or {})
        if folder is None:
            folder = tempfile.mkdtemp(prefix="tidegate-pool-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._book = PoolBook(folder)
        self._book.begin(self._size, self._unit)
        self._seen: dict[str, dict[int, Seen]] = {}
        self._evidence: dict[str, float] = {}
        self._lock = threading.Lock()
        self._listener: _Listener | None = None
        self.divisions: list[dict[str, Any]] = []

    def __repr__(self) -> str:
        shares = ", ".join(f"{name}: {size:,}" for name, size in self.shares().items())
        return f"Pool of {self._size:,} {self._unit} ({shares or 'no joins yet'})"

    def shares(self) -> dict[str, int]:
        """What each join is to hold, in tuples or bytes."""
        return dict(self._book.read().totals)

    def held(self) -> dict[str, int]:
        """What each join holds now; in total at most the pool."""
        return {name: sum(part.values()) for name, part in self._book.read().held.items()}

    def release(self, name: str) -> None:
        """Give the share of a join that was stopped for good to the others."""
        with self._lock:
            self._seen.pop(name, None)
            self._book.leave(name)

    def spec(self, spec: JoinSpec) -> JoinSpec:
        """The spec of a join in this pool: what its engines may hold at most."""
        check_profiled(spec)
        if steers(spec):
            raise TidegateError(
                "a pool decides what memory its joins have, so they can have no target and no "
                "miniatures; give the join a memory of its own"
            )
        if spec.sentinel is not None:
            raise TidegateError(
                "a join in a pool has no sentinel so far, and its recall is observed by the pool; "
                "give sentinel=None"
            )
        if spec.split_rows is not None:
            raise TidegateError(
                f"split {spec.split!r} fixes the tuples of each stream, and a pool changes them; "
                "give shares that sum to 1.0, or 'auto'"
            )
        return spec.replace(memory=self.memory)

    def take_in(self, name: str | None, session: SparkSession) -> PoolShare:
        """A join takes part from now on; the pool listens to the queries of its session."""
        if name is None:
            raise TidegateError(
                "a join in a pool needs a name, by which it finds its share again; give "
                "window_join name='...'"
            )
        self._book.join(name)
        with self._lock:
            if self._listener is None:
                self._listener = _Listener(self)
                session.streams.addListener(self._listener)
        return PoolShare(self._book, name, self._unit)

    # --- dividing -------------------------------------------------------------------------

    def hear(self, observed: Mapping[str, Any]) -> None:
        """Take the reports of a micro-batch, and divide the memory again if that promises much."""
        with self._lock:
            for key, row in observed.items():
                name = key.removeprefix(PREFIX)
                if key.startswith(PREFIX) and name in self._book.read().totals:
                    self._note(name, row)
            self._divide()

    def _note(self, name: str, row: Any) -> None:
        for report in reports_in(row):
            curve = report.get("recall")
            if curve is not None:
                points = [(float(memory), float(recall)) for memory, recall in curve["points"]]
                buckets = self._seen.setdefault(name, {})
                buckets[int(report["bucket"])] = Seen(points, float(curve["results"]))
                self._evidence[name] = sum(seen.results for seen in buckets.values())

    def _divide(self) -> None:
        book = self._book.read()
        known = {n: seen for n, seen in self._seen.items() if self._evidence[n] >= ENOUGH_RESULTS}
        others = sum(size for name, size in book.totals.items() if name not in known)
        if not known:
            return
        buckets = sum(map(len, known.values()))
        memory = self._size - others
        floor = FLOOR_BYTES if self._unit == "bytes" else memory // buckets // FLOOR_PART
        shares = divide(known, memory, floor, self._weights or None)
        now = {
            name: {bucket: book.aim(name, bucket, len(seen)) for bucket in seen}
            for name, seen in known.items()
        }
        before, after = recalls(known, now), recalls(known, shares)
        if self._worst(after) >= self._worst(before) + LEAST_GAIN:
            self._book.aim_at(shares)
            self.divisions.append({"shares": shares, "before": before, "after": after})

    def _worst(self, found: Mapping[str, float]) -> float:
        return min(recall / self._weights.get(name, 1.0) for name, recall in found.items())


class _Listener(StreamingQueryListener):
    """Tells a pool what Spark's queries report."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Nothing is known yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self._pool.hear(dict(event.progress.observedMetrics or {}))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing has changed."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Its share waits for it: it may be started again."""
