"""Routing: Spark's hash, a bucket per partition, each pair in one bucket, budgets that add up."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive_policies import chance
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tidegate.spark import routing
from tidegate.spark.routing import (
    Routing,
    bucket_seed,
    bucket_spec,
    grid_shape,
    partition_labels,
    spark_hash,
)
from tidegate.spec import Cpu, JoinSpec, TidegateError, band, rows


def test_hash_is_sparks(spark: SparkSession) -> None:
    labels = [0, 1, 2, 42, 1000, 2**31 - 1]
    frame = spark.createDataFrame([(label,) for label in labels], "label int")
    found = [row[0] for row in frame.select(F.hash("label")).collect()]
    assert [spark_hash(label) for label in labels] == found


@pytest.mark.parametrize("partitions", [1, 2, 3, 7, 200])
def test_each_partition_gets_one_label(partitions: int) -> None:
    labels = partition_labels(partitions)
    assert [spark_hash(label) % partitions for label in labels] == list(range(partitions))


@given(partitions=st.integers(1, 40), streams=st.integers(2, 4))
def test_grid_lets_every_combination_meet_once(partitions: int, streams: int) -> None:
    layout = Routing("grid", streams).layout(partitions)
    assert 1 <= layout.buckets <= partitions
    lanes = [range(layout.lanes(stream)) for stream in range(streams)]
    for combination in itertools.product(*lanes):
        places = [set(layout.targets(stream, lane)) for stream, lane in enumerate(combination)]
        assert len(set.intersection(*places)) == 1


@given(cells=st.integers(1, 500), dimensions=st.integers(1, 4))
def test_grid_wastes_little(cells: int, dimensions: int) -> None:
    shape = grid_shape(cells, dimensions)
    assert len(shape) == dimensions
    assert cells / 2 < math.prod(shape) <= cells


@given(hashes=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), partitions=st.integers(1, 9))
def test_keys_have_one_bucket(hashes: list[int], partitions: int) -> None:
    layout = Routing("key", 2).layout(partitions)
    lanes = layout.lane_of(0, np.array(hashes, np.int64))
    assert set(lanes.tolist()) <= set(range(partitions))
    assert all(layout.targets(0, lane) == layout.targets(1, lane) == (lane,) for lane in lanes)


def test_kind_follows_the_spec() -> None:
    spec = JoinSpec(on="k", time="t", within="1 s")
    assert Routing.of(spec).kind == "key"
    assert Routing.of(spec.replace(on=[band("x", 0, 1), "k"])).kind == "key"
    assert Routing.of(spec.replace(on=band("x", 0, 1))).kind == "grid"
    # The last 5 rows of a stream are those of the whole stream.
    assert Routing.of(spec.replace(within=rows(5))).kind == "single"


@given(
    split=st.lists(st.integers(0, 50), min_size=2, max_size=2),
    slack=st.integers(0, 30),
    buckets=st.integers(1, 12),
    explicit=st.booleans(),
)
def test_budgets_add_up(split: list[int], slack: int, buckets: int, explicit: bool) -> None:
    memory = sum(split) + slack
    spec = JoinSpec(
        on="k", time="t", within="1 s", memory=memory, split=split if explicit else "even"
    )
    parts = [bucket_spec(spec, bucket, buckets) for bucket in range(buckets)]
    assert sum(part.memory_rows or 0 for part in parts) == memory
    assert len({part.seed for part in parts}) == buckets
    if explicit:
        columns = zip(*[part.split_rows or () for part in parts], strict=True)
        assert [sum(column) for column in columns] == split


def test_buckets_draw_other_numbers() -> None:
    """A number that two buckets drew would be that of another tuple: no copies, shifted or not."""
    seeds = [bucket_seed(7, bucket) for bucket in range(6)]
    drawn = [chance(seed, stream, n) for seed in seeds for stream in (0, 1) for n in range(300)]
    assert len(set(drawn)) == len(drawn)
    assert bucket_seed(7, 0) == 7
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_other_budgets_add_up() -> None:
    spec = JoinSpec(on="k", time="t", within="1 s", memory="1001 B", cpu=Cpu(90.0))
    parts = [bucket_spec(spec, bucket, 3) for bucket in range(3)]
    assert sum(part.memory_bytes or 0 for part in parts) == 1001
    assert [part.cpu.comparisons_per_second for part in parts if part.cpu] == [30.0] * 3


@given(memory=st.integers(0, 3000), partitions=st.integers(1, 40))
def test_a_budget_is_cut_into_no_more_buckets_than_it_feeds(memory: int, partitions: int) -> None:
    spec = JoinSpec(on="k", time="t", within="1 s", memory=memory)
    layout = Routing.of(spec).layout(partitions)
    parts = [bucket_spec(spec, n, layout.buckets).memory_rows or 0 for n in range(layout.buckets)]
    assert sum(parts) == memory
    assert layout.buckets == 1 or min(parts) >= routing.FEWEST_ROWS
    assert layout.buckets == min(partitions, max(1, memory // routing.FEWEST_ROWS))
    assert bool(layout.warnings(spec)) == (layout.buckets < partitions)


def test_bytes_and_grids_are_cut_likewise() -> None:
    spec = JoinSpec(on="k", time="t", within="1 s", memory="20 MB")
    assert Routing.of(spec).layout(200).buckets == 5
    assert Routing.of(spec.replace(on=band("x", 0, 1))).layout(200).shape == (2, 2)
    assert Routing.of(spec.replace(memory=None)).layout(200).buckets == 200
    assert Routing.of(spec.replace(memory="400 KB")).layout(200).buckets == 1
    assert Routing.of(spec, 7).layout(200).buckets == 7
    single = Routing.of(spec.replace(within=rows(5))).layout(200)
    assert single.buckets == 1
    assert single.warnings(spec) == []
    with pytest.raises(TidegateError, match="memory '9 KB' is too small for a join; give 100 kB"):
        Routing.of(spec.replace(memory="9 KB"))
    with pytest.raises(TidegateError, match="give 1 MB or more, or at most 4 buckets"):
        Routing.of(spec.replace(memory="400 KB"), 10)
