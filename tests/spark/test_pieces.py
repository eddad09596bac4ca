"""Results leave in pieces of bounded size, however many a push completes.

Law: between the engine and Spark no more than a few pieces exist at a time, in streaming and in
batch joins, in the process of the engine and on the way from another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidegate.engine import JoinEngine
from tidegate.engine.results import OUTPUT_ROOM
from tidegate.spark import batch
from tidegate.spark.batch import BatchJoin
from tidegate.spark.delivery import BYTES_PER_PIECE, REPORT
from tidegate.spark.engines import Push, Resident
from tidegate.spark.packing import encode
from tidegate.spark.routing import Routing
from tidegate.spec import JoinSpec

SPEC = JoinSpec(on="k", time="t", within=100)
ROWS = 1500  # of each stream, all of one key


def one_key(text: str = "") -> pa.Table:
    columns = {"t": np.zeros(ROWS, np.int64), "k": np.zeros(ROWS, np.int64), "p": [text] * ROWS}
    return pa.table(columns)


def most_at_once(pieces: Iterator[Any]) -> tuple[int, int, int]:
    """Rows of all pieces, rows of the largest, and the most bytes that Arrow held meanwhile."""
    rows = largest = most = 0
    before = pa.total_allocated_bytes()
    for piece in pieces:
        assert piece.nbytes <= 2 * BYTES_PER_PIECE
        rows, largest = rows + piece.num_rows, max(largest, piece.num_rows)
        most = max(most, pa.total_allocated_bytes() - before)
    return rows, largest, most


@pytest.mark.parametrize("text", ["", "x" * 400], ids=["narrow", "wide"])
def test_a_push_gives_piece_by_piece(text: str) -> None:
    blob = encode(one_key(text)).to_pybytes()
    resident = Resident(JoinEngine(SPEC), SPEC.streams)
    taking = resident.take(Push({0: [blob], 1: [blob]}, None), None, None)
    rows, largest, most = most_at_once(taking)
    assert rows == ROWS * ROWS
    assert largest <= OUTPUT_ROOM
    # All results together would take this many; a few pieces and the push itself are far less.
    whole = rows * (5 * 8 + 2 * len(text))
    assert most < whole / 4


def test_a_batch_join_gives_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "partitions_of_task", lambda: 1)
    table = one_key()
    blob = encode(table).to_pybytes()
    rows = [
        {
            "stream": stream, "origin": 0, "micros": 0, "rows": ROWS, "ahead": 0, "home": True,
            "newest": 0, "hot_key": None, "hot_rows": 0, "label": 0, "blob": blob,
        }
        for stream in range(2)
    ]  # fmt: skip
    packed = pa.Table.from_pylist(rows).to_batches()
    join = BatchJoin(SPEC, {"left": table.schema, "right": table.schema}, Routing("single", 2))
    label = pa.scalar(join.routing.layout(1).labels[0])
    found, largest, most = most_at_once(join.run((label,), iter(packed)))
    assert found == ROWS * ROWS + 1  # and the report
    assert largest <= OUTPUT_ROOM
    assert most < ROWS * ROWS * 5 * 8 / 4
    *_, last = join.run((label,), iter(packed))
    assert '"rows_out"' in last.column(REPORT)[0].as_py()
