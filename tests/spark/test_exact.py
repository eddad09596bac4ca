"""In exact mode `window_join` gives the rows of Spark's own stream-stream inner join.

    seconds      10        15      22        within: left 5, right 6
    rows         left      right   left
                 |---------|                 15 - 10 <= 5: the left row waits 5, they meet
                           |-------|         22 - 15 > 6: the right row waits 6, they do not

Both joins see the same micro-batches, drop the same rows as late and give the same pairs.
"""

from __future__ import annotations

import itertools

import pytest
from spark.feeds import Feed, random_batches, sparks_own_join

from tidegate.spark import metrics, window_join


@pytest.mark.parametrize(
    ("within", "partitions", "gaps", "stops"), [((15, 15), 2, 0.05, ()), ((0, 25), 3, 0.0, (2,))]
)
def test_equals_sparks_own_join(
    feed: Feed, within: tuple[int, int], partitions: int, gaps: float, stops: tuple[int, ...]
) -> None:
    """Also where both queries stop after some micro-batches and are started again."""
    feed.spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    windows = {"left": f"{within[0]} s", "right": f"{within[1]} s"}
    ours, theirs = [], []
    for begin, end in itertools.pairwise((0, *stops, 4)):
        for seed, name in enumerate(("left", "right")):
            batches = random_batches(10 * partitions + seed, 4, gaps=gaps)
            # Where there are stops, the right stream is idle before each.
            until = end - 1 if stops and name == "right" else end
            feed.write(name, batches[begin:until], first=begin)
        left, right = (feed.stream(n).withWatermark("ts", "10 seconds") for n in ("left", "right"))
        joined = window_join(left, right, on="k", time="ts", within=windows)
        ours.append(feed.run(joined, "ours"))
        theirs.append(feed.run(sparks_own_join(left, right, within), "theirs"))
    late = sum(run.late for run in theirs)
    assert late > 0
    assert len(theirs[-1].rows) > 100
    columns = ("id", "id_right", "ts", "ts_right")
    assert ours[-1].pairs(*columns) == theirs[-1].pairs(*columns)
    total = metrics(ours[-1].query).total
    # Spark filters rows without a key before it counts the late ones.
    assert total["too_late"] == late if gaps == 0 else total["too_late"] > late
    assert total["rows_out"] == len(theirs[-1].rows)
    # Spark hands buckets to its workers in turn; the engines are found wherever they are.
    assert total["engine_builds"] == partitions * len(ours)


def test_self_join(feed: Feed) -> None:
    feed.write("both", random_batches(7, 3, keys=12))
    stream = feed.stream("both").withWatermark("ts", "5 seconds")
    ours = feed.run(
        window_join({"left": stream, "right": stream}, on="k", time="ts", within="8 s"), "ours"
    )
    theirs = feed.run(sparks_own_join(stream, stream, (8, 8)), "theirs")
    assert len(theirs.rows) > 100
    assert ours.pairs("id", "id_right") == theirs.pairs("id", "id_right")
