"""In exact mode `window_join` gives the rows of Spark's own stream-stream inner join.

    seconds      10        15      22        within: left 5, right 6
    rows         left      right   left
                 |---------|                 15 - 10 <= 5: the left row waits 5, they meet
                           |-------|         22 - 15 > 6: the right row waits 6, they do not

Both joins see the same micro-batches, drop the same rows as late and give the same pairs.
"""

from __future__ import annotations

import pytest
from spark.feeds import Feed, random_batches, sparks_own_join

from tidegate.spark import metrics, window_join


@pytest.mark.parametrize(("within", "partitions", "gaps"), [((15, 15), 2, 0.05), ((0, 25), 3, 0.0)])
def test_equals_sparks_own_join(
    feed: Feed, within: tuple[int, int], partitions: int, gaps: float
) -> None:
    feed.spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    for seed, name in enumerate(("left", "right")):
        feed.write(name, random_batches(10 * partitions + seed, gaps=gaps))
    left, right = (feed.stream(n).withWatermark("ts", "10 seconds") for n in ("left", "right"))
    windows = {"left": f"{within[0]} s", "right": f"{within[1]} s"}
    ours = feed.run(window_join(left, right, on="k", time="ts", within=windows), "ours")
    theirs = feed.run(sparks_own_join(left, right, within), "theirs")
    assert theirs.late > 0
    assert len(theirs.rows) > 100
    assert ours.pairs("id", "id_right", "ts", "ts_right") == theirs.pairs(
        "id", "id_right", "ts", "ts_right"
    )
    total = metrics(ours.query).total
    # Spark filters rows without a key before it counts the late ones.
    assert total["too_late"] == theirs.late if gaps == 0 else total["too_late"] > theirs.late
    assert total["rows_out"] == len(theirs.rows)
    # Spark hands buckets to its workers in turn; the engines are found wherever they are.
    assert total["rebuilds"] == partitions


def test_self_join(feed: Feed) -> None:
    feed.write("both", random_batches(7, keys=12))
    stream = feed.stream("both").withWatermark("ts", "5 seconds")
    ours = feed.run(
        window_join({"left": stream, "right": stream}, on="k", time="ts", within="8 s"), "ours"
    )
    theirs = feed.run(sparks_own_join(stream, stream, (8, 8)), "theirs")
    assert len(theirs.rows) > 100
    assert ours.pairs("id", "id_right") == theirs.pairs("id", "id_right")
