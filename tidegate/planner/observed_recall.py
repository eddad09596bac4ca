"""How recall would grow with memory, observed on a running join.

Law: what is held is bounded, whatever the windows hold: at most MOST_TUPLES sampled tuples with
their join columns, in an engine that sheds nothing, and parts of them in a few engines that shed by
the join's own policy. What these find of the results of the first is the recall of their memory.

The sample is by key: all tuples of some keys, so that a part of the keys with the same part of the
memory sheds as the whole join does. When the sample grows too large, half of its keys are dropped
and its engines begin again. Recent pushes count more than older ones. Where a few keys carry most
results and the windows are much larger than the sample, it may miss them, and the curve with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.binding.result_schema import bind
from tidegate.engine import JoinEngine
from tidegate.engine.live_miniatures import drawn, read_columns
from tidegate.spec import Equal, JoinSpec, TidegateError

MOST_TUPLES = 2048
# The memories that are tried, as parts of what the windows hold.
PARTS = (1 / 16, 1 / 8, 1 / 4, 1 / 2)
FADE = 0.8  # what a push counts for after one more
REFIT = 1.25  # memories follow the windows when these have changed by so much
_NEVER_FULL = 1 << 30  # tuples
_AT_FIRST = 16_384  # the same, until the windows are known


def check_profiled(spec: JoinSpec) -> None:
    """An error if the recall of such a join cannot be observed on a sample of its keys."""
    if not any(isinstance(predicate, Equal) for predicate in spec.predicates):
        raise TidegateError(
            "a pool divides memory by what a sample of the keys shows, and this join compares no "
            "keys for equality; give it a memory of its own"
        )
    if any(window.kind == "rows" for window in spec.windows):
        raise TidegateError(
            "a window of rows(n) holds the last rows of all keys, so a sample of the keys says "
            "nothing about it; give this join a memory of its own, not a pool"
        )


class RecallProfile:
    """The recall curve of a join, from what is pushed into it.

    >>> import pyarrow as pa, tidegate as tg
    >>> spec = tg.JoinSpec(on="k", time="t", within=50, policy="recent")
    >>> table = pa.table({"t": range(400), "k": [n % 20 for n in range(400)]})
    >>> profile = RecallProfile(spec, {"left": table.schema, "right": table.schema})
    >>> for begin in range(0, 400, 40):
    ...     profile.see({name: table.slice(begin, 40) for name in ("left", "right")})
    >>> [(memory, round(recall, 2)) for memory, recall in profile.points()]
    [(0, 0.0), (6, 0.21), (13, 0.21), (26, 0.21), (51, 0.6), (102, 1.0)]
    """

    def __init__(self, spec: JoinSpec, schemas: Mapping[str, pa.Schema]) -> None:
        check_profiled(spec)
        self._spec = spec.unwatched().replace(cpu=None)  # what memory alone decides
        self._columns = [read_columns(spec, stream) for stream in range(len(spec.streams))]
        self._schemas = {
            name: pa.schema([schemas[name].field(column) for column in columns])
            for name, columns in zip(spec.streams, self._columns, strict=True)
        }
        self._binding = bind(spec, self._schemas)
        self._halvings = 0
        self._found = np.zeros(1 + len(PARTS))  # worth of results, faded: of all, and of each part
        self._begin()

    def _begin(self) -> None:
        """Empty engines: the first sheds nothing, nor do the others before a window is known."""
        whole = self._spec.replace(memory=_NEVER_FULL, policy="recent", split="shared")
        tried = self._spec.replace(memory=_AT_FIRST)
        self._engines = [JoinEngine(spec, self._schemas) for spec in (whole, *[tried] * len(PARTS))]
        self._window = 0

    def see(self, tables: Mapping[str, pa.Table], watermark: Any = None) -> None:
        """Take the rows of a push into the sample."""
        sampled = {name: self._sampled(name, table) for name, table in tables.items()}
        self._fit()
        found = [_worth_of(engine, sampled, watermark) for engine in self._engines]
        self._found = FADE * self._found + np.array(found)
        alive = int(self._engines[0].stats()["memory_rows"])
        if alive > MOST_TUPLES:
            self._halvings += max(1, int(np.ceil(np.log2(alive / MOST_TUPLES))))
            self._begin()

    def _sampled(self, name: str, table: pa.Table) -> pa.Table:
        """The rows of the keys that are watched, with the columns that the join reads."""
        stream = self._spec.streams.index(name)
        rows = table.select(self._columns[stream])
        if not self._halvings:
            return rows
        chance = drawn(self._binding.encode(stream, rows).code, self._spec.seed)
        return rows.filter(pa.array(chance < 2.0**-self._halvings))

    def _fit(self) -> None:
        """Let the memories that are tried follow the windows."""
        window = int(self._engines[0].stats()["memory_rows"])
        if window and not 1 / REFIT <= self._window / window <= REFIT:
            self._window = window
            for engine, part in zip(self._engines[1:], PARTS, strict=True):
                engine.resize(max(1, round(part * window)))

    # --- reading --------------------------------------------------------------------------

    @property
    def results(self) -> float:
        """The worth of all results of late, of all keys."""
        return float(self._found[0]) * 2.0**self._halvings

    @property
    def evidence(self) -> float:
        """The same of the sampled keys: how much the curve rests on."""
        return float(self._found[0])

    @property
    def nbytes(self) -> int:
        """Memory of all engines."""
        return sum(int(engine.stats()["memory_bytes"]) for engine in self._engines)

    def points(self) -> list[tuple[int, float]]:
        """(tuples, recall), as `tidegate.allocate` takes them; none before there were results."""
        whole = self._found[0]
        if not whole:
            return []
        window = max(self._window, int(self._engines[0].stats()["memory_rows"]))
        scale = 2**self._halvings
        recall = np.minimum(1.0, np.maximum.accumulate(self._found[1:] / whole))
        tried = [max(1, round(part * window)) * scale for part in PARTS]
        return [(0, 0.0), *zip(tried, recall.tolist(), strict=True), (window * scale, 1.0)]


def _worth_of(engine: JoinEngine, tables: Mapping[str, pa.Table], watermark: Any) -> float:
    """What the results of a push are worth; nobody needs the results themselves."""
    before = engine.stats()["importance_out"]
    for _ in engine.results(tables, watermark=watermark):
        pass
    return float(engine.stats()["importance_out"] - before)
