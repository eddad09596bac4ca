"""Age curves: how many results a tuple produces at which age (srivastava2004, section 2.2).

Law: a curve is learned from *monitors* only, a small share of the tuples that are kept for their
whole life whatever the policy says of them; so what is seen of an age does not depend on whom the
policy keeps. A life counts when it is over. Old lives fade.

With p(k) the results per tuple between ages k-1 and k, in buckets, and C(k) their sum, a tuple of
age i is worth (section 3.2.1)

    worth(i) = max over j > i of (C(j) - C(i)) / (j - i)

the fastest rate at which it can still produce. This one rule is the staggered cells (M <= k_opt),
the plain case and the greedy case of the paper.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.compiled.frames import frame
from tidegate.compiled.kernel import kernel, part

MOST_MONITORS = 128  # per stream; enough for a curve of 20 buckets within a few windows
ENOUGH_LIVES = 64.0  # to know a curve
FEWER = 8.0  # as many monitors are enough to notice that a known curve changes
REMEMBERED_LIVES = 512.0  # a life fades to 1/e after so many more
NO_MONITOR = -1

WATCH = np.dtype(
    [
        ("limit", np.float64),  # monitors at a time, in the mean
        ("buckets", np.int64),  # into which its window is cut
        ("alive", np.int64),
        ("lives", np.float64),  # that are over, faded
        ("waited", np.int64),  # tuples since the last monitor began
        ("known", np.int64),  # is the curve known, so that a few monitors are enough?
    ]
)


@frame
class AgeCurve(NamedTuple):
    """What monitors have shown; all of it is part of a snapshot."""

    watch: Any  # [stream]
    busy: NDArray[np.int32]  # [stream, monitor]
    life: NDArray[np.float64]  # [stream, monitor, bucket]: results of a life that is not over
    sums: NDArray[np.float64]  # [stream, bucket]: results of all lives, faded
    squares: NDArray[np.float64]
    scratch: NDArray[np.float64]  # [0, bucket]: kernels allocate nothing


def empty(streams: int, buckets: int, monitors: int) -> AgeCurve:
    return AgeCurve(
        watch=np.zeros(streams, WATCH).view(np.recarray),
        busy=np.zeros((streams, max(1, monitors)), np.int32),
        life=np.zeros((streams, max(1, monitors), buckets), np.float64),
        sums=np.zeros((streams, buckets), np.float64),
        squares=np.zeros((streams, buckets), np.float64),
        scratch=np.zeros((1, buckets), np.float64),
    )


@part
def begin(curve, stream, pace):
    """A monitor for a new tuple, or NO_MONITOR if there are enough or the last began just now.

    `pace` tuples come in the length of a window, over which monitors are spread.
    """
    watch = curve.watch[stream]
    watch.waited += 1
    limit = watch.limit
    if watch.known:
        limit /= FEWER
    if limit <= 0.0 or watch.alive >= max(1.0, limit) or watch.waited < pace // limit:
        return np.int64(NO_MONITOR)
    monitor = 0
    while curve.busy[stream, monitor]:
        monitor += 1
    curve.busy[stream, monitor] = 1
    for bucket in range(curve.life.shape[2]):
        curve.life[stream, monitor, bucket] = 0.0
    watch.alive += 1
    watch.waited = 0
    return np.int64(monitor)


@part
def end(curve, stream, monitor, complete):
    """A monitor's life is over; it counts if it lasted as long as the window."""
    curve.busy[stream, monitor] = 0
    watch = curve.watch[stream]
    watch.alive -= 1
    if complete:
        keep = 1.0 - 1.0 / REMEMBERED_LIVES
        watch.lives = watch.lives * keep + 1.0
        if watch.lives >= ENOUGH_LIVES:
            watch.known = 1
        for bucket in range(curve.sums.shape[1]):
            produced = curve.life[stream, monitor, bucket]
            curve.sums[stream, bucket] = curve.sums[stream, bucket] * keep + produced
            curve.squares[stream, bucket] = curve.squares[stream, bucket] * keep + produced**2


@part
def bucket_at(age, width, buckets):
    """The bucket of a result produced at an age: p(k) is what falls into (k-1, k]."""
    return min(np.int64(buckets - 1), max(np.int64(0), (age - 1) // width))


@part
def estimate(curve, stream, p):
    """Write the learned p into `p`: the mean over lives, drawn towards flat as far as the
    differences between buckets are no larger than chance would make them."""
    buckets = len(p)
    lives = curve.watch[stream].lives
    mean = noise = 0.0
    for bucket in range(buckets):
        p[bucket] = curve.sums[stream, bucket] / lives
        mean += p[bucket] / buckets
        noise += (curve.squares[stream, bucket] / lives - p[bucket] ** 2) / lives / buckets
    # Of a mean of nothing nothing is known: as if half a result had been seen in half a life.
    noise += mean / buckets / lives
    spread = 0.0
    for bucket in range(buckets):
        spread += (p[bucket] - mean) ** 2 / buckets
    trust = max(0.0, 1.0 - noise / spread) if spread > 0.0 else 0.0
    for bucket in range(buckets):
        p[bucket] = mean + trust * (p[bucket] - mean)


@kernel
def rate_ahead(p, worth, rising, ending):
    """worth(i) for each age i of the curve, and whether and up to what it rises from i to i+1.

    Inside a bucket results come at the rate p(i+1). A tuple there is worth at least that; if more,
    then because of what comes later, and it is worth the more the nearer it is to that.
    """
    for i in range(len(p)):
        ahead = 0.0
        worth[i] = 0.0
        for j in range(i, len(p)):
            ahead += p[j]
            worth[i] = max(worth[i], ahead / (j - i + 1))
        rising[i] = worth[i] > p[i]
    worth[len(p)] = ending[len(p)] = 0.0
    rising[len(p)] = 0
    for i in range(len(p)):
        ending[i] = max(p[i], worth[i + 1]) if rising[i] else worth[i]


def k_opt(p: NDArray[np.float64]) -> int:
    """The age at which C(k)/k is largest: how long a single cell keeps a tuple.

    >>> k_opt(np.array([1.0, 1.0, 2.0, 1.0]))
    3
    """
    return int(np.argmax(np.cumsum(p) / np.arange(1, len(p) + 1))) + 1
