"""Scarce resources of one join: which rates and which windows give the most results.

Law: every allocation is feasible (between the least and the most of each stream, the sum within
what there is), and none gives more results on the model of kang2003, section 5.2.

    r = sigma * (a' B' + b' A')      a' <= a, b' <= b, A' <= A, B' <= B        (13, 15, 17)

Scarce CPU limits a' + b', the tuples per unit of time that may search: the service rate. Windows
are kept up with all tuples (section 5.2.1). Scarce memory limits A' + B'. With one of them scarce r
is linear, so the whole goes to the stream that meets more: searches to the stream with the larger
opposite window (14), memory to the window with the faster opposite stream (16). With both scarce r
is bilinear (19); its greatest value lies where both allocations are corners of what is feasible.

Which tuples search, and which are kept, is drawn at random, so that results are a random subset
(section 5.2); `obeying` makes it a spec that the engine runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from tidegate.costs.workload import Workload, output_rate
from tidegate.spec import TidegateError

Scarce = Literal["nothing", "cpu", "memory", "cpu and memory"]
Two = tuple[float, float]

_SLACK = 1e-9


@dataclass(frozen=True)
class Allocation:
    """What each stream gets.

    scarce
        Which quadrant of kang2003, Table 2 the workload is in.
    rates, windows
        Effective rates (tuples that search, per unit of time) and window sizes in tuples.
    search, keep
        The same as shares of all arrivals and of the full windows.
    output_share
        Results as a share of those with enough of everything.
    output_rate
        Results per unit of time; None where the selectivity is not known.
    """

    scarce: Scarce
    rates: Two
    windows: Two
    search: Two
    keep: Two
    output_share: float
    output_rate: float | None


def allocate_resources(
    workload: Workload,
    service_rate: float | None = None,
    memory: float | None = None,
    least_rates: Sequence[float] = (0.0, 0.0),
    least_windows: Sequence[float] = (0.0, 0.0),
) -> Allocation:
    """The effective rates and windows with the most results.

    Parameters
    ----------
    workload
        Rates and windows as they would be with enough of everything.
    service_rate
        Tuples per unit of time that the join can search with (mu); None for enough.
    memory
        Tuples that both windows may hold together (M); None for enough.
    least_rates, least_windows
        What each stream gets in any case.
    """
    rates = _corners(workload.rates, service_rate, least_rates, "rates", "the service rate")
    windows = _corners(workload.windows, memory, least_windows, "windows", "the memory")
    best = max(product(rates, windows), key=lambda both: _value(both[0], both[1]))
    return allocation(workload, *best, service_rate=service_rate, memory=memory)


def allocation(
    workload: Workload,
    rates: Two,
    windows: Two,
    service_rate: float | None = None,
    memory: float | None = None,
) -> Allocation:
    """What given rates and windows yield."""
    whole = _value(workload.rates, workload.windows)
    few_cpu = service_rate is not None and service_rate < sum(workload.rates)
    few_memory = memory is not None and memory < workload.rows
    scarce: Scarce = "nothing"
    if few_cpu or few_memory:
        scarce = "cpu and memory" if few_cpu and few_memory else "cpu" if few_cpu else "memory"
    return Allocation(
        scarce=scarce,
        rates=rates,
        windows=windows,
        search=_shares(rates, workload.rates),
        keep=_shares(windows, workload.windows),
        output_share=_value(rates, windows) / whole if whole else 1.0,
        output_rate=output_rate(workload.sigma, rates, windows),
    )


def _value(rates: Two, windows: Two) -> float:
    return rates[0] * windows[1] + rates[1] * windows[0]


def _shares(part: Two, whole: Two) -> Two:
    first, second = (p / w if w else 1.0 for p, w in zip(part, whole, strict=True))
    return first, second


def _corners(
    most: Two, total: float | None, least: Sequence[float], what: str, budget: str
) -> list[Two]:
    """The corners of {least <= x <= most, sum(x) <= total} that no other point exceeds."""
    low = _checked_least(most, least, what)
    if total is None or total >= sum(most):
        return [most]
    if total < sum(low) - _SLACK:
        raise TidegateError(
            f"the least {what} {low[0]:g} and {low[1]:g} need {sum(low):g}, which is more than "
            f"{budget} of {total:g}; lower them, or give more"
        )
    first = min(most[0], total - low[1])
    second = min(most[1], total - low[0])
    return [(first, total - first), (total - second, second)]


def _checked_least(most: Two, least: Sequence[float], what: str) -> Two:
    low = (float(least[0]), float(least[1]))
    for stream, (few, many) in enumerate(zip(low, most, strict=True)):
        if not 0.0 <= few <= many:
            raise TidegateError(
                f"the least of {what} is {few:g} for stream {stream + 1}, which has {many:g}; "
                f"give 0 to {many:g}"
            )
    return low


# --- what others would do -----------------------------------------------------------------


def splits(most: Two, opposite: Two, total: float) -> dict[str, Two]:
    """The five divisions of a scarce resource that kang2003 compares, in figures 5 and 6.

    "max a" and "max b" give one stream all it can use; "proportional" and "inverse" follow
    `opposite` (rates for memory, windows for CPU); "equal" halves. What one stream cannot use goes
    to the other.
    """
    whole = sum(opposite) or 1.0
    wished = {
        "max a": most[0],
        "max b": total - most[1],
        "proportional": total * opposite[0] / whole,
        "inverse": total * opposite[1] / whole,
        "equal": total / 2.0,
    }
    return {name: _within(first, most, total) for name, first in wished.items()}


def _within(first: float, most: Two, total: float) -> Two:
    total = min(total, sum(most))
    first = min(max(first, total - most[1], 0.0), most[0], total)
    return first, total - first
