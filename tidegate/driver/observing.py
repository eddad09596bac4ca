"""What shedding learns from an arrival and from whom it meets.

Law: every arrival that is taken is seen once, before it is admitted or refused; the tuples
that it met are updated once. Without a budget none of this is compiled.
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled.kernel import part, step
from tidegate.estimators import frequency, importance
from tidegate.shed import (
    learning,
    sampling,
    shadows,
    split,
    standing_patterns,
    standing_prospects,
    victims,
    worth,
)
from tidegate.shed.sample_records import EXPECTED
from tidegate.shed.shed_records import CUMULATIVE, OUTPUT, VALUE, VALUE_OF_KEYS
from tidegate.windows.arrivals import PASSES


@step
def importance_of(state, arrivals, arrival):
    return arrivals.importance[arrival] if state.gate[0].has_importance else 1.0


@part
def see(state, shed, arrivals, stream, arrival):
    """Learn from an arrival. Returns its key, which is held until `settle_key`; NO_KEY if the
    policy does not count keys."""
    key = np.int64(frequency.NO_KEY)
    rule = shed.rule
    queues = shed.queues
    clock = state.gate[0].clock
    if not rule[0].begun:
        rule[0].begun = 1
        rule[0].first = rule[0].faded = clock
        rule[0].instant = clock - 1
    moment = clock if state.lanes[stream].is_time_window else queues[stream].seen
    learning.pace(queues, stream, moment, state.lanes[stream].window)
    for lane in range(len(queues)):
        is_time_window = state.lanes[lane].is_time_window
        queues[lane].now = clock if is_time_window else queues[lane].seen - 1
    if rule[0].planned and arrivals.matchable[arrival] != PASSES:
        split.see(rule, queues, state.lanes, stream, clock)
    if rule[0].keyed:
        key = see_key(state, shed, arrivals, stream, arrival, moment)
    if rule[0].kind == CUMULATIVE:
        for lane in range(len(queues)):
            if lane != stream:
                victims.decay(shed, lane)
    elif rule[0].kind == VALUE_OF_KEYS:
        if state.gate[0].has_importance:
            importance.observe(shed.importances, stream, arrivals.importance[arrival])
    elif rule[0].kind == VALUE:
        if state.gate[0].has_importance:
            importance.observe(shed.importances, stream, arrivals.importance[arrival])
        rule[0].refresh -= 1
        if rule[0].refresh <= 0:
            learning.refresh(shed, state.gate[0].combine, state.gate[0].has_importance)
    return key


@step
def see_key(state, shed, arrivals, stream, arrival, moment):
    """Count what has left the full windows out and the arrival in; let old evidence fade."""
    rule = shed.rule
    book = shed.frequency
    if rule[0].statistics == frequency.WINDOW:
        for lane in range(len(state.lanes)):
            window = state.lanes[lane].window
            if state.lanes[lane].is_time_window:
                horizon = state.gate[0].watermark - window
            else:
                horizon = shed.queues[lane].seen - window
            if frequency.is_due(book, lane, horizon):
                learning.count_out(shed, lane, horizon)
        if book.pages[stream].length == book.log.shape[1]:
            frequency.give_up_log(book)
            rule[0].statistics = frequency.SKETCHED
            rule[0].faded = state.gate[0].clock
            rule[0].quiet = 0
    elif rule[0].statistics == frequency.FADED or rule[0].statistics == frequency.SKETCHED:
        rule[0].quiet += 1
        if rule[0].quiet >= learning.SMALLEST_FADE:
            elapsed = rule[0].quiet
            for lane in range(len(state.lanes)):
                if state.lanes[lane].is_time_window:
                    elapsed = state.gate[0].clock - rule[0].faded
            if rule[0].statistics == frequency.SKETCHED:
                elapsed *= frequency.FADES
            if elapsed > rule[0].fade_after:
                sampling.note_fade(shed.samples, elapsed)
                learning.fade(shed)
                rule[0].faded = state.gate[0].clock
    standing_prospects.tick(shed, shed.prospects, state.gate[0].clock)
    key = np.int64(frequency.NO_KEY)
    if arrivals.matchable[arrival]:
        key = learning.key_for(shed, arrivals.code[arrival])
    frequency.hold(book.keys, key)
    # A count window of no tuples never holds the arrival, not even until the next one comes.
    lives = state.lanes[stream].is_time_window or state.lanes[stream].window > 0
    learning.count_in(shed, stream, moment, key, lives)
    if rule[0].shadowed and key != frequency.NO_KEY:
        time = arrivals.time[arrival]
        is_timed = state.lanes[stream].is_time_window
        shadows.see(shed, stream, key, time, time if is_timed else shed.queues[stream].now)
    expect(shed, shed.samples, key, stream)
    standing_prospects.see(shed.prospects, key)
    return key


@step
def expect(shed, samples, key, stream):
    """How many results a sample is to expect from an arrival."""
    if samples is not None:
        if key != frequency.NO_KEY:
            samples.sums[EXPECTED] += worth.matches_of(shed.frequency.counts, key, stream)


@step
def key_of(shed, arrivals, arrival):
    """The key of an arrival that was seen."""
    key = np.int64(frequency.NO_KEY)
    if shed.rule[0].keyed and arrivals.matchable[arrival]:
        book = shed.frequency
        key = max(key, frequency.find(book, arrivals.code[arrival]))
    return key


@step
def produced(shed, prospects, key, count):
    """An arrival with this key has completed so many results; `prospects` are those of `shed`."""
    if count > 0 and shed.rule[0].kind == OUTPUT:
        shed.frequency.counts[key, 0] += count
    if prospects is not None:
        standing_prospects.produced(prospects, key, count)


@step
def matched(state, shed, patterns, arrivals, arrival, work, stream, count):
    """The arrival has met the members in `work.found`; what follows for them."""
    if patterns is not None:
        for k in range(count):
            standing_patterns.earn(shed, work.found[k], 1.0)
    else:
        learn_from(state, shed, arrivals, arrival, work, stream, count)


@step
def learn_from(state, shed, arrivals, arrival, work, stream, count):
    """The same for policies that know no patterns."""
    rule = shed.rule
    kind = rule[0].kind
    if kind == CUMULATIVE or kind == VALUE or rule[0].watched:
        weighed = state.gate[0].has_importance
        now = shed.queues[1 - stream].now
        for k in range(count):
            slot = work.found[k]
            own = state.importance[slot] if weighed else 1.0
            if rule[0].watched:
                learning.watch(shed, slot, now, 1.0)
            if kind == CUMULATIVE:
                learning.gain(shed, slot, own, now, state.lanes[1 - stream].window)
            elif kind == VALUE:
                partner = importance_of(state, arrivals, arrival)
                learning.score_again(shed, slot, state.gate[0].combine, weighed, partner)


@step
def settle_key(shed, key):
    """The arrival is admitted or gone: its key is held only by what remembers it."""
    if shed.rule[0].keyed:
        standing_prospects.settle(shed, shed.prospects, key)
        frequency.let_go(shed.frequency, key)
