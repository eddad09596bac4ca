"""Samples of joins of n streams: the weight of a result whose tuples were retained together.

The arrival that completes a result is there for sure; its n - 1 other tuples, the set J, must all
be retained. Pin them, that is, let them have drawn 0: the others then raise certain thresholds. All
of J are retained iff each has a priority above all thresholds of that run since it came, because up
to the first loss from J both runs have the same victims. What J drew is independent of those
thresholds, so the probability is the product of min(1, size / threshold) over J, and where all of J
are retained, the thresholds are those that were seen. So the product of the weights is exact,
whatever the budget forces and however sizes depend on who was retained.

Two results have the covariance E[product of the weights of their common tuples] - 1, by the same
argument: 0 if they have none in common. An estimate of a variance therefore needs to know which
tuples two rows share and how likely each was. The lowest bits of a weight say it (`sample.tags`).

Law: up to three retained tuples are named in a weight; a result with more has a weight and no tag.
"""

from __future__ import annotations

import math

import numpy as np

from tidegate.compiled.kernel import part, step
from tidegate.shed.members import basis_at
from tidegate.shed.sampling import TAGS, drawn, threshold_of

# As in `sample.tags`: bits of a tuple's name, bits of its share of the weight, and which layout.
NAME_BITS = (0, 0, 15, 9)  # by the number of retained tuples
SHARES = 15.0
LAYOUT_BITS = 2
NO_TAG = 3  # the layout of weights without a tag
MOST_NAMED = 3


@part
def weight_at(shed, lanes, slot):
    """The inverse of the probability with which the tuple in a slot was retained until now."""
    note = shed.members.notes[slot]
    account = lanes[np.int64(note.stream)].account
    threshold = threshold_of(shed.samples, account, slot, np.int64(note.order))
    return max(1.0, threshold / basis_at(shed.members, slot))


@part
def name_at(shed, seed, slot, bits):
    """The name of the tuple in a slot, a whole number of so many bits."""
    stream = np.int64(shed.members.notes[slot].stream)
    number = drawn(seed, stream, shed.samples.number[slot], np.int64(TAGS))
    return np.floor((1.0 - number) * math.ldexp(1.0, bits))


@step
def field_of(name, weight, logarithm):
    """A name and how much of the logarithm of the result's weight is its tuple's, 0 if none."""
    share = 0.0
    if weight > 1.0:
        share = min(SHARES, max(1.0, np.floor(SHARES * math.log(weight) / logarithm + 0.5)))
    return name * (SHARES + 1.0) + share


@part
def marked(weight, tag, bits):
    """A weight whose lowest bits are a tag: rounded such that its mean over all tags is exact."""
    _, exponent = math.frexp(weight)
    unit = math.ldexp(1.0, exponent - 53 + bits)
    lowest = math.ldexp(1.0, 52 - bits)
    share = math.ldexp(tag, -bits)
    kept = np.floor(weight / unit - share + 0.5)
    kept = min(2.0 * lowest - 1.0, max(lowest, kept))
    return (kept + share) * unit
