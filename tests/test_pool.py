"""What a pool decides from, and the book it keeps; no Spark needed but for its import.

Law: what is held never sums to more than the pool, whatever the order in which buckets claim and
settle; a division never beats what `allocate` promises, and an observed curve is the recall that
an engine of that memory reaches.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate as tg
from tidegate.planner import observed_recall
from tidegate.planner.division import Seen, divide, recalls
from tidegate.planner.observed_recall import RecallProfile
from tidegate.spark.pool import Pool
from tidegate.spark.pool_book import FLOOR_BYTES, RESERVED_BYTES, PoolBook, PoolShare

SPEC = tg.JoinSpec(on="k", time="t", within=200, policy="prob")


# --- observed curves ---------------------------------------------------------------------


def pushes(
    keys: int, skewed: bool = True, rows: int = 6000, size: int = 400
) -> list[dict[str, pa.Table]]:
    rng = np.random.default_rng(keys)

    def table() -> pa.Table:
        drawn = rng.zipf(1.2, rows) % keys if skewed else rng.integers(0, keys, rows)
        return pa.table({"t": np.arange(rows) // 2, "k": drawn, "p": ["x"] * rows})

    tables = {name: table() for name in ("left", "right")}
    return [{n: t.slice(at, size) for n, t in tables.items()} for at in range(0, rows, size)]


def measured(spec: tg.JoinSpec, parts: list[dict[str, pa.Table]], after: int) -> float:
    """Results of an engine from a push on."""
    engine = tg.JoinEngine(spec)
    for part in parts[:after]:
        engine.push(part)
    before = engine.stats()["rows_out"]
    for part in parts[after:]:
        engine.push(part)
    return engine.stats()["rows_out"] - before


@pytest.mark.parametrize(("most", "skewed"), [(2048, True), (200, False)])
def test_observed_recall_is_that_of_an_engine(
    most: int, skewed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also on a sample of the keys, where these are much alike."""
    monkeypatch.setattr(observed_recall, "MOST_TUPLES", most)
    parts = pushes(300, skewed)
    profile = RecallProfile(SPEC, {n: t.schema for n, t in parts[0].items()})
    for part in parts:
        profile.see(part)
    assert profile._engines[0].stats()["memory_rows"] <= most
    exact = measured(SPEC.replace(memory=None), parts, 6)
    near = 0.03 if most == 2048 else 0.12
    for memory, recall in profile.points()[1:]:
        found = measured(SPEC.replace(memory=memory), parts, 6) / exact
        assert abs(found - recall) < near, (memory, recall, found)
    assert profile.results == pytest.approx(5 * exact / 9, rel=0.1 if most == 2048 else 0.4)


def test_a_profile_fits_into_what_is_reserved() -> None:
    parts = pushes(5000, rows=20_000, size=4000)
    for policy in ("value", "prob"):
        spec = SPEC.replace(policy=policy, within=100_000)
        profile = RecallProfile(spec, {n: t.schema for n, t in parts[0].items()})
        for part in parts:
            profile.see(part)
            assert profile.nbytes <= RESERVED_BYTES


def test_what_cannot_be_sampled_by_key() -> None:
    for changes, words in (
        ({"on": tg.band("k", 0, 1)}, "compares no keys for equality"),
        ({"within": tg.rows(10)}, "the last rows of all keys"),
    ):
        with pytest.raises(tg.TidegateError, match=words):
            observed_recall.check_profiled(SPEC.replace(**changes, policy="recent"))


# --- dividing ----------------------------------------------------------------------------

sizes = st.lists(st.integers(1, 100), min_size=1, max_size=4)


@st.composite
def seen(draw: st.DrawFn) -> Seen:
    steps = draw(sizes)
    memory = np.cumsum(steps).tolist()
    recall = sorted(draw(st.lists(st.floats(0, 1), min_size=len(steps), max_size=len(steps))))
    recall[-1] = 1.0
    return Seen(list(zip(map(float, memory), recall, strict=True)), draw(st.floats(0.0, 1000.0)))


buckets = st.dictionaries(st.integers(0, 3), seen(), min_size=1)


@settings(max_examples=150)
@given(
    joins=st.dictionaries(st.sampled_from("abc"), buckets, min_size=1),
    memory=st.integers(0, 400),
    floor=st.integers(0, 20),
)  # fmt: skip
def test_divisions_are_whole_and_within_the_memory(
    joins: dict[str, dict[int, Seen]], memory: int, floor: int
) -> None:
    shares = divide(joins, memory, floor)
    given_out = [size for buckets in shares.values() for size in buckets.values()]
    assert sum(given_out) == memory
    if floor * len(given_out) <= memory:
        assert min(given_out) >= floor
    assert {name: set(buckets) for name, buckets in shares.items()} == {
        name: set(buckets) for name, buckets in joins.items()
    }


def bent(most: int, bend: float, worth: float) -> Seen:
    """Recall that rises to 1 at `most` tuples."""
    steps = range(0, most + 1, most // 10)
    return Seen([(memory, min(1.0, (memory / most) ** bend)) for memory in steps], worth)


def test_no_random_division_has_a_greater_least_recall() -> None:
    rng = np.random.default_rng(1)
    chance = Random(1)
    kinds = {
        "a": [(200, 0.3, 10.0), (100, 0.5, 90.0)],
        "b": [(1000, 1.0, 50.0), (400, 0.7, 5.0)],
    }
    joins = {
        name: {bucket: bent(*kind) for bucket, kind in enumerate(buckets)}
        for name, buckets in kinds.items()
    }
    best = min(recalls(joins, divide(joins, 600)).values())
    for _ in range(2000):
        cuts = rng.dirichlet(np.full(4, chance.choice((0.3, 1.0, 3.0)))) * 600
        shares = {"a": {0: cuts[0], 1: cuts[1]}, "b": {0: cuts[2], 1: cuts[3]}}
        assert min(recalls(joins, shares).values()) <= best + 0.01  # shares are whole tuples
    equal = {name: dict.fromkeys(buckets, 150) for name, buckets in joins.items()}
    assert best > min(recalls(joins, equal).values()) + 0.05


# --- the book ----------------------------------------------------------------------------


def test_the_sum_never_exceeds_the_pool(tmp_path: Path) -> None:
    """Buckets claim and settle in any order while aims change; some tasks fail in between."""
    chance, book = Random(3), PoolBook(str(tmp_path))
    book.begin(1000, "tuples")
    for name in "abc":
        book.join(name)
    in_force: dict[tuple[str, int], int] = {}
    for _ in range(600):
        if chance.random() < 0.2:
            cuts = sorted(chance.randrange(1001) for _ in range(5))
            parts = np.diff([0, *cuts, 1000]).tolist()
            aims = {"a": parts[:2], "b": parts[2:4], "c": parts[4:]}
            book.aim_at({name: dict(enumerate(sizes)) for name, sizes in aims.items()})
        place = chance.choice("abc"), chance.randrange(2)
        size = book.claim(*place, 2)
        # Until it has shed, the engine holds what it held; a task that fails settles nothing.
        now = max(size, in_force.get(place, 0))
        assert sum({**in_force, place: now}.values()) <= 1000
        in_force[place] = now
        if chance.random() < 0.8:
            in_force[place] = size
            book.settle(*place, size)
        assert book.read().in_use <= 1000
        assert sum(in_force.values()) <= book.read().in_use


def test_books_outlive_their_pool(tmp_path: Path) -> None:
    folder = str(tmp_path / "pool")
    book = Pool(1000, folder=folder)._book
    book.join("a")
    book.join("b")
    assert book.read().totals == {"a": 500, "b": 500}
    book.aim_at({"a": {0: 100, 1: 150}, "b": {0: 400, 1: 350}})
    again = Pool(1000, folder=folder)
    again._book.join("a")
    assert again.shares() == {"a": 250, "b": 750}
    assert again._book.claim("b", 1, 2) == 350
    assert again.held() == {"b": 350}
    assert repr(again) == "Pool of 1,000 tuples (a: 250, b: 750)"
    with pytest.raises(tg.TidegateError, match="is in tuples; give it a memory in tuples"):
        Pool("2 GB", folder=folder)
    # Another size, or another join, divides anew.
    assert Pool(100, folder=folder).shares() == {"a": 50, "b": 50}
    again._book.join("c")
    assert sum(again.shares().values()) == 100
    again.release("b")
    assert again.shares() == {"a": 50, "c": 50}
    with pytest.raises(tg.TidegateError, match=r"has no join 'b'; it has 'a', 'c'"):
        again.release("b")
    with pytest.raises(tg.TidegateError, match="join 'b' has left its pool"):
        again._book.claim("b", 0, 1)


def test_refusals(tmp_path: Path) -> None:
    for memory in (0, -3, "0 B", None, 2.5):
        with pytest.raises(tg.TidegateError, match="memory"):
            Pool(memory)  # type: ignore[arg-type]
    pool = Pool("30 MB")
    with pytest.raises(tg.TidegateError, match="needs a name"):
        pool.take_in(None, Any)  # type: ignore[arg-type]
    with pytest.raises(tg.TidegateError, match="fixes the tuples of each stream"):
        Pool(10).spec(SPEC.replace(memory=10, split=(5, 5)))
    pool._book.join("a")
    share = PoolShare(pool._book, "a", "bytes")
    assert share.claim(0, 2) == 15_000_000 - RESERVED_BYTES
    share.settle(0, 1_000_000)
    assert pool.held() == {"a": 1_000_000 + RESERVED_BYTES}
    with pytest.raises(tg.TidegateError, match=f"needs {FLOOR_BYTES:,}"):
        share.claim(0, 3)
    gone = PoolBook(str(tmp_path / "nowhere"))
    with pytest.raises(
        tg.TidegateError, match="give Pool a folder that the driver and all workers"
    ):
        gone.read()


def test_what_is_heard_changes_the_shares() -> None:
    pool = Pool(1000)
    for name in ("steep", "flat"):
        pool._book.join(name)
    import json

    def report(points: Any, results: float) -> dict[str, Any]:
        text = json.dumps({"bucket": 0, "recall": {"points": points, "results": results}})
        return {"reports": [text]}

    pool.hear({"tidegate:steep": report([[0, 0], [100, 1.0]], 5000.0), "other": None})
    assert pool.shares() == {"steep": 500, "flat": 500}
    pool.hear({"tidegate:flat": report([[0, 0], [2000, 1.0]], 50.0)})
    assert pool.shares() == {"steep": 500, "flat": 500}  # too few results
    pool.hear({"tidegate:flat": report([[0, 0], [2000, 1.0]], 5000.0)})
    assert pool.shares()["flat"] > 900
    assert sum(pool.shares().values()) == 1000
    before = pool.shares()
    pool.hear({"tidegate:flat": report([[0, 0], [2010, 1.0]], 5000.0)})
    assert pool.shares() == before  # not worth a change
    assert len(pool.divisions) == 1


def test_the_chart_of_the_demonstration() -> None:
    from tidegate.cli import demo_pool_view

    history = [
        {"run": run, "join": join, "batch": batch, "share": 100 + batch, "recall": 0.5}
        for run in ("equal", "pool")
        for join in ("a", "b")
        for batch in range(3)
    ]
    drawn = demo_pool_view.chart(history)
    assert len(drawn["vconcat"]) == 2
    assert len(drawn["data"]["values"]) == 12
    assert demo_pool_view.svg(history).startswith("<svg")
