"""The allocations of kang2003 under a CPU budget, and the model of inverted lists (Fig. 9).

The law: an allocation never spends more than its fuel, and with enough it is the exact join; lists
that are counted by basic window add up to what the engine's index reads; what an index cannot read
in part gives no more than what it can.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("altair")

import tidegate as tg
from tidegate.lab.gedik2005 import Setting
from tidegate.lab.gedik2005_best import comparisons_by_window, results_by_window
from tidegate.lab.gedik2005_index import (
    BY_IDENTIFIER,
    BY_TIME,
    NONE,
    entries_by_window,
    outputs_by_size,
)
from tidegate.lab.gedik2005_streams import SECOND
from tidegate.lab.kang2003_allocations import ALLOCATIONS, MAX_A, MAX_B, results_of, searching

SMALL = Setting(((20.0, 6.0), (10.0, 12.0)), (8.0, 5.0), skew=1.0, shifted=True, at_least=2)
CUT = (SMALL.ticks, SECOND, 5 * SECOND, 7)


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    return {
        name: table.append_column(f"row_{side}", pa.array(np.arange(table.num_rows)))
        for side, (name, table) in enumerate(SMALL.tables(1.0, 5).items())
    }


@pytest.fixture(scope="module")
def exact(tables: dict[str, pa.Table]) -> pa.Table:
    return tg.join(tables, SMALL.spec()).table


def kept(exact: pa.Table, masks: tuple[np.ndarray, np.ndarray]) -> list[int]:
    return [int(m.sum()) for m in results_of(exact, ("row_0", "row_1"), ("t", "t_right"), masks)]


@pytest.mark.parametrize("name", ALLOCATIONS)
def test_an_allocation_keeps_its_fuel(
    name: str, tables: dict[str, pa.Table], exact: pa.Table
) -> None:
    ample = searching(tables, SMALL.ticks, 10.0**9, name)
    assert sum(kept(exact, ample)) == exact.num_rows
    counts = comparisons_by_window(tables, *CUT).sum()
    fuel = 0.3 * counts / 30
    masks = searching(tables, SMALL.ticks, fuel, name)
    some = {n: t.filter(pa.array(m)) for (n, t), m in zip(tables.items(), masks, strict=True)}
    spent = sum(
        comparisons_by_window({**tables, n: some[n]}, *CUT)[:, 1 - side].sum()
        for side, n in enumerate(tables)
    )
    assert 0.15 * counts <= spent <= 0.3 * counts
    assert 0 < sum(kept(exact, masks)) < exact.num_rows


def test_the_greatest_share_goes_where_it_is_said(
    tables: dict[str, pa.Table], exact: pa.Table
) -> None:
    fuel = 0.3 * comparisons_by_window(tables, *CUT).sum() / 30
    first = kept(exact, searching(tables, SMALL.ticks, fuel, MAX_A))
    second = kept(exact, searching(tables, SMALL.ticks, fuel, MAX_B))
    assert first[0] > second[0]
    assert second[1] > first[1]


def test_lists_add_up(tables: dict[str, pa.Table]) -> None:
    entries, lookups = entries_by_window(tables, *CUT)
    stats = tg.join(tables, SMALL.spec().replace(cpu=tg.Cpu(10**9))).stats
    assert entries.sum() == stats["comparisons"]
    assert lookups.sum() == sum(len(i) for t in tables.values() for i in t["items"].to_pylist())


def test_what_cannot_be_read_in_part_gives_no_more(
    tables: dict[str, pa.Table], exact: pa.Table
) -> None:
    sizes = (NONE, 500, 1000, 4000)
    by_window = {
        size: results_by_window(exact, SMALL.ticks, size or 200, 5 * SECOND, 7) for size in sizes
    }
    found = outputs_by_size(tables, by_window, SMALL.ticks, 5 * SECOND, 0.3)
    for size in sizes[1:]:
        assert 0 < found[size][BY_IDENTIFIER] <= found[size][BY_TIME] < exact.num_rows
    ample = outputs_by_size(tables, by_window, SMALL.ticks, 5 * SECOND, 100.0)
    for kinds in ample.values():
        for results in kinds.values():
            assert results == pytest.approx(exact.num_rows)
