"""The streams of kwon2011: keys that travel over n streams, each in an order of its own.

Law: the seed fixes every value; a stream comes in order of time at the stated rate; what the paper
leaves open is an argument. All is drawn for whole columns at once, millions of rows in seconds.

Section 5: "for each generated join attribute value, we randomly assign the order of streams in
which the join attribute value appears using a Zipf distribution. Note that a join attribute value
does not necessarily appear in all streams." So an order is an arrangement of some of the streams.
The paper does not say

- how many of the orders occur at all (`distinct`), and which have the first ranks (`ranking`),
- how long a key takes from one stream to the next (`gap`); it is counted in tuples, so that a
  higher rate makes the same streams pass faster, as its section 5.3 has it,
- how every stream gets the same number of tuples if orders are skewed: here keys that appear on one
  stream only fill the streams that fewer orders visit.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import permutations
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import parquet

from tidegate.lab.datasets import RecordedJoin, Streams
from tidegate.lab.paper_streams import TICKS, Floats, Integers, zipf_shares
from tidegate.spec import TidegateError
from tidegate.spec.units import nearest_hint

# Which orders are frequent: any ("random"), the longest first ("complete"), or any within each
# length, so that as many keys visit all streams whatever the skew ("balanced").
Ranking = Literal["random", "complete", "balanced"]
Keys = Literal["unique", "normal"]

WINDOW = 100 * TICKS  # "the tuples that have arrived within the last 100 s"
NOWHERE = -1


def stream_names(streams: int) -> tuple[str, ...]:
    return tuple(f"s{number}" for number in range(1, streams + 1))


@lru_cache(maxsize=8)
def stream_orders(streams: int) -> NDArray[np.int64]:
    """All orders in which a key can visit some of the streams, one per row, filled up with -1.

    >>> stream_orders(2).tolist()
    [[0, 1], [1, 0], [0, -1], [1, -1]]
    """
    rows = [
        [*order, *[NOWHERE] * (streams - length)]
        for length in range(streams, 0, -1)
        for order in permutations(range(streams), length)
    ]
    return np.array(rows, np.int64)


def order_shares(
    streams: int,
    skew: float,
    ranking: Ranking,
    generator: np.random.Generator,
    distinct: int | None = None,
) -> Floats:
    """The share of keys of each of `stream_orders`; skew 0 is uniform over those that occur."""
    orders = stream_orders(streams)
    lengths = (orders != NOWHERE).sum(axis=1)
    occurs = _occurring(lengths, distinct, generator)
    shares = np.zeros(len(orders))
    groups = [occurs]
    if ranking == "balanced":
        groups = [occurs[lengths[occurs] == length] for length in range(1, streams + 1)]
    for group in groups:
        inside = zipf_shares(len(group), skew) * len(group) / len(occurs)
        shares[group] = inside if ranking == "complete" else generator.permutation(inside)
    return shares


def _occurring(
    lengths: Integers, distinct: int | None, generator: np.random.Generator
) -> NDArray[np.intp]:
    """The orders that occur, longest first: all, or so many of each length as its share says."""
    if distinct is None or distinct >= len(lengths):
        return np.arange(len(lengths))
    streams = int(lengths.max())
    wanted = distinct * np.bincount(lengths, minlength=streams + 1) / len(lengths)
    # At least one order visits all streams, else there are no results.
    wanted[streams] = max(1.0, wanted[streams])
    upto = np.minimum(distinct, np.round(np.cumsum(wanted[:0:-1])))
    numbers = np.diff(upto, prepend=0.0).astype(np.int64)
    chosen = [
        generator.choice(np.flatnonzero(lengths == length), number, replace=False)
        for length, number in zip(range(streams, 0, -1), numbers, strict=True)
    ]
    return np.sort(np.concatenate(chosen))


def travelling_keys(
    seed: int,
    *,
    streams: int = 5,
    tuples: int = 10_000,
    rate: float = 10.0,
    skew: float = 0.0,
    ranking: Ranking = "balanced",
    distinct: int | None = None,
    gap: float = 100.0,
    keys: Keys = "unique",
    mean: float = 100.0,
    spread: float = 15.0,
) -> dict[str, pa.Table]:
    """`tuples` on each of `s1`, `s2`, ..., at `rate` per second; times in milliseconds.

    A key begins at a random time and goes from one stream of its order to the next after a time
    that is uniform between 0 and 2 x `gap` tuples of a stream. Values are unique, or for section
    5.6 normally distributed with `mean` and the standard deviation `spread`; then values repeat,
    and each of them travels by itself.

    >>> table = travelling_keys(1, streams=3, tuples=100)["s2"]
    >>> table.column_names, table.num_rows
    (['ts', 'key'], 100)
    """
    generator = np.random.default_rng(seed)
    orders = stream_orders(streams)
    shares = order_shares(streams, skew, ranking, generator, distinct)
    visits = np.array([shares[(orders == s).any(axis=1)].sum() for s in range(streams)])
    # Keys that began before time 0 are under way, so that all streams have their rate at once.
    lead = 2.0 * gap * (streams - 1)
    number = round((tuples + lead) / visits.max())
    order = orders[generator.choice(len(orders), number, p=shares)]
    moment = generator.uniform(-lead, tuples, (number, 1))
    waits = generator.uniform(0.0, 2.0 * gap, (number, streams - 1))
    moment = np.concatenate([moment, moment + np.cumsum(waits, axis=1)], axis=1)
    value = _values(generator, number, 0, keys, mean, spread)
    tables = {}
    for stream, name in enumerate(stream_names(streams)):
        key, place = np.nonzero((order == stream) & (moment >= 0.0) & (moment < tuples))
        missing = max(0, tuples - len(key))
        times = np.concatenate([moment[key, place], generator.uniform(0.0, tuples, missing)])
        first = number + stream * tuples
        others = _values(generator, missing, first, keys, mean, spread)
        tables[name] = _table(times / rate, np.concatenate([value[key], others]), tuples)
    return tables


def _values(
    generator: np.random.Generator, number: int, first: int, keys: Keys, mean: float, spread: float
) -> Integers:
    if keys == "unique":
        return np.arange(first, first + number, dtype=np.int64)
    return np.round(generator.normal(mean, spread, number)).astype(np.int64)


def _table(seconds: Floats, key: Integers, tuples: int) -> pa.Table:
    """In order of time; of too many tuples, every one has the same chance to be left out."""
    chosen = np.linspace(0, len(key) - 1, min(tuples, len(key))).astype(np.int64)
    by_time = np.argsort(seconds, kind="stable")[chosen]
    ticks = np.floor(seconds[by_time] * TICKS).astype(np.int64)
    return pa.table({"ts": ticks, "key": key[by_time]})


# --- recorded data (section 5.7) ---------------------------------------------------------

# The ClarkNet trace of the paper could not be had; these stand in for it.
NASA_PAGES = {
    "page": "/ksc.html",
    "ksclogo": "/images/ksclogo-medium.gif",
    "nasalogo": "/images/NASA-logosmall.gif",
    "mosaic": "/images/MOSAIC-logosmall.gif",
}
SEPSIS_STEPS = {
    "triage": "ER Triage",
    "lactic": "LacticAcid",
    "antibiotics": "IV Antibiotics",
    "liquid": "IV Liquid",
}


def _first_of_each(table: pa.Table, time: str, key: str) -> pa.Table:
    """The first row of each key, by time."""
    known = table.filter(pc.is_valid(table[key]))
    ordered = known.take(pc.sort_indices(known, sort_keys=[(time, "ascending")]))
    keys = ordered[key].combine_chunks().dictionary_encode().indices.to_numpy()
    _, first = np.unique(keys, return_index=True)
    chosen = ordered.take(pa.array(np.sort(first)))
    return pa.table({"ts": chosen[time], "key": chosen[key]})


def _nasa_visits(table: pa.Table) -> Streams:
    """The log has whole seconds; its order inside a second is kept, as microseconds."""
    seconds = table["ts"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
    order = np.argsort(seconds, kind="stable")
    within = np.arange(len(order)) - np.searchsorted(seconds[order], seconds[order])
    moments = np.empty_like(seconds)
    moments[order] = seconds[order] + within
    column = pa.array(moments, pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    table = table.set_column(table.column_names.index("ts"), "ts", column)
    return {
        name: _first_of_each(table.filter(pc.equal(table["url"], url)), "ts", "host")
        for name, url in NASA_PAGES.items()
    }


def _sepsis_steps(table: pa.Table) -> Streams:
    return {
        name: _first_of_each(
            table.filter(pc.equal(table["activity"], step)), "timestamp", "case_id"
        )
        for name, step in SEPSIS_STEPS.items()
    }


RECORDED: Mapping[str, RecordedJoin] = {
    "nasa-visits": RecordedJoin(
        "nasa_http.parquet",
        _nasa_visits,
        {"streams": tuple(NASA_PAGES), "on": "key", "time": "ts", "within": "12 hours"},
        None,
        "first visits of a page and three images of the Kennedy Space Center's web server meet by "
        "host within 12 hours; in place of the ClarkNet trace of kwon2011",
    ),
    "sepsis-steps": RecordedJoin(
        "sepsis.parquet",
        _sepsis_steps,
        {"streams": tuple(SEPSIS_STEPS), "on": "key", "time": "ts", "within": "1 day"},
        None,
        "first triage, lactic acid, antibiotics and liquid of a hospital's sepsis cases meet by "
        "case within a day",
    ),
}


@lru_cache(maxsize=2)
def recorded_streams(name: str, folder: str) -> Streams:
    """The streams of a recorded join of many streams."""
    if name not in RECORDED:
        raise TidegateError(f"recorded join {name!r} is not known; {nearest_hint(name, RECORDED)}")
    join = RECORDED[name]
    return join.streams(parquet.read_table(Path(folder) / join.file))
