"""Memory between the streams: `split="auto"`.

Law: one pool, and the tuple that earns least per unit of time goes, of whichever stream it is. So
memory flows to where another cell earns most, which is what srivastava2004 maximises (3.2.2 for the
age-based, 3.3 for the frequency-based model), and it follows the streams as they change.

For that, priorities of different streams must be of one currency, results per unit of time:

    matches m in a full window     m / length of that window
    rate of a key per arrival      x arrivals of the opposite stream
    worth at an age                results per unit of age already
    results of a key per window    as they are (VALUE with n streams)
    results per tuple of a pattern as they are: a stay is as long on every stream, for all we know
    importance alone               x arrivals of the opposite stream (kang2003, section 5.2.2)

Policies whose priority has no such meaning keep, as kang2003 (equation 16) shows for tuples that
are all alike, the stream whose opposite stream is faster; if both are as fast, none is preferred.

With n streams m is a product over the others, and an arrival on any of them completes m divided by
its own count: so m is multiplied by the sum of 1 / length over their windows. Where arrivals of the
opposite stream are meant, it is their mean over the others.

A stream with a time window of 0 whose tuples nobody meets after they were retained (its stream is
the last, or tuples of an instant meet without memory) gets no memory that another could use.

Tuples of equal time are taken stream by stream, so inside an instant one stream looks faster than
it is. Plans are therefore made between two instants, and streams count as equally fast until both
have arrived.
"""

from __future__ import annotations

from tidegate.compiled.kernel import part, step
from tidegate.estimators import frequency
from tidegate.shed.shed_records import (
    AGE,
    ARRIVAL_ORDER,
    DIMPPROB,
    PROB,
    SIMP,
    SIMPPROB,
    VALUE,
    VALUE_OF_KEYS,
)

EVERY = 64  # tuples between two plans, at least
REMEMBERED = 16  # plans after which an arrival counts half
CLEARLY_FASTER = 1.1


@part
def see(rule, queues, lanes, stream, clock):
    """Count an arrival; before that, plan again if it begins an instant and EVERY tuples came."""
    if rule[0].until_plan <= 0 and clock > rule[0].instant:
        make(rule, queues, lanes)
    rule[0].instant = clock
    rule[0].until_plan -= 1
    queues[stream].arrived += 1.0


@step
def is_idle(rule, lanes, stream):
    """Does nobody ever meet a retained tuple of this stream?"""
    no_window = lanes[stream].is_time_window and lanes[stream].window == 0
    return no_window and (rule[0].instants or stream == len(lanes) - 1)


@step
def spare_idle(rule, queues, lanes):
    """Tuples of idle streams go before all others."""
    idle = 0
    for stream in range(len(queues)):
        idle += is_idle(rule, lanes, stream)
    if 0 < idle < len(queues):
        for stream in range(len(queues)):
            queues[stream].precedence = 0 if is_idle(rule, lanes, stream) else 1


@part
def make(rule, queues, lanes):
    """Plan for all streams."""
    kind = rule[0].kind
    all_came = True
    for stream in range(len(queues)):
        all_came = all_came and queues[stream].arrived > 0.0
    for stream in range(len(queues)):
        ours = queues[stream].arrived if all_came else 1.0
        theirs = ahead = 0.0
        for other in range(len(queues)):
            if other != stream:
                its = queues[other].arrived if all_came else 1.0
                theirs += its / (len(queues) - 1)
                ahead += (1.0 if lanes[other].is_time_window else its) / max(1, lanes[other].window)
        queues[stream].precedence = 0
        queues[stream].factor = 1.0
        if kind == VALUE or kind == SIMP or rule[0].statistics == frequency.GIVEN:
            queues[stream].factor = theirs
        elif kind == PROB or kind == SIMPPROB or kind == DIMPPROB:
            queues[stream].factor = ahead
        elif kind != AGE and kind != ARRIVAL_ORDER and kind != VALUE_OF_KEYS:
            queues[stream].precedence = theirs > CLEARLY_FASTER * ours
    spare_idle(rule, queues, lanes)
    if all_came:
        for stream in range(len(queues)):
            queues[stream].arrived *= 0.5 ** (1.0 / REMEMBERED)
        rule[0].until_plan = EVERY
