"""Results of n streams as numbers: what they are worth together, and the share of each tuple.

Law: nothing is enumerated. A block holds all combinations of ranges (`probing_many`), so sums over
its results follow from sums over its tuples: O(tuples met), where results are their product. Only
the smallest and the largest importance of a combination need pairs of tuples.
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled.kernel import part, step
from tidegate.driver import weighing_many
from tidegate.driver.probing_many import begin_blocks, block_size, next_block, size_of
from tidegate.estimators.importance import MAX, MEAN, MIN, PRODUCT, SUM
from tidegate.state.join_state import BEGIN, END, FOUND, MATCHES


@part
def count(state, shed, arrivals, work, many, stream, arrival, whom):
    """Count the results of an arrival that are not written."""
    time = arrivals.time[arrival]
    state.gate[0].results += work.progress[MATCHES]
    if state.gate[0].has_importance and work.progress[MATCHES] > 0:
        own = arrivals.importance[arrival]
        begin_blocks(many)
        while next_block(state, work, many, stream, time, whom):
            state.gate[0].importance_out += block_worth(state, work, many, stream, own)
    if shed is not None:
        count_weights(state, shed, shed.samples, work, many, stream, time, whom)


@step
def count_weights(state, shed, samples, work, many, stream, time, whom):
    """The weights of results of a sample that are not written."""
    if samples is not None:
        if work.progress[MATCHES] > 0:
            begin_blocks(many)
            while next_block(state, work, many, stream, time, whom):
                weighing_many.count(state, shed, samples, work, many, stream, whom)


@part
def block_worth(state, work, many, stream, own):
    """The sum of the importances of all results of a block."""
    combine = state.gate[0].combine
    results = np.float64(block_size(many, stream))
    if combine == SUM or combine == MEAN:
        worth = own * results
        for other in range(len(many.ranges)):
            if other != stream:
                worth += total_of(state, work, many, other) * results / size_of(many, other)
        return worth / len(many.ranges) if combine == MEAN else worth
    if combine == PRODUCT:
        worth = own
        for other in range(len(many.ranges)):
            if other != stream:
                worth *= total_of(state, work, many, other)
        return worth
    worth = own * combinations_behind(state, work, many, stream, stream, stream, own)
    for other in range(len(many.ranges)):
        if other != stream:
            for at in range(many.ranges[other, BEGIN], many.ranges[other, END]):
                its = state.importance[work.found[at]]
                if not is_behind(combine, its, other, own, stream):
                    continue
                worth += its * combinations_behind(state, work, many, stream, other, other, its)
    return worth


@part
def total_of(state, work, many, other):
    total = 0.0
    for at in range(many.ranges[other, BEGIN], many.ranges[other, END]):
        total += state.importance[work.found[at]]
    return total


@step
def is_behind(combine, chosen, its_stream, other, other_stream):
    """Is `other` not the one that decides, where both stand in a combination with `chosen`?"""
    if chosen == other:
        behind = its_stream < other_stream
    elif combine == MIN:
        behind = chosen < other
    else:
        behind = chosen > other
    return behind


@part
def combinations_behind(state, work, many, stream, chosen_stream, given, chosen):
    """In how many combinations of a block a tuple of `chosen_stream` decides the importance.

    The tuple of the stream `given` is given, too; it may be `chosen_stream`.
    """
    product = 1.0
    for other in range(len(many.ranges)):
        if other != stream and other != chosen_stream and other != given:
            behind = 0
            for at in range(many.ranges[other, BEGIN], many.ranges[other, END]):
                its = state.importance[work.found[at]]
                behind += is_behind(state.gate[0].combine, chosen, chosen_stream, its, other)
            product *= behind
    return product


@part
def share_out(state, work, many, stream, time, whom):
    """Write to `many.shares` in how many results of the arrival each tuple found takes part."""
    for at in range(work.progress[FOUND]):
        many.shares[at] = 0.0
    begin_blocks(many)
    while next_block(state, work, many, stream, time, whom):
        results = np.float64(block_size(many, stream))
        for other in range(len(many.ranges)):
            if other != stream:
                each = results / size_of(many, other)
                for at in range(many.ranges[other, BEGIN], many.ranges[other, END]):
                    many.shares[at] += each


@part
def share_out_worth(state, work, many, stream, time, whom, own):
    """Write to `many.shares` what the results are worth in which each tuple found takes part.

    Of a mean the sum: the same but for a factor, and only proportions matter.
    """
    combine = state.gate[0].combine
    for at in range(work.progress[FOUND]):
        many.shares[at] = 0.0
    begin_blocks(many)
    while next_block(state, work, many, stream, time, whom):
        if combine == MIN or combine == MAX:
            share_extremes(state, work, many, stream, own)
        else:
            share_totals(state, work, many, stream, own)


@part
def share_totals(state, work, many, stream, own):
    """The same of a block whose results are worth the sum or the product of their tuples."""
    multiplies = state.gate[0].combine == PRODUCT
    for side in range(len(many.ranges)):
        if side == stream:
            continue
        combinations, total = 1.0, own  # of the tuples of all streams but `side`
        for other in range(len(many.ranges)):
            if other != stream and other != side:
                theirs, size = total_of(state, work, many, other), size_of(many, other)
                total = total * theirs if multiplies else total * size + combinations * theirs
                combinations *= size
        for at in range(many.ranges[side, BEGIN], many.ranges[side, END]):
            its = state.importance[work.found[at]]
            many.shares[at] += total * its if multiplies else total + combinations * its


@part
def share_extremes(state, work, many, stream, own):
    """The same of a block whose results are worth the smallest or the largest of their tuples."""
    combine = state.gate[0].combine
    share_decided(state, work, many, stream, stream, own)
    for other in range(len(many.ranges)):
        if other != stream:
            for at in range(many.ranges[other, BEGIN], many.ranges[other, END]):
                its = state.importance[work.found[at]]
                if is_behind(combine, its, other, own, stream):
                    behind = combinations_behind(state, work, many, stream, other, other, its)
                    many.shares[at] += its * behind
                    share_decided(state, work, many, stream, other, its)


@part
def share_decided(state, work, many, stream, chosen_stream, chosen):
    """Credit all who stand in a combination that a tuple of `chosen_stream` decides, but itself."""
    combine = state.gate[0].combine
    for side in range(len(many.ranges)):
        if side == stream or side == chosen_stream:
            continue
        behind = combinations_behind(state, work, many, stream, chosen_stream, side, chosen)
        for at in range(many.ranges[side, BEGIN], many.ranges[side, END]):
            its = state.importance[work.found[at]]
            if is_behind(combine, chosen, chosen_stream, its, side):
                many.shares[at] += chosen * behind
