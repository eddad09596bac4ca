"""The driver of two-way joins under a budget: expire -> probe -> emit -> learn -> shed -> admit.

Law: the steps are those of `two_way`, and the same in the same order; what a budget adds (seeing
every arrival, naming victims, charging) stands here, so that an exact join is compiled without it.
"""

from __future__ import annotations

import numpy as np

from tidegate.binding.spec_records import HASH
from tidegate.compiled import layout
from tidegate.compiled.kernel import inlined, kernel, step
from tidegate.driver import two_way
from tidegate.driver.two_way import ANYBODY, DONE, NEED_OUTPUT
from tidegate.estimate import age_curve, frequency, importance
from tidegate.index import hash_table
from tidegate.shed import ages, budget, learning, split, victims, worth
from tidegate.shed.shed_records import AGE, BY_AGE, BY_KEY, CUMULATIVE, OUTPUT, RANDOM, VALUE
from tidegate.windows import lifetime
from tidegate.windows.arrivals import earliest

NEVER = 2  # precedence of a monitor: it goes after all others


@inlined
def importance_of(state, arrivals, arrival):
    return arrivals.importance[arrival] if state.gate[0].has_importance else 1.0


@step
def see(state, shed, arrivals, stream, arrival):
    """Learn from an arrival. Its key, if the policy counts keys, is held until `settle_key`."""
    rule = shed.rule
    queues = shed.queues
    clock = state.gate[0].clock
    if not rule[0].begun:
        rule[0].begun = 1
        rule[0].first = rule[0].faded = clock
    moment = clock if state.lanes[stream].is_time_window else queues[stream].seen
    learning.pace(queues, stream, moment, state.lanes[stream].window)
    for lane in range(len(queues)):
        is_time_window = state.lanes[lane].is_time_window
        queues[lane].now = clock if is_time_window else queues[lane].seen - 1
    if rule[0].planned:
        queues[stream].arrived += 1.0
        rule[0].until_plan -= 1
        if rule[0].until_plan <= 0:
            split.make(rule, queues, state.lanes)
    if rule[0].keyed:
        see_key(state, shed, arrivals, stream, arrival, moment)
    if rule[0].kind == CUMULATIVE:
        victims.decay(shed, 1 - stream)
    elif rule[0].kind == VALUE:
        if state.gate[0].has_importance:
            importance.observe(shed.importances, stream, arrivals.importance[arrival])
        rule[0].refresh -= 1
        if rule[0].refresh <= 0:
            learning.refresh(shed, state.gate[0].combine, state.gate[0].has_importance)


@inlined
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
            if learning.is_due(book.pages, book.log, lane, horizon):
                learning.count_out(shed, lane, horizon)
        if book.pages[stream].length == book.log.shape[1]:
            frequency.give_up_log(book.book, book.pages, book.log, book.keys)
            rule[0].statistics = frequency.SKETCHED
            rule[0].faded = state.gate[0].clock
            rule[0].quiet = 0
    elif rule[0].statistics == frequency.FADED or rule[0].statistics == frequency.SKETCHED:
        rule[0].quiet += 1
        if rule[0].quiet >= learning.SMALLEST_FADE:
            elapsed = rule[0].quiet
            if state.lanes[0].is_time_window or state.lanes[1].is_time_window:
                elapsed = state.gate[0].clock - rule[0].faded
            if rule[0].statistics == frequency.SKETCHED:
                elapsed *= frequency.FADES
            if elapsed > rule[0].fade_after:
                learning.fade(shed)
                rule[0].faded = state.gate[0].clock
    key = np.int64(frequency.NO_KEY)
    if arrivals.matchable[arrival]:
        key = learning.key_for(shed, arrivals.code[arrival])
    frequency.hold(book.keys, key)
    learning.count_in(shed, stream, moment, key)


@inlined
def key_of(state, shed, arrivals, arrival):
    """The key of an arrival that was seen."""
    key = np.int64(frequency.NO_KEY)
    if shed.rule[0].keyed and arrivals.matchable[arrival]:
        book = shed.frequency
        key = max(key, frequency.find(book.table, book.keys, arrivals.code[arrival]))
    return key


@inlined
def produced(state, shed, arrivals, arrival, count):
    """An arrival that was seen has completed so many results."""
    if count > 0 and shed.rule[0].kind == OUTPUT:
        shed.frequency.counts[key_of(state, shed, arrivals, arrival), 0] += count


@step
def matched(state, shed, arrivals, arrival, work, stream, count):
    """The arrival has met the members in `work.found`; what follows for them."""
    rule = shed.rule
    kind = rule[0].kind
    if kind == CUMULATIVE or kind == VALUE or rule[0].watched:
        weighed = state.gate[0].has_importance
        now = shed.queues[1 - stream].now
        for k in range(count):
            slot = work.found[k]
            own = state.importance[slot] if weighed else 1.0
            if rule[0].watched:
                learning.watch(shed, slot, now)
            if kind == CUMULATIVE:
                learning.gain(shed, slot, own, now, state.lanes[1 - stream].window)
            elif kind == VALUE:
                partner = importance_of(state, arrivals, arrival)
                learning.score_again(shed, slot, state.gate[0].combine, weighed, partner)


@inlined
def forget(state, shed, stream, slot, complete):
    """Remove a tuple of `stream` from budget, index and window alike."""
    if shed.members[slot].order >= 0:
        budget.leave(shed, state.lanes[stream].account, state.accounts, slot, complete)
        if complete and shed.rule[0].kind == AGE and shed.rule[0].watched:
            learning.learn_curve(shed, stream)
    two_way.forget(state, stream, slot)


@step
def expire(state, shed):
    """Forget all that is dead at the watermark."""
    watermark = state.gate[0].watermark
    line = -1  # first the late tuples of all streams, then line by line
    while line < len(state.lanes):
        if line < 0:
            slot = lifetime.expired_late(state.notes, state.pool, state.late, watermark)
        else:
            slot = lifetime.expired_head(
                state.slots, state.notes, state.lanes, state.lines, line, watermark
            )
        if slot < 0:
            line += 1
        else:
            stream = np.int64(state.notes[slot].stream) if line < 0 else line
            state.lanes[stream].expired += 1
            forget(state, shed, stream, slot, True)


@inlined
def count_taken(state, stream):
    """Count an arrival as taken."""
    state.lanes[stream].taken += 1
    state.gate[0].order += 1


@inlined
def appraise(state, shed, arrivals, stream, arrival, key, size):
    """Priority and base of an arrival that was just taken."""
    rule = shed.rule
    own = importance_of(state, arrivals, arrival)
    order = state.gate[0].order - 1
    moment = shed.queues[stream].now
    # Of an instant's tuples in a count window, only the last is as young as the window.
    born = moment if state.lanes[stream].is_time_window else state.lanes[stream].taken - 1
    if rule[0].standing == BY_AGE:
        stage = ages.stage_of(shed.stages, stream, born, moment)
        priority, base = ages.rank(shed.stages, stream, stage, order)
    else:
        first = rule[0].first if state.lanes[stream].is_time_window else 0
        time = worth.windows_since(first, moment, state.lanes[stream].window)
        base = worth.base_of(rule, own, time)
        counts = shed.frequency.counts
        if rule[0].standing == BY_KEY:
            priority = worth.group_priority(rule, worth.key_worth(rule, counts, key, stream), base)
        elif rule[0].kind == VALUE:
            priority = worth.score(
                rule, shed.stages, shed.importances, shed.rates, counts, state.gate[0].combine,
                state.gate[0].has_importance, stream, key, own, born, moment, size,
            )  # fmt: skip
        else:
            random = 0.0
            if rule[0].kind == RANDOM:
                random = worth.chance(state.gate[0].seed, stream, state.lanes[stream].taken - 1)
            priority = worth.at_arrival(rule, counts, key, stream, own, random)
    return priority, base


@inlined
def victim_for(state, shed, stream, priority, base):
    """Who goes so that a tuple of this worth can stay; REFUSED if it is the tuple itself."""
    account = state.lanes[stream].account
    queues = shed.queues
    victim = np.int64(budget.REFUSED)
    precedence = queues[stream].precedence if priority < np.inf else NEVER
    least, lowest, order = priority * queues[stream].factor, base, state.gate[0].order
    for lane in range(len(state.lanes)):
        if state.lanes[lane].account == account:
            slot, its_priority, its_base = budget.first_to_go(
                shed, lane, state.gate[0].combine, state.gate[0].has_importance
            )
            its_priority *= queues[lane].factor
            if slot >= 0 and (
                queues[lane].precedence < precedence
                or (
                    queues[lane].precedence == precedence
                    and budget.goes_first(
                        its_priority, its_base, shed.members[slot].order, least, lowest, order
                    )
                )
            ):
                victim, precedence = slot, queues[lane].precedence
                least, lowest, order = its_priority, its_base, shed.members[slot].order
    return victim


@inlined
def make_room(state, shed, stream, size, priority, base):
    """Let go whom a full count window or the budget does not let live; False if the tuple that
    was taken is refused instead."""
    account = state.lanes[stream].account
    by_count = not state.lanes[stream].is_time_window
    stays = True
    while stays:
        slot = np.int64(victims.NOBODY)
        if by_count:
            slot = lifetime.expired_head(
                state.slots, state.notes, state.lanes, state.lines, stream, 0
            )
        complete = slot >= 0
        by_count = complete
        if not complete:
            if state.accounts[account].used + size > state.accounts[account].capacity:
                slot = np.int64(budget.REFUSED)
                if size <= state.accounts[account].capacity:
                    slot = victim_for(state, shed, stream, priority, base)
        stays = slot != budget.REFUSED
        if slot < 0:
            break
        loser = np.int64(shed.members[slot].stream)
        if complete:
            state.lanes[loser].expired += 1
        else:
            state.lanes[loser].evicted += 1
        forget(state, shed, loser, slot, complete)
        if not complete and shed.rule[0].standing != BY_AGE:
            victims.drop_top(shed, loser, slot)
            warm_victim(state, shed, loser)
    return stays


@inlined
def charge(state, shed, stream, slot, key, size, priority, base, monitor):
    """The tuple in `slot` is retained from now on."""
    member = shed.members[slot]
    member.priority = priority
    if shed.rule[0].kind == CUMULATIVE:
        member.priority = priority / shed.queues[stream].scale
    member.basis = base
    member.order = state.gate[0].order - 1
    if state.lanes[stream].is_time_window:
        member.born = shed.queues[stream].now
    else:
        member.born = state.lanes[stream].taken - 1
    member.cost = size
    member.stream = stream
    member.key = key
    member.monitor = monitor
    budget.enter(shed, state.lanes[stream].account, state.accounts, slot)


@inlined
def monitor_for(state, shed, stream):
    """Whether the tuple just taken is one of those that are kept for their whole life."""
    monitor = np.int64(age_curve.NO_MONITOR)
    if shed.rule[0].watched:
        monitor = age_curve.begin(shed.curve, stream, shed.queues[stream].pace)
    return monitor


@step
def admit(state, shed, arrivals, stream, arrival):
    """Retain the arrival if its window and the budget let it live."""
    key = key_of(state, shed, arrivals, arrival)
    if not state.lanes[stream].is_time_window and state.lanes[stream].window == 0:
        state.lanes[stream].expired += 1
    else:
        size = arrivals.size[arrival] if state.gate[0].by_bytes else 1
        priority, base = appraise(state, shed, arrivals, stream, arrival, key, size)
        monitor = monitor_for(state, shed, stream)
        if make_room(state, shed, stream, size, np.inf if monitor >= 0 else priority, base):
            slot = two_way.settle(state, arrivals, stream, arrival, state.gate[0].order - 1)
            charge(state, shed, stream, slot, key, size, priority, base, monitor)
        else:
            state.lanes[stream].refused += 1
            if monitor >= 0:
                age_curve.end(shed.curve, stream, monitor, False)
    settle_key(shed, key)


@inlined
def settle_key(shed, key):
    """The arrival is admitted or gone: its key is held only by what remembers it."""
    if shed.rule[0].keyed:
        book = shed.frequency
        frequency.let_go(book.book, book.table, book.keys, key)


@step
def look_ahead(state, shed, arrivals, stream, arrival):
    """Bring near what soon arrivals, those soon counted out and the next victims will touch."""
    last = arrivals.end[stream] - 1
    far = arrivals.code[min(arrival + 2 * two_way.AHEAD, last)]
    soon = arrivals.code[min(arrival + two_way.AHEAD, last)]
    next_ = arrivals.code[min(arrival + two_way.AHEAD // 2, last)]
    if state.lanes[0].index == HASH and state.lanes[1].index == HASH:
        warm_index(state, shed, stream, far, soon, next_)
    if shed.rule[0].keyed:
        warm_keys(shed, stream, far, soon, next_)
    warm_expiring(state, shed, stream)
    if shed.rule[0].standing != BY_AGE:
        warm_around_victim(state, shed, stream)


@inlined
def warm_index(state, shed, stream, far, soon, next_):
    """The chains that soon arrivals will probe and join, and the members that they will meet."""
    other = 1 - stream
    hash_table.warm_bucket(state.buckets, hash_table.bucket_of(state.buckets, far))
    bucket = hash_table.bucket_of(state.buckets, soon)
    hash_table.warm_chain(state.buckets, state.slots, other, hash_table.OLDEST, bucket)
    hash_table.warm_chain(state.buckets, state.slots, stream, hash_table.NEWEST, bucket)
    bucket = hash_table.bucket_of(state.buckets, next_)
    hash_table.warm_second(state.buckets, state.slots, other, bucket)
    if shed.rule[0].kind == CUMULATIVE or shed.rule[0].kind == VALUE or shed.rule[0].watched:
        slot = np.int64(state.buckets[bucket, other, hash_table.OLDEST])
        if slot >= 0:
            layout.warm(shed.members, slot)


@inlined
def warm_keys(shed, stream, far, soon, next_):
    """The keys of soon arrivals and of those soon counted out; by key, whom they will join."""
    book = shed.frequency
    frequency.warm_place(book.table, far)
    key = np.int64(max(0, book.table[frequency.place_of(book.table, soon)]))
    layout.warm(book.keys, key)
    key = np.int64(max(0, book.table[frequency.place_of(book.table, next_)]))
    warm_root(shed, key, stream)
    if shed.rule[0].statistics == frequency.WINDOW:
        key = frequency.line_ahead(book.pages, book.log, stream, 2 * two_way.AHEAD)
        layout.warm(book.keys, key)
        key = frequency.line_ahead(book.pages, book.log, stream, two_way.AHEAD)
        frequency.warm_place(book.table, book.keys[key].code)
        warm_root(shed, key, 1 - stream)


@inlined
def warm_root(shed, key, stream):
    if shed.rule[0].standing == BY_KEY:
        slot = np.int64(shed.groups[key, stream].root)
        if slot >= 0:
            layout.warm(shed.members, slot)


@inlined
def warm_slot(state, shed, slot):
    layout.warm(shed.members, slot)
    layout.warm(state.slots, slot)
    layout.warm(state.notes, slot)


@inlined
def warm_victim(state, shed, stream):
    """The next victim stands at the top: bring near what it holds."""
    if shed.queues[stream].near > 0:
        holder = np.int64(shed.heaps[stream, 0].holder)
        if shed.rule[0].standing == BY_KEY:
            layout.warm(shed.frequency.keys, holder)
        else:
            warm_slot(state, shed, holder)


@inlined
def warm_around_victim(state, shed, stream):
    """What it holds is near by now: bring near what that names."""
    if shed.queues[stream].near > 0:
        holder = np.int64(shed.heaps[stream, 0].holder)
        if shed.rule[0].standing == BY_KEY:
            slot = np.int64(shed.groups[holder, stream].root)
            code = shed.frequency.keys[holder].code
            if slot >= 0:
                warm_slot(state, shed, slot)
        else:
            code = state.slots[holder].code
            if shed.rule[0].keyed:
                key = np.int64(shed.members[holder].key)
                layout.warm(shed.frequency.keys, key)
        hash_table.warm_bucket(state.buckets, hash_table.bucket_of(state.buckets, code))


@inlined
def warm_expiring(state, shed, stream):
    """The heads of a line leave next, if nobody makes them leave before."""
    lane = state.lanes[stream]
    if lane.begin + 2 * two_way.AHEAD < lane.end:
        slot = np.int64(state.lines[stream, lane.begin + 2 * two_way.AHEAD])
        if slot >= 0:
            warm_slot(state, shed, slot)
        slot = np.int64(state.lines[stream, lane.begin + two_way.AHEAD])
        if slot >= 0:
            bucket = hash_table.bucket_of(state.buckets, state.slots[slot].code)
            hash_table.warm_bucket(state.buckets, bucket)
            if shed.rule[0].keyed:
                key = np.int64(shed.members[slot].key)
                layout.warm(shed.frequency.keys, key)


@kernel
def run(state, shed, arrivals, work, output):
    """Take arrivals one by one until all are taken or something is needed."""
    cursor = work.cursor
    while True:
        stream = earliest(arrivals.time, cursor, arrivals.end)
        if stream < 0:
            return DONE
        arrival = cursor[stream]
        if not two_way.in_time(state.gate, arrivals.time[arrival]):
            state.lanes[stream].too_late += 1
            cursor[stream] += 1
            continue
        look_ahead(state, shed, arrivals, stream, arrival)
        expire(state, shed)
        missing = two_way.missing_room(state, arrivals, stream, arrival)
        if missing != DONE:
            return missing
        count = two_way.probe(state, arrivals, work, output, stream, arrival, ANYBODY)
        if count < 0:
            return NEED_OUTPUT
        count_taken(state, stream)
        see(state, shed, arrivals, stream, arrival)
        produced(state, shed, arrivals, arrival, count)
        matched(state, shed, arrivals, arrival, work, stream, count)
        admit(state, shed, arrivals, stream, arrival)
        lifetime.note_peak(state.pool, state.lanes[stream])
        cursor[stream] += 1


@kernel
def expire_now(state, shed):
    """Forget what is dead at the watermark, without an arrival."""
    expire(state, shed)
