"""What the sampling policies remember of retained tuples, beside their priorities.

Law: a policy that samples nothing has none of it. `floor` is the threshold that a
tuple was known to be above when it came or when the steps were folded; a step is a threshold that
all tuples up to an order of arrival have been above since (`shed.sampling`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.compiled import layout
from tidegate.compiled.frames import frame
from tidegate.compiled.layout import records

ROOM = 256  # steps of an account; when they are used up, they are folded into the floors

STEP = np.dtype([("order", np.int64), ("threshold", np.float64)])

# What a tuple of a uniform sample wants: so many matches until its next wanted result, so many
# that it can expect after that one, and how many numbers it has drawn.
WANT = np.dtype([("skip", np.int32), ("left", np.int32), ("draws", np.int32)])

LEVEL = np.dtype(
    [
        ("steps", np.int64),  # in use
        ("start", np.float64),  # the threshold at which new tuples begin
        ("peak", np.int64),  # most that was in use since the last review of it
        ("reviewed", np.int64),
        ("begun", np.int64),  # has there been a review?
        ("given", np.int64),  # was the fraction given?
        # Of the tuple under way:
        ("skip", np.int64),
        ("left", np.int64),
        ("draws", np.int64),
        ("floor", np.float64),
        ("priority", np.float64),
    ]
)
NOTHING_YET = -(2**62)

# Of `Samples.sums`: weights of all results; matches of all arrivals in full windows; the time that
# faded counts stood for when they were last faded.
WEIGHTS, EXPECTED, COVERED = range(3)


@frame
class Samples(NamedTuple):
    floor: NDArray[np.float64]  # [slot]
    number: NDArray[np.int64]  # [slot]: its number among all tuples, by which chance knows it
    wants: Any  # [slot], for `uniform`
    steps: Any  # [account, step]: thresholds fall, orders rise
    levels: Any  # [account]
    sums: NDArray[np.float64]  # see WEIGHTS, EXPECTED, COVERED
    waits: NDArray[np.int64]  # [stream]: does shedding one of its tuples lose results?


def empty(waits: Sequence[bool], slots: int, *, uniform: bool, fraction: float) -> Samples:
    """Nothing is retained yet; `waits` is that of `sample.waiting`, `fraction` 0 if not given."""
    accounts = len(waits)
    levels = records(LEVEL, accounts)
    levels.start = 1.0 / fraction if fraction > 0 else 1.0
    levels.given = fraction > 0
    return Samples(
        floor=np.zeros(max(2, slots)),
        number=np.zeros(max(2, slots), np.int64),
        wants=records(WANT, max(2, slots) if uniform else 1),
        steps=records(STEP, (accounts, ROOM)),
        levels=levels,
        sums=np.zeros(3),
        waits=np.array(waits, np.int64),
    )


def grown(samples: Samples, slots: int) -> Samples:
    """The same with room for more slots."""
    wants = samples.wants
    floor, number = np.zeros(slots), np.zeros(slots, np.int64)
    layout.copy(samples.floor, floor)
    layout.copy(samples.number, number)
    if len(wants) > 1:
        wants = records(WANT, slots)
        layout.copy(samples.wants, wants)
    return samples._replace(floor=floor, number=number, wants=wants)


def slot_bytes(samples: Samples) -> int:
    """Bytes of one more slot."""
    return sum(int(part.itemsize) for part in samples[:3] if len(part) > 1)
