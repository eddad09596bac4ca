"""State that an earlier version stored is read, and the join goes on from it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from spark.stored_state import SPECS, STORED_BATCHES, batches, read
from spark.test_state import fresh_process, lines, plan_of, step  # noqa: F401 (a fixture)

from tidegate.engine import JoinEngine
from tidegate.spark.bucket_store import FORMAT, OLDEST_READ, Meta
from tidegate.spark.routing import bucket_spec


@pytest.mark.parametrize("version", range(OLDEST_READ, FORMAT + 1))
@pytest.mark.parametrize("name", SPECS)
def test_state_of_every_format_is_read(version: int, name: str) -> None:
    spec, cells = SPECS[name], read(version)[name]
    before = Meta.from_bytes(cells.meta[0])  # type: ignore[index]
    assert before.stats["rows_in"] == 2 * 25 * STORED_BATCHES
    all_batches = batches(STORED_BATCHES + 2)
    plan = plan_of(spec, all_batches[0][0])  # type: ignore[arg-type]
    engine = JoinEngine(bucket_spec(spec, 0, 1), plan.schemas)
    watermark = 0
    for number, tables in enumerate(all_batches):
        named = {spec.streams[stream]: table for stream, table in tables.items()}
        expected = engine.push(named, watermark=watermark * 1000 + 1)
        if number >= STORED_BATCHES:
            work = step(plan, cells, tables, number)  # type: ignore[arg-type]
            got = work.results  # type: ignore[attr-defined]
            assert lines(pa.concat_tables(got)) == lines(expected)
        watermark = (1_700_000_000 + 20 * number - 5) * 1000
    after = Meta.from_bytes(cells.meta[0])  # type: ignore[index]
    assert after.stats["rows_in"] == 2 * 25 * (STORED_BATCHES + 2)
    assert after.stats["engine_builds"] == 2
