"""The slow, obvious twin of a sentinel: a list of tuples, and the join's own results beside it.

It takes the tuples one by one in order of arrival and asks of each result, by name, whether the
join gave it out.
"""

from __future__ import annotations

from dataclasses import dataclass

MASK = 2**64 - 1
FACTORS = (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)
STEP = 0x9E3779B97F4A7C15
LESS, MORE = 0.75, 1.25


@dataclass
class Tuple:
    """A tuple of the streams; `name` tells it from all others of its stream."""

    stream: int
    time: int
    key: object
    name: int
    importance: float = 1.0


@dataclass
class Witness:
    """A tuple of the sample and its results, each divided by the rate at its moment."""

    of: Tuple
    draw: float
    rate: float
    exact: float = 0.0
    kept: float = 0.0
    exact_worth: float = 0.0
    kept_worth: float = 0.0
    count: float = 0.0  # the tuple itself, divided by the rate when it came


def mixed(number: int) -> int:
    for factor in FACTORS:
        number = (number ^ (number >> 32)) * factor & MASK
    return number ^ (number >> 32)


def drawn(seed: int, stream: int, number: int) -> float:
    start = mixed(seed + STEP * (stream + 1) & MASK)
    return (mixed(start + STEP * number & MASK) >> 11) * 2.0**-53


def witnesses(
    pushes: list[list[Tuple]],
    given_out: set[tuple[int, int]],
    most: int,
    windows: tuple[int, int],
    lateness: int = 0,
    seed: int = 0,
) -> tuple[list[Witness], float]:
    """All that were ever in the sample, and the rate at the end.

    `given_out` names results by the names of their tuples, first stream first. Results are worth
    the smaller importance of their tuples.
    """
    clock = watermark = -(10**18)
    check_at = -(10**18)
    rate = 1.0
    held: list[Witness] = []
    gone: list[Witness] = []
    numbers = [0, 0]

    def keep_some() -> None:
        nonlocal held
        stay = [w for w in held if w.of.time + windows[w.of.stream] >= watermark and w.draw < rate]
        gone.extend(w for w in held if w not in stay)
        for witness in stay:
            witness.rate = min(witness.rate, rate)
        held = stay

    for push in pushes:
        for new in sorted(push, key=lambda t: (t.time, t.stream)):
            number, numbers[new.stream] = numbers[new.stream], numbers[new.stream] + 1
            if new.time < watermark:
                continue
            clock = max(clock, new.time)
            watermark = clock - lateness
            for witness in held:
                meet(witness, new, windows, given_out)
            draw = drawn(seed, new.stream, number)
            if draw < rate and len(held) == most:
                keep_some()
                while len(held) > most - most // 8 - 1:
                    rate *= LESS
                    keep_some()
            if draw < rate:
                held.append(Witness(new, draw, rate, count=1.0 / rate))
            if check_at < new.time:
                check_at = new.time + max(windows)
                if rate < 1.0:
                    keep_some()
                    if 2 * len(held) < most:
                        rate = min(1.0, rate * MORE)
    return gone + held, rate


def meet(
    witness: Witness, new: Tuple, windows: tuple[int, int], given_out: set[tuple[int, int]]
) -> None:
    first = witness.of
    if first.stream == new.stream or first.key != new.key:
        return
    age = new.time - first.time
    if age > windows[first.stream] or -age > windows[new.stream]:
        return
    worth = min(first.importance, new.importance)
    witness.exact += 1.0 / witness.rate
    witness.exact_worth += worth / witness.rate
    names = (first.name, new.name) if first.stream == 0 else (new.name, first.name)
    if names in given_out:
        witness.kept += 1.0 / witness.rate
        witness.kept_worth += worth / witness.rate
