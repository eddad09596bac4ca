"""Comparisons that the engine counts, beside the terms of the cost model.

The law: exactly the model's for nested loop and hash with uniform keys, within 10 % for trees.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import tidegate as tg
from tidegate.costs.accesses import paper_accesses
from tidegate.costs.engine_accesses import engine_accesses
from tidegate.costs.workload import Workload


def counted(indexes, windows, keys, rows):
    """Mean comparisons per arrival once both windows are full: searches and updates by stream.

    Rows alternate, so that each window holds exactly its number of tuples when it is searched.
    """
    spec = tg.JoinSpec(
        on="key",
        time="time",
        within={"left": tg.rows(windows[0]), "right": tg.rows(windows[1])},
        index=dict(zip(("left", "right"), indexes, strict=True)),
    )
    fill = 3 * max(windows)
    tables = {
        name: pa.table(
            {"key": keys(stream, fill + rows), "time": 2 * np.arange(fill + rows) + stream}
        )
        for stream, name in enumerate(("left", "right"))
    }
    engine = tg.JoinEngine(spec)
    engine.push({name: table.slice(0, fill) for name, table in tables.items()})
    before = engine.stats()
    engine.push({name: table.slice(fill) for name, table in tables.items()})
    after = engine.stats()
    return {
        name: (after[name] - before[name]) / rows
        for what in ("comparisons", "updates")
        for name in (f"{what}_left", f"{what}_right")
    }


def in_turn(count):
    """Keys 0, 1, ..., count - 1 over and over: each is in a window equally often."""
    return lambda stream, rows: np.arange(rows) % count


def at_random(count):
    return lambda stream, rows: np.random.default_rng([stream, count]).integers(0, count, rows)


@pytest.mark.parametrize("windows", [(100, 300), (512, 64)])
def test_a_nested_loop_touches_the_whole_window(windows):
    found = counted(("nested-loop", "nested-loop"), windows, in_turn(50), 2_000)
    for stream, name in ((1, "comparisons_left"), (0, "comparisons_right")):
        assert found[name] == paper_accesses("N", windows[stream], 10, 100).search


@pytest.mark.parametrize(("windows", "count"), [((100, 300), 50), ((512, 64), 32), ((80, 80), 8)])
def test_a_hash_index_touches_a_bucket(windows, count):
    """So few keys have a bucket each, which holds B / NKey tuples."""
    found = counted(("hash", "hash"), windows, in_turn(count), 2_400)
    for stream, name in ((1, "comparisons_left"), (0, "comparisons_right")):
        bucket = windows[stream] / count
        assert found[name] == paper_accesses("H", windows[stream], bucket, 100).search


@pytest.mark.parametrize("repeated", [0.0, 1.0, 8.0])
@pytest.mark.parametrize("window", [60, 200, 1_000, 7_000, 25_000])
@pytest.mark.parametrize("letter", ["B", "T"])
def test_trees_are_within_ten_percent(letter, window, repeated):
    keys = round(window / repeated) if repeated else 2**40
    index = {"B": "btree", "T": "ttree"}[letter]
    found = counted((index, index), (window, window), at_random(keys), 8_000)
    workload = Workload((window, window), (1, 1), keys=(keys, keys))
    terms = engine_accesses(letter, window, workload, 0)
    searches = (found["comparisons_left"] + found["comparisons_right"]) / 2
    updates = (found["updates_left"] + found["updates_right"]) / 2
    assert searches == pytest.approx(terms.search, rel=0.1)
    assert updates == pytest.approx(terms.update, rel=0.1)


def test_a_structure_is_searched_alike_whatever_the_other_window_has():
    """The two directions are independent (equation 2)."""
    alone = counted(("ttree", "ttree"), (500, 500), at_random(2**40), 3_000)
    beside = counted(("nested-loop", "ttree"), (500, 500), at_random(2**40), 3_000)
    assert beside["comparisons_left"] == alone["comparisons_left"]
    assert beside["updates_right"] == alone["updates_right"]
