"""Regret: what a policy kept, beside what could have been kept.

Law: three numbers for the same streams and the same memory: the exact join, the optimum, and what
the policy of the spec gets. policy <= optimum <= exact, each by importance (or by size, if that is
the objective).

For long equality joins the optimum can be estimated from a sample of the keys. All tuples of a
sampled key are taken, and the memory is cut by the same share, as a smaller join of the same kind.
The interval: at the optimal rents the sample's optimum is a sum over its keys (rent for the cells,
which is given, and the profit of each tuple), so the spread between groups of keys says how far the
ratio optimum / exact of another sample would be. That covers the chance of sampling, not the
rounding of a small memory; what the interval promises is tested against full runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.binding.binding import Binding
from tidegate.engine import JoinEngine, to_arrow
from tidegate.engine.replay import replay
from tidegate.offline import flow, key_sample
from tidegate.offline.instance import Account, Instance, Progress, instance_of, shares_of
from tidegate.offline.network import network_of
from tidegate.offline.optimum import METHODS, solved, taken_options
from tidegate.spec import JoinSpec, TidegateError
from tidegate.spec.given import by_name, check_spec
from tidegate.spec.units import require_name

OBJECTIVES = ("importance", "size")

Watch = Callable[[str], AbstractContextManager[Progress]]


class Part(TypedDict):
    """One of the three results."""

    size: int
    importance: float


@dataclass(frozen=True)
class Regret:
    """The three results, and how they compare."""

    exact: Part
    optimum: Part
    policy: Part
    objective: str
    interval: tuple[float, float] | None = None  # 95 %, of the optimum as a share of the exact
    sampled: float = 1.0  # share of the groups of keys that the optimum was computed for

    @property
    def kept(self) -> float:
        """What the policy kept of the exact result."""
        return self._share(self.policy, self.exact)

    @property
    def possible(self) -> float:
        """What the optimum keeps of the exact result."""
        return self._share(self.optimum, self.exact)

    @property
    def reached(self) -> float:
        """What the policy kept of what was possible."""
        return self._share(self.policy, self.optimum)

    @property
    def sentence(self) -> str:
        """The comparison in words."""
        best = f"was {_percent(self.possible)}"
        if self.interval is not None:
            low, high = self.interval
            best = (
                f"was about {_percent(self.possible)} ({_percent(low)} to {_percent(high)} with "
                f"95 % confidence, from {_percent(self.sampled)} of the keys)"
            )
        return (
            f"kept {_percent(self.kept)} of the exact result; the best possible under this budget "
            f"{best}; so {_percent(self.reached)} of what was possible"
        )

    def _share(self, part: Part, whole: Part) -> float:
        of, total = (
            (part["size"], whole["size"])
            if self.objective == "size"
            else (part["importance"], whole["importance"])
        )
        return of / total if total else 1.0


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share < 0.995 or share >= 1 else f"{100 * share:.2f} %"


@contextmanager
def _unwatched(what: str) -> Any:
    yield None


def regret(
    streams: Mapping[str, Any],
    spec: JoinSpec,
    objective: str = "importance",
    method: str = "auto",
    *,
    sample: float | None = None,
    watch: Watch = _unwatched,
) -> Regret:
    """How far the policy of `spec` stays behind the best that its memory allows.

    Parameters
    ----------
    streams, spec, method
        As for `optimum`; the policy is that of the spec.
    objective
        "importance" or "size": what is compared.
    sample
        A share of the keys, for long equality joins: the optimum is estimated from them.
    watch
        Called with the name of each phase; gives a context whose value is a progress function.
    """
    check_spec(spec)
    by_name(streams, "regret")
    spec = spec.unwatched()
    require_name(objective, OBJECTIVES, "objective")
    require_name(method, METHODS, "method")
    if sample is not None:
        _check_sample(spec, sample)
    tables = {name: to_arrow(streams[name], name) for name in streams}
    interval, sampled = None, 1.0
    if sample is None:
        with watch("exact join") as progress:
            instance = instance_of(tables, spec, objective, progress=progress)
        exact = Part(size=instance.exact.size, importance=instance.exact.importance)
        with watch("optimum") as progress:
            best = _totals(instance, solved(instance, objective, method, progress))
    else:
        exact = _replayed(tables, spec.replace(memory=None, split="auto"), watch, "exact join")
        with watch("optimum") as progress:
            share, interval, sampled = _estimated(tables, spec, objective, sample, progress)
        best = Part(size=round(share[0] * exact["size"]), importance=share[1] * exact["importance"])
    policy = _replayed(tables, spec, watch, "policy")
    return Regret(exact, best, policy, objective, interval, sampled)


def _totals(instance: Instance, chosen: list[Any]) -> Part:
    size, importance = instance.free.size, instance.free.importance
    for account, taken in zip(instance.accounts, chosen, strict=True):
        gained = taken_options(account, taken)
        size += int(account.results[gained].sum())
        importance += float(account.importance[gained].sum())
    return Part(size=size, importance=importance)


def _replayed(tables: Mapping[str, pa.Table], spec: JoinSpec, watch: Watch, what: str) -> Part:
    """Run the engine and keep nothing but the totals."""
    engine = JoinEngine(spec, {name: table.schema for name, table in tables.items()})
    with watch(what) as progress:
        for _ in replay(engine, tables, progress):
            pass
    stats = engine.stats()
    return Part(size=int(stats["rows_out"]), importance=float(stats["importance_out"]))


# --- sampling by key ----------------------------------------------------------------------


def _estimated(
    tables: Mapping[str, pa.Table],
    spec: JoinSpec,
    objective: str,
    sample: float,
    progress: Progress | None,
) -> tuple[tuple[float, float], tuple[float, float], float]:
    """The optimum as shares (of size, of importance) of the exact result, and its interval."""
    some = key_sample.sampled(tables, spec, sample)
    share, chosen = some.share, some.chosen
    small = _with_share_of_memory(spec, some.binding, share)
    instance = instance_of(some.tables, small, objective)
    group = np.concatenate([some.group[name] for name in spec.streams])
    best, profit, whole = instance.free.gain, np.zeros(chosen), np.zeros(chosen)
    taken = []
    for account in instance.accounts:
        network = network_of(account)
        flowing = flow.solve(network, progress)
        place = flowing.place
        taken.append(np.where(place == flow.NOT_KEPT, 0, place - account.first[:-1] + 1))
        gained = taken_options(account, taken[-1])
        best += float(account.gain[gained].sum())
        mine = group[account.tuples]
        profit += np.bincount(mine, _profits(account, network, flowing), chosen)
        whole += (
            np.bincount(mine, np.add.reduceat(account.gain, account.first[:-1]), chosen)
            if (len(mine))
            else 0.0
        )
    totals = _totals(instance, taken)
    shares = (
        totals["size"] / max(1, instance.exact.size),
        totals["importance"] / (instance.exact.importance or 1.0),
    )
    middle = best / (instance.exact.gain or 1.0)
    spread = np.std(profit - middle * whole, ddof=1) * np.sqrt(chosen * (1.0 - share))
    wide = key_sample.TWO_SIDED_95 * float(spread) / (instance.exact.gain or 1.0)
    return shares, (max(0.0, middle - wide), min(1.0, middle + wide)), share


def _check_sample(spec: JoinSpec, sample: float) -> None:
    key_sample.check_share(sample)
    reason = key_sample.why_not(spec)
    if reason is not None:
        raise TidegateError(reason)
    if spec.memory_rows is None:
        raise TidegateError(f"sample needs memory as a number of tuples, not {spec.memory!r}")


def _with_share_of_memory(spec: JoinSpec, binding: Binding, share: float) -> JoinSpec:
    shares = [round(share * capacity) for capacity in shares_of(spec, binding)]
    if len(shares) == 1:
        return spec.replace(memory=shares[0], split="shared")
    return spec.replace(memory=sum(shares), split=shares)


def _profits(account: Account, network: Any, flowing: flow.Flow) -> NDArray[np.float64]:
    """What each tuple gains beyond the rent it pays, in the unit of the gains."""
    rent = flowing.price[network.leave] - np.repeat(
        flowing.price[network.enter], np.diff(network.first)
    )
    if not len(rent):
        return np.zeros(0)
    best = np.maximum.reduceat(network.value - rent, account.first[:-1])
    return np.maximum(best, 0) / network.scale
