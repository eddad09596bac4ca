"""When rates, skew or lag change in the middle of a stream, the plan follows.

The truth is known: a tuple of the right stream has one partner, the left tuple of `lag` before (or
after) it. The law: two adaptation periods after a change the plan looks where the matches are now,
and the share r is what the fuel allows now.

    left    a b c d e f ...                         lag 3, then 12: matches lie in another
    right         a b c d e f ...                   basic window of the left stream
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import tidegate as tg

SECOND, PERIOD, WINDOW = 1000, 4, 20
CHANGE, END = 80, 120


def pair(
    lags: tuple[float, float], rates: tuple[int, int], noise: float = 0.3
) -> dict[str, pa.Table]:
    """Two streams; the right one lags behind the left, by another time after the change."""
    random = np.random.default_rng(11)
    parts: list[list[np.ndarray]] = [[], []]
    key = 0
    for (begin, end), lag, rate in zip([(0, CHANGE), (CHANGE, END)], lags, rates, strict=True):
        times = np.sort(random.uniform(begin, end, rate * (end - begin)))
        keys = np.arange(key, key + len(times))
        key += len(times)
        behind = times + lag + random.uniform(-noise, noise, len(times))
        for stream, when in enumerate((times, behind)):
            stays = (begin <= when) & (when < end)
            parts[stream].append(np.stack([when[stays] * SECOND, keys[stays]]))
    tables = {}
    for name, found in zip(("left", "right"), parts, strict=True):
        both = np.concatenate(found, axis=1).astype(np.int64)
        both = both[:, np.argsort(both[0], kind="stable")]
        tables[name] = pa.table({"t": both[0], "k": both[1]})
    return tables


def engine_of(fuel_share: float, rate: int, **options: object) -> tg.JoinEngine:
    """Fuel for a share of the comparisons of both windows at a rate."""
    needed = 2 * rate**2 * WINDOW
    cpu = tg.Cpu(
        fuel_share * needed / SECOND, adapt_every=PERIOD * SECOND, basic_window=SECOND,
        **options,  # type: ignore[arg-type]
    )  # fmt: skip
    within = WINDOW * SECOND
    return tg.JoinEngine(tg.JoinSpec(on="k", time="t", within=within, index="nested-loop", cpu=cpu))


def between(table: pa.Table, begin: float, end: float) -> tuple[int, int]:
    """Where a stretch of a stream begins, and how many rows it has."""
    low, high = np.searchsorted(table["t"].to_numpy(), [begin * SECOND, end * SECOND])
    return int(low), int(high - low)


def feed(engine: tg.JoinEngine, tables: dict[str, pa.Table], begin: float, end: float) -> int:
    """Push a stretch of the streams; returns how many results it gave."""
    part = {name: table.slice(*between(table, begin, end)) for name, table in tables.items()}
    return engine.push(part).num_rows


def best_window(engine: tg.JoinEngine) -> tuple[int, int]:
    """The (stream, basic window) that the plan takes first."""
    throttle = engine._state.throttle
    assert throttle is not None
    density = throttle.density
    stream, window = np.unravel_index(np.argmax(density), density.shape)
    return int(stream), int(window)


def test_the_lag_changes() -> None:
    """Three seconds, then twelve: the plan has the new place, and the output its old height."""
    tables = pair((3.5, 12.5), (30, 30))
    engine = engine_of(0.2, 30)
    feed(engine, tables, 0, CHANGE)
    assert best_window(engine)[0] == 0
    assert best_window(engine)[1] in (3, 4)
    # Until the partners of the new lag are in the window there is nothing to find.
    feed(engine, tables, CHANGE, CHANGE + 13)
    feed(engine, tables, CHANGE + 13, CHANGE + 13 + 2 * PERIOD)
    assert best_window(engine)[0] == 0
    assert best_window(engine)[1] in (12, 13)
    seconds = END - (CHANGE + 13 + 2 * PERIOD)
    found = feed(engine, tables, CHANGE + 13 + 2 * PERIOD, END)
    assert found >= 0.8 * 30 * seconds


def test_the_direction_changes() -> None:
    """First the right stream follows the left, then the left follows the right."""
    tables = pair((5.5, -5.5), (30, 30))
    engine = engine_of(0.2, 30)
    feed(engine, tables, 0, CHANGE)
    assert best_window(engine)[0] == 0
    feed(engine, tables, CHANGE, CHANGE + 6 + 2 * PERIOD)
    assert best_window(engine)[0] == 1
    assert best_window(engine)[1] in (5, 6)


def test_the_skew_changes() -> None:
    """Matches spread over eight seconds become matches within one: fewer windows give them all."""
    wide, narrow = pair((8.0, 8.0), (30, 30), noise=4.0), pair((8.5, 8.5), (30, 30), noise=0.1)
    tables = {
        name: pa.concat_tables(
            [wide[name].filter(pa.compute.less(wide[name]["t"], CHANGE * SECOND)),
             narrow[name].filter(pa.compute.greater_equal(narrow[name]["t"], CHANGE * SECOND))]
        )
        for name in wide
    }  # fmt: skip
    engine = engine_of(0.1, 30)
    before = feed(engine, tables, 0, CHANGE) / CHANGE
    feed(engine, tables, CHANGE, CHANGE + 9 + 2 * PERIOD)
    after = feed(engine, tables, CHANGE + 9 + 2 * PERIOD, END) / (END - CHANGE - 9 - 2 * PERIOD)
    assert best_window(engine)[1] in (8, 9)
    assert after >= 0.8 * 30
    assert after >= 1.2 * before


@pytest.mark.parametrize(("rates", "share"), [((20, 40), 0.25), ((40, 20), 1.0)])
def test_the_rate_changes(rates: tuple[int, int], share: float) -> None:
    """Twice the rate is four times the comparisons."""
    tables = pair((3.5, 3.5), rates)
    engine = engine_of(0.9, 20)
    feed(engine, tables, 0, CHANGE)
    # The window takes its length to fill with the new rate; then the periods count.
    feed(engine, tables, CHANGE, CHANGE + WINDOW + 2 * PERIOD)
    assert engine.stats()["cpu_fraction"] == pytest.approx(0.9 * share, rel=0.25)


@pytest.mark.parametrize("shares", [(0.8, 0.1), (0.1, 0.8), (0.05, 0.5)])
def test_the_fuel_changes(shares: tuple[float, float]) -> None:
    """Unlike a rate, which takes a window to show, it changes at once: a factor of eight or ten."""
    tables = pair((3.5, 3.5), (20, 20))
    cpu = tg.Cpu(keep_up=True, adapt_every=PERIOD * SECOND, basic_window=SECOND)
    engine = tg.JoinEngine(engine_of(1, 20).spec.replace(cpu=cpu))
    needed = 2 * 20**2 * WINDOW / SECOND
    for share, begin, end in zip(
        shares, (0, CHANGE), (CHANGE, CHANGE + 2 * PERIOD + 1), strict=True
    ):
        for second in range(begin, end):
            part = {
                name: table.slice(*between(table, second, second + 1))
                for name, table in tables.items()
            }
            engine.push(part, fuel=share * needed)
        assert engine.stats()["cpu_fraction"] == pytest.approx(share, rel=0.25)


def test_a_plan_of_three_streams_follows_importance() -> None:
    """The second and the third stream follow the first after 3 s, worth 1, or 12 s, worth 20."""
    near, far = pair((3.5, 3.5), (10, 10)), pair((12.5, 12.5), (10, 10))
    parts: dict[str, list[pa.Table]] = {"a": [], "b": [], "c": []}
    for tables, worth, first in ((near, 1.0, 0), (far, 20.0, 10**6)):
        for name, source in (("a", "left"), ("b", "right"), ("c", "right")):
            rows = tables[source]
            keys = pa.compute.add(rows["k"], first)
            weights = np.full(rows.num_rows, worth)
            parts[name].append(pa.table({"t": rows["t"], "k": keys, "w": weights}))
    streams = {name: pa.concat_tables(each).sort_by("t") for name, each in parts.items()}
    cpu = tg.Cpu(20 / SECOND, adapt_every=PERIOD * SECOND, basic_window=SECOND)
    density = {}
    for importance in (None, "w"):
        spec = tg.JoinSpec(
            on="k", time="t", within=WINDOW * SECOND, streams=tuple(streams), cpu=cpu,
            importance=importance,
        )  # fmt: skip
        engine = tg.JoinEngine(spec)
        feed(engine, streams, 0, CHANGE)
        throttle = engine._state.throttle
        assert throttle is not None
        density[importance] = throttle.density[0, 12:14].max() / throttle.density[0, 3:5].max()
    assert density[None] < 1.5
    assert density["w"] > 5.0


@pytest.mark.parametrize(("importance", "window"), [(None, 3), ("w", 12)])
def test_importance_decides_where_it_is_given(importance: str | None, window: int) -> None:
    """Two partners in three come after 3 s and are worth 1; one in three after 12 s, worth 20."""
    near, far = pair((3.5, 3.5), (20, 20)), pair((12.5, 12.5), (10, 10))
    tables = {}
    for name in near:
        parts = [
            table.append_column("w", pa.array(np.full(table.num_rows, worth))).set_column(
                1, "k", pa.compute.add(table["k"], first)
            )
            for table, worth, first in ((near[name], 1.0, 0), (far[name], 20.0, 10**6))
        ]
        tables[name] = pa.concat_tables(parts).sort_by("t")
    engine = engine_of(0.1, 30)
    engine = tg.JoinEngine(engine.spec.replace(importance=importance))
    feed(engine, tables, 0, CHANGE)
    assert best_window(engine)[0] == 0
    assert best_window(engine)[1] in (window, window + 1)


def test_what_either_budget_lost_is_counted_apart() -> None:
    """Memory loses tuples, and the same ones with a CPU budget; that loses comparisons."""
    tables = pair((3.5, 12.5), (30, 30))
    memory = {"memory": 400, "policy": "recent", "split": "even"}
    throttled = engine_of(0.05, 30).spec.replace(**memory)
    both, alone = (tg.join(tables, spec).stats for spec in (throttled, throttled.replace(cpu=None)))
    for name in ("evicted", "refused", "expired", "alive"):
        assert both[name] == alone[name]
    assert both["evicted"] > 0
    assert both["skipped_comparisons"] > 0
    assert both["comparisons"] + both["skipped_comparisons"] == alone["comparisons"]
    assert both["rows_out"] < alone["rows_out"]
