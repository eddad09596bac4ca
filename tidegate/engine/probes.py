"""How the probes of more than two streams go, as the caller of an engine asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidegate.driver.probing_many import BY_SELECTIVITY, GIVEN_ORDER, LOOK_FIRST
from tidegate.spec import TidegateError


class Probe(NamedTuple):
    """The numbers that the driver reads."""

    way: int
    order: tuple[int, ...]  # of streams


def probe_of(probe: str | Sequence[str], streams: Sequence[str]) -> Probe:
    """What an engine's `probe` means."""
    ways = {"auto": LOOK_FIRST, "selectivity": BY_SELECTIVITY}
    if isinstance(probe, str) and probe in ways:
        return Probe(ways[probe], tuple(range(len(streams))))
    if isinstance(probe, str) or sorted(map(str, probe)) != sorted(streams):
        raise TidegateError(
            f"probe {probe!r} is no way to go; give 'auto', 'selectivity', or a list that names "
            f"each of {', '.join(map(repr, streams))} once"
        )
    return Probe(GIVEN_ORDER, tuple(map(streams.index, probe)))
