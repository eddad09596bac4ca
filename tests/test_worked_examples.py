"""Worked examples of the papers, to the digit.

The law: where a paper computes a result by hand, the engine computes the same.
"""

from __future__ import annotations

from typing import Any

import naive
import pyarrow as pa
import pytest
from strategies import plain_if_rare

import tidegate as tg

# ojewole2006, section 4.1, figure 1: (arrival time, join attribute, importance).
STREAM_R = [(0, 1, 1), (1, 9, 20), (2, 1, 1), (3, 3, 5), (4, 4, 5), (5, 2, 1)]
STREAM_S = [(0, 3, 5), (1, 1, 1), (2, 1, 1), (3, 1, 1), (4, 9, 20), (5, 1, 1)]

# A lifetime of w = 4 instants, the tuple's own included, is a window of 3: r(1) meets s(4).
#
#   time   0   1   2   3   4   5
#   r(1)       |-----------]         key 9, importance 20
#   s(4)                   |         key 9, importance 20
#   s(5)                       |     r(1) would be over
WINDOW = 3
EXACT_SIZE, EXACT_IMPORTANCE = 9, 32
LARGEST_SIZE_AT_4, OPTIMUM_AT_4 = 8, 30


def ojewole_tables() -> dict[str, pa.Table]:
    return {
        name: pa.table(
            {
                f"row_{name}": [time for time, _, _ in stream],
                "ts": [time for time, _, _ in stream],
                "key": [key for _, key, _ in stream],
                "importance": [float(importance) for _, _, importance in stream],
            }
        )
        for name, stream in (("r", STREAM_R), ("s", STREAM_S))
    }


def ojewole_spec(**options: Any) -> tg.JoinSpec:
    settings: dict[str, Any] = {"ties": "instant", "importance": "importance", **options}
    return tg.JoinSpec(on="key", time="ts", within=WINDOW, streams=("r", "s"), **settings)


# (r, s) by arrival times: one pair inside an instant, then r waited for s, then s for r.
OJEWOLE_EXACT = {
    (2, 2): 1.0,
    (0, 1): 1.0, (0, 2): 1.0, (0, 3): 1.0, (2, 3): 1.0, (2, 5): 1.0, (1, 4): 20.0,
    (2, 1): 1.0, (3, 0): 5.0,
}  # fmt: skip


@pytest.mark.nojit
@pytest.mark.parametrize("ties", ["instant", "arrival"])
@pytest.mark.parametrize("index", ["auto", "nested-loop", "hash", "btree", "ttree"])
def test_ojewole_exact_result(index: str, ties: str) -> None:
    result = tg.join(ojewole_tables(), ojewole_spec(index=index, ties=ties))
    rows = [result.table.column(name).to_pylist() for name in ("row_r", "row_s", "_importance")]
    assert sorted(zip(*rows, strict=True)) == sorted((*k, v) for k, v in OJEWOLE_EXACT.items())
    assert result.stats["rows_out"] == EXACT_SIZE
    assert result.stats["importance_out"] == EXACT_IMPORTANCE


@pytest.mark.nojit
def test_ojewole_exact_result_of_the_twin() -> None:
    rows = {name: table.to_pylist() for name, table in ojewole_tables().items()}
    result = naive.join(rows, ojewole_spec())
    assert dict(result.results) == OJEWOLE_EXACT
    assert len(result.pairs) == EXACT_SIZE
    assert sum(result.importances) == EXACT_IMPORTANCE
    assert sorted(naive.definition(rows, ojewole_spec())) == sorted(result.results)


@pytest.mark.parametrize("policy", plain_if_rare(sorted(tg.policies())))
def test_ojewole_no_policy_beats_the_optimum(policy: str) -> None:
    """M = 4 split evenly: at most 8 tuples, and at most an importance of 30 (section 4.1)."""
    for seed in range(20):
        spec = ojewole_spec(memory=4, split="even", policy=policy, seed=seed)
        stats = tg.join(ojewole_tables(), spec).stats
        assert stats["rows_out"] <= LARGEST_SIZE_AT_4
        assert stats["importance_out"] <= OPTIMUM_AT_4
        assert stats["memory_rows_peak"] <= 4


@pytest.mark.nojit
def test_ojewole_memory_of_both_windows_is_exact() -> None:
    """2w = 8 memory units are required to compute the exact result (section 4.1)."""
    stats = tg.join(ojewole_tables(), ojewole_spec(memory=8, split="even", policy="simp")).stats
    assert (stats["rows_out"], stats["importance_out"]) == (EXACT_SIZE, EXACT_IMPORTANCE)
