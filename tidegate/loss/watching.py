"""The compiled part of a sentinel: who is in the sample, and which results its tuples have.

Law: a result belongs to the tuple of it that came first. `watch` counts all results of each witness
that exist, `credit` those of them that the join gave out; both divide a result by the rate that its
witness had when the result's last tuple came. So the sums over witnesses are unbiased for the sums
over all tuples, whichever tuples the join sheds.

Taking a tuple is decided by a hash of its number, not by its key: popular keys are met as often as
they come, and no single key can rule the estimate.
"""

from __future__ import annotations

import numpy as np

from tidegate.compiled.kernel import kernel, step
from tidegate.estimators.importance import combined
from tidegate.loss.witness_records import MOST_CHANGES, NOBODY, NOWHERE
from tidegate.windows.arrivals import earliest

DONE, NEEDS_ROOM = range(2)
_MIX_1 = np.uint64(0xFF51AFD7ED558CCD)
_MIX_2 = np.uint64(0xC4CEB9FE1A85EC53)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)
_LOW = np.uint64(11)
_UNIT = 2.0**-53
_LESS, _MORE = 0.75, 1.25  # by which the rate changes


@step
def _mixed(number):
    number = (number ^ (number >> _SHIFT)) * _MIX_1
    number = (number ^ (number >> _SHIFT)) * _MIX_2
    return number ^ (number >> _SHIFT)


@step
def _start_of(seed, stream):
    """Where the draws of a stream begin."""
    return _mixed(seed + _STEP * np.uint64(stream + 1))


@step
def _drawn(start, number):
    """A number in [0, 1) for the tuple with this number of its stream."""
    return np.float64(_mixed(start + _STEP * np.uint64(number)) >> _LOW) * _UNIT


@step
def _bucket_of(code, buckets):
    mixed = np.uint64(code) * _STEP  # its high bits depend on all bits of the code
    return np.int64((mixed >> _SHIFT) & np.uint64(len(buckets) - 1))


@kernel
def place_all(roster, alive, held, buckets):
    """Put the witnesses in `alive` into their buckets, and nobody else."""
    buckets[:] = NOBODY
    for k in range(held):
        _place(roster, alive[k], buckets)


@step
def _place(roster, number, buckets):
    bucket = _bucket_of(roster[number].code, buckets)
    roster[number].older = buckets[bucket]
    buckets[bucket] = number


@step
def _keep_some(sentinel, roster, alive, buckets, windows):
    """Leave those out of the sample that are dead or above the rate."""
    held = 0
    for k in range(sentinel[0].held):
        witness = roster[alive[k]]
        if witness.time + windows[witness.stream] < sentinel[0].watermark:
            witness.dead = 1
        elif witness.draw >= sentinel[0].rate:
            witness.dead = 1
        else:
            witness.rate = min(witness.rate, sentinel[0].rate)
            alive[held] = alive[k]
            held += 1
    sentinel[0].held = held
    buckets[:] = NOBODY
    for k in range(held):
        _place(roster, alive[k], buckets)


@step
def _change_rate(sentinel, changes, factor, time, stream, place):
    sentinel[0].rate = min(1.0, sentinel[0].rate * factor)
    change = changes[sentinel[0].changes]
    change.time = time
    change.stream = stream
    change.place = place
    change.rate = sentinel[0].rate
    sentinel[0].changes += 1


@step
def _meet(sentinel, roster, buckets, windows, arrivals, stream, arrival):
    """The results that an arrival has with witnesses."""
    code = arrivals.code[arrival]
    time = arrivals.time[arrival]
    number = buckets[_bucket_of(code, buckets)]
    while number != NOBODY:
        witness = roster[number]
        number = witness.older
        if witness.code == code and witness.stream != stream:
            age = time - witness.time
            if age >= 0:
                meets = age <= windows[witness.stream]
            else:
                meets = -age <= windows[stream]
            if meets:
                witness.exact += 1.0 / witness.rate
                if sentinel[0].has_importance:
                    worth = combined(
                        sentinel[0].combine, witness.importance, arrivals.importance[arrival]
                    )
                    witness.exact_worth += worth / witness.rate


@step
def _enlist(sentinel, roster, alive, buckets, arrivals, stream, arrival, draw):
    number = sentinel[0].listed
    witness = roster[number]
    witness.time = arrivals.time[arrival]
    witness.code = arrivals.code[arrival]
    witness.address = arrivals.row[arrival]
    witness.importance = 1.0
    if sentinel[0].has_importance:
        witness.importance = arrivals.importance[arrival]
    witness.draw = draw
    witness.rate = sentinel[0].rate
    witness.rate_at_first = sentinel[0].rate
    witness.exact = witness.kept = witness.exact_worth = witness.kept_worth = 0.0
    witness.count = 1.0 / witness.rate
    witness.stream = stream
    witness.first_change = sentinel[0].changes
    witness.dead = 0
    _place(roster, number, buckets)
    alive[sentinel[0].held] = number
    sentinel[0].held += 1
    sentinel[0].peak = max(sentinel[0].peak, sentinel[0].held)
    sentinel[0].listed += 1


@step
def _make_room(sentinel, roster, alive, buckets, windows, changes, time, stream, place):
    """When the sample is full: the dead go, and if they are few the rate is lowered."""
    _keep_some(sentinel, roster, alive, buckets, windows)
    while sentinel[0].held > sentinel[0].most - sentinel[0].most // 8 - 1:
        _change_rate(sentinel, changes, _LESS, time, stream, place)
        _keep_some(sentinel, roster, alive, buckets, windows)


@step
def _may_grow(sentinel, roster, alive, buckets, windows, changes, time, stream, place):
    """Once per window: where less than half of the room is used, the rate is raised."""
    if sentinel[0].check_at < time:
        sentinel[0].check_at = time + sentinel[0].longest
        if sentinel[0].rate < 1.0 and sentinel[0].changes < MOST_CHANGES // 2:
            _keep_some(sentinel, roster, alive, buckets, windows)
            if 2 * sentinel[0].held < sentinel[0].most:
                _change_rate(sentinel, changes, _MORE, time, stream, place)


@kernel
def watch(sentinel, roster, alive, buckets, windows, changes, arrivals, cursor, numbers):
    """Take the arrivals of a push in their order; stops when the roster is full."""
    gate = sentinel[0]
    first, second = _start_of(gate.seed, 0), _start_of(gate.seed, 1)
    while True:
        stream = earliest(arrivals.time, cursor, arrivals.end)
        if stream < 0:
            return DONE
        if gate.listed == len(roster):
            return NEEDS_ROOM
        arrival = cursor[stream]
        time = arrivals.time[arrival]
        cursor[stream] += 1
        number = numbers[stream]
        numbers[stream] += 1
        if time < gate.watermark:
            continue
        if time > gate.clock:
            gate.clock = time
            if not gate.external:
                gate.watermark = time - gate.lateness
        if arrivals.matchable[arrival]:
            gate.taken += 1
            _meet(sentinel, roster, buckets, windows, arrivals, stream, arrival)
            draw = _drawn(first if stream == 0 else second, number)
            if draw < gate.rate:
                if gate.held == gate.most:
                    _make_room(
                        sentinel, roster, alive, buckets, windows, changes, time, stream, arrival
                    )
                if draw < gate.rate:
                    _enlist(sentinel, roster, alive, buckets, arrivals, stream, arrival, draw)
        _may_grow(sentinel, roster, alive, buckets, windows, changes, time, stream, arrival)


# --- what the join gave out ----------------------------------------------------------------


@kernel
def list_places(places, roster, first, stop, base):
    """Write the numbers of witnesses that came in earlier pushes to a table by address."""
    places[:] = NOBODY
    mask = len(places) - 1
    for number in range(first, stop):
        witness = roster[number]
        if witness.address != NOWHERE and witness.address < base[witness.stream]:
            place = (2 * witness.address + witness.stream) & mask
            while places[place] != NOBODY:
                place = (place + 1) & mask
            places[place] = number


@step
def _known(places, roster, stream, address):
    """The witness of an earlier push at this address, or NOBODY."""
    mask = len(places) - 1
    place = (2 * address + stream) & mask
    number = np.int64(places[place])
    while number != NOBODY:
        if roster[number].address == address and roster[number].stream == stream:
            break
        place = (place + 1) & mask
        number = np.int64(places[place])
    return number


@step
def _rate_then(roster, number, changes, count, arrivals, stream, arrival):
    """The rate of a witness when this arrival came; 0 if it was not in the sample any more."""
    witness = roster[number]
    rate = witness.rate_at_first
    time = arrivals.time[arrival]
    for k in range(witness.first_change, count):
        change = changes[k]
        later = change.time > time
        if change.time == time:
            later = change.stream > stream or (change.stream == stream and change.place >= arrival)
        if later:
            break
        rate = min(rate, change.rate)
    return rate if witness.draw < rate else 0.0


@kernel
def list_recent(who, roster, first, stop, arrivals, base, turns):
    """Write the numbers of witnesses that came in this push to their places among the arrivals."""
    who[:] = NOBODY
    for number in range(first, stop):
        witness = roster[number]
        who[_place_of(arrivals, base, turns, witness.stream, witness.address)] = number


@step
def _place_of(arrivals, base, turns, stream, address):
    """Where a row of this push stands among the arrivals."""
    place = arrivals.begin[stream] + address - base[stream]
    return turns[place] if len(turns) else place


@kernel
def credit(sentinel, roster, places, changes, arrivals, base, turns, who, output, count):
    """Add the first `count` results in `output` to the witnesses they belong to."""
    has_importance = sentinel[0].has_importance
    changed = sentinel[0].changes
    for result in range(count):
        left = output.rows[0, result]
        right = output.rows[1, result]
        last = np.int64(0)  # the stream of the tuple that completed the result
        if left < base[0]:
            number = _known(places, roster, 0, left)
            last = np.int64(1)
        elif right < base[1]:
            number = _known(places, roster, 1, right)
        else:
            place_0 = _place_of(arrivals, base, turns, 0, left)
            place_1 = _place_of(arrivals, base, turns, 1, right)
            if arrivals.time[place_0] <= arrivals.time[place_1]:
                number = np.int64(who[place_0])
                last = np.int64(1)
            else:
                number = np.int64(who[place_1])
        if number != NOBODY:
            rate = roster[number].rate_at_first
            if changed > 0:
                arrival = _place_of(arrivals, base, turns, last, right if last == 1 else left)
                rate = _rate_then(roster, number, changes, changed, arrivals, last, arrival)
            if rate > 0.0:
                roster[number].kept += 1.0 / rate
                if has_importance:
                    roster[number].kept_worth += output.importance[result] / rate
