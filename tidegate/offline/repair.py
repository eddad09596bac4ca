"""What a join lost, computed afterwards from its ledger.

Law: output and repaired results together are the exact join, each row once. A result is lost iff
one of its tuples was gone when the last of them came; both orders of arrival stand in the ledger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidegate.engine import JoinEngine
from tidegate.engine.replay import replay
from tidegate.loss import ledger_files
from tidegate.loss.ledger_files import ADDED, ALIVE, EVICTED, EXPIRED, GONE, ORDER, REASON, REFUSED
from tidegate.spec import JoinSpec, TidegateError

_JOINED = (ALIVE, EXPIRED, EVICTED, REFUSED)  # the others never took part in the join
Progress = Callable[[int, int], None]


@dataclass
class Repair:
    """A ledger, read. `results` yields the lost results; `rows` counts its rows by reason."""

    folder: Path
    spec: JoinSpec
    rows: Counter[str]
    size: int = 0  # results so far, and their importance
    importance: float = 0.0
    _tables: dict[str, pa.Table] = field(default_factory=dict)

    def results(self, progress: Progress | None = None) -> Iterator[pa.Table]:
        """The lost results in pieces; the first has no rows and the columns of all."""
        engine = JoinEngine(self.spec.unwatched().replace(memory=None, split="auto", policy="auto"))
        for table in replay(engine, self._tables, progress):
            lost = self._lost(table)
            self.size += lost.num_rows
            self.importance += float(pc.sum(lost.column("_importance")).as_py() or 0.0)
            yield lost

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


def _named(name: str, stream: str) -> str:
    """Of a column in the join, where each stream needs its own."""
    return f"{name} of {stream}"


def repair(folder: str | Path) -> Repair:
    """Read a ledger; `results()` of it are the results that the join lost.

    Parameters
    ----------
    folder
        What `JoinEngine(ledger=)` or `tidegate join --ledger` wrote.

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
    folder = Path(folder)
    spec, pushes = ledger_files.read_head(folder)
    found = {name: ledger_files.read(folder, name, pushes) for name in spec.streams}
    if any(table is None for table in found.values()):
        raise TidegateError(
            f"the ledger '{folder}' has no rows of some stream, so no result was lost"
        )
    tables = {name: table for name, table in found.items() if table is not None}
    rows: Counter[str] = Counter()
    for name, table in tables.items():
        for pair in pc.value_counts(table.column(REASON)).to_pylist():
            rows[pair["values"]] += pair["counts"]
        joined = table.filter(pc.is_in(table.column(REASON), pa.array(_JOINED)))
        names = {ORDER: _named(ORDER, name), GONE: _named(GONE, name)}
        joined = joined.drop_columns([added for added in ADDED if added not in names])
        tables[name] = joined.rename_columns([names.get(n, n) for n in joined.column_names])
    return Repair(folder, spec, rows, _tables=tables)
