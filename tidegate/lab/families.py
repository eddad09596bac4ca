"""Families of generated streams, each with one match structure; the settings of `value`.

Law: the seed fixes every value. Streams are called `left` and `right` and have the columns `ts`,
`key`, `kind` (one of KINDS, which is the same for most keys near each other) and `importance`. A
family is about one thing that a policy can learn or miss:

`skew`        few keys come often (Zipf 1.0), the same on both streams
`age`         each left tuple meets several right ones, at ages around the middle of the window
`bursts`      a key comes several times on both streams within a short time, and hardly ever again
`one-to-one`  each left tuple meets one right one, after a lag that varies widely; half meet none
`one-sided`   right tuples do not wait; keys are skewed
`drift`       skewed keys, whose popularity moves on slowly
`abrupt`      skewed keys, whose popularity is drawn again every three windows
`mixed`       a quarter each of skew, age, bursts and one-to-one, with keys of their own
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.lab.paper_streams import rare_importance, zipf_shares
from tidegate.spec import TidegateError
from tidegate.spec.units import nearest_hint

Numbers = NDArray[np.int64]
Events = tuple[Numbers, Numbers]  # times and keys of one stream
KINDS = 16
_OF_A_KIND = 50  # keys in a row
WINDOW = 1_000  # units of time; a stream has about one tuple per unit


def family_streams(family: str, windows: int, seed: int) -> dict[str, pa.Table]:
    """Streams of a family over so many windows.

    >>> streams = family_streams("skew", 2, seed=1)
    >>> streams["left"].column_names, streams["left"].num_rows
    (['ts', 'key', 'kind', 'importance'], 2000)
    """
    if family not in FAMILIES:
        raise TidegateError(f"family {family!r} is not known; {nearest_hint(family, FAMILIES)}")
    generator = np.random.default_rng(seed)
    events = FAMILIES[family](generator, windows * WINDOW)
    return {
        name: _table(generator, *one) for name, one in zip(("left", "right"), events, strict=True)
    }


def _table(generator: np.random.Generator, times: Numbers, keys: Numbers) -> pa.Table:
    order = np.argsort(times, kind="stable")
    importance = rare_importance(generator, len(order), 0.1, 20.0, 0.5)
    keys = keys[order]
    kinds = keys // _OF_A_KIND % KINDS
    return pa.table({"ts": times[order], "key": keys, "kind": kinds, "importance": importance})


def _zipf(generator: np.random.Generator, length: int, domain: int = 2_000) -> Numbers:
    return generator.choice(domain, length, p=zipf_shares(domain, 1.0)).astype(np.int64)


def _skew(generator: np.random.Generator, length: int) -> tuple[Events, Events]:
    times = np.arange(length)
    return (times, _zipf(generator, length)), (times, _zipf(generator, length))


def _age(generator: np.random.Generator, length: int) -> tuple[Events, Events]:
    chosen = generator.integers(0, length, length)
    ages = np.clip(generator.normal(0.5, 0.12, length), 0.0, 1.0) * WINDOW
    times = chosen + ages.astype(np.int64)
    return (np.arange(length), np.arange(length)), (times, chosen)


def _bursts(generator: np.random.Generator, length: int) -> tuple[Events, Events]:
    sessions = length // 8
    begin = generator.integers(0, length, sessions)
    key = generator.integers(0, sessions // 2, sessions)  # now and then a key comes back
    streams = []
    for _ in range(2):
        session = generator.integers(0, sessions, length)
        times = begin[session] + generator.exponential(WINDOW / 25, length).astype(np.int64)
        streams.append((times, key[session]))
    return streams[0], streams[1]


def _one_to_one(generator: np.random.Generator, length: int) -> tuple[Events, Events]:
    keys = np.arange(length)
    lags = generator.lognormal(np.log(WINDOW / 5), 0.8, length).astype(np.int64)
    meets = generator.random(length) < 0.5
    strangers = generator.integers(0, length, length - int(meets.sum()))
    times = np.concatenate([keys[meets] + lags[meets], strangers])
    return (keys, keys), (times, np.concatenate([keys[meets], length + strangers]))


def _drift(generator: np.random.Generator, length: int) -> tuple[Events, Events]:
    times = np.arange(length)
    moved = times // 10  # a rank's key changes every 10 units
    streams = [(times, _zipf(generator, length) * 7 + moved) for _ in range(2)]
    return streams[0], streams[1]


def _abrupt(generator: np.random.Generator, length: int) -> tuple[Events, Events]:
    times = np.arange(length)
    domain = 2_000
    orders = np.array([generator.permutation(domain) for _ in range(length // (3 * WINDOW) + 1)])
    era = times // (3 * WINDOW)
    streams = [(times, orders[era, _zipf(generator, length)]) for _ in range(2)]
    return streams[0], streams[1]


def _mixed(generator: np.random.Generator, length: int) -> tuple[Events, Events]:
    sides: tuple[list[Events], list[Events]] = ([], [])
    for number, make in enumerate((_skew, _age, _bursts, _one_to_one)):
        for side, (times, keys) in zip(sides, make(generator, length), strict=True):
            stay = (keys * 2_654_435_761 >> 16) % 4 == 0  # a quarter of the keys
            side.append((times[stay], keys[stay] * 4 + number))
    left, right = (
        (np.concatenate([t for t, _ in side]), np.concatenate([k for _, k in side]))
        for side in sides
    )
    return left, right


FAMILIES = {
    "skew": _skew, "age": _age, "bursts": _bursts, "one-to-one": _one_to_one, "one-sided": _skew,
    "drift": _drift, "abrupt": _abrupt, "mixed": _mixed,
}  # fmt: skip
ONE_SIDED = ("age", "one-to-one", "one-sided")  # right tuples do not wait
