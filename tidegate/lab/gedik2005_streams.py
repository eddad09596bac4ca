"""The streams of gedik2005, section 6: sets of items whose popularity drifts; and its baseline.

Law: the seed fixes every value, and a stream comes in order of time (milliseconds).

An item's popularity is Zipf by its rank, and ranks rotate: at time T the most popular of L items is
1 + floor(L * (T mod cycle) / cycle). A time shift of `shift` gives a stream the popularity that the
other had `shift` earlier, so that its tuples match best with tuples of that age:

    S1   ...a b c d e...            items popular now
    S2         ...a b c d e...      the same, `shift` later
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

SECOND = 1000
ITEMS, MEAN_ITEMS, SPREAD = 100, 5.0, 1.0

Phases = Sequence[tuple[float, float]]  # (seconds, tuples per second)


def drifting_sets(
    phases: Phases,
    skew: float,
    cycle: float,
    shifts: tuple[float, float] = (0.0, 0.0),
    seed: int = 0,
) -> dict[str, pa.Table]:
    """Two streams `left` and `right` of sets, with columns `t` and `items`.

    Parameters
    ----------
    phases
        Rates of both streams, one after the other.
    skew
        Exponent of Zipf's law.
    cycle
        Seconds after which an item is as popular as before.
    shifts
        How many seconds each stream is behind.
    seed
        Fixes every value.

    Example
    -------
    >>> drifting_sets([(2.0, 3.0)], 0.6, 10.0)["left"].num_rows
    6
    """
    tables = {}
    for stream, (name, shift) in enumerate(zip(("left", "right"), shifts, strict=True)):
        generator = np.random.default_rng([seed, stream])
        times = _times(phases, generator)
        moments = np.mod(times - shift * SECOND, cycle * SECOND)
        popular = np.floor(ITEMS * moments / (cycle * SECOND)).astype(np.int64)
        tables[name] = pa.table({"t": times, "items": _sets(popular, skew, generator)})
    return tables


def _times(phases: Phases, generator: np.random.Generator) -> NDArray[np.int64]:
    parts, begin = [], 0.0
    for seconds, rate in phases:
        parts.append(begin + np.sort(generator.random(round(seconds * rate))) * seconds)
        begin += seconds
    return (np.concatenate(parts) * SECOND).astype(np.int64)


def _sets(popular: NDArray[np.int64], skew: float, generator: np.random.Generator) -> pa.Array:
    """A set for each tuple, given its most popular item: items drawn without replacement."""
    sizes = np.rint(generator.normal(MEAN_ITEMS, SPREAD, len(popular))).astype(np.int64)
    sizes = np.clip(sizes, 1, ITEMS)
    weights = -skew * np.log(np.arange(1, ITEMS + 1))
    # The largest of log weight + Gumbel noise are a draw without replacement.
    scores = weights + generator.gumbel(size=(len(popular), ITEMS))
    ranks = np.argsort(-scores, axis=1)[:, : int(sizes.max(initial=1))]
    items = (popular[:, None] + ranks) % ITEMS
    taken = np.arange(items.shape[1]) < sizes[:, None]
    offsets = np.append(0, np.cumsum(sizes))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(items[taken]))


def randomly_dropped(
    tables: Mapping[str, pa.Table],
    windows: tuple[int, int],
    fuel_of_buffer: float,
    seed: int = 0,
    buffer: int = SECOND,
) -> dict[str, pa.Table]:
    """What is left when tuples are dropped at random until a full join can keep up.

    Both streams wait in buffers, in the paper of one second. Of a buffer tuples are taken in random
    order as long as its fuel lasts: each is compared with all retained tuples of the other stream;
    the rest is dropped. Times are integers in a column `t`.
    """
    generator = np.random.default_rng([seed, 7])
    names = list(tables)
    times = [tables[name]["t"].to_numpy() for name in names]
    kept = [np.zeros(len(t), np.bool_) for t in times]
    first = min((int(t[0]) for t in times if len(t)), default=0)
    last = max((int(t[-1]) for t in times if len(t)), default=0)
    for begin in range(first // buffer * buffer, last + 1, buffer):
        waiting = [
            (stream, at)
            for stream, t in enumerate(times)
            for at in range(*np.searchsorted(t, [begin, begin + buffer]))
        ]
        alive = [
            int(kept[stream][slice(*np.searchsorted(t, [begin - windows[stream], begin]))].sum())
            for stream, t in enumerate(times)
        ]
        fuel = fuel_of_buffer
        for number in generator.permutation(len(waiting)):
            stream, at = waiting[number]
            fuel -= alive[1 - stream]
            if fuel < 0:
                break
            kept[stream][at] = True
            # A window of no length keeps nothing that a later tuple could meet.
            alive[stream] += 1 if windows[stream] > 0 else 0
    return {
        name: tables[name].filter(pa.array(mask)) for name, mask in zip(names, kept, strict=True)
    }
