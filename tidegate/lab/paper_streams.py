"""Streams as the papers describe them, for their experiments.

Law: the seed fixes every value; a stream comes in order of time; what a paper leaves open is an
argument here, never a constant inside. All is drawn for whole columns at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Correlation = Literal["none", "direct", "inverse"]
AgeCurve = Literal["INC", "DEC", "BELL", "FLAT"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Times are integers; a unit of time of srivastava2004 is cut into this many.
TICKS = 1_000
NO_PARTNER = -1


def zipf_shares(domain: int, skew: float) -> Floats:
    """The share of each rank under Zipf's law; skew 0 is uniform.

    >>> zipf_shares(4, 0.0).tolist(), zipf_shares(2, 1.0).round(3).tolist()
    ([0.25, 0.25, 0.25, 0.25], [0.667, 0.333])
    """
    weights = np.arange(1, domain + 1, dtype=np.float64) ** -skew
    return weights / weights.sum()


def rare_importance(
    generator: np.random.Generator, count: int, share: float, high: float, spread: float = 0.0
) -> Floats:
    """Importance 1, and `high` for a small share of the tuples.

    ojewole2006, section 5: "normal importance tuples dominate the input streams, while tuples with
    high importance [...] occur infrequently". With a spread of d each value is multiplied by a
    number from [1 - d, 1 + d], so that no two tuples are alike.
    """
    level = np.where(generator.random(count) < share, high, 1.0)
    return level * generator.uniform(1.0 - spread, 1.0 + spread, count)


def keyed_streams(
    length: int,
    domain: int,
    seed: int,
    *,
    skews: Sequence[float] = (1.0, 0.0),
    correlation: Correlation = "none",
    share: float = 0.05,
    high: float = 100.0,
    spread: float = 0.0,
) -> dict[str, pa.Table]:
    """Two synchronous streams `r` and `s` whose keys follow Zipf's law (ojewole2006, section 5).

    One tuple arrives on each stream at each instant. `correlation` says how the order of frequency
    of the keys on `s` relates to that on `r` (srivastava2004, section 6.2.3): the same, opposite,
    or drawn anew.

    >>> streams = keyed_streams(5, 100, seed=1)
    >>> streams["r"].column_names, streams["s"].num_rows
    (['ts', 'key', 'importance'], 5)
    """
    generator = np.random.default_rng(seed)
    ranks = np.arange(domain)
    orders = {"direct": ranks, "inverse": ranks[::-1], "none": generator.permutation(domain)}
    streams = {}
    for name, skew, order in zip("rs", skews, (ranks, orders[correlation]), strict=True):
        key = order[generator.choice(domain, length, p=zipf_shares(domain, skew))]
        importance = rare_importance(generator, length, share, high, spread)
        streams[name] = pa.table(
            {"ts": np.arange(length), "key": key.astype(np.int64), "importance": importance}
        )
    return streams


def age_curve(shape: AgeCurve, buckets: int = 20, power: float = 2.0) -> Floats:
    """The shares p(k)/n of the buckets k = 1 .. m of an age curve (srivastava2004, 6.2.2).

    Section 6.2.5 varies the exponent, which is 2 elsewhere.

    >>> age_curve("INC", 3).round(3).tolist(), age_curve("DEC", 3).round(3).tolist()
    ([0.071, 0.286, 0.643], [0.8, 0.2, 0.0])
    """
    k = np.arange(1, buckets + 1, dtype=np.float64)
    rising, falling = k**power, (buckets - k) ** power
    weights = {
        "INC": rising,
        "DEC": falling,
        "BELL": np.where(k <= buckets / 2, rising, falling),
        "FLAT": np.ones(buckets),
    }[shape]
    return weights / weights.sum()


def age_streams(
    shape: AgeCurve,
    tuples: int,
    seed: int,
    *,
    buckets: int = 20,
    window: int = 500,
    rates: tuple[float, float] = (1.0, 5.0),
    power: float = 2.0,
) -> dict[str, pa.Table]:
    """Streams `s1` of unique ids and `s2` that picks among them by age (srivastava2004, 6.2.1).

    Each inter-arrival time is uniform between 1/2r and 2/r, as the paper says; its mean is 1.25/r,
    so the streams come at 0.8 of the rates that the paper names. A tuple of `s2` picks a bucket of
    the window of `s1` by the age curve, then a tuple of that bucket; where the bucket is empty (at
    the beginning) it has the key -1 and no partner. Times are in thousandths of the paper's unit.
    """
    generator = np.random.default_rng(seed)
    first = _arrivals(generator, tuples, rates[0])
    second = _arrivals(generator, round(tuples * rates[1] / rates[0]), rates[1])
    bucket = generator.choice(buckets, len(second), p=age_curve(shape, buckets, power))
    width = window * TICKS / buckets
    # Bucket k holds the tuples of age k * width to (k + 1) * width.
    low = np.searchsorted(first, second - (bucket + 1) * width, side="right")
    high = np.searchsorted(first, second - bucket * width, side="right")
    chosen = low + np.floor(generator.random(len(second)) * (high - low)).astype(np.int64)
    key = np.where(high > low, chosen, NO_PARTNER)
    return {
        "s1": pa.table({"ts": first, "key": np.arange(tuples)}),
        "s2": pa.table({"ts": second, "key": key}),
    }


def frequency_streams(
    skew: float,
    tuples: int,
    seed: int,
    *,
    correlation: Correlation = "direct",
    domain: int = 50,
    rates: tuple[float, float] = (1.0, 5.0),
    even: bool = False,
) -> dict[str, pa.Table]:
    """Streams `s1` and `s2` whose keys follow Zipf's law (srivastava2004, section 6.2.3).

    Times come as in `age_streams`; `correlation` is DC ("direct"), IC ("inverse") or UC ("none").
    With `even` each key of `s2` comes at equal distances, so that a tuple of `s1` has as many
    results as the model says, to the next whole number.
    """
    generator = np.random.default_rng(seed)
    ranks = np.arange(domain)
    orders = {"direct": ranks, "inverse": ranks[::-1], "none": generator.permutation(domain)}
    streams = {}
    for name, rate, order in zip(("s1", "s2"), rates, (ranks, orders[correlation]), strict=True):
        times = _arrivals(generator, round(tuples * rate / rates[0]), rate)
        key = order[generator.choice(domain, len(times), p=zipf_shares(domain, skew))]
        streams[name] = pa.table({"ts": times, "key": key.astype(np.int64)})
    return streams | {"s2": _evenly(streams["s2"], generator)} if even else streams


def _evenly(stream: pa.Table, generator: np.random.Generator) -> pa.Table:
    """As many tuples of each key, at equal distances."""
    last = int(stream["ts"].to_numpy().max())
    counts = np.bincount(stream["key"].to_numpy())
    times = [(np.arange(count) + generator.random()) * last / max(1, count) for count in counts]
    moments = np.concatenate(times).astype(np.int64)
    order = np.argsort(moments, kind="stable")
    return pa.table({"ts": moments[order], "key": np.repeat(np.arange(len(counts)), counts)[order]})


def valued_streams(
    skew: float,
    tuples: int,
    seed: int,
    *,
    correlation: Correlation,
    valued: str,
    spread: float,
    mean: float = 100.0,
    rise: float = 0.0,
    even: bool = False,
) -> dict[str, pa.Table]:
    """The same with a normal column `x` on one of the streams (srivastava2004, section 6.2.4).

    Its mean rises by the share `rise` from the most frequent key of `s1` to the rarest.
    """
    streams = frequency_streams(skew, tuples, seed, correlation=correlation, even=even)
    streams = _with_values(streams, seed, valued, spread, mean)
    if rise:
        table = streams[valued]
        key = table["key"].to_numpy()
        x = table["x"].to_numpy() + mean * rise * key / max(1, key.max())
        streams[valued] = table.set_column(table.column_names.index("x"), "x", pa.array(x))
    return streams


def valued_age_streams(
    shape: AgeCurve, tuples: int, seed: int, *, valued: str, spread: float, mean: float = 100.0
) -> dict[str, pa.Table]:
    """`age_streams` with such a column."""
    return _with_values(age_streams(shape, tuples, seed), seed, valued, spread, mean)


def _with_values(
    streams: dict[str, pa.Table], seed: int, valued: str, spread: float, mean: float
) -> dict[str, pa.Table]:
    generator = np.random.default_rng([seed, 1])
    x = generator.normal(mean, spread, streams[valued].num_rows)
    return streams | {valued: streams[valued].append_column("x", pa.array(x))}


def _arrivals(generator: np.random.Generator, count: int, rate: float) -> Integers:
    gaps = generator.uniform(0.5 / rate, 2.0 / rate, count)
    return np.floor(np.cumsum(gaps) * TICKS).astype(np.int64)


def scripted_streams(curve: Sequence[int], tuples: int, seed: int = 0) -> dict[str, pa.Table]:
    """One tuple of `s1` per unit of time, whose matches on `s2` follow the age curve to the letter.

    The examples of srivastava2004, section 3.2.1: a tuple has p(k) matches between age k - 1 and k.
    They arrive in the middle of that time, so that no two events of the example fall together.
    """
    del seed  # nothing here is random
    born = np.repeat(np.arange(tuples), sum(curve))
    age = np.tile(np.repeat(np.arange(len(curve)), curve), tuples)
    moment = (born + age) * TICKS + TICKS // 2
    order = np.argsort(moment, kind="stable")
    return {
        "s1": pa.table({"ts": np.arange(tuples) * TICKS, "key": np.arange(tuples)}),
        "s2": pa.table({"ts": moment[order], "key": born[order]}),
    }


def wan_trace(
    seconds: int,
    seed: int,
    *,
    rate: int = 50,
    clock_skew: float = 1.0,
    least_latency: float = 0.8,
    latency_shape: float = 2.0,
    latency_scale: float = 1.2,
) -> dict[str, pa.Table]:
    """The trace of srivastava2004, section 6.1, as a simulation; times in milliseconds.

    Source 1 sits beside the server and has no delay. Source 2 is far away: its clock is
    `clock_skew` seconds late, and its packets take `least_latency` seconds plus a gamma
    distributed time, independently of each other, so that they overtake one another as UDP allows.
    `tau` is the time of the source's clock, `ts` that of arrival.
    """
    generator = np.random.default_rng(seed)
    sent = np.arange(seconds * rate) * 1_000 // rate
    latency = least_latency + generator.gamma(latency_shape, latency_scale, len(sent))
    # Half a period apart, so that no difference of the two clocks falls on an end of the band.
    tau = sent + 500 // rate
    arrived = np.round(tau + 1_000 * (clock_skew + latency)).astype(np.int64)
    order = np.argsort(arrived, kind="stable")
    return {
        "s1": pa.table({"ts": sent, "tau": sent}),
        "s2": pa.table({"ts": arrived[order], "tau": tau[order]}),
    }
