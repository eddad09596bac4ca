"""The compiled part of a race: contenders hold tokens, and earn what these would have earned.

Law: a contender retains of a sample of the tuples what its policy would retain of all, under the
same part of the memory: it drops the token with the smallest (priority, order of arrival), the new
one included. So the results of its tokens, over the rate of the sample, are what the policy would
have kept. One in so many tuples of each cell of keys becomes a token, from a random one on, so that
popular keys are sampled in proportion. Nothing here depends on what the join retains.

Priorities are those of `shed.worth`. Counts of keys are a sketch with decay, as in the engine where
windows are large (`estimators.frequency`), in two rows of cells, of which the lower one counts.
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled.kernel import kernel, part, step
from tidegate.estimators.hashes import mark_of
from tidegate.estimators.importance import combined
from tidegate.race.race_records import NOBODY
from tidegate.shed.shed_records import (
    AGE,
    CUMULATIVE,
    DIMPPROB,
    OUTPUT,
    PROB,
    RANDOM,
    RECENT,
    SIMP,
    UNTIL_EXPIRY,
)
from tidegate.shed.split import CLEARLY_FASTER, EVERY, REMEMBERED
from tidegate.shed.worth import chance, life_left
from tidegate.windows.arrivals import earliest

DECAY, GAIN = 0.99, 0.1  # of DGL
FADES, FADING = 5, 0.8  # of the counts: so often in a window, and what is left
SLOWLY = 0.956  # what is left of the results of keys, which fade once in a window
_SMALLEST_SCALE = 1e-200


@step
def _cell(course, mark, row):
    """Where a row counts a key: by the low bits of its hash, or by others."""
    return (mark >> (18 * row)) & (course.counts.shape[2] - 1)


@step
def _bucket(course, mark):
    return (mark >> 8) & (len(course.buckets) - 1)


@part
def _count_of(course, mark, stream):
    """How often a key came on a stream: about so many times in a window."""
    one = course.counts[stream, 0, _cell(course, mark, 0)]
    return np.float64(min(one, course.counts[stream, 1, _cell(course, mark, 1)]))


@part
def _earned_of(course, mark):
    """How many results a key had of late."""
    one = course.earned[0, _cell(course, mark, 0)]
    return np.float64(min(one, course.earned[1, _cell(course, mark, 1)]))


@part
def _fade(course):
    counts = course.counts
    for row in range(2):
        for cell in range(counts.shape[2]):
            course.earned[row, cell] *= np.float32(SLOWLY)
    for stream in range(counts.shape[0]):
        for row in range(2):
            for cell in range(counts.shape[2]):
                counts[stream, row, cell] *= np.float32(FADING)


# --- what a token is worth ---------------------------------------------------------------


@step
def _age_bucket(course, stream, age):
    ages = course.worths.shape[1]
    return min(ages - 1, age * ages // max(np.int64(1), course.streams[stream].window + 1))


@step
def _precedence(course, kind, stream):
    """split="auto": the stream whose opposite one is clearly faster is kept, where priorities of
    streams cannot be compared."""
    above = 0
    if course.head[0].planned:
        by_pace = kind == RECENT or kind == UNTIL_EXPIRY or kind == RANDOM
        if by_pace or kind == CUMULATIVE or kind == OUTPUT:
            above = course.streams[stream].precedence
    return np.int64(above)


@step
def _plan(course, stream, clock):
    """Count an arrival; before that, plan which stream is clearly faster, as `shed.split` does."""
    head, one, other = course.head[0], course.streams[0], course.streams[1]
    if head.until_plan <= 0 and clock > head.instant:
        came = one.arrived > 0.0 and other.arrived > 0.0
        one.precedence = came and other.arrived > CLEARLY_FASTER * one.arrived
        other.precedence = came and one.arrived > CLEARLY_FASTER * other.arrived
        if came:
            one.arrived *= 0.5 ** (1.0 / REMEMBERED)
            other.arrived *= 0.5 ** (1.0 / REMEMBERED)
            head.until_plan = EVERY
    head.instant = clock
    head.until_plan -= 1
    course.streams[stream].arrived += 1.0


@part
def _priority(course, kind, token, matches):
    """What a policy says of a token; `matches` is the count of its key on the opposite stream, or
    for OUTPUT that of its results."""
    stream = np.int64(token.stream)
    other = 1 - stream
    priority = 0.0
    if kind == RECENT:
        priority = np.float64(token.order)
    elif kind == UNTIL_EXPIRY:
        priority = -np.float64(token.order)
    elif kind == RANDOM:
        priority = chance(course.head[0].seed, stream, token.order)
    elif kind == CUMULATIVE:
        priority = token.gained * course.streams[stream].scale
    elif kind == OUTPUT:
        priority = matches
    elif kind == AGE:
        age = course.head[0].clock - token.time
        priority = course.worths[stream, _age_bucket(course, stream, max(np.int64(0), age))]
    else:
        priority = matches if kind == PROB or kind == DIMPPROB else 1.0
        if kind == DIMPPROB or kind == SIMP:
            priority *= token.importance
        if course.head[0].planned and kind == SIMP:
            priority *= course.streams[other].arrived
        elif course.head[0].planned:
            priority /= max(np.int64(1), course.streams[other].window)
    return priority


# --- tokens ------------------------------------------------------------------------------


@step
def _has(token, contender):
    """Does a contender hold this token?"""
    return (np.int64(token.held) >> contender) & 1


@step
def _unlink(course, place):
    tokens = course.tokens
    bucket = _bucket(course, np.int64(tokens[place].mark))
    at = np.int64(course.buckets[bucket])
    if at == place:
        course.buckets[bucket] = tokens[place].next
    else:
        while tokens[at].next != place:
            at = np.int64(tokens[at].next)
        tokens[at].next = tokens[place].next


@part
def _spend(course, token, until):
    """The time that a random token has spent at each age since its last account."""
    stream = np.int64(token.stream)
    ages = course.trials.shape[1]
    width = max(1.0, np.float64(course.streams[stream].window + 1) / ages)
    age = np.float64(until - token.time)
    for bucket in range(ages):
        course.trials[stream, bucket] += max(0.0, min(width, age - bucket * width))


@step
def _drop(course, place, contender):
    """A contender drops a token; nobody holds it, nobody keeps it."""
    token = course.tokens[place]
    if course.contenders[contender].kind == RANDOM:
        _spend(course, token, course.head[0].clock)
    token.held = np.uint8(np.int64(token.held) & ~(np.int64(1) << contender))
    if token.held == 0:
        _unlink(course, place)


@part
def _bury(course):
    """Tokens that are dead are dropped by all."""
    head = course.head[0]
    for place in range(len(course.tokens)):
        token = course.tokens[place]
        if token.held and token.time + course.streams[token.stream].window < head.watermark:
            for contender in range(len(course.contenders)):
                if _has(token, contender):
                    _drop(course, place, contender)


@part
def _enlist(course, mark, time, importance, stream):
    """A token for a tuple, held by all; returns its place."""
    place = np.int64(0)
    while course.tokens[place].held:
        place += 1
    token = course.tokens[place]
    token.mark, token.time, token.importance = np.uint32(mark), time, importance
    token.order, token.stream = course.head[0].order, np.uint8(stream)
    matches = _count_of(course, mark, 1 - stream)
    token.gained = importance * (1.0 + GAIN * matches) / course.streams[stream].scale
    token.held = np.uint8((np.int64(1) << len(course.contenders)) - 1)
    bucket = _bucket(course, mark)
    token.next = course.buckets[bucket]
    course.buckets[bucket] = place
    return place


@part
def _shed(course, contender, account):
    """Let a contender drop its least token, if it holds more than it may."""
    tokens, kind = course.tokens, course.contenders[contender].kind
    held, victim = np.int64(0), np.int64(NOBODY)
    precedence, least, order = np.int64(0), 0.0, np.int64(0)
    for place in range(len(tokens)):
        token = tokens[place]
        stream = np.int64(token.stream)
        is_held = _has(token, contender)
        if is_held and course.streams[stream].account == account:
            held += 1
            above = _precedence(course, kind, stream)
            matches = 0.0
            if kind == PROB or kind == DIMPPROB:
                matches = _count_of(course, np.int64(token.mark), 1 - stream)
            elif kind == OUTPUT:
                matches = _earned_of(course, np.int64(token.mark))
            priority = _priority(course, kind, token, matches)
            first = above < precedence or (
                above == precedence
                and (priority < least or (priority == least and token.order < order))
            )
            if victim < 0 or first:
                victim, precedence, least, order = np.int64(place), above, priority, token.order
    if held > course.capacity[account]:
        _drop(course, victim, contender)


# --- arrivals ----------------------------------------------------------------------------


@step
def _meet(course, mark, time, importance, stream):
    """Contenders earn the results that an arrival has with their tokens."""
    head, other = course.head[0], 1 - stream
    place = np.int64(course.buckets[_bucket(course, mark)])
    while place != NOBODY:
        token = course.tokens[place]
        if np.int64(token.mark) == mark and token.stream == other:
            age = time - token.time
            window = course.streams[other].window if age >= 0 else course.streams[stream].window
            if abs(age) <= window:
                worth = 1.0
                if head.weighed:
                    worth = combined(head.combine, token.importance, importance)
                for contender in range(len(course.contenders)):
                    if _has(token, contender):
                        course.contenders[contender].found += worth
                        if course.contenders[contender].kind == OUTPUT:
                            for row in range(2):
                                course.earned[row, _cell(course, mark, row)] += np.float32(1.0)
                        elif course.contenders[contender].kind == RANDOM:
                            bucket = _age_bucket(course, other, max(np.int64(0), age))
                            course.hits[other, bucket] += 1.0
                left = life_left(token.time, time, course.streams[other].window)
                matches = _count_of(course, mark, stream)
                gain = GAIN * token.importance * matches * left
                token.gained = token.gained / DECAY + gain / course.streams[other].scale
        place = np.int64(token.next)


@step
def _decay(course, stream):
    """DGL: what the members of a stream are worth, until they meet an arrival."""
    lane = course.streams[stream]
    lane.scale *= DECAY
    if lane.scale < _SMALLEST_SCALE:
        for place in range(len(course.tokens)):
            if course.tokens[place].stream == stream:
                course.tokens[place].gained *= lane.scale
        lane.scale = 1.0


@step
def _count(course, mark, stream):
    """Count an arrival in; does it become a token?"""
    cell = _cell(course, mark, 0)
    course.counts[stream, 0, cell] += np.float32(1.0)
    course.counts[stream, 1, _cell(course, mark, 1)] += np.float32(1.0)
    phase = np.float64(course.phases[stream, cell]) + course.head[0].rate
    chosen = phase >= 1.0
    course.phases[stream, cell] = np.float32(phase - 1.0 if chosen else phase)
    return chosen


@step
def _tick(course, time):
    head = course.head[0]
    if time > head.clock:
        head.clock = time
        if not head.external:
            head.watermark = time - head.lateness
        if FADES * (time - head.faded) > head.span:
            _fade(course)
            head.faded = time


@kernel
def race(course, arrivals, cursor):
    """Take the arrivals of a push in their order."""
    head = course.head[0]
    while True:
        stream = earliest(arrivals.time, cursor, arrivals.end)
        if stream < 0:
            return
        arrival = cursor[stream]
        cursor[stream] += 1
        time, mark = arrivals.time[arrival], mark_of(arrivals.code[arrival])
        if time < head.watermark:
            continue
        _tick(course, time)
        head.order += 1
        _plan(course, stream, head.clock)
        _decay(course, 1 - stream)
        if not arrivals.matchable[arrival]:
            continue
        importance = arrivals.importance[arrival] if head.weighed else 1.0
        _meet(course, mark, time, importance, stream)
        if _count(course, mark, stream) and course.streams[stream].window > 0:
            _bury(course)
            _enlist(course, mark, time, importance, stream)
            for contender in range(len(course.contenders)):
                _shed(course, contender, course.streams[stream].account)
