"""What a join lost, computed afterwards from its ledger.

Law: output and repaired results together are the exact join, each row once. A result is lost iff
one of its tuples was gone when the last of them came; both orders of arrival stand in the ledger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidegate.engine import JoinEngine
from tidegate.engine.replay import replay
from tidegate.loss import ledger_files
from tidegate.loss.bucket_chain import buckets_of, committed, last_batch
from tidegate.loss.folders import Folder
from tidegate.loss.ledger_files import (
    ADDED,
    ALIVE,
    EVICTED,
    EXPIRED,
    GONE,
    HEAD,
    ORDER,
    REASON,
    REFUSED,
)
from tidegate.spec import JoinSpec, TidegateError

_JOINED = (ALIVE, EXPIRED, EVICTED, REFUSED)  # the others never took part in the join
Progress = Callable[[int, int], None]
Read = Callable[[str, list[str] | None], pa.Table | None]


@dataclass
class Repair:
    """A ledger, read. `results` yields the lost results; `rows` counts its rows by reason.

    On Spark each bucket has a ledger of its own, and what a bucket lost is computed bucket by
    bucket. `batch` is the last micro-batch that it holds.
    """

    folder: str | Path
    spec: JoinSpec
    rows: Counter[str]
    size: int = 0  # results so far, and their importance
    importance: float = 0.0
    batch: int = -1
    _parts: Sequence[Read] = ()  # how to read the rows of a stream: all, or of each bucket

    def results(self, progress: Progress | None = None) -> Iterator[pa.Table]:
        """The lost results in pieces; the first has no rows and the columns of all."""
        exact = self.spec.unwatched().replace(memory=None, split="auto", policy="auto")
        total, done = sum(self.rows.values()), 0
        for part in self._parts:
            with ledger_files.reading(self.folder):
                tables = {name: part(name, None) for name in self.spec.streams}
            joined = {name: _joined(t, name) for name, t in tables.items() if t is not None}
            if len(joined) < len(self.spec.streams):
                continue  # nothing can have been lost
            for table in replay(JoinEngine(exact), joined):
                lost = self._lost(table)
                self.size += lost.num_rows
                self.importance += float(pc.sum(lost.column("_importance")).as_py() or 0.0)
                yield lost
            done += sum(table.num_rows for table in tables.values() if table is not None)
            if progress is not None:
                progress(done, total)

    def _lost(self, table: pa.Table) -> pa.Table:
        orders = self._columns(table, ORDER)
        gone = self._columns(table, GONE)
        last = np.max(orders, axis=0)
        is_lost = np.any((orders < last) & (gone <= last), axis=0)
        added = {_named(name, stream) for name in (ORDER, GONE) for stream in self.spec.streams}
        kept = [name for name in table.column_names if name not in added]
        return table.select(kept).filter(pa.array(is_lost))

    def _columns(self, table: pa.Table, name: str) -> NDArray[np.int64]:
        columns = [table.column(_named(name, stream)).to_numpy() for stream in self.spec.streams]
        return np.stack(columns)


def _reader(folder: str | Path, head: Mapping[str, Any]) -> Read:
    """How to read the ledger of one engine, which holds as many rows as its head says."""
    pushes, rows = head.get("pushes", 0), head.get("rows")

    def read(stream: str, columns: list[str] | None) -> pa.Table | None:
        table = ledger_files.read(Path(folder), stream, columns, pushes=pushes)
        found = 0 if table is None else table.num_rows
        if rows is not None and found != rows.get(stream, 0):
            raise TidegateError(
                f"ledger '{folder}' has {found:,} rows of stream {stream!r} and should have "
                f"{rows.get(stream, 0):,}; put back the files that were removed"
            )
        return table

    return read


def _joined(table: pa.Table, stream: str) -> pa.Table:
    """The rows that took part in the join, with their orders under names of the stream's own."""
    joined = table.filter(pc.is_in(table.column(REASON), pa.array(_JOINED)))
    names = {ORDER: _named(ORDER, stream), GONE: _named(GONE, stream)}
    joined = joined.drop_columns([added for added in ADDED if added not in names])
    return joined.rename_columns([names.get(name, name) for name in joined.column_names])


def _named(name: str, stream: str) -> str:
    """Of a column in the join, where each stream needs its own."""
    return f"{name} of {stream}"


def repair(folder: str | Path, checkpoint: str | Path | None = None) -> Repair:
    """Read a ledger; `results()` of it are the results that the join lost.

    Parameters
    ----------
    folder
        What `JoinEngine(ledger=)`, `tidegate join --ledger` or `window_join(ledger=)` wrote.
    checkpoint
        Of a query on Spark that may have died: the folder of its checkpoint, which says what the
        last micro-batch is that was committed. Without it that is the last that was written.

    Example
    -------
    >>> import pyarrow as pa, tempfile, tidegate as tg
    >>> from tidegate.offline.repair import repair
    >>> spec = tg.JoinSpec(on="k", time="t", within=9, memory=1, policy="recent")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     engine = tg.JoinEngine(spec, ledger=folder)
    ...     left, right = pa.table({"t": [1, 2], "k": [1, 2]}), pa.table({"t": [5], "k": [1]})
    ...     given_out = engine.push({"left": left, "right": right}).num_rows
    ...     engine.write_ledger()
    ...     lost = pa.concat_tables(repair(folder).results()).to_pylist()
    >>> given_out, lost
    (0, [{'t': 1, 'k': 1, 't_right': 5, 'k_right': 1, '_importance': 1.0}])
    """
    with ledger_files.reading(folder):
        text = Folder.of(folder).text(HEAD)
    if text is None:
        raise TidegateError(
            f"'{folder}' has no {HEAD}, so it is not a ledger, or the join that writes it has not "
            "finished; give the folder of JoinEngine(ledger=), tidegate join --ledger or "
            "window_join(ledger=)"
        )
    spec, head = ledger_files.read_head(text, f"{folder}/{HEAD}")
    batch = -1
    parts: list[Read] = [_reader(folder, head)]
    if head.get("kind") == "buckets":
        upto = None if checkpoint is None else committed(checkpoint)
        buckets = buckets_of(folder, upto)
        batch, parts = last_batch(buckets), [bucket.read for bucket in buckets]
    elif checkpoint is not None:
        raise TidegateError(f"'{folder}' is not the ledger of a query on Spark; give no checkpoint")
    rows = Counter[str]()
    missing = set(spec.streams)
    with ledger_files.reading(folder):
        for part in parts:
            for name in spec.streams:
                table = part(name, [REASON, ORDER])
                if table is not None:
                    missing.discard(name)
                    for pair in pc.value_counts(table.column(REASON)).to_pylist():
                        rows[pair["values"]] += pair["counts"]
    if missing:
        raise TidegateError(
            f"the ledger '{folder}' has no rows of some stream, so no result was lost"
        )
    return Repair(folder, spec, rows, batch=batch, _parts=parts)
