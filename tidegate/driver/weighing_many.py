"""The weights of a sample's results with more than two streams.

Law: a weight is the product of those of the retained tuples of its result (`shed.sampling_many`).
Tuples of the instant that is under way are certain. None of it is compiled for other joins.
"""

from __future__ import annotations

import math

import numpy as np

from tidegate.compiled.kernel import part, step
from tidegate.driver.probing import EARLIER, NEWCOMERS
from tidegate.shed import sampling, sampling_many
from tidegate.shed.sample_records import WEIGHTS
from tidegate.state.join_state import BEGIN, END, GROUP_ORDER, RESULTS


@part
def weigh(state, shed, samples, work, many, output, stream, inner, count, whom):
    """Write the weights of results that differ in the innermost stream only."""
    if samples is not None:
        begun, begin = output.filled[RESULTS], many.digit[inner]
        before = 1.0
        for other in range(len(state.lanes)):
            if other != stream and other != inner:
                before *= weight_of(state, shed, work, work.found[many.digit[other]], whom)
        certain = sampling.certain_weight(samples, state.lanes)
        total = 0.0
        for k in range(count):
            weight = before * weight_of(state, shed, work, work.found[begin + k], whom)
            if weight > 1.0:
                weight = tagged(state, shed, work, many, stream, inner, begin + k, weight, whom)
            else:
                weight = certain
            output.weight[begun + k] = weight
            total += weight
        samples.sums[WEIGHTS] += total


@step
def weight_of(state, shed, work, slot, whom):
    """The weight of one tuple of a result."""
    is_certain = whom == NEWCOMERS
    if whom == EARLIER:
        is_certain = state.notes[slot].order >= work.progress[GROUP_ORDER]
    weight = 1.0
    if not is_certain:
        weight = sampling_many.weight_at(shed, state.lanes, slot)
    return weight


@part
def tagged(state, shed, work, many, stream, inner, position, weight, whom):
    """The weight of a result with the names of its tuples, in the order of their streams."""
    retained = len(state.lanes) - 1
    if retained > sampling_many.MOST_NAMED:
        return sampling_many.marked(
            weight, np.float64(sampling_many.NO_TAG), sampling_many.LAYOUT_BITS
        )
    bits = sampling_many.NAME_BITS[retained]
    logarithm = math.log(weight)
    tag = 0.0
    for other in range(len(state.lanes)):
        if other != stream:
            slot = work.found[position if other == inner else many.digit[other]]
            own = weight_of(state, shed, work, slot, whom)
            name = 0.0
            if own > 1.0:
                name = sampling_many.name_at(shed, state.gate[0].seed, slot, bits)
            field = sampling_many.field_of(name, own, logarithm)
            tag = tag * math.ldexp(sampling_many.SHARES + 1.0, bits) + field
    tag = tag * 2.0**sampling_many.LAYOUT_BITS + (retained - 1.0)
    return sampling_many.marked(weight, tag, retained * (bits + 4) + sampling_many.LAYOUT_BITS)


@part
def count(state, shed, samples, work, many, stream, whom):
    """Add the weights of all results of a block up; nothing is enumerated."""
    if samples is not None:
        product = 1.0
        for other in range(len(state.lanes)):
            if other != stream:
                total = 0.0
                for at in range(many.ranges[other, BEGIN], many.ranges[other, END]):
                    total += weight_of(state, shed, work, work.found[at], whom)
                product *= total
        samples.sums[WEIGHTS] += product
