"""Results per tuple of each existence pattern (kwon2011, section 3): the tables of EP.

Law: the existence pattern of a tuple says on which streams its key was when it came. For each
stream and pattern, r counts the results that tuples with it took part in and n how many of them
were retained; r/n is what a tuple with it is worth. A complete pattern is worth less than any
other: its results are there already.

Old evidence fades: when n reaches a limit, r and n of that pattern are halved. That leaves r/n as
it is, so no tuple changes its place among the victims. A tuple remembers how often its pattern was
halved before it came, and its results count with the weight that it has in n by now.

A stream is always in the patterns of its own tuples, so each has 2^(n-1) of them; a pattern's
*place* is its bits without that of the stream.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.compiled.frames import frame
from tidegate.compiled.kernel import part, step

FADE = 1024  # tuples of a pattern, by default; not tuned
COMPLETE = -1.0  # what a complete pattern is worth: it goes first


@frame
class Patterns(NamedTuple):
    results: NDArray[np.float64]  # [place, stream]: r
    retained: NDArray[np.float64]  # n
    halved: NDArray[np.float64]  # how often both were
    fade: NDArray[np.float64]  # [0]: the limit of n
    together: NDArray[np.int64]  # [0]: streams that have the arrival's key in the same instant


def number_of(streams: int) -> int:
    """How many patterns the tuples of a stream can have."""
    return 2 ** (streams - 1)


def empty(streams: int, fade: float) -> Patterns:
    """Nothing is known yet."""
    tables = np.zeros((3, number_of(streams), streams), np.float64)
    return Patterns(
        results=tables[0],
        retained=tables[1],
        halved=tables[2],
        fade=np.array([fade]),
        together=np.zeros(1, np.int64),
    )


@step
def place_of(bits, stream):
    """Where the pattern of a tuple of `stream` stands."""
    above = bits >> (stream + 1)
    return (above << stream) | (bits & ((1 << stream) - 1))


@part
def worth_of(patterns, place, stream):
    """What a tuple of a pattern that was retained at least once is worth."""
    if place == len(patterns.results) - 1:
        return COMPLETE
    return patterns.results[place, stream] / patterns.retained[place, stream]


@part
def retain(patterns, place, stream):
    """One tuple more is retained."""
    patterns.retained[place, stream] += 1.0
    if patterns.retained[place, stream] >= patterns.fade[0]:
        patterns.results[place, stream] /= 2.0
        patterns.retained[place, stream] /= 2.0
        patterns.halved[place, stream] += 1.0


@part
def earn(patterns, place, stream, halved_before, results):
    """A tuple has taken part in so many results."""
    since = patterns.halved[place, stream] - halved_before
    patterns.results[place, stream] += results * 0.5**since
