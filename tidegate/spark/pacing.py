"""How much a bucket may compare in the next micro-batch: `cpu=Cpu(keep_up=True)`.

Law: what a push may spend is decided once, before it, from what earlier micro-batches took, and is
written into the log with the push. So a bucket that is rebuilt from its state makes the same
comparisons again, however fast the machine is then.

This is Algorithm 1 of gedik2005 with micro-batches as adaptation periods (made: comparisons of the
last one, lasted: its seconds, allowed: the seconds that it had):

    room = AIM * allowed / lasted
    if room < 1:                 speed = room * made / allowed
    elif there was more to do:   speed = speed * min(boost, room)
    fuel of the next one = speed * its allowed seconds

The first limit is set by the first micro-batch that is late.

A bucket sees when a micro-batch reaches it and how long its own work takes, not when the
micro-batch ends. The time from one micro-batch to the next is how long it lasted if it was late;
else Spark has waited for the trigger, and its length is the work of the bucket and the *rest*
(reading, shuffle, other buckets, commit) that was seen when one was late. A source that pauses
looks like a long rest, so the rest may only double at once.

The backlog is in it: whatever came while Spark was busy is in the next micro-batch, which has the
same allowed seconds for more rows. Without an interval each micro-batch may take as long as the
event time that it brings: the delay does not grow, but a backlog stays.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from tidegate.spec import Cpu

AIM = 0.9  # of the allowed seconds
LATE = 1.02  # from here on a micro-batch was late
SLOWEST = 0.2  # of the speed before
MOST_REST = 2.0  # of the rest before
FADING = 0.97
SOME_REST = 0.1  # of the allowed seconds


@dataclass(frozen=True)
class Pace:
    """What a bucket remembers of its micro-batches; 0 or None where nothing is known."""

    speed: float | None = None  # comparisons per allowed second; None: as many as are asked for
    newest: int | None = None  # event time, in microseconds
    begun: float = 0.0  # when the latest micro-batch reached the bucket, by the wall clock
    allowed: float = 0.0  # seconds that it had
    busy: float = 0.0  # seconds that the bucket worked
    rest: float = 0.0  # seconds of a late micro-batch besides
    made: float = 0.0  # comparisons
    skipped: float = 0.0  # comparisons that the fuel did not allow

    @classmethod
    def read(cls, stored: Any) -> Pace:
        """The pace in a bucket's record; an error if it is none."""
        pace = cls(**(stored or {}))
        for name, number in asdict(pace).items():
            optional = name in ("speed", "newest") and number is None
            if not optional and not (type(number) in (int, float) and math.isfinite(number)):
                raise ValueError(f"{name} {number!r} is not a number")
        return pace

    def reviewed(self, cpu: Cpu, now: float) -> Pace:
        """The speed and the rest, corrected by what the latest micro-batch took."""
        took = now - self.begun
        if self.begun <= 0.0 or self.allowed <= 0.0 or self.made <= 0.0 or took <= 0.0:
            return self
        late = took > LATE * self.allowed
        rest = max(0.0, took - self.busy)
        if not late:  # what was seen before may have been the rest of a backlog
            rest = min(rest, self.rest * (1.0 if cpu.interval_seconds is None else FADING))
        elif self.rest > 0.0:
            rest = min(rest, MOST_REST * self.rest + SOME_REST * self.allowed)
        pace = replace(self, rest=rest)
        # Without an interval a shorter micro-batch would make the next one shorter, too.
        aim = self.allowed * (AIM if late or cpu.interval_seconds is not None else 1.0)
        room = aim / max(self.busy + rest, 1e-9)
        if self.speed is None:
            return replace(pace, speed=room * self.made / self.allowed) if late else pace
        if room < 1.0:
            # Where a backlog of rows alone takes too long, comparisons are not to blame for all.
            return replace(pace, speed=max(SLOWEST * self.speed, room * self.made / self.allowed))
        return replace(pace, speed=self.speed * min(cpu.boost, room)) if self.skipped else pace

    def next(self, cpu: Cpu, now: float, newest: int | None) -> tuple[Pace, float | None]:
        """Begin a micro-batch: the pace then, and its fuel in comparisons per second of event time.

        None grants what was granted before.
        """
        advance = 0.0
        if newest is not None and self.newest is not None:
            advance = max(0.0, (newest - self.newest) / 1e6)
        allowed = advance if cpu.interval_seconds is None else cpu.interval_seconds
        times = [time for time in (newest, self.newest) if time is not None]
        pace = replace(
            self, begun=now, newest=max(times, default=None), allowed=allowed,
            busy=0.0, made=0.0, skipped=0.0,
        )  # fmt: skip
        if pace.speed is None or advance == 0.0:
            return pace, None
        return pace, pace.speed * allowed / advance

    def ended(self, busy: float, made: float, skipped: float) -> Pace:
        """The bucket has done its work."""
        return replace(self, busy=busy, made=made, skipped=skipped)
