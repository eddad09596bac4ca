"""Frames: arrays behind one pointer read and write as the tuple does.

Law: compiled or not, a function sees the same arrays; and whatever the policy, the frame has one
type, so that each driver is compiled once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from numba import typeof

import tidegate as tg
from tidegate.compiled.frames import Frame, frame
from tidegate.compiled.kernel import kernel, part, step
from tidegate.compiled.layout import beside, copy, records

PAIR = np.dtype([("number", np.int64), ("half", np.float32)])


@frame
class Inner(NamedTuple):
    counts: Any
    pairs: Any


@frame
class Outer(NamedTuple):
    first: Any
    inner: Inner
    nothing: Any


@step
def _raise(inner, row, by):
    inner.counts[row, 1] += by
    inner.pairs[row].number += row


@kernel
def work(outer, rows):
    for row in range(rows):
        _raise(outer.inner, row, outer.first[row])
        outer.first[row] = 0.0
    return outer.inner.counts.shape[0]


def outer_of(rows: int) -> Outer:
    columns = beside(rows, counts=(np.float64, 2), pairs=(PAIR, 1))
    inner = Inner(columns["counts"], columns["pairs"])
    return Outer(np.arange(rows, dtype=np.float64), inner, None)


@pytest.mark.nojit
def test_a_frame_is_read_and_written_in_place() -> None:
    outer = outer_of(5)
    assert work(outer, 5) == 5
    assert outer.inner.counts[:, 1].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert outer.inner.counts[:, 0].tolist() == [0.0] * 5
    assert outer.inner.pairs.number.tolist() == [0, 1, 2, 3, 4]
    assert not outer.first.any()


@pytest.mark.nojit
def test_rows_of_a_block_are_copied_with_all_columns() -> None:
    old, new = outer_of(3).inner, outer_of(7).inner
    old.counts[:] = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    old.pairs.half[:] = 0.5
    copy(old.counts, new.counts)
    assert new.counts[:3].tolist() == old.counts.tolist()
    assert new.pairs.half.tolist() == [0.5] * 3 + [0.0] * 4


@pytest.mark.nojit
def test_no_record_lies_across_two_lines() -> None:
    for size in (32, 64):
        kind = np.dtype([("bytes", np.uint8, size)])
        assert records(kind, 100).ctypes.data % 64 == 0


def test_one_driver_serves_all_policies() -> None:
    """But for those that sample, which share another, and that of arrival patterns."""
    rows = {name: pa.table({"ts": [1, 2], "k": [1, 2]}) for name in ("left", "right")}
    samples = ("uniform", "eq-cluster", "pps-cluster")
    kinds: dict[str, set[Any]] = {"samples": set(), "patterns": set(), "others": set()}
    for policy in tg.policies():
        spec = tg.JoinSpec(on="k", time="ts", within=5, memory=3000, policy=policy)
        engine = tg.JoinEngine(spec, {name: table.schema for name, table in rows.items()})
        restored = tg.JoinEngine.restore(engine.snapshot())
        driver = "samples" if policy in samples else "others"
        driver = "patterns" if policy == "arrival-order" else driver
        kinds[driver] |= {typeof(engine._shed), typeof(restored._shed)}
    for kind in kinds.values():
        assert len(kind) == 1
        assert isinstance(*kind, Frame)
    assert len(set.union(*kinds.values())) == 3


@part
def _halved(value):
    return value / 2


@kernel
def quartered(value):
    return _halved(_halved(value))


def test_what_only_kernels_call_is_refused_to_python() -> None:
    for _ in range(2):  # before and after a kernel had it compiled
        with pytest.raises(TypeError, match="is a part of kernels"):
            _halved(1.0)
        assert quartered(8.0) == 2.0
