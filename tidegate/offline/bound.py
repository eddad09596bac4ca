"""An upper bound on the optimum, for streams too long for it.

Law (Lagrangian relaxation, weak duality): let a cell cost a rent y(e) >= 0 during event e, and let
every tuple decide alone until when it stays. Then

    capacity x (sum of y) + sum over tuples of max(0, largest gain - rent)

is at least the gain of every schedule that keeps the capacity: such a schedule's tuples pay rent
for at most `capacity` cells at each event, so the first term is at least the rent they pay, and
none of them gains more, net of rent, than its best choice. This holds for any rents; good ones make
it tight. Rents are constant within blocks of events, start from the best single rent, and rise
where tuples ask for more cells than there are. One round costs O(results), and no search.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.engine import to_arrow
from tidegate.engine.counting import count_results
from tidegate.offline.instance import Account, instance_of
from tidegate.spec import JoinSpec

Floats = NDArray[np.float64]

ROUNDS = 60
_SHARPEST = 60  # halvings of the interval that holds the best single rent


def upper_bound(
    streams: Mapping[str, Any],
    spec: JoinSpec,
    objective: str = "importance",
    rounds: int = ROUNDS,
) -> float:
    """No schedule under the memory of `spec` reaches more than this.

    With more than two streams it is the exact result: what a cell of memory earns then depends on
    who holds the others, and no rent says that.

    Example
    -------
    >>> import pyarrow as pa, tidegate as tg
    >>> left = pa.table({"t": [1, 2], "k": [1, 2]})
    >>> right = pa.table({"t": [3, 4], "k": [1, 2]})
    >>> spec = tg.JoinSpec(on="k", time="t", within=10, memory=1, split="shared")
    >>> round(upper_bound({"left": left, "right": right}, spec), 3)
    1.0
    """
    spec = spec.unwatched()
    if len(spec.streams) > 2:
        return _exact(streams, spec, objective)
    instance = instance_of(streams, spec, objective)
    return instance.free.gain + sum(account_bound(a, rounds) for a in instance.accounts)


def _exact(streams: Mapping[str, Any], spec: JoinSpec, objective: str) -> float:
    tables = {name: to_arrow(streams[name], name) for name in streams}
    stats = count_results(tables, spec.replace(memory=None, split="auto", policy="auto"))
    return float(stats["rows_out" if objective == "size" else "importance_out"])


def account_bound(account: Account, rounds: int = ROUNDS) -> float:
    """The bound for one account."""
    if not len(account.end):
        return 0.0
    relaxed = _Relaxed(account)
    rents = np.full(relaxed.blocks, relaxed.best_single_rent())
    best, _ = relaxed.at(rents)
    for number in range(rounds):
        bound, asked = relaxed.at(rents)
        best = min(best, bound)
        # Multiplying keeps rents non-negative; steps shrink so that they settle.
        rents = rents * np.exp((asked - 1.0) * 2.0 / (1.0 + number / 4.0))
    return float(min(best, relaxed.total))


class _Relaxed:
    """An account whose cells can be rented by anybody."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.lengths = np.diff(account.first)
        self.begin = np.repeat(account.begin, self.lengths)
        running = np.concatenate([[0.0], np.cumsum(account.gain)])
        self.value = running[1:] - np.repeat(running[account.first[:-1]], self.lengths)
        self.events = int(account.end.max())
        self.total = float(np.maximum.reduceat(self.value, account.first[:-1]).clip(0).sum())
        # A rent must be able to change within the time that tuples are held.
        span = max(1, int(np.median(account.end - self.begin)) // 4)
        self.blocks = -(-self.events // span)
        self.borders = np.minimum(np.arange(self.blocks + 1) * span, self.events)

    def at(self, rents: Floats) -> tuple[float, Floats]:
        """The bound at these rents, and in each block the cells asked for, as a share."""
        account = self.account
        paid = np.concatenate([[0.0], np.cumsum(rents * np.diff(self.borders))])
        running = np.interp(np.arange(self.events + 1), self.borders, paid)
        profit = self.value - (running[account.end] - running[self.begin])
        best = np.maximum.reduceat(profit, account.first[:-1])
        bound = account.capacity * paid[-1] + float(best.clip(0).sum())
        chosen = (profit == np.repeat(best, self.lengths)) & (profit > 0)
        change = np.bincount(self.begin[chosen], minlength=self.events + 1) - np.bincount(
            account.end[chosen], minlength=self.events + 1
        )
        cells = np.add.reduceat(np.cumsum(change)[:-1], self.borders[:-1])
        room = account.capacity * np.diff(self.borders)
        return bound, np.minimum(cells / np.maximum(room, 1e-9), 3.0)

    def best_single_rent(self) -> float:
        """The minimum of a convex function of one number, by halving on the sign of its slope."""
        low, high = 0.0, float((self.value / (self.account.end - self.begin)).max())
        for _ in range(_SHARPEST):
            middle = (low + high) / 2
            asked = self.at(np.full(self.blocks, middle))[1]
            # More cells asked for than there are: a higher rent lowers the bound.
            share = float(asked @ np.diff(self.borders)) / self.events
            low, high = (middle, high) if share > 1.0 else (low, middle)
        return high
