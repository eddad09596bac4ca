"""What a race remembers, in flat arrays.

Law: everything that decides a race stands here and in `Race.numbers`; a snapshot holds all of it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.compiled.frames import frame
from tidegate.compiled.layout import records
from tidegate.shed import shed_records

CELLS = 4096  # of the counts of keys, in each of two rows
BUCKETS = 1024  # of the tokens
AGES = 16  # buckets of the age curve
NOBODY = -1

# A token: what contenders know of a sampled tuple.
TOKEN = np.dtype(
    [
        ("time", np.int64),
        ("order", np.int64),  # of arrival, among all
        ("importance", np.float64),
        ("gained", np.float64),  # DGL's priority over its scale
        ("mark", np.uint32),  # of its key
        ("next", np.int16),  # in its bucket
        ("held", np.uint8),  # by which contenders, as bits; 0: unused
        ("stream", np.uint8),
    ]
)

CONTENDER = np.dtype(
    [
        ("kind", np.int64),  # as in `shed_records`
        ("found", np.float64),  # results of its tokens, or their importance
    ]
)

COURSE = np.dtype(
    [
        ("rate", np.float64),  # the share of the tuples that become tokens
        ("seed", np.uint64),
        ("order", np.int64),
        ("clock", np.int64),
        ("watermark", np.int64),
        ("external", np.int64),
        ("lateness", np.int64),
        ("span", np.int64),  # the longest window
        ("faded", np.int64),  # moment at which counts faded last
        ("weighed", np.int64),  # do results have an importance?
        ("combine", np.int64),
        ("planned", np.int64),  # split="auto": streams are compared by results per time
        ("until_plan", np.int64),  # tuples until the next plan, as in `shed.split`
        ("instant", np.int64),  # the clock at the last tuple
    ]
)

STREAM = np.dtype(
    [
        ("window", np.int64),
        ("account", np.int64),
        ("arrived", np.float64),  # tuples, old ones for less
        ("precedence", np.int64),
        ("scale", np.float64),  # of DGL
    ]
)

# The policies that can be raced, by name.
KINDS = {
    "prob": shed_records.PROB,
    "output": shed_records.OUTPUT,
    "dgl": shed_records.CUMULATIVE,
    "dimpprob": shed_records.DIMPPROB,
    "simp": shed_records.SIMP,
    "recent": shed_records.RECENT,
    "until-expiry": shed_records.UNTIL_EXPIRY,
    "random": shed_records.RANDOM,
    "age": shed_records.AGE,
}


@frame
class Course(NamedTuple):
    """The arrays of a race."""

    head: Any  # [0]
    streams: Any  # [stream]
    contenders: Any  # [contender]
    tokens: Any  # [place]
    buckets: NDArray[np.int16]  # [bucket]: the first of its tokens
    counts: NDArray[np.float32]  # [stream, row, cell]: tuples of keys, faded as in a sketch
    earned: NDArray[np.float32]  # [row, cell]: results of keys, for OUTPUT
    phases: NDArray[np.float32]  # [stream, cell]: when the next tuple becomes a token
    trials: NDArray[np.float64]  # [stream, age]: time that random tokens spent there, faded
    hits: NDArray[np.float64]  # [stream, age]: results that they had there
    worths: NDArray[np.float64]  # [stream, age]: AGE's priority
    capacity: NDArray[np.int64]  # [account]: tokens that each contender may hold


def empty(names: tuple[str, ...], streams: int, room: int) -> Course:
    """Nothing was seen so far."""
    contenders = records(CONTENDER, len(names))
    contenders.kind = [KINDS[name] for name in names]
    course = Course(
        head=records(COURSE, 1),
        streams=records(STREAM, streams),
        contenders=contenders,
        tokens=records(TOKEN, room),
        buckets=np.full(BUCKETS, NOBODY, np.int16),
        counts=np.zeros((streams, 2, CELLS), np.float32),
        earned=np.zeros((2, CELLS), np.float32),
        phases=np.zeros((streams, CELLS), np.float32),
        trials=np.zeros((streams, AGES)),
        hits=np.zeros((streams, AGES)),
        worths=np.ones((streams, AGES)),
        capacity=np.zeros(streams, np.int64),
    )
    course.streams.scale = 1.0
    return course
