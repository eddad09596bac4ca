"""What the planner is told about a join: how fast streams come, how many tuples a window holds.

Law: a workload that cannot be, such as a negative rate, is refused here with one sentence, so that
the models behind it check nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.costs.structures import SERVES
from tidegate.spec import TidegateError
from tidegate.spec.units import nearest_hint


@dataclass(frozen=True)
class Workload:
    """Two streams, in the order of the join's `streams`.

    windows
        Tuples that a full window holds (A and B of kang2003, Table 1).
    rates
        Arrivals per unit of time (lambda).
    keys
        Distinct keys that each window may hold (NKey), or None if unknown.
    selectivity
        Share of all pairs that match; from `keys` where it is not given (equation 12).
    predicate
        "equality" or "band": a hash index serves equality alone.
    bucket_size, node_size
        Tuples in a hash bucket and entries in a tree node, where they differ from what the
        weights were measured with; None otherwise.
    """

    windows: tuple[float, float]
    rates: tuple[float, float]
    keys: tuple[float, float] | None = None
    selectivity: float | None = None
    predicate: str = "equality"
    bucket_size: float | None = None
    node_size: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "windows", _two(self.windows, "windows", "tuples"))
        object.__setattr__(self, "rates", _two(self.rates, "rates", "tuples per unit of time"))
        if sum(self.rates) == 0:
            raise TidegateError("rates are both 0; nothing arrives, so there is nothing to plan")
        if self.keys is not None:
            object.__setattr__(self, "keys", _two(self.keys, "keys", "distinct keys", least=1.0))
        if self.selectivity is not None and not 0.0 <= self.selectivity <= 1.0:
            raise TidegateError(
                f"selectivity is {self.selectivity:g}; it is the share of pairs that match, from "
                "0 to 1"
            )
        if self.predicate not in SERVES:
            hint = nearest_hint(self.predicate, SERVES)
            raise TidegateError(f"predicate {self.predicate!r} has no cost model; {hint}")
        if self.bucket_size is not None and not self.bucket_size >= 1:
            raise TidegateError(f"bucket size is {self.bucket_size}; give 1 or more tuples")
        if self.node_size is not None and not self.node_size >= 2:
            raise TidegateError(f"node size is {self.node_size}; give 2 or more entries")

    @property
    def sigma(self) -> float | None:
        """Equation 12: the given selectivity, else min(1/NKey(A), 1/NKey(B)); None if unknown."""
        if self.selectivity is not None:
            return self.selectivity
        return None if self.keys is None else 1.0 / max(self.keys)

    @property
    def output_rate(self) -> float | None:
        """Equation 12: results per unit of time with both windows and all tuples."""
        return output_rate(self.sigma, self.rates, self.windows)

    @property
    def rows(self) -> float:
        """Tuples that both windows hold."""
        return sum(self.windows)


def output_rate(
    sigma: float | None, rates: Sequence[float], windows: Sequence[float]
) -> float | None:
    """r = sigma * (lambda_a B + lambda_b A), equations 12, 13, 15 and 17."""
    if sigma is None:
        return None
    return sigma * (rates[0] * windows[1] + rates[1] * windows[0])


def _two(values: Any, what: str, unit: str, least: float = 0.0) -> tuple[float, float]:
    given = tuple(values) if isinstance(values, Sequence) else (values,)
    if len(given) != 2:
        raise TidegateError(
            f"{what} has {len(given)} value{'s' * (len(given) != 1)}; give two, one per stream"
        )
    for value in given:
        plain = isinstance(value, int | float) and not isinstance(value, bool)
        if not plain or not math.isfinite(value) or value < least:
            raise TidegateError(
                f"{what} has the value {value!r}; give {unit}, a finite number of {least:g} or more"
            )
    return (float(given[0]), float(given[1]))
